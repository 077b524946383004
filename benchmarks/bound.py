"""Iterations of Algorithm 1 until R_emp − R_s < ε, beside the paper's bound on them; and the picture of both."""

from __future__ import annotations

import math
from typing import Any

from benchmarks import measure
from benchmarks.places import ROOT, head
from benchmarks.tasks import ESP_MTL, preset

SENTENCES, LIMIT = 200, 150
VALUES = ("0.1", "1", "10")
EPSILONS = (10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1)
PICTURE = ROOT / "docs" / "images" / "bound.png"


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row for each c. Iterations do not depend on the machine, so once is enough."""
    few = head(ESP_MTL.part("train"), SENTENCES)
    found = measure.python(
        "benchmarks.programs.bound", preset(ESP_MTL.preset), few, EPSILONS[-1], LIMIT, *VALUES
    ).json
    return [_row(found, c) for c in VALUES]


def iterations(epsilon: float, squared: float, delta: float, C: float) -> int:
    """⌈log₂(Δ / 4R²C)⌉ + ⌈16R²C / ε⌉, as printed; the first term is negative where 4R²C is larger than Δ."""
    return math.ceil(math.log2(delta / (4 * squared * C))) + math.ceil(16 * squared * C / epsilon)


def _row(found: dict[str, Any], c: str) -> dict[str, Any]:
    C, trace = float(c) * found["sentences"], found["traces"][c]
    constants = {
        name: found[name] for name in ("sentences", "delta", "squared_most", "squared_found", "squared_first")
    }
    goals = [
        {
            "epsilon": epsilon,
            "iterations": next((k for k, value in enumerate(trace, 1) if value < epsilon), None),
            "bound": iterations(epsilon, found["squared_most"], found["delta"], C),
        }
        for epsilon in EPSILONS
    ]
    return {
        "c": float(c),
        **constants,
        "goals": goals,
        "last": {"iterations": len(trace), "epsilon": trace[-1]},
    }


def draw(rows: list[dict[str, Any]]) -> None:
    """Left both on one scale, right what was measured alone."""
    from mtlstruct.report.plots import new_figure, save, title

    figure = new_figure(PICTURE, (10.4, 4.4))
    both, alone = figure.subplots(1, 2)
    both.set_yscale("log")
    for row, colour in zip(rows, ("#6a994e", "#2a6f97", "#ee9b00"), strict=True):
        bounds = [(goal["epsilon"], goal["bound"]) for goal in row["goals"]]
        measured = [(goal["epsilon"], goal["iterations"]) for goal in row["goals"] if goal["iterations"]]
        both.plot(*zip(*bounds, strict=True), color=colour, lw=1.4, ls=(0, (4, 1.5)))
        for axes in (both, alone):
            axes.plot(*zip(*measured, strict=True), color=colour, lw=1.6, marker="o", ms=4)
        _label(both, f"bound, c = {row['c']:g}", bounds[-1], colour)
        _label(alone, f"c = {row['c']:g}", measured[-1], colour)
    _label(both, "measured", measured[-1], "#22303c")
    for axes in (both, alone):
        _frame(axes)
    alone.set_ylim(bottom=0)
    title(figure, "Algorithm 1 needs far fewer iterations than Theorem 2 allows")
    save(figure, PICTURE)


def _label(axes: Any, text: str, point: tuple[float, float], colour: str) -> None:
    axes.annotate(
        text, point, xytext=(7, 0), textcoords="offset points", va="center", color=colour, fontsize=8.5
    )


def _frame(axes: Any) -> None:
    from mtlstruct.report.plots import INK, style

    axes.set_xscale("log")
    axes.invert_xaxis()
    axes.set_xticks(EPSILONS, labels=[f"{epsilon:g}" for epsilon in EPSILONS])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("ε: R_emp − R_s, wrong tokens a sentence", color=INK)
    axes.set_ylabel("iterations", color=INK)
    style(axes)
    axes.set_axisbelow(True)
