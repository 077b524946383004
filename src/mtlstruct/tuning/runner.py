"""Running the trials of a study: the data are encoded once, and worker processes map that one encoding.

The last training, of the best setting on all of the data, uses it too. A trial is what `train` and `evaluate` would
do: the model that would be saved is scored.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import memory, threads
from mtlstruct._system.process_pool import Outcome
from mtlstruct._system.shared_arrays import Shared, share
from mtlstruct.corpus import Corpus
from mtlstruct.features.subsets import subset
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers.base import Record, active_templates
from mtlstruct.training.build_model import build_model
from mtlstruct.training.train import EncodedDataset, encode, learn, learner_of, oracle_of
from mtlstruct.tuning import result_store as grid
from mtlstruct.tuning.result_store import Store
from mtlstruct.tuning.study import Study, Trial

PROCESS = 250_000_000
"""Bytes that a worker takes before it does anything: the interpreter, numba, the kernels."""


class Scores(Protocol):
    """What a scorer returns."""

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        ...


class Scorer(Protocol):
    """A task, which is pickled for worker processes."""

    @property
    def score(self) -> Callable[[Corpus, NDArray[np.int32], Sequence[str], Set[str] | None], Scores]:
        """Score predictions by gold, labels and known words."""
        ...

    @property
    def known_words(self) -> Callable[[Corpus, Set[str] | None], Set[str] | None]:
        """Return the words that count as known after training on a corpus."""
        ...


@dataclass(frozen=True)
class Runner:
    """The encoded data of a study, in this process and shared with others."""

    study: Study
    material: EncodedDataset
    shared: Shared

    def fitting(self, jobs: int) -> int:
        """How many trials at a time fit into memory, at most `jobs`; refuses if not even one does."""
        free, needed = memory.available(), self.memory
        memory.ensure(needed, "a trial")
        return max(1, min(jobs, free // needed))

    @cached_property
    def oracle(self) -> Oracle:
        """All data as the methods see them."""
        material, settings = self.material, self.study.settings
        return oracle_of(self.study.corpus, material.structure, material.encoded, settings[0])

    @cached_property
    def memory(self) -> int:
        """Bytes that the most demanding trial takes on top of the shared data."""
        structure, encoded, settings = self.material.structure, self.material.encoded, self.study.settings
        needed = max(learner_of(structure, options).memory(self.oracle) for options in settings)
        whole = all(split.train is None for split in self.study.splits)
        copied = 0 if whole else sum(design.ids.nbytes for design in encoded.designs)
        return needed + copied + PROCESS

    def run(
        self,
        trials: Sequence[Trial],
        store: Store,
        scorer: Scorer,
        *,
        jobs: int,
        threads: int,
        started: Callable[[Trial], None] = lambda trial: None,
        go_on: Callable[[], bool] = lambda: True,
    ) -> Generator[Outcome[Trial], None, None]:
        """Runs trials in `jobs` processes and keeps each result as soon as it is there."""
        return grid.run(
            trials, store, partial(open_worker, self.shared, scorer, threads), jobs, started, go_on
        )


@contextmanager
def runner(study: Study, folder: Path) -> Iterator[Runner]:
    """Encodes the data and shares them by files in a folder that nobody else is at work in."""
    for left in folder.glob(".mtlstruct-shared-*"):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".mtlstruct-shared-", dir=folder) as place:
        material = encode(study.corpus, study.templates, study.settings[0])
        shared = share((study, material), Path(place))
        del material  # from here on this process, too, uses the mapped one
        yield Runner(study, shared.open()[1], shared)


def open_worker(shared: Shared, scorer: Scorer, count: int) -> Callable[[Trial], dict[str, Any]]:
    """What a worker process does with a trial."""
    threads.set_threads(count)
    study, material = shared.open()
    return partial(run_trial, study, material, scorer)


def run_trial(study: Study, material: EncodedDataset, scorer: Scorer, trial: Trial) -> dict[str, Any]:
    """Trains on the split's sentences and scores the model: the figures of `train` and `evaluate`."""
    began, cpu = time.perf_counter(), time.process_time()
    corpus, encoded, options = study.corpus, material.encoded, trial.options
    gold = study.valid if trial.split.test is None else corpus.take(trial.split.test)
    assert gold is not None
    if trial.split.train is not None:
        sites = material.structure.sites(corpus.ptr)
        encoded = subset(encoded, trial.split.train, sites, options.min_count)
        corpus = corpus.take(trial.split.train)
    oracle = oracle_of(corpus, material.structure, encoded, options)
    trace = _Trace()
    fit = learn(learner_of(material.structure, options), oracle, options, trace)
    learned = time.process_time() - cpu
    templates, outline = material.index.templates, oracle.encoded.outline()
    del oracle
    model = build_model(corpus, templates, material.structure, outline, material.index, fit, options)
    known = scorer.known_words(corpus, study.words)

    def scores(text: Corpus) -> dict[str, Any]:
        return scorer.score(text, model.predict(text), model.labels, known).as_dict()

    return {
        "scores": scores(gold),
        **({"also": {name: scores(other) for name, other in study.also.items()}} if study.also else {}),
        **{
            name: getattr(fit, name)
            for name in ("objective", "dual", "gap", "epsilon", "passes", "converged")
        },
        "active_templates": active_templates(fit.mu),
        "mu": fit.mu.tolist(),
        "norm": model.norm.tolist(),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "learn_cpu_seconds": learned,
        "trace": trace.passes,
    }


class _Trace:
    """Seconds, objective, dual, gap and templates with a weight after each pass; what is no number is None."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.passes: list[list[float | None]] = []

    def __call__(self, record: Record) -> bool:
        """Never asks to stop."""
        seen = (record.objective, record.dual, record.gap, record.active)
        seconds = time.perf_counter() - self.began
        self.passes.append([seconds, *(value if math.isfinite(value) else None for value in seen)])
        return False
