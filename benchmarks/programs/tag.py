"""Prediction with a loaded model on one thread: MODEL TEST REPEAT. Prints CPU seconds of encoding and of the rest."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from mtlstruct import load
from mtlstruct._system import threads
from mtlstruct.features.index import FeatureIndex
from mtlstruct.formats import columns

_encode = FeatureIndex.encode
_spent = 0.0


def _timed(*arguments: Any) -> Any:
    global _spent
    start = time.process_time()
    encoded = _encode(*arguments)
    _spent += time.process_time() - start
    return encoded


def main(model: str, data: str, repeat: int) -> dict[str, float]:
    """The quickest of some rounds; one more before them loads the kernels."""
    global _spent
    threads.set_threads(1)
    loaded, corpus, rounds = load(model), columns.read(data), []
    for _ in range(repeat + 1):
        _spent = 0.0
        start = time.process_time()
        loaded.predict(corpus)
        rounds.append((time.process_time() - start, _spent))
    whole, encoding = min(rounds[1:])
    return {"tokens": corpus.tokens, "making": encoding, "tagging": whole - encoding}


if __name__ == "__main__":
    FeatureIndex.encode = _timed  # type: ignore[method-assign, assignment]
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
