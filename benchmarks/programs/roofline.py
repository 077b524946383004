"""Bytes and seconds of each step of a pass on one thread: TEMPLATES DATA TASK.

What is counted is what a step asks for; the cache may have it.

gather    for each entry its number and a row of weights; for each site a row of scores, written
decode    for each token a row of scores, and a row of back pointers, written; the transitions stay in the cache
scatter   for each entry its number and a row of weights, read and written; for each site a row of counts
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from mtlstruct._numba.decorators import kernel, make_prefetch
from mtlstruct._system import threads
from mtlstruct.cli import rates
from mtlstruct.objective.oracle import Oracle
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import encode, oracle_of

AHEAD = 20
_prefetch = make_prefetch()


def steps(oracle: Oracle) -> dict[str, dict[str, float]]:
    """Bytes and seconds of each step."""
    rng = np.random.default_rng(0)
    weights = oracle.zeros()
    for table in weights:
        table[:] = rng.normal(size=table.shape[1])
    scale = np.full(oracle.templates, 1.0 / oracle.templates)
    touched = counted(oracle, weights[0].shape[1] * weights[0].itemsize)
    gather, parts = rates._best(lambda: oracle.score(weights, scale))
    decode, hinge = rates._best(lambda: oracle.hinge(parts))
    counts = rates._counts(oracle, hinge.outputs)
    scatter, _ = rates._best(lambda: oracle.count(counts, weights))
    seconds = {"gather": gather, "decode": decode, "scatter": scatter}
    return {name: {"bytes": touched[name], "seconds": seconds[name]} for name in seconds}


def counted(oracle: Oracle, row: int) -> dict[str, int]:
    """The bytes that each step asks for, from the sizes of the data; row: bytes of an attribute's weights."""
    design, (sites, parts) = oracle.encoded.designs[0], oracle.part_shapes()[0]
    entries, number, scores = int(design.ptr[-1]), design.ids.itemsize, 4 * parts
    return {
        "gather": entries * (number + row) + sites * scores,
        "decode": len(oracle.gold) * (scores + 4 * parts),
        "scatter": entries * (number + 2 * row) + sites * scores,
    }


def random_rows(rows: int, width: int) -> float:
    """Bytes a second of rows of floats at random places of a table, asked for ahead; the numbers counted, too."""
    table = np.ones((rows, width), np.float32)
    ids = np.random.default_rng(0).integers(0, rows, 4_000_000).astype(np.int32)
    _sum_rows(table, ids[: AHEAD + 1], AHEAD)
    seconds, _ = rates._best(lambda: _sum_rows(table, ids, AHEAD))
    return len(ids) * (4 * width + 4) / seconds


@kernel
def _sum_rows(table, ids, ahead):  # type: ignore[no-untyped-def]
    total = np.zeros(table.shape[1], np.float32)
    for i in range(len(ids) - ahead):
        _prefetch(table, np.int64(ids[i + ahead]))
        for k in range(table.shape[1]):
            total[k] += table[ids[i], k]
    return total


def main(templates: str, data: str, task: str) -> dict[str, Any]:
    """All figures."""
    threads.set_threads(1)
    options = Options(task=task).checked()
    corpus = task_of(task).read(Path(data))
    material = encode(corpus, TemplateSet.read(templates), options)
    oracle = oracle_of(corpus, material.structure, material.encoded, options)
    table = oracle.zeros()[0]
    return {
        "latency": rates.latency(),
        "bandwidth": rates.bandwidth(),
        "random": random_rows(*table.shape),
        "rows": table.shape[0],
        "row_bytes": table.shape[1] * table.itemsize,
        "entries": int(oracle.encoded.designs[0].ptr[-1]),
        "tokens": corpus.tokens,
        "labels": len(corpus.labels),
        "steps": steps(oracle),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4])))
