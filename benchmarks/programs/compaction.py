"""What compaction gains: TEMPLATES TRAIN TEST ROUNDS. Tokens a second of one set of weights, compacted and not.

The full model keeps all templates and all attributes of the training text, those without a weight as zeros.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.features.pruning import prune
from mtlstruct.formats import columns
from mtlstruct.model.model import Model
from mtlstruct.solvers.coordinate_ascent.duals import with_shared_singletons
from mtlstruct.templates import TemplateSet
from mtlstruct.training.build_model import blocks_of, stacked
from mtlstruct.training.options import Options
from mtlstruct.training.train import encode, oracle_of, train


def both(corpus: Corpus, templates: TemplateSet, options: Options) -> tuple[Model, Model]:
    """The compacted model of a training, and the full one of the same weights."""
    material = encode(corpus, templates, options)
    trained = train(corpus, templates, options, lambda record: False, dataset=material)
    index, structure = material.index, material.structure
    encoded = with_shared_singletons(
        oracle_of(corpus, structure, material.encoded, options), overwrite=False
    ).encoded
    blocks = blocks_of(encoded, trained.fit, structure)
    full, live = prune(index, [np.ones(len(block.live), bool) for block in blocks])
    kept = {j: (blocks[j].scale * blocks[j].table[blocks[j].which]).astype(np.float32) for j in live}
    weights = stacked(kept, index, encoded, structure)
    return trained.model, replace(trained.model, live=tuple(live), index=full, weights=weights)


def tokens_per_second(model: Model, corpus: Corpus, rounds: int) -> float:
    """Prediction from cells in memory, the quickest of some rounds; one more before them loads the kernels."""
    seconds = []
    for _ in range(rounds + 1):
        began = time.process_time()
        model.predict(corpus)
        seconds.append(time.process_time() - began)
    return corpus.tokens / min(seconds[1:])


def main(templates: str, data: str, test: str, rounds: int) -> dict[str, Any]:
    """Both models on one text."""
    threads.set_threads(1)
    small, full = both(columns.read(data), TemplateSet.read(templates), Options(loss="hinge").checked())
    held = columns.read(test)
    if not np.array_equal(small.predict(held), full.predict(held)):
        raise AssertionError("the compacted model predicts something else")
    speed = {
        name: tokens_per_second(model, held, rounds) for name, model in (("compacted", small), ("full", full))
    }
    return {
        **speed,
        "factor": speed["compacted"] / speed["full"],
        "live": len(small.live),
        "templates": len(full.live),
    }


if __name__ == "__main__":
    templates, data, test, rounds = sys.argv[1:]
    print(json.dumps(main(templates, data, test, int(rounds))))
