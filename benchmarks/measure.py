"""Runs a program in a fresh process: its CPU time and peak memory are those of the whole program.

Nothing heavy is imported here: on Linux a child's peak memory is never below what its parent held when it was
started, so the parent stays small.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Run:
    """One process: seconds of CPU (user + system) and of the clock, peak memory, and what it printed."""

    cpu: float
    wall: float
    peak_mb: float
    stdout: str

    @property
    def json(self) -> dict[str, Any]:
        """The object on the last line of stdout."""
        found: dict[str, Any] = json.loads(self.stdout.strip().splitlines()[-1])
        return found


def python(module: str, *arguments: object, one_thread: bool = True) -> Run:
    """`python -m module arguments`, measured."""
    return run([sys.executable, "-m", module, *map(str, arguments)], one_thread=one_thread)


def run(command: Sequence[str], *, one_thread: bool = True) -> Run:
    """A command, measured; its stderr is passed on. Raises if it fails."""
    limits = dict.fromkeys(_ONE_THREAD, "1") if one_thread else {}
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | limits)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    cpu = usage.ru_utime + usage.ru_stime
    return Run(cpu, wall, usage.ru_maxrss * _rss_unit() / 1e6, printed.decode())


def best(once: Callable[[], Run], repeat: int) -> Run:
    """The run with the least CPU time: other work on the machine only ever adds to it."""
    return min((once() for _ in range(repeat)), key=lambda found: found.cpu)


def _rss_unit() -> int:
    return 1 if sys.platform == "darwin" else 1024
