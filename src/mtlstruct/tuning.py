"""Choosing options by trying them: a grid of settings, each trained and scored on data that it has not seen.

The data are encoded once. Worker processes map that one encoding, and the last training, of the best setting on all
of the data, uses it too. A *trial* is one setting on one part of the data, and a cell of a `grid`: run once, kept
as JSON. A *setting* is scored by the mean over its trials: one for validation data or a held-out part, K for K
folds.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import __version__, memory, threads
from .corpus import Corpus
from .errors import MtlError
from .grid import Cell, Store, corpus_digest, digest
from .learners.base import active_templates
from .processes import Outcome, in_processes
from .sharing import Shared, share
from .subsets import subset
from .templates import TemplateSet
from .train import Material, Options, build_model, encode, learn, memory_needed

PROCESS = 250_000_000
"""Bytes that a worker takes before it does anything: the interpreter, numba, the kernels."""

ENCODING = ("task", "tags", "min_count", "normalize")
"""The options that change the encoding; all trials of a study must agree on them."""

SCORES = ("f1", "uas", "accuracy")
"""By which settings are compared: the first that the data have. Labels that are no chunks have F1 0 throughout."""

WITH_P = ("pmtl", "mixed")
"""The methods that have an exponent p."""


class Scores(Protocol):
    """What a scorer returns."""

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        ...


Score = Callable[[str, Corpus, NDArray[np.int32], Sequence[str]], Scores]
"""score(task, gold, predictions, labels); a function of a module, since worker processes import it by name."""


# ---------------------------------------------------------------- what is tried


@dataclass(frozen=True)
class Part:
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


VALID = Part({"valid": True})


def folds(sentences: int, count: int, seed: int) -> list[Part]:
    """The sentences, shuffled by the seed, in `count` parts of nearly equal size; each is held out once."""
    if not 2 <= count <= sentences:
        raise MtlError(f"--folds must be between 2 and the number of sentences, {sentences}, got {count}")
    pieces = np.array_split(_shuffled(sentences, seed), count)
    return [
        _split(sentences, piece, {"fold": number, "folds": count, "seed": seed})
        for number, piece in enumerate(pieces, 1)
    ]


def held_out(sentences: int, share: float, seed: int) -> Part:
    """A share of the sentences, drawn by the seed, is scored; the others are trained on."""
    count = round(share * sentences)
    if not 0 < count < sentences:
        raise MtlError(
            f"--hold-out must leave sentences on both sides: {share:g} of {sentences} sentences is {count}"
        )
    return _split(sentences, _shuffled(sentences, seed)[:count], {"hold_out": share, "seed": seed})


def _shuffled(sentences: int, seed: int) -> NDArray[np.int64]:
    return np.random.Generator(np.random.PCG64(seed)).permutation(sentences)


def _split(sentences: int, test: NDArray[np.int64], facts: Mapping[str, Any]) -> Part:
    rest = np.ones(sentences, np.bool_)
    rest[test] = False
    return Part(facts, np.flatnonzero(rest), np.sort(test))


def settled(settings: Sequence[Options]) -> list[Options]:
    """Settings without those that say the same: p means nothing to most methods, and pmtl with p = 1 is mtl."""
    return list(dict.fromkeys(map(_settle, settings)))


def _settle(options: Options) -> Options:
    p = getattr(options, "p", None)
    if p is None:
        return options
    if options.method not in WITH_P:
        return replace(options, p=None)
    if options.method == "pmtl" and p == 1:
        return replace(options, method="mtl", p=None)
    return options


@dataclass(frozen=True, eq=False)
class Trial:
    """One setting on one part."""

    options: Options
    part: Part
    cell: Cell


@dataclass(frozen=True)
class Study:
    """The data, the settings and the parts. `valid` is there if the one part is VALID."""

    corpus: Corpus
    templates: TemplateSet
    settings: tuple[Options, ...]
    parts: tuple[Part, ...]
    valid: Corpus | None = None

    def __post_init__(self) -> None:
        for options in self.settings:
            options.checked()
            if any(getattr(options, name) != getattr(self.settings[0], name) for name in ENCODING):
                raise MtlError(f"the settings of a study must agree on {', '.join(ENCODING)}")

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """Every setting on every part; those that take long come first, so that no process is left with one."""
        found = [Trial(o, part, self.cell(o, part)) for o in self.settings for part in self.parts]
        return tuple(sorted(found, key=lambda trial: -trial.options.c))

    def cell(self, options: Options, part: Part) -> Cell:
        """The cell of a trial."""
        return Cell({**self._common, "options": asdict(options), "part": dict(part.facts)})

    @cached_property
    def _common(self) -> dict[str, Any]:
        return {
            "mtlstruct": __version__,
            "data": corpus_digest(self.corpus),
            "valid": None if self.valid is None else corpus_digest(self.valid),
            "templates": [template.text for template in self.templates],
            "lists": {name: digest(list(entries)) for name, entries in self.templates.lists.items()},
        }


# ---------------------------------------------------------------- trying


@dataclass(frozen=True)
class Bench:
    """The encoded data of a study, in this process and shared with others."""

    study: Study
    material: Material
    shared: Shared

    def fitting(self, jobs: int) -> int:
        """How many trials at a time fit into memory, at most `jobs`; refuses if not even one does."""
        free, needed = memory.available(), self.memory
        memory.ensure(needed, "a trial")
        return jobs if free is None else max(1, min(jobs, free // needed))

    @property
    def memory(self) -> int:
        """Bytes that a trial takes on top of the shared data."""
        encoded = self.material.encoded
        whole = all(part.train is None for part in self.study.parts)
        part = 0 if whole else sum(design.ids.nbytes for design in encoded.designs)
        return memory_needed(encoded, self.material.structure) + part + PROCESS

    def run(
        self,
        trials: Sequence[Trial],
        store: Store,
        score: Score,
        *,
        jobs: int,
        threads: int,
        started: Callable[[Trial], None],
    ) -> Generator[Outcome[Trial], None, None]:
        """Runs trials in `jobs` processes and keeps each result as soon as it is there."""
        prepare = partial(open_bench, self.shared, score, threads)
        for outcome in in_processes(prepare, trials, jobs, started):
            if outcome.failure is None:
                store.save(outcome.item.cell, outcome.result)
            yield outcome


@contextmanager
def bench(study: Study, folder: Path) -> Iterator[Bench]:
    """Encodes the data and shares them by files in a folder that nobody else is at work in."""
    for left in folder.glob(".shared-*"):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".shared-", dir=folder) as place:
        material = encode(study.corpus, study.templates, study.settings[0])
        shared = share((study, material), Path(place))
        del material  # from here on this process, too, uses the mapped one
        yield Bench(study, shared.open()[1], shared)


def open_bench(shared: Shared, score: Score, count: int) -> Callable[[Trial], dict[str, Any]]:
    """What a worker process does with a trial."""
    threads.set_threads(count)
    study, material = shared.open()
    return partial(run_trial, study, material, score)


def run_trial(study: Study, material: Material, score: Score, trial: Trial) -> dict[str, Any]:
    """Trains on the part's sentences, scores the model that would be saved: what `train` and `evaluate` would say."""
    began, cpu = time.perf_counter(), time.process_time()
    corpus, encoded, options = study.corpus, material.encoded, trial.options
    gold = study.valid if trial.part.test is None else corpus.take(trial.part.test)
    assert gold is not None
    if trial.part.train is not None:
        sites = material.structure.sites(corpus.ptr)
        encoded = subset(encoded, trial.part.train, sites, options.min_count)
        corpus = corpus.take(trial.part.train)
    fit = learn(corpus, material.structure, encoded, options, lambda record: False)
    outline = encoded.outline()
    model = build_model(corpus, study.templates, material.structure, outline, material.index, fit, options)
    return {
        "scores": score(options.task, gold, model.predict(gold), model.labels).as_dict(),
        **{
            name: getattr(fit, name)
            for name in ("objective", "dual", "gap", "epsilon", "passes", "converged")
        },
        "active_templates": active_templates(fit.mu),
        "mu": fit.mu.tolist(),
        "norm": model.norm.tolist(),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
    }


