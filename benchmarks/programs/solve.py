"""Learning with a solver, pass by pass: TEMPLATES TRAIN SOLVER C gap|epsilon GOAL LIMIT [--line-search].

Prints the trace: CPU seconds since learning began, and the bounds. Past LIMIT seconds it is stopped.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from mtlstruct._system import threads
from mtlstruct.formats import columns
from mtlstruct.solvers import Record
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import DatasetSummary, Options, train


class Trace:
    """Writes down each pass with its time; asks for a stop when the time is up."""

    def __init__(self, budget: float, limit: float) -> None:
        self.budget, self.limit, self.began = budget, limit, 0.0
        self.passes: list[dict[str, Any]] = []

    def start(self, _: DatasetSummary) -> None:
        """The data are encoded; learning begins."""
        self.began = time.process_time()

    def watch(self, record: Record) -> bool:
        """A pass has ended. The paper's epsilon is (P − D) / C."""
        seconds = time.process_time() - self.began
        epsilon = (record.objective - record.dual) / self.budget
        self.passes.append(
            {
                "passes": record.passes,
                "seconds": seconds,
                "gap": record.gap,
                "epsilon": epsilon,
                "certified": record.certified,
            }
        )
        return seconds > self.limit


def main(
    templates: str, data: str, solver: str, c: str, rule: str, goal: str, limit: str, *more: str
) -> None:
    """Learns on one thread."""
    threads.set_threads(1)
    corpus = columns.read(data)
    trace = Trace(float(c) * len(corpus), float(limit))
    options = Options(
        loss="hinge",
        c=float(c),
        solver=solver,
        line_search="--line-search" in more,
        gap=float(goal) if rule == "gap" else 0.01,
        epsilon=float(goal) if rule == "epsilon" else None,
        max_iter=100_000,
    )
    train(corpus, TemplateSet.read(templates), options, trace.watch, on_encoded=trace.start)
    print(json.dumps({"trace": trace.passes}))


if __name__ == "__main__":
    main(*sys.argv[1:])
