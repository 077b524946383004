"""The two solvers on the same problem: CPU seconds of learning until each bound on the error is certified."""

from __future__ import annotations

from typing import Any

from benchmarks import measure
from benchmarks.places import head
from benchmarks.tasks import ESP_MTL, preset

SENTENCES, C, LIMIT = 1000, 1.0, 150
SOLVERS = {"coordinate": [], "cutting-plane": [], "cutting-plane --line-search": ["--line-search"]}
GOALS = {"epsilon 0.5": ("epsilon", 0.5), "gap 10 %": ("gap", 0.1), "gap 1 %": ("gap", 0.01)}


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row a solver, and for each goal how many times the coordinate solver's seconds it takes."""
    rows = [_row(solver, repeat) for solver in SOLVERS]
    fastest = rows[0]["goals"]
    for row in rows:
        for name, goal in row["goals"].items():
            if "seconds" in goal and "seconds" in fastest[name]:
                goal["times_coordinate"] = goal["seconds"] / fastest[name]["seconds"]
    return rows


def _row(solver: str, repeat: int) -> dict[str, Any]:
    """The coordinate solver certifies only where it stops, so it has a run a goal; Algorithm 1 has one run."""
    wanted = [{name: goal} for name, goal in GOALS.items()] if solver == "coordinate" else [GOALS]
    goals: dict[str, Any] = {}
    for some in wanted:
        goals |= _goals(solver, some, repeat if solver == "coordinate" else 1)
    return {"solver": solver, "sentences": SENTENCES, "c": C, "limit": LIMIT, "goals": goals}


def _goals(solver: str, goals: dict[str, tuple[str, float]], repeat: int) -> dict[str, Any]:
    few = head(ESP_MTL.part("train"), SENTENCES)
    last, tightest = list(goals.values())[-1]
    arguments = [preset(ESP_MTL.preset), few, solver.split()[0], C, last, tightest, LIMIT, *SOLVERS[solver]]
    run = measure.best(lambda: measure.python("benchmarks.programs.solve", *arguments), repeat)
    trace = run.json["trace"]
    return {name: _first(trace, *goal) for name, goal in goals.items()}


def _first(trace: list[dict[str, float]], key: str, bound: float) -> dict[str, Any]:
    """When a bound was first certified; else how near the run came."""
    certified = [at for at in trace if at["certified"]]
    for at in certified:
        if at[key] <= bound:
            return {"seconds": at["seconds"], "passes": at["passes"], key: at[key]}
    nearest = min(certified, key=lambda at: at[key], default={key: float("inf")})
    return {
        "not_reached": nearest[key],
        "of": key,
        "passes": trace[-1]["passes"],
        "after": trace[-1]["seconds"],
    }
