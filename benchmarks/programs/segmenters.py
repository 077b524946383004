"""Segmenters of Chinese on one core: PEER MODEL DATA ROUNDS.

PEER is mtlstruct, crfs, python-crfsuite or a segmenter of python_peers.py. All read a file of one sentence per line
and write words to memory. Prints the characters and the CPU seconds of the fastest round, models loaded.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.programs.attributes import Attributes
from benchmarks.programs.python_peers import PEERS
from mtlstruct.formats import segmented
from mtlstruct.templates import preset


def _ours(model: str) -> Callable[[str], object]:
    from mtlstruct._system import threads
    from mtlstruct.model.model import Model
    from mtlstruct.tasks import OutputOptions, Source, task_of

    threads.set_threads(1)
    loaded, output = Model.load(model), OutputOptions()
    task = task_of(loaded.task)

    def segment(path: str) -> str:
        with open(path, "rb") as lines:
            batches = task.stream(loaded, Source(lines, path), output)
            return "".join(task.format(loaded, batch, None, output) for batch in batches)

    return segment


def _by_line(cut: Callable[[str], Iterable[str]]) -> Callable[[str], object]:
    def segment(path: str) -> str:
        sink = io.StringIO()
        for line in Path(path).read_text("utf-8").split("\n"):
            sink.write("  ".join(cut(line)) + "\n" if line else "\n")
        return sink.getvalue()

    return segment


def _crfsuite(peer: str, model: str) -> Callable[[str], object]:
    attributes = Attributes(preset("cws-tp2"))
    labels: Callable[[list[tuple[str, ...]]], list[str]]
    if peer == "crfs":
        import crfs

        opened = crfs.Model.open(model)

        def labels(items: list[tuple[str, ...]]) -> list[str]:
            return opened.tag([[crfs.Attribute(name) for name in item] for item in items])
    else:
        import pycrfsuite

        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        labels = tagger.tag
    return _by_line(lambda line: segmented.cut(line, labels(attributes.of([list(line)]))))


def tag(peer: str, model: str, data: str, rounds: str) -> dict[str, Any]:
    """Return the number of characters and the CPU seconds of the fastest round."""
    if peer == "mtlstruct":
        segment = _ours(model)
    elif peer in ("crfs", "python-crfsuite"):
        segment = _crfsuite(peer, model)
    else:
        segment = _by_line(PEERS[peer].cutter(model))
    seconds = []
    for _ in range(int(rounds)):
        start = time.process_time()
        segment(data)
        seconds.append(time.process_time() - start)
    characters = sum(map(len, Path(data).read_text("utf-8").split("\n")))
    return {"peer": peer, "characters": characters, "seconds": min(seconds)}


if __name__ == "__main__":
    print(json.dumps(tag(*sys.argv[1:])))
