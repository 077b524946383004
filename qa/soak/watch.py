"""What a process holds, sampled from outside (Linux), and the lines that are fitted to it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

WARM = 1 / 5
"""The part of a run at its beginning in which caches fill: not fitted."""


class Sample(NamedTuple):
    """Seconds since the start, MB resident (all, and without mapped files), open files, threads, children."""

    seconds: float
    resident: float
    own: float
    files: int
    threads: int
    children: int


def sample(pid: int, began: float) -> Sample:
    """What a process holds now."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    children = "".join(p.read_text() for p in Path(f"/proc/{pid}/task").glob("*/children"))
    return Sample(
        round(time.monotonic() - began, 1),
        int(status["VmRSS"].split()[0]) / 1024,
        int(status["RssAnon"].split()[0]) / 1024,
        len(os.listdir(f"/proc/{pid}/fd")),
        int(status["Threads"]),
        len(children.split()),
    )


class Watch:
    """Samples a process every few seconds on a thread of its own, until told to stop or the process is gone."""

    def __init__(self, pid: int, every: float) -> None:
        self.pid, self.every, self.samples = pid, every, list[Sample]()
        self._began, self._done = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.wait(self.every):
            try:
                self.samples.append(sample(self.pid, self._began))
            except (OSError, KeyError):
                return

    def stop(self) -> list[Sample]:
        """All samples."""
        self._done.set()
        self._thread.join()
        return self.samples


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Of the line with the least squares."""
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((a - x) ** 2 for a in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread if spread else 0.0


def figures(samples: Sequence[Sample]) -> dict[str, float]:
    """Where each thing begins (after the warm-up) and ends, and how much it grows in an hour by the fitted line."""
    kept = [s for s in samples if s.seconds >= WARM * samples[-1].seconds]
    hours = [s.seconds / 3600 for s in kept]
    out: dict[str, float] = {"samples": len(kept), "minutes": round(samples[-1].seconds / 60, 1)}
    tenth = max(1, len(kept) // 10)
    for name in Sample._fields[1:]:
        values = [float(getattr(s, name)) for s in kept]
        out[f"{name}_first"] = round(sum(values[:tenth]) / tenth, 2)
        out[f"{name}_last"] = round(sum(values[-tenth:]) / tenth, 2)
        out[f"{name}_most"] = round(max(values), 2)
        out[f"{name}_an_hour"] = round(slope(hours, values), 2)
    return out
