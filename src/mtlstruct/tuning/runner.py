"""Run the trials of a study on threads, which share one encoding of the data, or on other workers.

The final training, with the chosen setting on all data, uses it too. A trial gives the numbers of
`train` followed by `evaluate`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, takewhile
from threading import Event, Lock
from typing import Any

import numpy as np

from mtlstruct._system import memory, threads
from mtlstruct.corpus import Corpus
from mtlstruct.errors import MtlError
from mtlstruct.features.encoded import Encoded, subset
from mtlstruct.model.model import Model
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers.base import Record, active_templates
from mtlstruct.solvers.coordinate_ascent.duals import with_shared_singletons
from mtlstruct.training.build_model import build_model
from mtlstruct.training.methods import solver_name
from mtlstruct.training.options import Options
from mtlstruct.training.train import (
    EncodedDataset,
    encode,
    learn,
    oracle_of,
    solver_for,
    structure_of,
    with_learned_labels,
)
from mtlstruct.tuning.study import Split, Store, Study, Trial

BATCHES = 10
"""Batches of the held-out sentences; the spread of their scores gives the standard error."""


@dataclass(frozen=True)
class Outcome:
    """Result of a trial, or the reason for its failure."""

    trial: Trial
    result: dict[str, Any]
    failure: str | None = None


class OutOfTimeError(Exception):
    """Raised in a trial that is not finished when the time is up."""


@dataclass(frozen=True)
class Runner:
    """The encoded data of a study. `task` has `score` and `known_words` (`tasks.base.Task`)."""

    study: Study
    material: EncodedDataset
    task: Any
    _part: list[Any] = field(default_factory=list, compare=False, repr=False)
    _coded: dict[str, Corpus] = field(default_factory=dict, compare=False, repr=False)
    _lock: Lock = field(default_factory=Lock, compare=False, repr=False)

    @classmethod
    def encode(cls, study: Study, task: Any) -> Runner:
        """Return the runner of a study after encoding its data."""
        return cls(study, encode(study.corpus, study.templates, study.settings[0]), task)

    def fitting(self, jobs: int, trials: Iterable[Trial]) -> int:
        """Return how many of the trials fit into memory at a time; raise an error if none does."""
        free, needed = memory.available(), self.memory(trials)
        memory.ensure(needed, "a trial")
        return max(1, min(jobs, free // needed))

    def oracle(self, options: Options) -> Oracle:
        """Return the oracle of all data, with the label scheme of a setting."""
        corpus = self.corpus(options)
        return oracle_of(corpus, structure_of(corpus, options), self.material.encoded, options)

    def corpus(self, options: Options) -> Corpus:
        """Return the data with the labels of the scheme of a setting."""
        if options.scheme not in self._coded:
            self._coded[options.scheme] = with_learned_labels(self.study.corpus, options)
        return self._coded[options.scheme]

    def memory(self, trials: Iterable[Trial]) -> int:
        """Return the most memory that a trial takes on top of the shared data, in bytes."""
        needed, oracles = 0, dict[str, Oracle]()
        for options in dict.fromkeys(trial.options for trial in trials):
            oracle = oracles.get(options.scheme) or self.oracle(options)
            oracles[options.scheme] = oracle
            needed = max(needed, solver_for(oracle.structure, options).memory(oracle))
        parts = any(split.train is not None for split in self.study.splits)
        return needed + (sum(design.ids.nbytes for design in self.material.encoded.designs) if parts else 0)

    def run(
        self,
        trials: Iterable[Trial],
        store: Store,
        *,
        jobs: int,
        go_on: Callable[[], bool] = lambda: True,
        work: Callable[[Trial], dict[str, Any]] | None = None,
    ) -> Generator[Outcome, None, None]:
        """Run trials without a stored result, `jobs` at a time on equal shares of the threads.

        With `work`, that function runs them elsewhere. A trial that raises an error gives an
        outcome with the reason. When `go_on` has returned False, no trial begins, and none goes on
        after its pass.
        """
        interrupted, cores = Event(), threads.get_threads()
        missing = (trial for trial in trials if store.load(trial.key) is None)
        clock = time.process_time if jobs == 1 else time.thread_time

        def here(trial: Trial) -> dict[str, Any]:
            return self.run_trial(trial, clock, lambda: go_on() and not interrupted.is_set())

        attempt = partial(_attempt, work or here)
        outcomes = threads.as_completed(attempt, takewhile(lambda trial: go_on(), missing), jobs)
        threads.set_threads(max(1, cores // jobs))
        try:
            for outcome in filter(None, outcomes):
                if outcome.failure is None:
                    store.save(outcome.trial.facts, outcome.result)
                yield outcome
        finally:
            interrupted.set()
            outcomes.close()
            threads.set_threads(cores)

    def part(self, split: Split, options: Options) -> tuple[Corpus, Encoded]:
        """Return the sentences that a split trains on; the last one is kept for the next trial."""
        with self._lock:
            coded = self.corpus(options)
            if split.train is None:
                return coded, self.material.encoded
            if not self._part or self._part[0].facts != split.facts:
                corpus, made = self.study.corpus, self.material
                sites, least = made.structure.sites(corpus.ptr), self.study.settings[0].min_count
                self._part[:] = split, subset(made.encoded, split.train, sites, least)
            return coded.take(split.train), self._part[1]

    def run_within(self, given: tuple[Trial, float]) -> dict[str, Any]:
        """Run a trial in this process, that of a worker; raise an error after so many seconds."""
        trial, seconds = given
        end = time.perf_counter() + seconds
        return self.run_trial(trial, go_on=lambda: time.perf_counter() < end)

    def run_trial(
        self,
        trial: Trial,
        clock: Callable[[], float] = time.process_time,
        go_on: Callable[[], bool] = lambda: True,
    ) -> dict[str, Any]:
        """Train on the sentences of the split and score the model; return the figures of both."""
        began, cpu = time.perf_counter(), clock()
        study, options = self.study, trial.options
        corpus, encoded = self.part(trial.split, options)
        oracle = oracle_of(corpus, structure_of(corpus, options), encoded, options)
        if solver_name(options) == "coordinate":
            oracle = with_shared_singletons(oracle, overwrite=False)
        trace: list[list[float | None]] = []

        def on_pass(record: Record) -> bool:
            """Add seconds, objective, dual, gap and active templates; None if not finite."""
            figures = (record.objective, record.dual, record.gap, record.active)
            seconds = time.perf_counter() - started
            trace.append([seconds, *(value if math.isfinite(value) else None for value in figures)])
            if not go_on():
                raise OutOfTimeError
            return False

        started = time.perf_counter()
        fit = learn(oracle, options, on_pass)
        learned = clock() - cpu
        structure, outline = oracle.structure, oracle.encoded.outline()
        del oracle
        model = build_model(corpus, structure, outline, self.material.index, fit, options)
        gold = study.valid if trial.split.test is None else study.corpus.take(trial.split.test)
        assert gold is not None
        if options.segments:
            gold = with_learned_labels(gold, options)
        known = self.task.known_words(corpus, study.words)
        scores, batches = self._scores(model, gold, known)
        also = {name: self._scores(model, text, known)[0] for name, text in study.also.items()}
        return {
            "scores": scores,
            "batches": batches,
            **({"also": also} if also else {}),
            **fit.figures(),
            "active_templates": active_templates(fit.mu),
            "features": int(model.features.sum()),
            "mu": fit.mu.tolist(),
            "seconds": time.perf_counter() - began,
            "cpu_seconds": clock() - cpu,
            "learn_cpu_seconds": learned,
            "trace": trace,
        }

    def _scores(
        self, model: Model, gold: Corpus, known: Any
    ) -> tuple[dict[str, Any], dict[str, list[float]]]:
        """Return the scores of a model, and those of batches of consecutive sentences by name."""
        outputs, score = model.predict(gold), self.study.score
        right = gold.relabelled(model.labels).outputs if model.labels else gold.outputs
        wrong = np.append(0, np.cumsum(outputs != right))[gold.ptr]

        def scored(first: int, last: int) -> dict[str, Any]:
            text, ours = gold, outputs
            if last - first < len(gold):
                text = gold.take(np.arange(first, last))
                ours = outputs[gold.ptr[first] : gold.ptr[last]]
            whole = 100.0 * float(np.mean(np.diff(wrong[first : last + 1]) == 0))
            own = {"score": float(score(text, ours, model.labels))} if callable(score) else {}
            found = self.task.score(text, ours, model.labels, known).as_dict()
            return {"sequence_accuracy": whole, **found, **own}

        cuts = np.linspace(0, len(gold), min(BATCHES, len(gold)) + 1).astype(int).tolist()
        batches = [scored(*cut) for cut in pairwise(cuts)]
        names = [name for name, value in batches[0].items() if isinstance(value, float)]
        return scored(0, len(gold)), {name: [one[name] for one in batches] for name in names}


def _attempt(work: Callable[[Trial], dict[str, Any]], trial: Trial) -> Outcome | None:
    """Return the outcome of a trial; None if it was not finished when the time was up."""
    try:
        return Outcome(trial, work(trial))
    except OutOfTimeError:
        return None
    except MtlError as error:
        return Outcome(trial, {}, str(error))
    except MemoryError:
        return Outcome(trial, {}, "there is not enough memory for it")
    except Exception as error:
        return Outcome(trial, {}, f"{type(error).__name__}: {error}")
