"""Tables of what a training costs: gaps, growth, size, first use, and how near a pass is to the memory's limits."""

from __future__ import annotations

from itertools import product
from typing import Any

from benchmarks import gaps as gap
from benchmarks import growth as grown
from benchmarks.tables import Rows, markdown, or_missing


def gaps(rows: Rows) -> str:
    """A line for each corpus and method, a column for each goal."""
    named = {(row["data"], row["method"], row["goal"]): row for row in rows}
    times = gap.ratios(rows)
    lines = []
    for data, method in dict.fromkeys((row["data"], row["method"]) for row in rows):
        cells = [_goal(named.get((data, method, goal)), times.get((data, method), {})) for goal in gap.GOALS]
        lines.append([f"{data}, {method}", *cells])
    return markdown(("", *gap.GOALS), lines)


def _goal(row: dict[str, Any] | None, times: dict[str, gap.Cost]) -> str:
    if row is None:
        return "not run"
    if "missing" in row:
        return str(row["missing"])
    cost = times.get(row["goal"])
    text = "" if cost is None or cost.times == 1.0 else f", {'> ' * cost.stopped}{cost.times:.1f} times"
    if row["stopped"]:
        return f"not in {row['limit']:.0f} s{text}"
    return f"{row['learning']:.1f} s{text}" + ("" if row["converged"] else f" (gap {100 * row['gap']:.2f} %)")


def ablation(rows: Rows) -> str:
    """A line for each case and mechanism: figures of the full program, then of the other."""
    titles = (
        "",
        "clock",
        "off",
        "times",
        "CPU",
        "off",
        "times",
        "passes",
        "off",
        "gap",
        "off",
        "memory",
        "off",
    )
    named = [row | {"name": ", ".join(row["key"].values())} for row in rows]
    return markdown(titles, (or_missing(row, "name", _ablated, len(titles)) for row in named))


def _ablated(row: dict[str, Any]) -> list[str]:
    full, off = row["full"], row["without"]
    times = [
        text
        for name in ("clock", "cpu")
        for text in (f"{full[name]:.1f} s", f"{off[name]:.1f} s", f"{off[name] / full[name]:.2f}")
    ]
    pairs = [
        form.format(side[name])
        for name, form in (("passes", "{:.0f}"), ("gap", "{:.2%}"), ("memory", "{:,.0f} MB"))
        for side in (full, off)
    ]
    return times + pairs


def growth(rows: Rows) -> str:
    """What was measured."""
    titles = ("", "count", *grown.FIGURES.values(), "passes", "attributes")
    named = [row | {"name": ", ".join(row["key"].values())} for row in rows]
    return markdown(titles, (or_missing(row, "name", _grown, len(titles)) for row in named))


def _grown(row: dict[str, Any]) -> list[str]:
    if row["stopped"]:
        return [
            f"{row['count']:,}",
            f"not in {row['limit']:.0f} s",
            "",
            f"{row['memory']:,.0f} MB",
            "",
            "",
            "",
            "",
        ]
    figures = [f"{row[name]:,.0f} MB" if "memory" in name else f"{row[name]:.1f} s" for name in grown.FIGURES]
    return [f"{row['count']:,}", *figures, f"{row['passes']}", f"{row['attributes']:,}"]


def exponents(rows: Rows) -> str:
    """The fits."""
    found = grown.fits(rows)
    if not found:
        return "not run: three points are needed"
    lines = [
        [
            f"{axis}, {data}, {loss}",
            *(_fit(found.get((axis, data, loss, figure))) for figure in grown.FIGURES),
        ]
        for (axis, data), loss in product(grown.AXES, grown.LOSSES)
    ]
    return markdown(("", *grown.FIGURES.values()), lines)


def _fit(found: tuple[float, float] | None) -> str:
    return "" if found is None else f"x^{found[0]:.2f} (within {100 * (found[1] - 1):.0f} %)"


def first(rows: Rows) -> str:
    """Cold and warm."""
    titles = ("command", "first time", "CPU", "from then on", "CPU", "kernels kept", "their size")
    timed = [row for row in rows if "kernels_in_home" not in row and row["command"] != "read-only install"]
    return markdown(titles, (or_missing(row, "command", _first, len(titles)) for row in timed))


def _first(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['cold']:.1f} s",
        f"{row['cold_cpu']:.1f} s",
        f"{row['warm']:.1f} s",
        f"{row['warm_cpu']:.1f} s",
        f"{row['kernels']}",
        f"{row['cache_mb']:.1f} MB",
    ]


def read_only(rows: Rows) -> str:
    """Where kernels go."""
    row = next((row for row in rows if row["command"] == "read-only install"), {"missing": "not run"})
    if "missing" in row:
        return str(row["missing"])
    kept = f"`{row['folder']}`, {row['kernels_in_home']} of them" if row["kernels_in_home"] else "**nowhere**"
    return f"{kept}; in the package {row['kernels_in_package']}"
