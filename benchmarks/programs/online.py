"""MTL and OnlineMKL on the same data: TEMPLATES TRAIN C EPOCHS LIMIT.

CPU seconds of learning: mtl to a gap of 1 %; OnlineMKL's epochs with the fast step; and visits with the dense step
for LIMIT seconds, from where the fast epochs ended. Visits are alike, so an epoch is so many of them.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from mtlstruct._system import threads
from mtlstruct.formats import columns
from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import BlockL1Squared
from mtlstruct.solvers import Coordinate, Fit, Proximal, Record, Stop
from mtlstruct.solvers.online.online_mkl import Run
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, encode, oracle_of

OMEGA = BlockL1Squared()
PIECE = 20
"""Dense visits between two looks at the clock."""


def mtl(oracle: Oracle, c: float) -> dict[str, Any]:
    """The dual to a gap of 1 %."""
    began = time.process_time()
    fit = Coordinate(Stop(gap=0.01)).fit(oracle, OMEGA, c, lambda record: False)
    return {"seconds": time.process_time() - began, "passes": fit.passes} | _bounds(fit)


def fast(oracle: Oracle, c: float, epochs: int) -> tuple[dict[str, Any], Fit]:
    """All epochs, the trial of rates before them, and the certificate after them."""
    at = [time.process_time()]

    def watch(record: Record) -> bool:
        at.append(time.process_time())
        return False

    fit = Proximal(Stop(max_passes=epochs)).fit(oracle, OMEGA, c, watch)
    each = np.diff(at)[1:]
    seconds = time.process_time() - at[0]
    return {"seconds": seconds, "epoch": float(each.mean()), "epochs": epochs} | _bounds(fit), fit


def dense(oracle: Oracle, c: float, fit: Fit, limit: float) -> dict[str, Any]:
    """As many visits as there is time for."""
    for j, scale in enumerate(fit.scale):
        oracle.block(fit.weights, j)[:] *= scale
    run = Run(oracle, OMEGA, c, dense=True, weights=fit.weights)
    order = np.random.Generator(np.random.PCG64(1)).permutation(oracle.sentences)
    began, done = time.process_time(), 0
    while done < len(order) and time.process_time() - began < limit:
        done += len(some := order[done : done + PIECE])
        run.epoch(some, 0.01)
    seconds = time.process_time() - began
    return {"visits": done, "seconds": seconds, "epoch": seconds / done * oracle.sentences}


def _bounds(fit: Fit) -> dict[str, Any]:
    active = int(np.count_nonzero(fit.mu > 1e-5))
    return {"objective": fit.objective, "gap": fit.gap, "active": active}


def main(templates: str, data: str, c: str, epochs: str, limit: str) -> None:
    """On one thread."""
    threads.set_threads(1)
    corpus, options = columns.read(data), Options(c=float(c))
    material = encode(corpus, TemplateSet.read(templates), options)
    oracle = oracle_of(corpus, material.structure, material.encoded, options)
    found: dict[str, Any] = {"sentences": oracle.sentences, "mtl": mtl(oracle, float(c))}
    found["fast"], fit = fast(oracle, float(c), int(epochs))
    found["dense"] = dense(oracle, float(c), fit, float(limit))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
