"""Seconds by the clock of the parts of the work that use all threads: TEMPLATES TRAIN MODEL TEST THREADS.

encode        text in memory to features
certificate   V and the norms from the dual, scores, and the most violated outputs at four scales
likelihood    scores, marginals and gradient of a random field, on merged attributes
predict       the test text in memory to labels, features found on the way
copy, touch   160 MB copied, or written for the first time: what the machine has for any program
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.programs.roofline import counts_of
from mtlstruct._system import threads
from mtlstruct.model.model import Model
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers.coordinate_ascent.duals import with_shared_singletons
from mtlstruct.tasks import TASKS
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import encode, oracle_of

SIZE = 40_000_000

OFTEN = 10
"""How often what is short is done: memory that the system hands out for the first time since long is slow."""


def best(work: Callable[[], Any], rounds: int = 3) -> tuple[float, Any]:
    """The least seconds by the clock of a few rounds after the first, and what the last gave."""
    seconds = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:]), found


def certificate(oracle: Oracle) -> float:
    """What `Ascent` does for one, without a dual: counts of outputs that are as good as any."""
    weights, scale = oracle.zeros(), np.full(oracle.templates, 1.0 / oracle.templates)
    counts = counts_of(oracle)

    def work() -> None:
        oracle.count(counts, weights)
        oracle.squared_norms(weights)
        parts = oracle.score(weights, scale)
        for factor in (1.0, 0.97, 0.98, 0.99):
            oracle.hinge(parts, factor)

    return best(work)[0]


def likelihood(oracle: Oracle) -> float:
    """A pass of L-BFGS, without the steps on the weights."""
    small = oracle.small()
    weights, gradient, none = small.zeros(), small.zeros(), np.ones(0)
    weights[0][:] = np.random.default_rng(0).normal(scale=0.01, size=weights[0].shape[1])
    return best(lambda: small.count(small.likelihood(small.score(weights, none)).counts, gradient), OFTEN)[0]


def copy(count: int) -> float:
    """The threads copy a part each."""
    source, target = np.ones((count, SIZE // count), np.int32), np.ones((count, SIZE // count), np.int32)
    return best(lambda: threads.in_order(lambda k: np.copyto(target[k], source[k]), range(count)), OFTEN)[0]


def touch(count: int) -> float:
    """The threads write a part each of memory that the system has yet to hand out."""

    def work() -> None:
        fresh = np.empty((count, SIZE // count), np.int32)
        threads.in_order(lambda k: fresh[k].fill(1), range(count))

    return best(work, OFTEN)[0]


def main(templates: str, train: str, model: str, test: str, count: str) -> dict[str, float]:
    """All parts, each the best of a few."""
    threads.set_threads(int(count))
    corpus, lines, options = (
        TASKS["sequence"].read(Path(train)),
        TemplateSet.parse(Path(templates).read_text("utf-8")),
        Options(loss="hinge"),
    )
    seconds, material = best(lambda: encode(corpus, lines, options), OFTEN)
    oracle = oracle_of(corpus, material.structure, material.encoded, options)
    text, tagger = TASKS["sequence"].read(Path(test)), Model.load(Path(model))
    return {
        "encode": seconds,
        "certificate": certificate(with_shared_singletons(oracle, overwrite=False)),
        "likelihood": likelihood(oracle),
        "predict": best(lambda: tagger.predict(text), OFTEN)[0],
        "copy": copy(int(count)),
        "touch": touch(int(count)),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
