"""Kernels compiled by other processes while this one reads: for the first training on a machine.

Compiling the kernels that learn sequences takes longer than reading and encoding most data. The compiler holds a
lock, so threads cannot share that work, but processes can: they compile their part and leave it in numba's cache,
where this process finds it when learning begins. `python -m mtlstruct.warming PART` is such a process. It works on
two sentences made by hand, so that it needs no kernel of encoding.

Nothing depends on it: what a process has not compiled, or could not keep, is compiled when it is called.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from . import threads
from ._kernels import COMPILED
from .encoding import Encoded
from .folding import squares
from .linear import LOOKAHEAD, Design, squared_norms
from .losses import Hamming
from .options import Options
from .oracle import Oracle
from .recipes import solver_of
from .structures import SequenceStructure
from .structures.sequence_visit import _visit

LABELS = 3
ROUNDS = 5


class Warming:
    """Processes that compile, each a part; `wait` for them before the kernels are wanted."""

    def __init__(self, parts: Iterable[str]) -> None:
        # what Python is told to find the package by (-c, a changed path) is told to them, too
        told = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        self._running = []
        with suppress(OSError):  # no process to be had: then this one compiles
            for part in parts:
                command = [sys.executable, "-m", "mtlstruct.warming", part]
                self._running.append(subprocess.Popen(command, env=told, **quiet))

    @property
    def at_work(self) -> bool:
        """Whether something is still being compiled."""
        return any(process.poll() is None for process in self._running)

    def wait(self) -> None:
        """Until all is compiled, or given up."""
        while self._running:
            self._running.pop().wait()

    def close(self) -> None:
        """Ends what is not done."""
        for process in self._running:
            process.kill()
        self.wait()


def begin(options: Options) -> Warming:
    """Compiles what a training will want, if it is worth it: nothing is compiled yet, and there is a second core."""
    sequences = options.task in ("sequence", "segmentation") and not options.seen_only
    wanted = sequences and solver_of(options.method, options.solver) == "coordinate"
    possible = COMPILED and threads.get_threads() > 1 and not sys.flags.isolated and options.shards == 1
    return Warming(PARTS if wanted and possible and not _compiled(_visit) else ())


def _compiled(kernel: Any) -> bool:
    """Whether the cache has a kernel, for some types at least; numba has no public way to ask."""
    try:
        return len(kernel._cache._cache_file._load_index()) > 0
    except Exception:  # another numba: then nothing is compiled ahead
        return True


# ---------------------------------------------------------------- in the other processes


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


def compile_bounds() -> None:
    """What joint steps and certificates call."""
    oracle = tiny_oracle()
    V, N, mu = oracle.zeros(), np.zeros(oracle.templates), np.ones(3)
    state: Any = oracle.dual(V, N)
    state.segments.rows[:2, :6] = [[1, 1, 0, 2, 0, 1], [4, 1, 1, 0, 0, 2]]
    state.segments.gains[:3] = 2, 1, 1
    state.joint(mu, 1.0, 1)
    state.active()
    state.repair()
    counts = state.counts()
    state.loss(counts[0])
    oracle.count(list(counts), V)
    squared_norms(oracle.encoded.designs[1:], V[1:], oracle.templates)
    squares(V[0], np.zeros(1, np.int32))  # of nodes, which are folded
    oracle.hinge(oracle.score(V, -mu))


PARTS: dict[str, Callable[[], None]] = {"visits": compile_visits, "bounds": compile_bounds}

if __name__ == "__main__":
    PARTS[sys.argv[1]]()
