"""A pass of L-BFGS and a pass over margins on the same data: TEMPLATES TRAIN C PASSES.

The margin pass is what every iteration of Algorithm 1 asks of the oracle: part scores, loss-augmented decoding, the
features of what was found less those of gold. The other two are on merged attributes, as L-BFGS works: a likelihood
and its gradient, and a whole pass of the learner, with direction, line search and both bounds. CPU seconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np

from mtlstruct._system import threads
from mtlstruct.formats import columns
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.objective.regularizers import L2
from mtlstruct.solvers import LBFGS, Record, Start, Stop
from mtlstruct.solvers.likelihood.problem import Small
from mtlstruct.solvers.likelihood.quasi_newton import Vector
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, encode, oracle_of

RUNS = 7


def learned(oracle: Oracle, c: float, passes: int) -> tuple[Weights, list[float]]:
    """The weights after so many passes, and the seconds of each but the first."""
    at: list[float] = []

    def watch(record: Record) -> bool:
        at.append(time.process_time())
        return False

    fit = LBFGS(Stop(gap=1e-9, max_passes=passes)).fit(oracle, L2(), c, watch)
    return fit.weights, np.diff(at).tolist()


def margin(oracle: Oracle, weights: Weights, into: Weights) -> None:
    """The most violated outputs, and the subgradient."""
    hinge = oracle.hinge(oracle.score(weights, np.ones(oracle.templates)))
    counts = [np.zeros(shape, np.float32) for shape in oracle.part_shapes()]
    for some, table in zip(oracle.indicator(hinge.outputs), counts, strict=True):
        some.add_to(table, 1.0)
    oracle.count(counts, into)


def likelihood(small: Small, x: Vector, into: Vector) -> None:
    """The objective, and its gradient."""
    small.slope(small.oracle.likelihood(small.score(x)), into)


def timed(work: Callable[[], None], times: int) -> list[float]:
    """Seconds of each run but the first."""
    at = [time.process_time()]
    for _ in range(times + 1):
        work()
        at.append(time.process_time())
    return np.diff(at)[1:].tolist()


def main(templates: str, data: str, c: str, passes: str) -> None:
    """On one thread."""
    threads.set_threads(1)
    corpus, options = columns.read(data), Options(c=float(c))
    material = encode(corpus, TemplateSet.read(templates), options)
    oracle = oracle_of(corpus, material.structure, material.encoded, options)
    weights, whole = learned(oracle, float(c), int(passes))
    into, ones = oracle.zeros(), np.ones(oracle.templates)
    found = {"margin": timed(lambda: margin(oracle, weights, into), RUNS)}
    small = Small(oracle, ones, float(c))
    x, slope = small.gather(Start(weights, ones)), small.vector()
    found |= {"likelihood": timed(lambda: likelihood(small, x, slope), RUNS), "lbfgs": whole}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
