"""`mtlstruct serve` with the demo model on one core: requests at a fixed rate for a minute, then a rush."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from benchmarks import measure
from benchmarks.places import Missing, work

TOKENS, RATE, SECONDS, RUSH = 30, 200, 60, 10
CONNECTIONS = 16


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """One run, for a minute is long: the steady rate, then the rush."""
    if find_spec("uvicorn") is None:
        raise Missing("uvicorn is not installed")
    folder = work() / "serve-demo"
    measure.python("mtlstruct", "demo", "--out", folder)
    bodies = folder / "test.txt"
    with _server(str(folder / "model.mtl")) as (process, port):
        rows = []
        for rate, seconds in ((RATE, SECONDS), (0, RUSH)):
            before = _cpu(process.pid)
            found = measure.python(
                "benchmarks.programs.load", port, bodies, TOKENS, rate, seconds, CONNECTIONS
            ).json
            name = f"{rate} a second" if rate else f"{CONNECTIONS} at a time"
            rows.append({"load": name, **found, "cpu": _cpu(process.pid) - before})
    return rows


@contextmanager
def _server(model: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server that may use one core, and its port."""
    command = [sys.executable, "-m", "mtlstruct", "serve", model, "--port", "0"]
    core = min(os.sched_getaffinity(0))
    process = subprocess.Popen(
        ["taskset", "-c", str(core), *command], stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stderr is not None
    found = re.search(r":(\d+)/", process.stderr.readline())
    if found is None:
        raise Missing(process.stderr.read())
    try:
        yield process, int(found[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stderr.close()


def _cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        cells = file.read().rpartition(")")[2].split()
    return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")
