"""`mtlstruct predict` on one thread with a stop-watch: MODEL DATA. CPU seconds of reading, predicting, writing."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path

from mtlstruct._system import threads
from mtlstruct.cli.commands.predict import batches, reading
from mtlstruct.cli.output import _plain
from mtlstruct.model.model import Model


def main(model: str, data: str) -> dict[str, float]:
    """Batch by batch, as the command does it, but written to memory."""
    threads.set_threads(1)
    loaded, path, sink = Model.load(model), Path(data), io.StringIO()
    seconds = {"reading": 0.0, "predicting": 0.0, "writing": 0.0}
    tokens, clock = 0, time.process_time
    with reading(path) as source:
        found = batches(loaded, source, False, path, "utf-8")
        began = clock()
        for batch in found:
            read = clock()
            outputs = loaded.lattice(batch, None).best()
            predicted = clock()
            sink.write("".join(_plain(loaded, batch, outputs)))
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
