"""`python -m benchmarks [NAME …] [--repeat N]`: measures, keeps the figures, and writes the page from them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from benchmarks import (
    bound,
    crfpp,
    crfsuite,
    machine,
    masters,
    norms,
    online,
    parsing,
    passes,
    predict,
    report,
    serve,
    solvers,
    threads,
    train,
    tutorial,
)
from benchmarks.places import RESULTS, Missing
from benchmarks.tasks import warm_up

Rows = list[dict[str, Any]]

BENCHMARKS: dict[str, Callable[[int], Rows]] = {
    "train": train.measure_all,
    "crfsuite": crfsuite.measure_all,
    "crfpp": crfpp.measure_all,
    "passes": passes.measure_all,
    "online": online.measure_all,
    "tutorial": tutorial.measure_all,
    "solvers": solvers.measure_all,
    "masters": masters.measure_all,
    "norms": norms.measure_all,
    "bound": bound.measure_all,
    "parsing": parsing.measure_all,
    "predict": predict.measure_all,
    "serve": serve.measure_all,
    "threads": threads.measure_all,
}


def main(arguments: list[str]) -> None:
    """Runs the benchmarks named (all by default); `report` writes the page from the figures there are."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; or report")
    parser.add_argument("--repeat", type=int, default=3, help="take the best of so many runs (default 3)")
    given = parser.parse_args(arguments)
    unknown = set(given.names) - {*BENCHMARKS, "report"}
    if unknown:
        parser.error(
            f"unknown benchmark {', '.join(sorted(unknown))}: expected {', '.join(BENCHMARKS)} or report"
        )
    names = [name for name in given.names or BENCHMARKS if name != "report"]
    for name in names:
        _run(name, given.repeat)
    report.write()


def _run(name: str, repeat: int) -> None:
    print(f"{name} …", file=sys.stderr)
    with suppress(Missing):
        warm_up()
    code = machine.source()
    try:
        rows = BENCHMARKS[name](repeat)
    except Missing as reason:
        rows = [{"missing": str(reason)}]
    command = f"python -m benchmarks {name} --repeat {repeat}"
    if machine.source() != code:
        code = "changed during the run"
    found = {
        "benchmark": name,
        "command": command,
        "machine": machine.facts(),
        "source": code,
        "load": round(os.getloadavg()[0], 1),
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
