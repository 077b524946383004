"""Algorithm 1 as printed, and the constants of its bound: TEMPLATES TRAIN GOAL LIMIT C [C …].

Prints Δ, the largest loss of a sentence, R², the largest ‖Φ(x, y) − Φ(x, y')‖² of a sentence and any other output
of it, and for each c what R_emp − R_s is after each iteration.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.formats import columns
from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import BlockL1Squared
from mtlstruct.solvers import CuttingPlane, Record, Stop
from mtlstruct.solvers.cutting_plane.bundle import Bundle
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, encode


def constants(oracle: Oracle) -> dict[str, float]:
    """Δ, and R² from both sides: what no difference can exceed, and the largest that was found.

    Of an attribute that a sentence has n times, with g_y of them under label y in gold, an output with h_y of them
    differs by Σ_y (g_y − h_y)² ≤ Σ_y g_y² + n². Equality is where h is all on a label that gold lacks; so an output
    that is one such label throughout attains it for all attributes and pairs at once.
    """
    ptr, L = oracle.encoded.ptr, oracle.structure.labels  # type: ignore[attr-defined]
    most, found = 0.0, 0.0
    for i in range(oracle.sentences):
        above, reached = _sentence(oracle, int(ptr[i]), int(ptr[i + 1]), i, L)
        most, found = max(most, above), max(found, reached)
    squares = {"squared_most": most, "squared_found": found, "squared_first": _first_cut(oracle)}
    return {"delta": float(np.diff(ptr).max()), **squares}


def _first_cut(oracle: Oracle) -> float:
    """The largest ‖p_j‖² of the cut at w = 0: what the proof bounds by R², one template and a mean of sentences."""
    weights, bundle = oracle.zeros(), Bundle(oracle)
    hinge = oracle.hinge(oracle.score(weights, np.ones(oracle.templates)))
    bundle.add(hinge.outputs, hinge.loss, weights)
    return float(bundle.gram.max())


def _sentence(oracle: Oracle, start: int, stop: int, number: int, L: int) -> tuple[float, float]:
    encoded, gold = oracle.encoded, oracle.gold[start:stop]
    node, edge = encoded.designs
    assert encoded.rows[1] is not None
    sites = encoded.rows[1][
        start - number : stop - number - 1
    ]  # edge site of token t in sentence i is t − i − 1
    kinds = (
        (_ids(node, np.arange(start, stop)), gold, np.arange(L), L),
        (_ids(edge, sites), gold[:-1] * L + gold[1:], np.arange(L) * (L + 1), L * L),
    )
    above, reached = 0.0, np.zeros(L)
    for ids, parts, constant, width in kinds:
        squares, cross, own = _counts(ids, parts, width)
        above += squares + own
        reached += squares - 2 * cross[constant] + own
    return above, float(reached.max())


def _ids(design: Any, rows: NDArray[np.integer]) -> NDArray[np.integer]:
    return design.ids[: design.ptr[-1]].reshape(design.rows, len(design.blocks))[rows]


def _counts(
    ids: NDArray[np.integer], parts: NDArray[np.integer], width: int
) -> tuple[float, NDArray[np.float64], float]:
    """Σ_a Σ_y g², Σ_a n·g_y for each part y, Σ_a n²."""
    attributes, place = np.unique(ids, return_inverse=True)
    place = place.reshape(ids.shape)
    g = np.zeros((len(attributes), width))
    np.add.at(g, (place, np.broadcast_to(parts[:, None], ids.shape)), 1)
    n = g.sum(axis=1)
    return float((g * g).sum()), n @ g, float(n @ n)


def trace(oracle: Oracle, c: float, goal: float, limit: float) -> list[float]:
    """R_emp − R_s after each iteration of Algorithm 1 as printed, down to `goal` or for `limit` seconds."""
    found: list[float] = []
    began = time.process_time()

    def watch(record: Record) -> bool:
        found.append((record.objective - record.dual) / (c * oracle.sentences))
        return time.process_time() - began > limit

    CuttingPlane(Stop(epsilon=goal, max_passes=100_000)).fit(oracle, BlockL1Squared(), c, watch)
    return found


def oracle_of(templates: str, data: str) -> Oracle:
    """The data with Hamming loss."""
    corpus = columns.read(data)
    material = encode(corpus, TemplateSet.read(templates), Options())
    cost = 1 - np.eye(len(corpus.labels), dtype=np.float32)
    assert corpus.outputs is not None
    return Oracle(material.structure, material.encoded, corpus.outputs, cost)


def main(templates: str, data: str, goal: str, limit: str, *values: str) -> None:
    """On one thread."""
    threads.set_threads(1)
    oracle = oracle_of(templates, data)
    traces = {c: trace(oracle, float(c), float(goal), float(limit)) for c in values}
    print(json.dumps({"sentences": oracle.sentences, **constants(oracle), "traces": traces}))


if __name__ == "__main__":
    main(*sys.argv[1:])
