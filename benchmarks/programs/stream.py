"""`mtlstruct predict` on one thread with a stop-watch: MODEL DATA. CPU seconds of reading, predicting, writing."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path

from mtlstruct._system import threads
from mtlstruct.cli.common import reading
from mtlstruct.model.model import Model
from mtlstruct.tasks import task_of


def main(model: str, data: str) -> dict[str, float]:
    """Batch by batch, as the command does it, but written to memory."""
    threads.set_threads(1)
    loaded, path, sink = Model.load(model), Path(data), io.StringIO()
    seconds = {"reading": 0.0, "predicting": 0.0, "writing": 0.0}
    tokens, clock = 0, time.process_time
    task = task_of(loaded.task)
    with reading(path, "utf-8") as source:
        found = task.stream(loaded, source)
        began = clock()
        for batch in found:
            read = clock()
            outputs = loaded.lattice(batch, None).best()
            predicted = clock()
            sink.write(task.labelled(batch, outputs, loaded.labels))
            written = clock()
            if tokens:  # the first batch loads the kernels
                seconds["reading"] += read - began
                seconds["predicting"] += predicted - read
                seconds["writing"] += written - predicted
            tokens += batch.tokens
            began = clock()
    return {**seconds, "tokens": tokens}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:3])))
