"""Large c and tight gaps: what they cost beside c = 1 at a gap of 1 %, in CPU seconds of learning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product

from benchmarks import machine, measure
from benchmarks.book import Book, Row
from benchmarks.places import ESP, PKU, head, work
from benchmarks.tasks import Task

DATA = {"ESP ner-134": (ESP, "ner-134"), "PKU cws-tp2": (PKU, "cws-tp2")}
METHODS = {
    "mtl": "--method mtl",
    "crf-l2": "--method crf-l2",
    "mtl, hinge": "--method mtl --loss hinge",
    "svm": "--method svm",
}
GOALS = {
    "c = 1 to 1 %": (1, 0.01),
    "c = 10 to 1 %": (10, 0.01),
    "c = 100 to 3 %": (100, 0.03),
    "c = 100 to 1 %": (100, 0.01),
    "c = 1 to 0.1 %": (1, 0.001),
}
"""c and gap; the first is what the others are compared with."""


def measure_all(book: Book) -> None:
    """A row for each corpus, method and goal."""
    for data, method, goal in product(DATA, METHODS, GOALS):
        key = {"data": data, "method": method, "goal": goal}
        book.row(key, machine.source(), partial(_row, book, key))


def _row(book: Book, key: dict[str, str]) -> Row:
    folder, preset = DATA[key["data"]]
    c, gap = GOALS[key["goal"]]
    task = Task(" ".join(key.values()), folder, preset, f"{METHODS[key['method']]} -c {c} --gap {gap}")
    train = task.part("train")
    if book.ask.sentences is not None:
        train = head(train, book.ask.sentences)
    arguments = [*task.arguments(model=work() / "gaps.mtl", train=train), "--max-iter", "100000"]
    row: Row = {"command": task.command(), "c": c, "goal_gap": gap}
    run = measure.python("benchmarks.programs.train", *arguments, limit=book.ask.limit)
    row |= {"stopped": run.stopped, "cpu": run.cpu, "wall": run.wall, "peak_mb": run.peak_mb}
    if run.stopped:
        return row
    found = run.json
    kept = ("gap", "converged", "passes", "objective")
    return row | {"learning": found["cpu"]["learning"]} | {name: found[name] for name in kept}


@dataclass(frozen=True)
class Cost:
    """How many times the first goal's learning another takes; at least, if it was stopped."""

    times: float
    stopped: bool


def ratios(rows: list[Row]) -> dict[tuple[str, str], dict[str, Cost]]:
    """The costs of each goal by corpus and method, where the first goal was reached."""
    first = next(iter(GOALS))
    base = {(row["data"], row["method"]): row for row in rows if row["goal"] == first and "learning" in row}
    found: dict[tuple[str, str], dict[str, Cost]] = {pair: {} for pair in base}
    for row in rows:
        pair = row["data"], row["method"]
        if pair in base and "cpu" in row:
            found[pair][row["goal"]] = Cost(
                _learning(row, base[pair]) / base[pair]["learning"], row["stopped"]
            )
    return found


def _learning(row: Row, base: Row) -> float:
    """Of one that was stopped all but what the first goal's run took besides learning."""
    return float(row["learning"] if "learning" in row else row["cpu"] - (base["cpu"] - base["learning"]))
