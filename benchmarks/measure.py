"""Runs a program in a fresh process: its CPU time and peak memory are those of the whole program.

Nothing heavy is imported here: on Linux a child's peak memory is never below what its parent held when it was
started, so the parent stays small.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_GRACE = 120.0
"""Seconds that a program which was asked to end has for writing what it knows."""


@dataclass(frozen=True)
class Run:
    """One process: seconds of CPU (user + system) and of the clock, peak memory, and what it printed."""

    cpu: float
    wall: float
    peak_mb: float
    stdout: str
    stopped: bool = False
    """Whether it was still at work when its time was over."""

    @property
    def json(self) -> dict[str, Any]:
        """The object on the last line of stdout."""
        found: dict[str, Any] = json.loads(self.stdout.strip().splitlines()[-1])
        return found


def python(module: str, *arguments: object, one_thread: bool = True, limit: float | None = None) -> Run:
    """`python -m module arguments`, measured."""
    return run([sys.executable, "-m", module, *map(str, arguments)], one_thread=one_thread, limit=limit)


def run(
    command: Sequence[str],
    *,
    one_thread: bool = True,
    limit: float | None = None,
    stop: signal.Signals = signal.SIGKILL,
    together: bool = False,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Run:
    """A command, measured; its stderr is passed on, or kept together with what it prints. Raises if it fails.

    After `limit` seconds it is sent the signal `stop`; what it does then is no failure. It runs in `folder`.
    """
    limits = dict.fromkeys(_ONE_THREAD, "1") if one_thread else {}
    errors = subprocess.STDOUT if together else None
    given = os.environ | limits | dict(environment or {})
    given.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=given, cwd=folder)
    assert process.stdout is not None
    timers = _timers(process, limit, stop)
    with process.stdout:
        printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    for timer in timers:
        timer.cancel()
    stopped = limit is not None and wall >= limit
    if process.returncode and not stopped:
        raise subprocess.CalledProcessError(process.returncode, list(command), printed)
    cpu = usage.ru_utime + usage.ru_stime
    text = printed.decode("utf-8", "replace")
    return Run(cpu, wall, usage.ru_maxrss * _rss_unit() / 1e6, text, stopped)


def _timers(process: subprocess.Popen[bytes], limit: float | None, stop: signal.Signals) -> list[Timer]:
    if limit is None:
        return []
    timers = [Timer(limit, process.send_signal, [stop]), Timer(limit + _GRACE, process.kill)]
    for timer in timers:
        timer.daemon = True
        timer.start()
    return timers


def best(once: Callable[[], Run], repeat: int) -> Run:
    """The run with the least CPU time: other work on the machine only ever adds to it."""
    return min((once() for _ in range(repeat)), key=lambda found: found.cpu)


def _rss_unit() -> int:
    return 1 if sys.platform == "darwin" else 1024
