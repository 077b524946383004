"""Running the trials of a study: the data are encoded once, and worker processes map that one encoding.

The last training, of the best setting on all of the data, uses it too. A trial is what `train` and `evaluate` would
do: the model that would be saved is scored.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

import joblib
import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import memory
from mtlstruct._system.atomic_write import cannot_write
from mtlstruct._system.folder_lock import locked
from mtlstruct._system.threads import set_threads
from mtlstruct._system.worker_processes import unordered_results
from mtlstruct.corpus import Corpus
from mtlstruct.errors import MtlError
from mtlstruct.features.encoded import subset
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers.base import Record, active_templates
from mtlstruct.training.build_model import build_model
from mtlstruct.training.train import EncodedDataset, encode, learn, learner_of, oracle_of
from mtlstruct.tuning.result_store import Store
from mtlstruct.tuning.study import Study, Trial

PROCESS = 250_000_000
"""Bytes that a worker takes before it does anything: the interpreter, numba, the kernels."""

SHARED = ".mtlstruct-shared-"
"""The first letters of the folder that holds the encoded data for the time of a run."""


class Scorer(Protocol):
    """A task, which is pickled for worker processes."""

    @property
    def score(self) -> Callable[[Corpus, NDArray[np.int32], Sequence[str], Set[str] | None], Any]:
        """Score predictions by gold, labels and known words; the figures are in `as_dict()`."""
        ...

    @property
    def known_words(self) -> Callable[[Corpus, Set[str] | None], Set[str] | None]:
        """Return the words that count as known after training on a corpus."""
        ...


@dataclass(frozen=True)
class Outcome:
    """The result of a trial, or the reason why there is none; `trace` is the traceback of an unexpected error."""

    trial: Trial
    result: dict[str, Any]
    failure: str | None = None
    trace: str = ""


@dataclass(frozen=True)
class Runner:
    """The encoded data of a study, mapped from a file that worker processes map too."""

    study: Study
    material: EncodedDataset

    def fitting(self, jobs: int) -> int:
        """Return how many trials fit into memory at a time, at most `jobs`; raise an error if none does."""
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
        go_on: Callable[[], bool] = lambda: True,
    ) -> Generator[Outcome, None, None]:
        """Run trials in `jobs` processes (one job: in this process) and store each result at once.

        A trial that raises an error is an outcome with a reason. A worker process that is killed ends
        the run with an error. `go_on` is asked before a trial begins.
        """
        waiting = takewhile(lambda trial: go_on(), trials)
        arguments = (self.study, self.material, scorer, threads)
        tasks = (joblib.delayed(_attempt)(trial, *arguments) for trial in waiting)
        by_key = {trial.key: trial for trial in trials}
        with unordered_results(tasks, jobs) as outcomes:
            for key, result, failure, trace in outcomes:
                if failure is None:
                    store.save(by_key[key].facts, result)
                yield Outcome(by_key[key], result, failure, trace)


@contextmanager
def runner(study: Study, folder: Path) -> Iterator[Runner]:
    """Lock a folder for this run, encode the data into a file inside it, and map that file."""
    with locked(folder):
        for left in folder.glob(f"{SHARED}*"):  # by a run that was killed
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=SHARED, dir=folder, ignore_cleanup_errors=True) as place:
            material = encode(study.corpus, study.templates, study.settings[0])
            file = Path(place) / "data"
            try:
                joblib.dump((study, material), file)
            except OSError as error:
                raise cannot_write(file, error) from None
            del material  # so that the data are in memory once
            yield Runner(*joblib.load(file, mmap_mode="c"))


def _attempt(
    trial: Trial, study: Study, material: EncodedDataset, scorer: Scorer, threads: int
) -> tuple[str, dict[str, Any], str | None, str]:
    """Run a trial; return its key, its result, and why and where it failed."""
    set_threads(threads)
    try:
        return trial.key, run_trial(study, material, scorer, trial), None, ""
    except MtlError as error:
        return trial.key, {}, str(error), ""
    except MemoryError:
        return trial.key, {}, "there is not enough memory for it", ""
    except Exception as error:
        return trial.key, {}, f"{type(error).__name__}: {error}", traceback.format_exc()


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
        found: dict[str, Any] = scorer.score(text, model.predict(text), model.labels, known).as_dict()
        return found

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
