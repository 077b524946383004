"""What held-out data lose if the contributions of a template are left out of a model's scores.

The other weights stay as they are, so that a template whose features others could replace after a
new training looks more important than it is. The ranking is cheap: one inference per template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.model.calibration import with_temperature
from mtlstruct.model.lattice import Lattice, Outputs
from mtlstruct.model.model import Model

TOKENS_PER_CHUNK = 5_000
"""Number of tokens whose features are in memory at a time."""

Floats = NDArray[np.float64]
Score = Callable[[Corpus, Outputs], float]
"""The score of outputs int32[T] for labelled data; larger is better."""


@dataclass(frozen=True)
class RemovalCosts:
    """Loss of held-out data by the removal of each template; 0 for templates without weights.

    score   score of the whole model
    points  float64[m]: points of the score that are lost
    loss    float64[m]: rise of the log loss per sentence, at the temperature of the model;
            where the structure has no probabilities, `points`
    """

    score: float
    points: Floats
    loss: Floats


def removal_costs(model: Model, corpus: Corpus, score: Score) -> RemovalCosts:
    """Return what labelled data lose without each template's contributions; no new training."""
    model = with_temperature(model, corpus)
    outputs = np.zeros((1 + len(model.live), corpus.tokens), np.int32)
    losses, seen = np.zeros(1 + len(model.live)), model.observed(corpus)
    for sentences in _chunks(corpus):
        part = corpus.take(sentences)
        tokens = slice(corpus.ptr[sentences[0]], corpus.ptr[sentences[-1] + 1])
        encoded = model.index.encode(seen.take(sentences), model.structure.sites(part.ptr))
        gold = model.gold(part)
        for number in range(len(outputs)):
            scale = (np.arange(1, len(outputs)) != number).astype(np.float64)  # 0 is the whole model
            parts = encoded.score(model.weights, scale)
            lattice = Lattice(model.structure, parts, encoded.rows, part.ptr, model.conversion)
            lattice = lattice.restricted(None)
            outputs[number, tokens] = lattice.best()
            losses[number] += _log_loss(lattice, gold, model.temperature)
    scores = np.array([score(corpus, found) for found in outputs])
    points, loss = np.zeros((2, len(model.templates)))
    points[list(model.live)] = scores[0] - scores[1:]
    loss[list(model.live)] = (losses[1:] - losses[0]) / len(corpus)
    known = model.lattice(corpus.take(np.arange(1))).has_marginals
    return RemovalCosts(float(scores[0]), points, loss if known else points)


def _chunks(corpus: Corpus) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of consecutive sentences of about TOKENS_PER_CHUNK tokens."""
    chunk = corpus.ptr[:-1] // TOKENS_PER_CHUNK
    yield from np.split(np.arange(len(corpus)), np.flatnonzero(np.diff(chunk)) + 1)


def _log_loss(lattice: Lattice, gold: Outputs, temperature: float) -> float:
    """Return the sum of −ln p(gold) over sentences whose labels are all known."""
    if not lattice.has_marginals:
        return 0.0
    known = np.minimum.reduceat(gold, lattice.ptr[:-1]) >= 0
    values = lattice.evaluate(np.maximum(gold, 0)) / temperature
    return float((lattice.marginals(temperature).log_partition - values)[known].sum())
