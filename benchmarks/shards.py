"""Batch training in shards: the clock, CPU and passes of one and two workers, and a simulated cluster.

The ratios need a quiet machine with two processors, and the package ray. The simulation takes the CPU time of
workers and driver from a run with one shard, and is compared with a run with two.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks import machine, measure
from benchmarks.book import Book, Row
from benchmarks.parsing import PARSERS
from benchmarks.places import ESP, Missing, corpus, head, work
from benchmarks.tables import Rows, markdown
from benchmarks.tasks import preset

NER, TREES = "Spanish ner-134", "Danish trees"
PASSES = 10
"""Passes of which the CPU time is measured."""

RUNS = {
    "local, 1": (NER, "--threads 1"),
    "local, 2": (NER, "--threads 2 --shards 2"),
    "ray, 1": (NER, "--threads 1 --engine ray"),
    "ray, 2": (NER, "--threads 2 --engine ray --shards 2"),
    "trees, ray, 1": (TREES, "--threads 1 --engine ray"),
    "trees, ray, 2": (TREES, "--threads 2 --engine ray --shards 2"),
}
"""Data and options; all learn `mtl` with the log loss by L-BFGS to a gap of 1 %."""

RATIOS = (
    ("two local shards on two threads: times faster than one shard", "local, 1", "local, 2", ">= 1.7"),
    ("two Ray workers: times faster than one", "ray, 1", "ray, 2", ">= 1.5"),
    ("one Ray worker: times the time of local", "ray, 1", "local, 1", "<= 1.3"),
    ("Danish trees, two Ray workers: times faster than one", "trees, ray, 1", "trees, ray, 2", ">= 1.5"),
)
"""Title, the run above and the run below the line, and what is asked for."""


def measure_all(book: Book) -> None:
    """Measure all runs and costs; print the ratios and the simulated times."""
    stamp, sentences = machine.source(), book.ask.sentences
    rows: list[Row] = []
    for name, (data, options) in RUNS.items():
        made = book.row(
            {"run": name}, stamp, lambda data=data, options=options: _run(data, options, sentences)
        )
        rows += [made] if made else []
    for count in (1, 2):
        made = book.row({"costs of shards": str(count)}, stamp, lambda count=count: _costs(count, sentences))
        rows += [made] if made else []
    print(f"{ratios(rows)}\n\n{simulated(rows)}", file=sys.stderr)


def _run(data: str, options: str, sentences: int | None) -> Row:
    if "ray" in options and find_spec("ray") is None:
        raise Missing("not run: the package ray is not installed")
    c = 20 if data == NER else 1
    how = f"--loss log --solver lbfgs -c {c} --no-log --force {options}".split()
    if data == NER:
        files = [preset("ner-134"), _cut(corpus(ESP, "train.conll"), sentences), work() / "shards.mtl"]
    else:
        templates, train, *_ = PARSERS[0].arguments()
        files = [templates, train, work() / "shards.mtl"]
        how += ["--task", "dependency"]
    run = measure.python("mtlstruct", "train", *files, *how, "--json", one_thread=False)
    found = run.json
    facts = {name: found[name] for name in ("passes", "gap", "objective", "seconds", "encode_seconds")}
    ray = "ray" in options  # CPU and memory of its processes are not in these figures
    return facts | {"learning": found["seconds"] - found["encode_seconds"]} | (
        {} if ray else {"cpu": run.cpu, "peak_mb": run.peak_mb}
    )  # fmt: skip


def _costs(shards: int, sentences: int | None) -> Row:
    data = _cut(corpus(ESP, "train.conll"), sentences)
    return measure.python("benchmarks.programs.shards", preset("ner-134"), data, shards, PASSES).json


def _cut(path: Path, sentences: int | None) -> Path:
    return path if sentences is None else head(path, sentences)


def ratios(rows: Rows) -> str:
    """A line for each ratio that is asked for, by the clock, and per pass."""
    found = {row["run"]: row for row in rows if "run" in row and "missing" not in row}
    lines = []
    for title, above, below, goal in RATIOS:
        if above in found and below in found:
            a, b = found[above], found[below]
            ratio, passes = a["learning"] / b["learning"], a["passes"] / b["passes"]
            lines.append([title, f"{ratio:.2f}", f"{ratio / passes:.2f}", goal])
    if "local, 1" in found and "local, 2" in found:
        ratio = found["local, 2"]["cpu"] / found["local, 1"]["cpu"]
        lines.append(["two local shards: times the CPU of one", f"{ratio:.2f}", "", "<= 1.3"])
    runs = [
        [name, f"{row['passes']}", f"{row['learning']:.1f} s", f"{row['gap']:.2%}"]
        for name, row in found.items()
    ]
    table = markdown(("run", "passes", "learning", "gap"), runs)
    return f"{table}\n\n{markdown(('ratio', 'found', 'per pass', 'asked'), lines)}"


# ---------------------------------------------------------------- model of cost


@dataclass(frozen=True)
class Cost:
    """What a gradient costs: CPU seconds per token of a worker and of the driver, and bytes of weights."""

    per_token: float
    driver: float
    weights: int

    @classmethod
    def of(cls, row: Row) -> Cost:
        """Return the cost that a run with one shard shows."""
        count = row["gradients"]
        return cls(row["workers"] / count / row["tokens"], row["driver"] / count, row["bytes"])

    def grown(self, weights: int) -> Cost:
        """Return the cost with other weights: the work of the driver is in proportion to them."""
        return Cost(self.per_token, self.driver * weights / self.weights, weights)


@dataclass(frozen=True)
class Cluster:
    """Workers with links of so many bytes a second, and how unequal their speeds are (of the logarithm)."""

    workers: int
    bandwidth: float
    spread: float = 0.0
    add: float = 1e-9
    """Seconds that adding a byte of an array takes."""


def gradient_seconds(cost: Cost, cluster: Cluster, tokens: float, rounds: int = 20) -> float:
    """Return the mean time of a gradient, by simulating each transfer and each worker.

    The driver sends to the first worker, and who has the weights sends to one who has not. Sums come back in the
    tree of the pool: neighbours are added at the left one.
    """
    transfer, rng = cost.weights / cluster.bandwidth, np.random.default_rng(0)
    arrival = [transfer * (1 + np.ceil(np.log2(k + 1))) for k in range(cluster.workers)]
    times = []
    for _ in range(rounds):
        noise = np.exp(cluster.spread * rng.standard_normal(cluster.workers))
        own = cost.per_token * tokens / cluster.workers * noise
        done = [came + work for came, work in zip(arrival, own.tolist(), strict=True)]
        while len(done) > 1:
            pairs = [
                max(done[k], done[k + 1] + transfer) + cluster.add * cost.weights
                for k in range(0, len(done) - 1, 2)
            ]
            done = pairs + done[2 * len(pairs) :]
        times.append(done[0] + transfer + cost.driver)
    return float(np.mean(times))


LOCAL = 1e12
"""Bytes a second between threads of a process, which share their arrays."""

NETWORK = 1.25e9
"""Bytes a second of a network of 10 Gbit/s."""

BILLION, NODES, SPREAD = 1e9, (1, 16, 64, 256), 0.1
WEIGHTS = (4e8, 4e9)
"""Bytes of 100 million and of a billion weights."""


def simulated(rows: Sequence[Row]) -> str:
    """Compare the model with the runs in shards, and say what a billion tokens need."""
    found = {row["costs of shards"]: row for row in rows if "gradients" in row}
    if "1" not in found:
        return "no costs were measured"
    one = Cost.of(found["1"])
    lines = []
    for count, row in found.items():
        spent = (row["workers"] + row["driver"]) / row["gradients"]
        model = one.per_token * row["tokens"] + one.driver + one.weights * (int(count) - 1) * Cluster.add
        lines.append([count, f"{spent:.3f} s", f"{model:.3f} s", f"{spent / model:.2f}"])
    checked = markdown(("shards", "CPU of a gradient", "model", "times"), lines)
    lines = []
    for weights in WEIGHTS:
        for nodes in NODES:
            cost = one.grown(int(weights))
            seconds = gradient_seconds(cost, Cluster(nodes, NETWORK, SPREAD), BILLION)
            lines.append([f"{weights / 4e6:,.0f} million", f"{nodes}", f"{seconds:.1f} s"])
    needs = markdown(("weights", "nodes of one processor", "a gradient of a billion tokens"), lines)
    return f"{checked}\n\n{needs}"
