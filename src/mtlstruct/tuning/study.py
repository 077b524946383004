"""Grid of trainings: settings, splits of the data, trials and their results.

A *setting* is a combination of options; a *split* names the sentences to train on and to score. A
*trial* is one setting on one split. A setting is scored by the mean over its trials: one for
validation data or a held-out share, K for K folds. `runner` runs them, `search` chooses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct import __version__
from mtlstruct._system.atomic_write import cannot_write
from mtlstruct._system.digest import digest
from mtlstruct.corpus import Corpus
from mtlstruct.errors import MtlError
from mtlstruct.templates import TemplateSet
from mtlstruct.training.methods import method_spec, parameters
from mtlstruct.training.options import Options

ENCODING = (
    *("task", "min_count", "normalize", "share_identical", "scaling", "label_support"),
    "transition_support",
    *("projective", "single_root"),
)
"""The options that change the encoding; all settings of a study must agree on them."""

Facts = Mapping[str, Any]
Result = Mapping[str, Any]

FILE = "results.jsonl"


class Store:
    """Results of trainings in a JSON-lines file of a folder, or in memory if there is none.

    A line holds a result, its *facts* (a JSON object of everything that the result depends on:
    checksums of the data, the templates, the options) and their digest as the key. Incomplete lines
    are ignored, so that an interrupted grid is resumed.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / FILE
        self._lines: dict[str, dict[str, Any]] = {}
        try:
            lines = self.path.read_bytes().split(b"\n") if self.path and self.path.exists() else []
        except OSError as error:
            raise MtlError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        for text in lines:
            with suppress(ValueError):
                line: Any = json.loads(text)
                if isinstance(line, dict) and {"key", "facts", "result"} <= line.keys():
                    self._lines[line["key"]] = line
        if not self._lines and not all(b'{"key": "'.startswith(text[:9]) for text in lines):
            raise MtlError(
                f"{self.path}: expected a new file or results of earlier trainings, got something else"
            )

    def load(self, key: str) -> Result | None:
        """Return the result of a key, or None."""
        return self._lines[key]["result"] if key in self._lines else None

    def save(self, facts: Facts, result: Result) -> None:
        """Append a result to the file, if there is one, and wait until it is on disk."""
        key = key_of(facts)
        line = {"key": key, "facts": facts, "result": result}
        text = json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        if self.path is not None:
            try:
                with open(self.path, "a+b") as file:
                    if file.tell():  # a killed run may have left an incomplete line
                        file.seek(-1, os.SEEK_END)
                        text = text if file.read(1) == b"\n" else b"\n" + text
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise cannot_write(self.path, error) from None
        self._lines[key] = json.loads(text)

    def __iter__(self) -> Iterator[tuple[Facts, Result]]:
        """Yield facts and result of every training, in the order of the file."""
        return ((line["facts"], line["result"]) for line in self._lines.values())


def key_of(facts: Facts) -> str:
    """Return the key of a result: a digest of its facts."""
    return digest(facts)[:20]


