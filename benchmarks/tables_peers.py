"""Tables of what stands beside other programs: trainings, taggers."""

from __future__ import annotations

from typing import Any

from benchmarks import predict
from benchmarks.tables import Rows, markdown, or_missing, score


def peers(rows: Rows) -> str:
    """A table for each case."""
    cases = dict.fromkeys(row["case"] for row in rows)
    return "\n\n".join(
        f"**{case}**\n\n{_case([row for row in rows if row['case'] == case])}" for case in cases
    )


def _case(rows: Rows) -> str:
    trees = any("uas" in row for row in rows)
    scores = ("UAS", "LAS") if trees else ("F1 test",)
    titles = (
        "program",
        "iterations",
        "CPU",
        "times ours",
        "clock",
        "peak memory",
        "model",
        "start-up",
        "tokens/s",
        *scores,
    )
    first = next((row for row in rows if row["program"] == "mtlstruct mtl"), {"stopped": True})
    ours = None if first.get("stopped", True) else first["cpu"]

    def cells(row: dict[str, Any]) -> list[str]:
        return _cells(row, ours, trees)

    return markdown(titles, (or_missing(row, "program", cells, len(titles)) for row in rows))


def _cells(row: dict[str, Any], ours: float | None, trees: bool) -> list[str]:
    more = "> " if row["stopped"] else ""
    times = "" if ours is None else f"{more}{row['cpu'] / ours:.1f}"
    keys = ("uas", "las") if trees else ("f1",)
    return [
        _iterations(row),
        f"{more}{row['cpu']:.0f} s",
        times,
        f"{more}{row['wall']:.0f} s",
        f"{row['peak_mb']:,.0f} MB",
        f"{row['model_mb']:.1f} MB" if "model_mb" in row else "–",
        f"{row['start_up']:.2f} s" if "start_up" in row else "–",
        f"{row['tokens_per_second']:,.0f}" if "tokens_per_second" in row else "–",
        *(score(row.get(key)) or "–" for key in keys),
    ]


def _iterations(row: dict[str, Any]) -> str:
    """How many; of one that was stopped, how far it came."""
    count = "" if row["iterations"] is None else f"{row['iterations']}"
    if not row["stopped"]:
        return count
    return f"stopped at {row['limit']:.0f} s" + (f" after {count}" if count else "")


def settings(rows: Rows) -> str:
    """What each program was told; ours have settings of their own for trees."""
    told: dict[str, list[str]] = {}
    for row in rows:
        known = told.setdefault(row["program"], [])
        if row.get("settings", "") not in ["", *known]:
            known.append(row["settings"])
    return "\n".join(
        f"- {program}: {'; for trees '.join(texts)}." for program, texts in told.items() if texts
    )


def memory(rows: Rows) -> str:
    """Tokens a second from memory."""
    titles = ("program", "attributes ready", "attributes made on the way")
    speeds = [row for row in rows if "without" in row or row["program"].startswith("python-crfsuite")]
    times = predict.beside(rows)

    def cells(row: dict[str, Any]) -> list[str]:
        ratios = times if row["program"] == "mtlstruct" else {}
        return [
            f"{row[key]:,.0f} tokens/s" + _times(ratios.get(f"python-crfsuite {key}"))
            for key in ("without", "with")
        ]

    return markdown(titles, (or_missing(row, "program", cells, len(titles)) for row in speeds))


def taggers(rows: Rows) -> str:
    """Tokens a second of whole commands."""
    titles = ("command", "tokens/s", "ours is", "start-up", "peak memory")
    names = (predict.COMMAND, "CRF++", "Wapiti", "CRFsuite")
    times = predict.beside(rows)

    def cells(row: dict[str, Any]) -> list[str]:
        speed = f"{row['tokens_per_second']:,.0f}" if "tokens_per_second" in row else "too few to tell"
        ratio = times.get(row["program"])
        return [
            speed,
            "" if ratio is None else f"{ratio:.1f} times",
            f"{row['start_up']:.2f} s",
            f"{row['tag_peak_mb']:.0f} MB",
        ]

    chosen = [row for row in rows if row["program"] in names]
    return markdown(titles, (or_missing(row, "program", cells, len(titles)) for row in chosen))


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f" ({ratio:.1f} times)"


def start_up(rows: Rows) -> str:
    """The small job."""
    row = _named(rows, "start-up")
    if "start_up" not in row:
        return str(row.get("missing", "not run"))
    return f"{row['start_up']:.2f} s (the best of {len(row['all'])}; the worst {row['all'][-1]:.2f} s)"


def text(rows: Rows) -> str:
    """Shares of reading and writing."""
    row = _named(rows, "text")
    if "reading" not in row:
        return str(row.get("missing", "not run"))
    steps = ("reading", "predicting", "writing")
    whole = sum(row[step] for step in steps)
    if whole == 0:
        return "too little text to tell"
    return ", ".join(f"{step} {100 * row[step] / whole:.0f} %" for step in steps)


def _named(rows: Rows, program: str) -> dict[str, Any]:
    return next((row for row in rows if row.get("program") == program), {})
