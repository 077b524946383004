"""CPU time of batch training in local shards, on one thread: that of the workers and that of the driver.

Arguments: TEMPLATES DATA SHARDS PASSES. Prints an object with the seconds of each, tokens, weights, and bytes sent.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from mtlstruct._system import threads
from mtlstruct.distributed.pool import Pool
from mtlstruct.distributed.train import split
from mtlstruct.solvers.likelihood.lbfgs import LBFGSRun
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.training.methods import regularizer
from mtlstruct.training.options import Options
from mtlstruct.training.train import encode, oracle_of, solver_for


class TimedPool(Pool):
    """Local pool that adds up the CPU time of its workers, and counts gradients."""

    seconds, gradients = 0.0, 0

    def call(self, method: str, *arguments: Any, each: Any = None) -> list[Any]:
        """Call all workers in turn."""
        began = time.process_time()
        try:
            return super().call(method, *arguments, each=each)
        finally:
            self.seconds += time.process_time() - began
            self.gradients += method == "count"


def main(templates: str, data: str, shards: str, passes: str) -> None:
    """Make the passes, starting the clock after the first, in which workers merge columns."""
    threads.set_threads(1)
    options = Options(loss="log", c=20.0, solver="lbfgs", shards=int(shards))
    corpus = task_of(options.task).read(Path(data))
    made = encode(corpus, TemplateSet.read(Path(templates)), options)
    local = split(oracle_of(corpus, made.structure, made.encoded, options), options.shards)
    pool = TimedPool(local.pool.workers)
    pool._keys, pool._stored = local.pool._keys, local.pool._stored  # what is stored already
    local.pool = pool
    run = solver_for(made.structure, options).start(local, regularizer(options), options.c_value, None)
    assert isinstance(run, LBFGSRun)
    run.advance()
    pool.seconds, pool.gradients, began = 0.0, 0, time.process_time()
    for _ in range(int(passes)):
        run.advance()
    spent = time.process_time() - began
    sent = sum(table.nbytes for table in run.problem.weights)
    found = {"tokens": corpus.tokens, "weights": len(run.x), "bytes": sent, "gradients": pool.gradients}
    print(json.dumps(found | {"workers": pool.seconds, "driver": spent - pool.seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
