"""python-crfsuite: TEMPLATES TRAIN MODEL [ITERATIONS] [--algorithm ap], by default its averaged perceptron.

Prints the CPU seconds of making the attribute strings (with the reading of the file), which are not counted
against it, and of all the rest: start-up, appending the items, learning, writing the model.
"""

from __future__ import annotations

import argparse
import json
import time

import pycrfsuite

from benchmarks.programs.attributes import Attributes, sentences
from mtlstruct.formats import columns
from mtlstruct.templates import TemplateSet


def main(
    templates: str, data: str, model: str, iterations: int | None, algorithm: str = "ap"
) -> dict[str, float]:
    """Trains; each sentence's strings are dropped once appended, so that memory is the peer's own."""
    began = time.process_time()
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    if iterations is not None:
        trainer.set_params({"max_iterations": iterations})
    corpus = columns.read(data)
    assert corpus.outputs is not None
    attributes = Attributes(TemplateSet.read(templates))
    labels = [corpus.labels[y] for y in corpus.outputs.tolist()]
    making = time.process_time() - began
    appending = 0.0
    for number, (cells, span) in enumerate(zip(sentences(corpus), corpus.sentences(), strict=True)):
        start = time.process_time()
        if number == 0:
            attributes.check(cells)
        items = attributes.of(cells)
        made = time.process_time()
        trainer.append(items, labels[span])
        making += made - start
        appending += time.process_time() - made
    start = time.process_time()
    trainer.train(model)
    learning = time.process_time() - start
    used = int(trainer.get_params()["max_iterations"])
    return {"making": making, "appending": appending, "learning": learning, "iterations": used}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("templates", "data", "model"):
        parser.add_argument(name)
    parser.add_argument("iterations", nargs="?", type=int)
    parser.add_argument("--algorithm", default="ap")
    print(json.dumps(main(**vars(parser.parse_args()))))
