"""Segmenters of Chinese on one core: train PEER TRAIN FOLDER, or tag PEER FOLDER DATA ROUNDS.

PEER is mtlstruct (FOLDER is then its model), python-crfsuite, crfs or spacy-pkuseg. All read a file of one sentence
per line and write words to memory; prints the characters and the CPU seconds of the fastest round, models loaded.
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
from mtlstruct.formats import segmented
from mtlstruct.templates import preset

Labels = Callable[[list[tuple[str, ...]]], list[str]]


def train(peer: str, data: str, folder: str) -> None:
    """Train a model of a peer; the speed of tagging hardly depends on how well it is trained."""
    if peer == "spacy-pkuseg":
        import spacy_pkuseg

        spacy_pkuseg.train(data, data, folder, train_iter=1)
        return
    import pycrfsuite

    trainer, attributes = pycrfsuite.Trainer("ap", verbose=False), Attributes(preset("cws-tp2"))
    for words in segmented.words(data):
        if words:
            trainer.append(attributes.of([list("".join(words))]), segmented.labels_of(map(len, words)))
    trainer.set_params({"max_iterations": 5})
    trainer.train(str(Path(folder) / "model.crfsuite"))


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
            return "".join(task.format(loaded, batch, loaded.lattice(batch), output) for batch in batches)

    return segment


def _by_line(cut: Callable[[str], Iterable[str]]) -> Callable[[str], object]:
    def segment(path: str) -> str:
        sink = io.StringIO()
        for line in Path(path).read_text("utf-8").split("\n"):
            sink.write("  ".join(cut(line)) + "\n" if line else "\n")
        return sink.getvalue()

    return segment


def _crfsuite(peer: str, folder: str) -> Callable[[str], object]:
    attributes, model = Attributes(preset("cws-tp2")), str(Path(folder) / "model.crfsuite")
    tag: Labels
    if peer == "crfs":
        import crfs

        opened = crfs.Model.open(model)

        def tag(items: list[tuple[str, ...]]) -> list[str]:
            return opened.tag([[crfs.Attribute(name) for name in item] for item in items])
    else:
        import pycrfsuite

        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        tag = tagger.tag
    return _by_line(lambda line: segmented.cut(line, tag(attributes.of([list(line)]))))


def tag(peer: str, folder: str, data: str, rounds: str) -> dict[str, Any]:
    """Return the number of characters and the CPU seconds of the fastest round."""
    if peer == "mtlstruct":
        segment = _ours(folder)
    elif peer == "spacy-pkuseg":
        import spacy_pkuseg

        segment = _by_line(spacy_pkuseg.pkuseg(folder).cut)
    else:
        segment = _crfsuite(peer, folder)
    seconds = []
    for _ in range(int(rounds)):
        start = time.process_time()
        segment(data)
        seconds.append(time.process_time() - start)
    characters = sum(map(len, Path(data).read_text("utf-8").split("\n")))
    return {"peer": peer, "characters": characters, "seconds": min(seconds)}


if __name__ == "__main__":
    print(json.dumps((train if sys.argv[1] == "train" else tag)(*sys.argv[2:])))
