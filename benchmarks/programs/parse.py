"""Parsing with a model: CPU seconds of the best of several rounds over a file in memory, encoding included.

Arguments: model, CoNLL file, rounds. Prints tokens, the seconds for heads, and those for labels if the model has any.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from mtlstruct._system import threads
from mtlstruct.formats import conll
from mtlstruct.model.model import Model


def main(path: str, data: str, rounds: int) -> None:
    """Measures and prints."""
    threads.set_threads(1)
    model, corpus = Model.load(path), conll.read(data)
    heads = model.predict(corpus)
    found: dict[str, Any] = {"tokens": corpus.tokens, "heads": _best(lambda: model.predict(corpus), rounds)}
    if model.relations is not None:
        model.relate(corpus, heads)
        found["labels"] = _best(lambda: model.relate(corpus, heads), rounds)
    print(json.dumps(found))


def _best(work: Callable[[], object], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
