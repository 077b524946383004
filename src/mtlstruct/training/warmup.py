"""Kernels compiled by other processes while this one reads: for the first training on a machine.

Compiling the kernels that learn sequences takes longer than reading and encoding most data. The compiler holds a
lock, so threads cannot share that work, but processes can: they compile their part and leave it in numba's cache,
where this process finds it when learning begins. What they do is in `ahead`, so that neither has to wait for the
imports of the other.

Nothing depends on it: what a process has not compiled, or could not keep, is compiled when it is called.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mtlstruct._numba.decorators import COMPILED
from mtlstruct._system import threads
from mtlstruct.solvers.coordinate_ascent.sequence.block_update import _visit
from mtlstruct.training.methods import solver_of
from mtlstruct.training.options import Options

PARTS = ("visits", "joint", "bounds", "hinge")
"""What there is to compile (`ahead.PARTS`), that which takes longest first."""

_ALONE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Warming:
    """Processes that compile; `wait` for them before the kernels are wanted."""

    def __init__(self, parts: Sequence[str]) -> None:
        # what Python is told to find the package by (-c, a changed path) is told to them, too
        told = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        told |= dict.fromkeys(_ALONE, "1")  # they fork, which is safe as long as there is one thread
        told["NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"] = "1"  # numba colours each way it has tried in vain
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        command = [sys.executable, "-m", "mtlstruct.training.precompile", *parts]
        self._running = []
        if parts:
            with suppress(OSError):  # no process to be had: then this one compiles
                self._running = [subprocess.Popen(command, env=told, start_new_session=True, **quiet)]

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
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # it leads its session, in which the other one is, too
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