# ---------------------------------------------------------------- what came of it


@dataclass(frozen=True)
class Finding:
    """A setting and the results of its trials so far, in the order of the parts."""

    options: Options
    results: tuple[Mapping[str, Any], ...]
    complete: bool

    def mean(self, name: str) -> float:
        """The mean of a score, or of a figure of the training, over the parts."""
        return float(np.mean(self._values(name)))

    def deviation(self, name: str) -> float:
        """The standard deviation of the same, with K − 1; 0 for one part."""
        values = self._values(name)
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def _values(self, name: str) -> list[float]:
        return [float(r["scores"][name] if name in r["scores"] else r[name]) for r in self.results]


def findings(study: Study, store: Store) -> list[Finding]:
    """What is known of each setting that any trial has been run of, in the order of the settings."""
    known: dict[Options, list[Mapping[str, Any]]] = {options: [] for options in study.settings}
    for options in study.settings:
        for part in study.parts:
            result = store.load(study.cell(options, part))
            if result is not None:
                known[options].append(result)
    parts = len(study.parts)
    return [Finding(options, tuple(r), len(r) == parts) for options, r in known.items() if r]


def score_name(found: Sequence[Finding]) -> str:
    """The score to compare by: see SCORES."""
    scores = [result["scores"] for finding in found for result in finding.results]
    return next((name for name in SCORES if any(s.get(name) for s in scores)), SCORES[0])


def best(found: Sequence[Finding], name: str) -> Finding:
    """The setting with the best mean, the first of equals; a setting without all its trials is not compared."""
    complete = [finding for finding in found if finding.complete]
    if not complete:
        raise MtlError("no setting has all its trials: there is nothing to choose from")
    return max(complete, key=lambda finding: finding.mean(name))
