"""`mtlstruct train` with one mechanism of the coordinate solver switched off: its name, then the arguments of train.

The switches are here alone: no mechanism is an option of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from benchmarks.programs import train
from mtlstruct.solvers.coordinate_ascent import solver
from mtlstruct.solvers.coordinate_ascent.solver import Run
from mtlstruct.training import train as training


def _without(*kinds: str) -> None:
    """Drops passes of these kinds from every cycle."""
    schedule = Run._schedule

    def shorter(run: Any) -> list[str]:
        return [kind for kind in schedule(run) if kind not in kinds]

    Run._schedule = shorter  # type: ignore[method-assign]


def _set(place: Any, name: str, value: Any) -> None:
    setattr(place, name, value)


OFF: dict[str, Callable[[], None]] = {
    "gap-sampled passes": lambda: _without(solver.GAP_SAMPLED),
    "working-set passes": lambda: _without(solver.WORKING_SET, solver.GAP_SAMPLED),
    "shared rows of singletons": lambda: _set(
        training, "with_shared_singletons", lambda oracle, overwrite: oracle
    ),
}

if __name__ == "__main__":
    OFF[sys.argv[1]]()
    sys.exit(train.main(sys.argv[2:]))
