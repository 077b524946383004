"""`mtlstruct train` as it is, with a stop-watch around the learning: the arguments of `mtlstruct train`.

Prints the object of `train --json` with `cpu`: the seconds before learning (start-up, reading, encoding), those of
learning and, of trees with labels, those of learning these. What follows, compacting and saving, is the rest. Of the
coordinate solver also the longest full pass: all sentences scored, searched and improved once. `clock` has the
seconds of learning by the clock.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from typing import Any

import mtlstruct.training.train
from mtlstruct import cli
from mtlstruct.solvers.coordinate_ascent.solver import Run

_learn = mtlstruct.training.train.learn
_full_pass = Run._full_pass
_seconds: dict[str, float] = {}
_clock: dict[str, float] = {}


def _timed(*arguments: Any, **named: Any) -> Any:
    began, clock = time.process_time(), time.perf_counter()
    _seconds.setdefault("before", began)
    fit = _learn(*arguments, **named)
    what = "labels" if "learning" in _seconds else "learning"
    _seconds[what], _clock[what] = time.process_time() - began, time.perf_counter() - clock
    return fit


def _timed_pass(ascent: Any) -> Any:
    began = time.process_time()
    bounds = _full_pass(ascent)
    if "learning" not in _seconds:
        _seconds["full_pass"] = max(_seconds.get("full_pass", 0.0), time.process_time() - began)
    return bounds


def main(arguments: list[str]) -> int:
    """Trains and prints; the exit code."""
    mtlstruct.training.train.learn = _timed  # type: ignore[assignment]
    Run._full_pass = _timed_pass  # type: ignore[assignment, method-assign]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = cli.run(["train", *arguments, "--quiet", "--json"])
    if code == 0:
        print(json.dumps(json.loads(printed.getvalue()) | {"cpu": _seconds, "clock": _clock}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