@dataclass(frozen=True)
class Split:
    """Sentences to train on (None: all) and to score (None: validation data), in rising order."""

    facts: Facts
    train: NDArray[np.int64] | None = field(default=None, repr=False)
    test: NDArray[np.int64] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Name for tables and messages."""
        if "fold" in self.facts:
            return f"fold {self.facts['fold']} of {self.facts['folds']}"
        return "held out" if "hold_out" in self.facts else "valid"


VALID = Split({"valid": True})


def folds(sentences: int, count: int, seed: int) -> list[Split]:
    """Return `count` splits of shuffled sentences, whose test parts are of nearly equal size."""
    if not 2 <= count <= sentences:
        raise MtlError(f"--folds must be between 2 and the number of sentences, {sentences}, got {count}")
    parts = np.array_split(np.random.default_rng(seed).permutation(sentences), count)
    facts = [{"fold": k, "folds": count, "seed": seed} for k in range(1, count + 1)]
    return [_split(sentences, part, own) for part, own in zip(parts, facts, strict=True)]


def held_out(sentences: int, share: float, seed: int) -> Split:
    """Return a split that scores a random share of the sentences and trains on the others."""
    count = round(share * sentences)
    if not 0 < count < sentences:
        raise MtlError(
            f"a held-out part must leave sentences on both sides: {share:g} of {sentences} sentences is {count}"
        )
    test = np.random.default_rng(seed).permutation(sentences)[:count]
    return _split(sentences, test, {"hold_out": share, "seed": seed})


def _split(sentences: int, test: NDArray[np.int64], facts: Facts) -> Split:
    return Split(facts, np.setdiff1d(np.arange(sentences), test), np.sort(test))


def combinations(base: Options, axes: Mapping[str, Sequence[Any]]) -> list[Options]:
    """Return the options with every combination of values of the named ones, without duplicates.

    Each has its c and p. Most methods ignore p; pmtl with p = 1 is mtl. The last axis varies
    fastest.
    """
    found = []
    for row in product(*axes.values()):
        options = replace(base, **dict(zip(axes, row, strict=True)))
        known = method_spec(options.method).parameters
        values: dict[str, Any] = {n: getattr(options, n) if n in known else None for n in ("p", "l1", "l2")}
        values |= parameters(replace(options, **values))
        options = replace(options, c=options.c_value, **values)
        if (options.method, options.p) == ("pmtl", 1):
            options = replace(options, method="mtl", p=None)
        found.append(options)
    return list(dict.fromkeys(found))


@dataclass(frozen=True, eq=False)
class Trial:
    """One setting on one split. `facts` is a JSON object of all that its result depends on."""

    options: Options
    split: Split
    facts: Facts

    @cached_property
    def key(self) -> str:
        """The key of its result in a store."""
        return key_of(self.facts)


@dataclass(frozen=True)
class Study:
    """Data, settings and splits of a grid.

    valid   validation data, for the split VALID
    score   the score to compare: its name, a function of a corpus, predicted outputs and the names
            of labels, or None for the first score of the task
    also    other texts to score, by name; they do not influence the choice of a setting
    words   words that count as known; None for those of the sentences trained on
    """

    corpus: Corpus
    templates: TemplateSet
    settings: tuple[Options, ...]
    splits: tuple[Split, ...]
    valid: Corpus | None = None
    also: Mapping[str, Corpus] = field(default_factory=dict)
    words: frozenset[str] | None = None
    score: str | Callable[..., float] | None = None

    def __post_init__(self) -> None:
        for options in self.settings:
            options.checked()
            if any(getattr(options, name) != getattr(self.settings[0], name) for name in ENCODING):
                raise MtlError(f"the settings of a study must agree on {', '.join(ENCODING)}")

    @property
    def task(self) -> str:
        """The task, which all settings share."""
        return self.settings[0].task

    @property
    def scored_on(self) -> str:
        """What settings are scored on, in words."""
        if len(self.splits) > 1:
            return f"{len(self.splits)} folds"
        if "valid" in self.splits[0].facts:
            return "the validation data"
        test = self.splits[0].test
        return f"{len(self.valid or ()) if test is None else len(test):,} sentences held out"

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """Every setting on every split; slow ones (large c) first, to keep all threads busy."""
        found = (trial for options in self.settings for trial in self.trials_of(options))
        return tuple(sorted(found, key=lambda trial: -trial.options.c_value))

    def trials_of(self, options: Options) -> list[Trial]:
        """Return the trials of a setting, one per split."""
        # The key of a result does not change when a later version adds an option.
        default = Options().as_dict()
        changed = {name: value for name, value in options.as_dict().items() if value != default[name]}
        facts = {**self._common, "options": changed | varied(options)}
        return [Trial(options, split, facts | {"split": dict(split.facts)}) for split in self.splits]

    @cached_property
    def _common(self) -> dict[str, Any]:
        return {
            "mtlstruct": __version__,
            "data": self.corpus.digest(),
            "valid": None if self.valid is None else self.valid.digest(),
            "templates": [template.title for template in self.templates],
            "lists": {name: digest(list(entries)) for name, entries in self.templates.lists.items()},
            **({"also": {name: text.digest() for name, text in self.also.items()}} if self.also else {}),
            **({"words": digest(sorted(self.words))} if self.words is not None else {}),
        }


def varied(options: Options) -> dict[str, Any]:
    """Return the options that a search varies."""
    values = {"method": options.method, "loss": options.loss_name, "p": options.p, "c": options.c_value}
    return values if options.scheme == "keep" else values | {"scheme": options.scheme}


@dataclass(frozen=True)
class Finding:
    """A setting and the results of its trials so far, in the order of the splits."""

    options: Options
    results: tuple[Result, ...]
    complete: bool

    def mean(self, name: str) -> float:
        """Return the mean of a score, or of a figure of the training, over the splits."""
        return float(np.mean(self._values(name)))

    def deviation(self, name: str) -> float:
        """Return the standard deviation over the splits, with K − 1; 0 for one split."""
        values = self._values(name)
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def batches(self, name: str) -> NDArray[np.float64]:
        """Return the score of each batch of held-out sentences, of all splits."""
        return np.concatenate([result["batches"][name] for result in self.results])

    def _values(self, name: str) -> list[float]:
        return [float(r["scores"][name] if name in r["scores"] else r[name]) for r in self.results]


def finding(options: Options, trials: Sequence[Trial], store: Store) -> Finding:
    """Return the stored results of a setting, given its trials."""
    results = [result for trial in trials if (result := store.load(trial.key)) is not None]
    return Finding(options, tuple(results), len(results) == len(trials))


def findings(study: Study, store: Store) -> list[Finding]:
    """Return the stored results of each setting that has one, in the order of the settings."""
    found = (finding(options, study.trials_of(options), store) for options in study.settings)
    return [one for one in found if one.results]


def best(found: Sequence[Finding], name: str) -> Finding:
    """Return the complete setting with the best mean, the first of equals."""
    complete = [finding for finding in found if finding.complete]
    if not complete:
        raise MtlError("no setting has all its trials: there is nothing to choose from")
    return max(complete, key=lambda finding: finding.mean(name))
