"""Masters, timed: TEMPLATES TRAIN REPEAT CUTS...

Algorithm 1 runs with mtl until there are as many cuts as wanted, none dropped; then each master solves over the first
so many, from nothing, to a certified 1e-6. The least seconds of REPEAT runs.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mtlstruct._system import threads
from mtlstruct.features.index import encode_training
from mtlstruct.formats import columns
from mtlstruct.objective.losses import Hamming
from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Mixed, PBlock
from mtlstruct.solvers.cutting_plane import master_for, smooth
from mtlstruct.solvers.cutting_plane.solver import _Run
from mtlstruct.structures import SequenceStructure
from mtlstruct.templates import TemplateSet

GOAL = 1e-6
NORMS = {
    "mtl": BlockL1Squared(),
    "svm": L2(),
    "pmtl p = 4/3": PBlock(4 / 3),
    "pmtl p = 100": PBlock(100.0),
    "mixed p = 2": Mixed(2.0),
    "group-lasso": GroupLasso(),
}


def bundle(templates: str, data: str, cuts: int) -> Any:
    """The cuts, and C."""
    corpus = columns.read(data)
    structure = SequenceStructure(len(corpus.labels))
    encoded, _ = encode_training(corpus, TemplateSet.read(templates), structure.sites(corpus.ptr))
    oracle = Oracle(structure, encoded, corpus.outputs, Hamming().table(corpus.labels))
    run = _Run(oracle, BlockL1Squared(), 1.0)
    while len(run.bundle) < cuts:
        run.add_cut()
        run.solve(patience=cuts)
        run.move(0.0)
    return run.bundle.gram, run.bundle.q, run.C


def seconds(solve: Any, repeat: int) -> tuple[float, Any]:
    """The least of several runs, and the answer."""
    least, answer = np.inf, None
    for _ in range(repeat):
        began = time.process_time()
        answer = solve()
        least = min(least, time.process_time() - began)
    return least, answer


def main(templates: str, data: str, repeat: str, *cuts: str) -> None:
    """Prints the rows."""
    threads.set_threads(1)
    rows = []
    with threadpool_limits(1, "blas"):
        gram, q, C = bundle(templates, data, max(map(int, cuts)))
        for s in map(int, cuts):
            some = np.ascontiguousarray(gram[:, :s, :s])
            for name, norm in NORMS.items():
                solve = master_for(norm)
                least, dual = seconds(lambda: solve(some, q[:s], C, norm, tol=GOAL), int(repeat))  # noqa: B023
                rows.append({"cuts": s, "norm": name, "seconds": least, "gap": dual.gap})
            program = smooth.Program(some, q[:s], C, PBlock(4 / 3))
            view = program.view(np.zeros(s))
            begin = program.measured(view, program.mu(view))
            least, dual = seconds(lambda: smooth.descend(program, begin, GOAL), int(repeat))  # noqa: B023
            rows.append(
                {"cuts": s, "norm": "pmtl p = 4/3, by gradient alone", "seconds": least, "gap": dual.gap}
            )
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
