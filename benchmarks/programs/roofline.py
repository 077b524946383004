"""Bytes, least flops and seconds of the steps of training and prediction, one thread: TEMPLATES TRAIN TEST TASK LOSS.

Counted is what a step asks for; the cache may have it. L labels, E entries of A per token.

gather      for each entry its number and a row of L weights; 2·E·L flops
inference   for each token a row of scores and one of marginals or back pointers; 6·L² flops (log loss: forward,
            backward and pairs; exponentials are not counted), 2·L² for the hinge
scatter     for each entry its number and a row of weights, read and written; 2·E·L flops
update      the block update: gather, inference and scatter of every sentence once, with a line search, and the
            marginals of its edges read and written
predict     labels of the test text in memory: a row of weights for each entry, and decoding

Three roofs: bytes in a row, rows of the same size at random places of a table of the same size, asked for ahead as
the kernels do, and flops of a matrix product in float32.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mtlstruct._numba.decorators import kernel, make_prefetch
from mtlstruct._system import threads
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers.coordinate_ascent.duals import dual_state, with_shared_singletons
from mtlstruct.solvers.coordinate_ascent.sequence.features import Step
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import encode, oracle_of, train

AHEAD, ROUNDS, STEPS = 20, 3, 10
_prefetch = make_prefetch()


def best(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """The least CPU seconds of a few rounds; the first, which loads kernels, is not counted."""
    seconds = []
    for _ in range(rounds + 1):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds[1:])


def counts_of(oracle: Oracle) -> list[Any]:
    """Counts of parts of the labels of the data, to scatter."""
    counts = [np.zeros(shape, np.float32) for shape in oracle.part_shapes()]
    for triplets, table in zip(
        oracle.indicator((oracle.gold + 1) % oracle.cost.shape[0]), counts, strict=True
    ):
        triplets.add_to(table, 1.0)
    return counts


def steps(oracle: Oracle, c: float) -> dict[str, dict[str, float]]:
    """Bytes, flops and seconds of each step of training."""
    rng, weights = np.random.default_rng(0), oracle.zeros()
    for table in weights:
        table[:] = rng.normal(scale=0.1, size=table.shape)
    scale = np.full(oracle.templates, 1.0 / oracle.templates)
    parts = oracle.score(weights, scale)
    smooth = oracle.temperature > 0
    counts = counts_of(oracle)
    seconds = {
        "gather": best(lambda: oracle.score(weights, scale)),
        "inference": best(lambda: oracle.likelihood(parts) if smooth else oracle.hinge(parts)),
        "scatter": best(lambda: oracle.count(counts, weights)),
        "update": _update(oracle, c),
    }
    design, (_, L) = oracle.encoded.designs[0], oracle.part_shapes()[0]
    entries, tokens = int(design.ptr[-1]), len(oracle.gold)
    number, row = design.ids.itemsize, 4 * L
    touched = {
        "gather": entries * (number + row) + tokens * row,
        "inference": 2 * tokens * row,
        "scatter": entries * (number + 2 * row) + tokens * row,
    }
    flops = {
        "gather": 2 * entries * L,
        "inference": (6 if smooth else 2) * tokens * L * L,
        "scatter": 2 * entries * L,
    }
    touched["update"] = sum(touched.values()) + (8 * tokens * L * L if smooth else 0)
    flops["update"] = sum(flops.values())
    return {
        name: {"bytes": touched[name], "flops": flops[name], "seconds": seconds[name]} for name in seconds
    }


def _update(oracle: Oracle, c: float) -> float:
    """Seconds of the second block update of all sentences: in the first, all mass is on the gold labels."""
    state = dual_state(oracle, oracle.zeros(), np.zeros(oracle.templates))
    mu, spans = np.full(oracle.templates, 1.0 / oracle.templates), state.spans(0)
    step = Step(c, STEPS, 1e-4, 0.0, oracle.temperature)
    seconds = []
    for _ in range(2):
        began = time.process_time()
        state.update(spans, mu, step)
        seconds.append(time.process_time() - began)
    return seconds[-1]


def prediction(model: Any, text: Any) -> dict[str, float]:
    """The path of `predict` from memory: attributes are found on the way, a row of weights is added for each."""
    L, live = len(model.learned_labels), len(model.live)
    touched = text.tokens * (live * (4 + 4 * L) + 2 * 4 * L)
    flops = text.tokens * (live * L + 2 * L * L)
    seconds = best(lambda: model.lattice(text).best())
    return {"bytes": touched, "flops": flops, "seconds": seconds, "tokens": text.tokens}


def roofs(rows: int, width: int) -> dict[str, float]:
    """Bytes a second in a row and of random rows of floats, and flops a second of a matrix product."""
    table, source = np.ones((rows, width), np.float32), np.ones(40_000_000, np.float32)
    target, square = np.empty_like(source), np.ones((1000, 1000), np.float32)
    ids = np.random.default_rng(0).integers(0, rows, 4_000_000).astype(np.int32)
    return {
        "sequential": 2 * source.nbytes / best(lambda: np.copyto(target, source)),
        "random": len(ids) * (4 * width + 4) / best(lambda: _sum_rows(table, ids, AHEAD)),
        "flops": 2e9 / best(lambda: square @ square),
    }


@kernel
def _sum_rows(table, ids, ahead):  # type: ignore[no-untyped-def]
    total = np.zeros(table.shape[1], np.float32)
    for i in range(len(ids) - ahead):
        _prefetch(table, np.int64(ids[i + ahead]))
        for k in range(table.shape[1]):
            total[k] += table[ids[i], k]
    return total


def main(templates: str, data: str, test: str, task: str, loss: str) -> dict[str, Any]:
    """All figures."""
    threads.set_threads(1)
    options = Options(task=task, loss=loss, max_iter=2).checked()
    reader, lines = task_of(task), TemplateSet.read(templates)
    corpus = reader.read(Path(data))
    material = encode(corpus, lines, options)
    oracle = with_shared_singletons(
        oracle_of(corpus, material.structure, material.encoded, options), overwrite=False
    )
    table = oracle.zeros()[0]
    model = train(corpus, lines, options).model
    found = steps(oracle, options.c_value) | {"predict": prediction(model, reader.read(Path(test)))}
    return {
        **roofs(*table.shape),
        "rows": table.shape[0],
        "row_bytes": table.shape[1] * table.itemsize,
        "entries": int(oracle.encoded.designs[0].ptr[-1]),
        "tokens": corpus.tokens,
        "labels": len(corpus.labels),
        "steps": found,
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
