"""`mtlstruct train` as it is, with a stop-watch around the learning: the arguments of `mtlstruct train`.

Prints the object of `train --json` with `cpu`: the seconds before learning (start-up, reading, encoding) and
those of learning. What follows, compacting and saving, is the rest of the process.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from typing import Any

import mtlstruct.train
from mtlstruct import cli

_learn = mtlstruct.train.learn
_seconds: dict[str, float] = {}


def _timed(*arguments: Any) -> Any:
    _seconds["before"] = time.process_time()
    fit = _learn(*arguments)
    _seconds["learning"] = time.process_time() - _seconds["before"]
    return fit


if __name__ == "__main__":
    mtlstruct.train.learn = _timed  # type: ignore[assignment]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = cli.run(["train", *sys.argv[1:], "--quiet", "--json"])
    if code == 0:
        print(json.dumps(json.loads(printed.getvalue()) | {"cpu": _seconds}))
    sys.exit(code)
