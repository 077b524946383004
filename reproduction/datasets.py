"""Which corpus is which: files of a folder recognised by name and place, and named by their checksums."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from mtlstruct.errors import MtlError

PARTS = ("train", "dev", "test", "words")
"""What a source may have; words is the vocabulary of the training text, where the task has an official one."""

MARKS = {"official": "", "near": "≈", "stand-in": "†"}
"""How a corpus that is not the paper's own is marked in every table."""


@dataclass(frozen=True)
class Source:
    """One form in which a corpus comes: for each part the ends of paths by which its file is known."""

    standing: str
    note: str
    parts: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Dataset:
    """A corpus of the paper; `sentences` is what the paper says it has."""

    name: str
    title: str
    short: str
    task: str
    sentences: Mapping[str, int]
    sources: Sequence[Source]


@dataclass(frozen=True)
class Found:
    """A corpus that is there."""

    dataset: Dataset
    source: Source
    paths: Mapping[str, Path]

    @property
    def title(self) -> str:
        """Its short name, marked if it is not the paper's own."""
        return self.dataset.short + MARKS[self.source.standing]

    def describe(self) -> str:
        """What was found, in one line: how near it is, and what its files are by their checksums."""
        note = f" ({self.source.note})" if self.source.note else ""
        known = "; ".join(f"{part}: {identify(path)}" for part, path in self.paths.items())
        return f"{self.dataset.title}, {self.source.standing}{note}. {known}"


@dataclass(frozen=True)
class Missing:
    """A corpus that is not there, and the first of its files that was looked for in vain."""

    dataset: Dataset
    file: str

    @property
    def title(self) -> str:
        """Its short name."""
        return self.dataset.short

    def describe(self) -> str:
        """The line that stands in its place."""
        return f"not run: file {self.file} not found"


class Folder:
    """The files of a folder, listed once."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise MtlError(f"{root}: expected a folder with corpora")
        walked = os.walk(root)
        self.files = sorted(Path(at, name) for at, _, names in walked for name in names)

    def find(self, dataset: Dataset) -> Found | Missing:
        """The first source of which every part is there."""
        missing = None
        for source in dataset.sources:
            found = {part: self._file(ends) for part, ends in source.parts.items()}
            paths = {part: path for part, path in found.items() if path is not None}
            if len(paths) == len(found):
                return Found(dataset, source, paths)
            missing = missing or next(source.parts[part][0] for part, path in found.items() if path is None)
        assert missing is not None
        return Missing(dataset, missing)

    def _file(self, ends: Sequence[str]) -> Path | None:
        for end in ends:
            parts = Path(end).parts
            for path in self.files:
                if path.parts[-len(parts) :] == parts:
                    return path
        return None


@lru_cache
def datasets() -> dict[str, Dataset]:
    """All corpora of the paper by name."""
    return {name: _dataset(name, entry) for name, entry in _tables().items() if name != "sums"}


def dataset(name: str) -> Dataset:
    """One of them."""
    if name not in datasets():
        raise MtlError(f"unknown corpus {name!r}: expected one of {', '.join(datasets())}")
    return datasets()[name]


def identify(path: Path) -> str:
    """What a file is by its checksum, or the beginning of the sum."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return str(_tables()["sums"].get(found, f"sum {found[:12]}…, not known"))


@lru_cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((files("reproduction") / "datasets.toml").read_text("utf-8"))


def _dataset(name: str, entry: Mapping[str, Any]) -> Dataset:
    sources = [
        Source(s["standing"], s.get("note", ""), {part: s[part] for part in PARTS if part in s})
        for s in entry["source"]
    ]
    return Dataset(name, entry["title"], entry["short"], entry["task"], entry["sentences"], sources)
