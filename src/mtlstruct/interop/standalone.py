"""Stand-alone taggers: one Python file and one weights file, without other dependencies.

The Python file is `standalone_tagger` with the modules that it imports from this package in front:
one namespace, no other change. Weights have 16 bits if that changes no label of given data, else
32.
"""

import json
from array import array
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.atomic_write import replacing
from mtlstruct.corpus import Corpus, entries
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.shared_templates import numbers_by_term
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.formats.text import named
from mtlstruct.interop.feature_text import checked_sequence
from mtlstruct.interop.standalone_tagger import MULTIPLIER, Tagger, fingerprint, packed
from mtlstruct.model.model import Model

PARTS = (
    "errors",
    "formats/key_groups",
    "formats/normalization",
    "templates/regex",
    "templates/functions",
    "structures/label_rules",
)
"""Modules that a stand-alone tagger needs, before its own."""

FUTURE = "from __future__ import annotations\n"

MAX_INT16 = 32767
"""The largest whole number of a 16-bit weight."""

Arrays = list[NDArray[Any]]


class Written(NamedTuple):
    """The two files, the bits of a weight, and the sum of their sizes in bytes."""

    program: Path
    weights: Path
    bits: int
    size: int


def write(model: Model, folder: str | Path, data: Corpus | None = None) -> Written:
    """Write tagger.py and tagger.bin into a folder; `data` decide whether 16 bits are enough."""
    index = checked_sequence("a stand-alone tagger", model)
    bits, found = 32, weights_file(model, index, 32)
    if data is not None:
        small = weights_file(model, index, 16)
        if labels(Tagger(small), data) == named(model.predict(data), model.labels):
            bits, found = 16, small
    program, weights = (Path(folder) / f"tagger.{suffix}" for suffix in ("py", "bin"))
    Path(folder).mkdir(parents=True, exist_ok=True)
    texts = source_text().encode(), found
    for path, content in zip((program, weights), texts, strict=True):
        with replacing(path) as out:
            out.write(content)
    return Written(program, weights, bits, sum(map(len, texts)))


def labels(tagger: Tagger, data: Corpus) -> list[str]:
    """Return the labels that a tagger gives to the tokens of a corpus."""
    if tagger.takes_dicts:
        tokens: Sequence[Any] = [json.loads(line) for line in str(data.extra).split("\n")]
    else:
        tokens = list(zip(*(column.cells() for column in data.columns), strict=True))
    found = tagger.tag_all(tokens[span] for span in data.sentences())
    return [label for sentence in found for label in sentence]


def source_text() -> str:
    """Return the program: the parts and the tagger, without the imports of this package."""
    package = files("mtlstruct")
    tagger = (package / "interop" / "standalone_tagger.py").read_text("utf-8")
    texts = [(package / f"{part}.py").read_text("utf-8") for part in PARTS]
    bodies = [text.partition(FUTURE)[2] for text in (*texts, tagger)]
    lines = [line for line in "".join(bodies).split("\n") if not line.startswith("from mtlstruct")]
    return tagger.partition(FUTURE)[0] + FUTURE + "\n".join(lines)


def weights_file(model: Model, index: FeatureIndex, bits: int) -> bytes:
    """Return the weights file of a model with weights of 16 or 32 bits."""
    streams: dict[tuple[int, str, tuple[str, ...]], int] = {}
    lines = []
    for number, template in enumerate(index.templates):
        for member in template.members:
            terms = [
                [streams.setdefault((t.column, t.function, t.arguments), len(streams)), t.row, t.absolute]
                for t in member.terms
            ]
            lines.append([fingerprint(f"template {number}"), template.kind, terms])
    blocks = map(model.block, range(len(model.live)))
    largest = max((float(np.abs(block).max(initial=0)) for block in blocks), default=0.0)
    scale = (largest or 1.0) / MAX_INT16 if bits == 16 else 1.0
    fingerprints = _fingerprints(index)
    step = scale if bits == 16 else None
    arrays = [column for number in range(2) for column in _table(model, fingerprints, number, step)]
    head = {name: getattr(model, name) for name in ("labels", "task", "columns", "names", "encoding")} | {
        "dicts": model.takes_dicts,
        "groups": model.facts.get("groups"),
        "nested": model.facts.get("nested", 0),
        "normalize": index.normalize,
        "temperature": model.temperature,
        "scale": scale,
        **vars(model.cell_format),
        "streams": list(streams),
        "lists": index.templates.lists,
        "lines": lines,
        "arrays": [[_code(column), len(column)] for column in arrays],
    }
    return packed(head, [column.astype(column.dtype.newbyteorder("<")).tobytes() for column in arrays])


def _fingerprints(index: FeatureIndex) -> Callable[[int], NDArray[np.uint64]]:
    """Return the function from a template to the fingerprints of its attributes."""
    strings = [
        np.array([fingerprint(text) for text in vocabulary.strings()], np.uint64)
        for vocabulary in index.vocabularies
    ]

    def of(j: int) -> NDArray[np.uint64]:
        found = np.zeros(int(index.sizes[j]), np.uint64)
        for member, line in zip(index.templates[j].members, index.plan.lines_of(j), strict=True):
            values = np.flatnonzero(index.maps[line][:-1] != ABSENT)
            keys = np.full(len(values), fingerprint(f"template {j}"), np.uint64)
            known = (index.vocabularies, index.tables)
            for stream, numbers in numbers_by_term(index.plan, line, member, values, known):
                keys = (keys ^ strings[stream][numbers]) * np.uint64(MULTIPLIER)
            found[index.maps[line][values]] = keys
        return found

    return of


def _table(
    model: Model, fingerprints: Callable[[int], NDArray[np.uint64]], number: int, scale: float | None
) -> Arrays:
    """Return keys, sizes, parts and weights of the attributes of a kind, sorted by key."""
    kind, dtype = model.kinds[number], np.float32 if scale is None else np.int16
    keys, sizes, parts, weights = [], [], [], []
    for j in (j for j in range(len(model.live)) if model.index.kinds[j] == kind):
        block = model.block(j) if scale is None else np.rint(model.block(j) / np.float32(scale)).astype(dtype)
        used = block.any(axis=1)
        row, part = np.nonzero(block[used])
        keys.append(fingerprints(j)[used])
        sizes.append(np.bincount(row, minlength=int(used.sum())))
        parts.append(part)
        weights.append(block[used][row, part])
    found, size = _joined(keys, np.uint64), _joined(sizes, np.int64)
    order = np.argsort(found, kind="stable")
    if (np.diff(found[order]) == 0).any():
        raise IncompatibleError("two features of the model have the same 64-bit fingerprint")
    chosen, _ = entries(np.append(0, np.cumsum(size)), order)
    width = model.structure.widths()[number]
    small = np.uint8 if width < 256 else np.uint16 if width < 65536 else np.uint32
    part, weight = _joined(parts, np.int64)[chosen].astype(small), _joined(weights, dtype)[chosen]
    return [found[order], size[order].astype(small), part, weight]


def _joined(some: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *some]).astype(dtype)


def _code(column: NDArray[Any]) -> str:
    """Return the type code of `array` for the entries of an array."""
    kinds = "f" if column.dtype.kind == "f" else "h" if column.dtype.kind == "i" else "BHILQ"
    return next(code for code in kinds if array(code).itemsize == column.dtype.itemsize)
