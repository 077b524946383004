"""`python -m benchmarks [NAME …]`: measures, keeps the figures, and writes the page from them.

Figures of the present code are not measured again unless `--again` asks for it, so a run that was broken off goes on
where it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks import (
    ablation,
    bound,
    choice,
    first,
    gaps,
    growth,
    labels,
    machine,
    parsing,
    predict,
    report,
    roofline,
    serve,
    shards,
    solvers,
    threads,
    train,
    tutorial,
)
from benchmarks.book import Ask, Book, Row, keep
from benchmarks.peers import study as peers
from benchmarks.places import RESULTS, Missing, work
from benchmarks.tasks import warm_up

BENCHMARKS: dict[str, Callable[[int], list[Row]]] = {
    "train": train.measure_all,
    "tutorial": tutorial.measure_all,
    "solvers": solvers.measure_all,
    "bound": bound.measure_all,
    "parsing": parsing.measure_all,
    "serve": serve.measure_all,
    "threads": threads.measure_all,
}
"""Measured as one."""

STUDIES: dict[str, Callable[[Book], None]] = {
    "ablation": ablation.measure_all,
    "choice": choice.measure_all,
    "peers": peers.measure_all,
    "predict": predict.measure_all,
    "first": first.measure_all,
    "gaps": gaps.measure_all,
    "growth": growth.measure_all,
    "labels": labels.measure_all,
    "roofline": roofline.measure_all,
    "shards": shards.measure_all,
}
"""Measured and kept row by row."""

NAMES = (*BENCHMARKS, *STUDIES)


def main(arguments: list[str]) -> None:
    """Runs the benchmarks named (all by default); `report` writes the page from the figures there are."""
    parser = _parser()
    given = parser.parse_args(arguments)
    unknown = set(given.names) - {*NAMES, "report"}
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}: expected {', '.join(NAMES)} or report")
    if given.peers is not None:
        os.environ["MTLSTRUCT_PEERS"] = str(given.peers.resolve())
    if given.trial is not None:  # its models are kept apart, too
        os.environ["MTLSTRUCT_BENCH_WORK"] = str(work() / f"trial-{given.trial}")
    against = None if given.against is None else given.against.resolve()
    chosen = (tuple(given.case), tuple(given.off), against)
    ask = Ask(given.repeat, given.limit, tuple(given.only), given.again, given.trial, *chosen)
    for name in given.names or NAMES:
        if name != "report":
            _run(name, ask)
    if ask.sentences is None:
        report.write()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; or report")
    parser.add_argument("--repeat", type=int, default=3, help="take the best of so many runs (default 3)")
    parser.add_argument(
        "--limit", type=float, default=Ask.limit, help="seconds that one run may take (default 900)"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD", help="rows with that word in their name"
    )
    parser.add_argument("--again", action="store_true", help="measure again what is known")
    parser.add_argument(
        "--try",
        type=int,
        dest="trial",
        metavar="N",
        help=f"a trial of {', '.join(STUDIES)} on N sentences; figures go to the working folder",
    )
    parser.add_argument("--peers", type=Path, metavar="DIR", help="where the programs of peers are")
    parser.add_argument("--case", action="append", default=[], metavar="WORD", help="cases of ablation")
    parser.add_argument("--off", action="append", default=[], metavar="WORD", help="mechanisms of ablation")
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="ablation: compare with this checkout of another commit"
    )
    return parser


def _run(name: str, ask: Ask) -> None:
    print(f"{name} …", file=sys.stderr)
    with suppress(Missing):
        warm_up()
    if name in STUDIES:
        folder = RESULTS if ask.sentences is None else work()
        book = Book(name, folder / f"{name}.json", ask)
        STUDIES[name](book)
        book.close()
    elif ask.sentences is None:
        _run_whole(name, ask)


def _run_whole(name: str, ask: Ask) -> None:
    path, command = RESULTS / f"{name}.json", f"python -m benchmarks {name} --repeat {ask.repeat}"
    code = machine.source()
    if not ask.again and _known(path, command, code):
        print(f"  known: {path.name} is of this code (--again measures again)", file=sys.stderr)
        return
    try:
        rows = BENCHMARKS[name](ask.repeat)
    except Missing as reason:
        rows = [{"missing": str(reason)}]
    if machine.source() != code:
        code = "changed during the run"
    keep(path, name, command, code, rows)


def _known(path: Path, command: str, code: str) -> bool:
    """Whether there are figures of that command and this code."""
    if not path.is_file():
        return False
    found = json.loads(path.read_text("utf-8"))
    rows_there = not any("missing" in row for row in found["rows"])
    return rows_there and (found["command"], found.get("source")) == (command, code)


if __name__ == "__main__":
    main(sys.argv[1:])
