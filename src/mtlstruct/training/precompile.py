"""Compile the kernels of learning sequences ahead: `python -m mtlstruct.training.precompile PART…`.

It works on two sentences made by hand, so that it needs no kernel of encoding. Two processes share the parts: the
first begins with the part that takes longest, the second, a fork of it, is spared the imports and gives way to
the training, which has to read and encode meanwhile. Who is done takes the next part.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from mtlstruct.features.encoded import Encoded
from mtlstruct.linear.design import LOOKAHEAD, Design
from mtlstruct.linear.products import squared_norms
from mtlstruct.linear.singletons import squares
from mtlstruct.objective.losses import Hamming
from mtlstruct.objective.oracle import Oracle
from mtlstruct.structures import SequenceStructure

LABELS = 3
ROUNDS = 5

_POLITE = 5
"""How much nicer than the training the second process is."""


def main(parts: Sequence[str]) -> None:
    """Compiles these parts, the first of them here."""
    gc.disable()  # what a compiler makes it keeps: looking for garbage finds little
    _import_numba()
    left, fill = os.pipe()
    os.write(fill, bytes(range(1, len(parts))))
    os.close(fill)
    second = os.fork() if len(parts) > 1 else None
    try:
        if second == 0:
            os.nice(_POLITE)
        else:
            PARTS[parts[0]]()
        while taken := os.read(left, 1):
            PARTS[parts[taken[0]]]()
    finally:
        if second:
            os.waitpid(second, 0)


def _import_numba() -> None:
    """All of it, as numba itself does when it first compiles: once for both processes."""
    with suppress(ImportError, AttributeError):
        from numba.core.registry import cpu_target

        cpu_target.target_context.refresh()


def tiny_oracle() -> Oracle:
    """Two sentences of three tokens, two templates of nodes and the bare transition."""
    structure, ptr = SequenceStructure(LABELS), np.array([0, 3, 6])
    ids = np.append([0, 3, 1, 4, 2, 5, 0, 4, 1, 5, 2, 3], [6] * LOOKAHEAD).astype(np.int32)
    node = _design(ids, np.arange(0, 13, 2), [0, 1], [0, 3, 6])
    edge = _design(np.append(0, [1] * LOOKAHEAD).astype(np.int32), np.array([0, 1]), [2], [0, 1])
    rows = (None, np.zeros(4, np.int32))
    encoded = Encoded(("node", "edge"), (node, edge), rows, ptr.astype(np.int64), 3)
    return Oracle(
        structure, encoded, np.array([0, 1, 2, 1, 2, 0], np.int32), Hamming().table(["A", "B", "C"])
    )


def _design(ids: Any, ptr: Any, blocks: list[int], block_ptr: list[int]) -> Design:
    templates = np.array(blocks, np.int32)
    no_values = np.zeros(0, np.float32)
    return Design(ids, ptr.astype(np.int64), templates, no_values, np.array(block_ptr, np.int64), templates)


def compile_visits() -> None:
    """The kernel of visits, which takes longest."""
    oracle = tiny_oracle()
    state: Any = oracle.dual(oracle.zeros(), np.zeros(oracle.templates))
    state.visit(state.spans(np.arange(2), 0), np.ones(3), 1.0, ROUNDS, 1e-6)


def compile_joint() -> None:
    """What joint steps call."""
    oracle = tiny_oracle()
    state: Any = oracle.dual(oracle.zeros(), np.zeros(oracle.templates))
    state.segments.rows[:2, :6] = [[1, 1, 0, 2, 0, 1], [4, 1, 1, 0, 0, 2]]
    state.segments.gains[:3] = 2, 1, 1
    state.joint(np.ones(3), 1.0, 1)


def compile_bounds() -> None:
    """What certificates call, of flow, V and N."""
    oracle = tiny_oracle()
    V = oracle.zeros()
    state: Any = oracle.dual(V, np.zeros(oracle.templates))
    state.active()
    state.repair()
    counts = state.counts()
    state.loss(counts[0])
    oracle.count(list(counts), V)
    squared_norms(oracle.encoded.designs[1:], V[1:], oracle.templates)
    squares(V[0], np.zeros(1, np.int32))  # of nodes, which are folded


def compile_hinge() -> None:
    """Scores and the best paths."""
    oracle = tiny_oracle()
    oracle.hinge(oracle.score(oracle.zeros(), -np.ones(3)))


PARTS: dict[str, Callable[[], None]] = {
    "visits": compile_visits,
    "joint": compile_joint,
    "bounds": compile_bounds,
    "hinge": compile_hinge,
}

if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # all is kept by now: taking down what the compiler has made would take most of a second
