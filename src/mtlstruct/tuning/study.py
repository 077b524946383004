"""What a grid of trainings is about: settings, splits of the data, and what came of each.

A *setting* is a combination of options; a *split* says what is trained on and what is scored. A *trial* is one
setting on one split. A setting is scored by the mean over its trials: one for validation data or a held-out share,
K for K folds. `runner` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct import __version__
from mtlstruct._system.digest import digest
from mtlstruct.corpus import Corpus
from mtlstruct.errors import MtlError
from mtlstruct.templates import TemplateSet
from mtlstruct.training.methods import exponent, method_spec
from mtlstruct.training.options import Options
from mtlstruct.tuning.result_store import Store, key_of

ENCODING = (
    *("task", "tags", "min_count", "normalize", "share_identical", "scaling", "label_support"),
    *("projective", "single_root"),
)
"""The options that change the encoding; all settings of a study must agree on them."""


@dataclass(frozen=True)
class Split:
    """What is trained on, and what is scored: sentences in rising order, or None for all and the validation data."""

    facts: Mapping[str, Any]
    train: NDArray[np.int64] | None = field(default=None, repr=False)
    test: NDArray[np.int64] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """For people."""
        if "fold" in self.facts:
            return f"fold {self.facts['fold']} of {self.facts['folds']}"
        return "held out" if "hold_out" in self.facts else "valid"


VALID = Split({"valid": True})


def folds(sentences: int, count: int, seed: int) -> list[Split]:
    """The sentences, shuffled by the seed, in `count` pieces of nearly equal size; each is held out once."""
    if not 2 <= count <= sentences:
        raise MtlError(f"--folds must be between 2 and the number of sentences, {sentences}, got {count}")
    pieces = np.array_split(_shuffled(sentences, seed), count)
    return [
        _divide(sentences, piece, {"fold": number, "folds": count, "seed": seed})
        for number, piece in enumerate(pieces, 1)
    ]


def held_out(sentences: int, share: float, seed: int) -> Split:
    """A share of the sentences, drawn by the seed, is scored; the others are trained on."""
    count = round(share * sentences)
    if not 0 < count < sentences:
        raise MtlError(
            f"--hold-out must leave sentences on both sides: {share:g} of {sentences} sentences is {count}"
        )
    return _divide(sentences, _shuffled(sentences, seed)[:count], {"hold_out": share, "seed": seed})


def _shuffled(sentences: int, seed: int) -> NDArray[np.int64]:
    return np.random.Generator(np.random.PCG64(seed)).permutation(sentences)


def _divide(sentences: int, test: NDArray[np.int64], facts: Mapping[str, Any]) -> Split:
    rest = np.ones(sentences, np.bool_)
    rest[test] = False
    return Split(facts, np.flatnonzero(rest), np.sort(test))


def settled(settings: Sequence[Options]) -> list[Options]:
    """Settings without those that say the same: p means nothing to most methods, and pmtl with p = 1 is mtl."""
    return list(dict.fromkeys(map(_settle, settings)))


def _settle(options: Options) -> Options:
    if method_spec(options.method).p is None:
        return replace(options, p=None)
    p = exponent(options.method, options.p)
    if options.method == "pmtl" and p == 1:
        return replace(options, method="mtl", p=None)
    return replace(options, p=p)


@dataclass(frozen=True, eq=False)
class Trial:
    """One setting on one split. `facts` is a JSON object of all that its result depends on."""

    options: Options
    split: Split
    facts: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """The key of its result in a store."""
        return key_of(self.facts)


@dataclass(frozen=True)
class Study:
    """The data, the settings and the splits. `valid` is there if the one split is VALID.

    also    other texts that a model is scored on, by name; no setting is chosen by them
    words   the words that count as known; None for those of the sentences trained on
    """

    corpus: Corpus
    templates: TemplateSet
    settings: tuple[Options, ...]
    splits: tuple[Split, ...]
    valid: Corpus | None = None
    also: Mapping[str, Corpus] = field(default_factory=dict)
    words: frozenset[str] | None = None

    def __post_init__(self) -> None:
        for options in self.settings:
            options.checked()
            if any(getattr(options, name) != getattr(self.settings[0], name) for name in ENCODING):
                raise MtlError(f"the settings of a study must agree on {', '.join(ENCODING)}")

    @property
    def task(self) -> str:
        """The task, which all settings share."""
        return self.settings[0].task

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """Every setting on every split; those that take long come first, so that no process is left with one."""
        found = [Trial(o, split, self._facts(o, split)) for o in self.settings for split in self.splits]
        return tuple(sorted(found, key=lambda trial: -trial.options.c))

    def _facts(self, options: Options, split: Split) -> dict[str, Any]:
        return {**self._common, "options": _said(options), "split": dict(split.facts)}

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


def _said(options: Options) -> dict[str, Any]:
    """Return the options that a grid varies, and every other option that is not as it is by default.

    An option that a later version adds does not change the keys of earlier results.
    """
    usual = asdict(Options())
    given = asdict(options).items()
    return {name: value for name, value in given if name in ("method", "p", "c") or value != usual[name]}


@dataclass(frozen=True)
class Finding:
    """A setting and the results of its trials so far, in the order of the splits."""

    options: Options
    results: tuple[Mapping[str, Any], ...]
    complete: bool

    def mean(self, name: str) -> float:
        """The mean of a score, or of a figure of the training, over the splits."""
        return float(np.mean(self._values(name)))

    def deviation(self, name: str) -> float:
        """The standard deviation of the same, with K − 1; 0 for one split."""
        values = self._values(name)
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def _values(self, name: str) -> list[float]:
        return [float(r["scores"][name] if name in r["scores"] else r[name]) for r in self.results]


def findings(study: Study, store: Store) -> list[Finding]:
    """Return what is known of each setting that has a result, in the order of the settings."""
    known: dict[Options, list[Mapping[str, Any]]] = {options: [] for options in study.settings}
    for trial in study.trials:
        result = store.load(trial.key)
        if result is not None:
            known[trial.options].append(result)
    splits = len(study.splits)
    return [Finding(options, tuple(r), len(r) == splits) for options, r in known.items() if r]


def best(found: Sequence[Finding], name: str) -> Finding:
    """The setting with the best mean, the first of equals; a setting without all its trials is not compared."""
    complete = [finding for finding in found if finding.complete]
    if not complete:
        raise MtlError("no setting has all its trials: there is nothing to choose from")
    return max(complete, key=lambda finding: finding.mean(name))
