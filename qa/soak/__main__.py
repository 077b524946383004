"""python -m qa.soak [serve] [load] [train] [--minutes N] [--rate R]: long runs, watched from outside (Linux).

    serve    `mtlstruct serve` on loopback, asked R times a second, more than half of it badly (load.py)
    load     200 connections that ask as fast as they are answered, beside a constant answer (connections.py)
    train    training, prediction, reports and failures of every kind in one process (training.py)

Each is sampled every five seconds; lines are fitted to all but the first fifth. Memory must not grow by more than
GROWTH MB an hour by the fitted line; open files, threads and processes must end where they began; and no right
request may go without its answer. The exit code is 1 where that fails. Figures are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import measure
from qa.soak.watch import Watch, figures

EVERY = 5.0
CONNECTIONS = 200
GROWTH = 10.0
"""MB of the process's own memory that an hour may add by the fitted line."""


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m qa.soak", description="Long runs, watched.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="serve, load, train (default all)")
    parser.add_argument("--minutes", type=float, default=30.0, help="of each (default 30, at most 600)")
    parser.add_argument(
        "--rate", type=float, default=20.0, help="requests a second (default 20, at most 200)"
    )
    given = parser.parse_args()
    if not 0 < given.minutes <= 600 or not 0 < given.rate <= 200 or set(given.names) - set(SOAKS):
        parser.error("expected serve, load or train, up to 600 minutes and up to 200 requests a second")
    problems = []
    for name in given.names or SOAKS:
        with tempfile.TemporaryDirectory(prefix="mtlstruct-soak-") as folder:
            found = SOAKS[name](Path(folder), given.minutes * 60, given.rate)
        found["problems"] = _problems(found)
        problems += found["problems"]
        print(json.dumps({name: found}, indent=1), flush=True)
    return int(bool(problems))


def serve(folder: Path, seconds: float, rate: float) -> dict[str, Any]:
    """Figures of the server's process."""
    measure.python("mtlstruct", "demo", "--out", folder / "demo")
    with _server("mtlstruct", "serve", str(folder / "demo" / "model.mtl"), "--port", "0") as (process, port):
        watch = Watch(process.pid, EVERY)
        asked = measure.python("qa.soak.load", port, folder / "demo" / "test.txt", rate, seconds, 1).json
        samples = watch.stop()
    requests = sum(n for what, n in asked.items() if ":" in what)
    return {"requests": requests, "answers": asked, "exit": process.returncode, **figures(samples)}


def load(folder: Path, seconds: float, rate: float) -> dict[str, Any]:
    """Figures of the server's process under CONNECTIONS connections, and of a server of a constant."""
    measure.python("mtlstruct", "demo", "--out", folder / "demo")
    text, found = folder / "demo" / "test.txt", {}
    for name, line in (
        ("constant", ("qa.soak.connections", "constant")),
        ("model", ("mtlstruct", "serve", str(folder / "demo" / "model.mtl"), "--port", "0")),
    ):
        with _server(*line) as (process, port):
            watch = Watch(process.pid, EVERY)
            share = seconds if name == "model" else min(seconds, 60)
            found[name] = measure.python("qa.soak.connections", port, text, CONNECTIONS, share).json
            samples = watch.stop()
    answers = {
        f"right: {'' if code == '200' else 'REFUSED '}{code}": n
        for code, n in found["model"]["answers"].items()
    }
    return {**found, "answers": answers, "exit": process.returncode, **figures(samples)}


@contextmanager
def _server(*line: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", *line]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert process.stderr is not None
        found = re.search(rb":(\d+)/", process.stderr.readline())
        if found is None:
            raise SystemExit(process.stderr.read().decode())
        drain = subprocess.Popen(
            ["cat"], stdin=process.stderr, stdout=said
        )  # a full pipe would stop the server
        try:
            yield process, int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
            drain.wait()
            said.seek(0)
            print(said.read()[-2000:].decode(errors="replace"), file=sys.stderr)


def train(folder: Path, seconds: float, rate: float) -> dict[str, Any]:
    """Figures of the process that trains."""
    command = [sys.executable, "-m", "qa.soak.training", str(folder), str(seconds), "0.2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    watch = Watch(process.pid, EVERY)
    printed, _ = process.communicate()
    samples = watch.stop()
    if process.returncode:
        raise SystemExit("the process that trains has failed")
    return {"rounds": json.loads(printed), "exit": process.returncode, **figures(samples)}


def _problems(found: dict[str, Any]) -> list[str]:
    out = [f"{n} {what}" for what, n in found.get("answers", {}).items() if re.search("[A-Z]{4}|: 5", what)]
    if found["exit"]:
        out.append(f"exit code {found['exit']}")
    if found["own_an_hour"] > GROWTH:
        out.append(f"memory grows by {found['own_an_hour']} MB an hour")
    counted = (
        (name, found[f"{name}_first"], found[f"{name}_last"]) for name in ("files", "threads", "children")
    )
    return out + [
        f"{name}: {first} at first, {last} at last" for name, first, last in counted if last > first + 1
    ]


SOAKS = {"serve": serve, "load": load, "train": train}


if __name__ == "__main__":
    sys.exit(main())
