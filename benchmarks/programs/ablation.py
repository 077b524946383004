"""`mtlstruct train` with one mechanism of the coordinate solver switched off: its name, then the arguments of train.

The switches are here alone: no mechanism is an option of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from benchmarks.programs import train
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers.coordinate_ascent import local_run as own_ascent
from mtlstruct.solvers.coordinate_ascent import run as ascent


def _without(*kinds: str) -> None:
    """Drops passes of these kinds from every cycle."""
    schedule = own_ascent.OwnAscent._schedule

    def shorter(run: Any) -> list[str]:
        return [kind for kind in schedule(run) if kind not in kinds]

    own_ascent.OwnAscent._schedule = shorter  # type: ignore[method-assign]


def _set(place: Any, name: str, value: Any) -> None:
    setattr(place, name, value)


OFF: dict[str, Callable[[], None]] = {
    "gap-sampled passes": lambda: _without(ascent.GAP_SAMPLED),
    "working-set passes": lambda: _without(ascent.WORKING_SET, ascent.GAP_SAMPLED),
    "shrinking": lambda: _set(own_ascent, "LONGEST_REST", 0),
    "shared rows of singletons": lambda: _set(Oracle, "folded", lambda oracle, spare: oracle),
}

if __name__ == "__main__":
    OFF[sys.argv[1]]()
    sys.exit(train.main(sys.argv[2:]))
