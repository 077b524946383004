"""How far probabilities can be trusted, and the temperature that makes them trustworthy.

Scores of a likelihood model are logarithms of probabilities; those of a margin model are not, and exp(score) is far
too flat. One number mends that (temperature scaling): p(y) ∝ exp(score(y) / T), where T makes held-out data as
probable as it can. Their negative log-likelihood is convex in 1/T, so the answer is unique, and no label changes.
Refused: held-out data without a sentence whose labels the model knows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.model.lattice import TINY, Floats, Lattice, Outputs
from mtlstruct.model.model import Model
from mtlstruct.structures.base import IMPOSSIBLE

BINS = 15
"""How many equal parts of 0..1 the confidence is sorted into."""

COLDEST, HOTTEST = 1e-3, 1e3
"""Where a temperature is looked for."""

PULL = 1e-9
"""How much a sentence's worth of ln² T counts: data that a model labels without a fault want T = 0, and this is what
keeps them from it. To other data it is nothing."""


@dataclass(frozen=True)
class Reliability:
    """Tokens by the probability of their label: how many, their mean probability, and how many of them are right.

    counts int64[bins], confidence and accuracy float64[bins] from 0 to 1, 0 in empty bins
    """

    counts: NDArray[np.int64]
    confidence: Floats
    accuracy: Floats

    @property
    def error(self) -> float:
        """The expected calibration error: the mean of |confidence − accuracy| over tokens, from 0 to 1."""
        gaps = np.abs(self.confidence - self.accuracy)
        return float(np.dot(self.counts, gaps) / max(1, self.counts.sum()))


def reliability(confidence: Floats, right: NDArray[np.bool_], bins: int = BINS) -> Reliability:
    """Sorts predictions into bins by their confidence, from 0 to 1. Both [T]"""
    at = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    counts = np.bincount(at, minlength=bins)
    some = np.maximum(counts, 1)
    return Reliability(counts, np.bincount(at, confidence, bins) / some, np.bincount(at, right, bins) / some)


@dataclass(frozen=True)
class Trust:
    """What probabilities are worth on labelled data.

    calibrated  whether the temperature is that of the model; else the model has none, and 1 was taken
    nll         mean of −ln p(right labels of a sentence), over the sentences whose labels the model knows
    token_nll   mean of −ln p(right label of a token), over the tokens whose label it knows
    """

    temperature: float
    nll: float
    token_nll: float
    reliability: Reliability
    calibrated: bool = True

    def as_dict(self) -> dict[str, Any]:
        """The figures under the names that `evaluate --json` prints; the calibration error in percent."""
        ece = 100 * self.reliability.error
        figures = {"ece": ece, "nll": self.nll, "token_nll": self.token_nll, "temperature": self.temperature}
        return figures | {"calibrated": self.calibrated}

    def line(self) -> str:
        """The same for people."""
        state = "" if self.calibrated else "not calibrated, "
        return (
            f"probabilities: {state}calibration error {100 * self.reliability.error:.2f}%, "
            f"-ln p {self.nll:.4g} a sentence, {self.token_nll:.4g} a token (temperature {self.temperature:.4g})"
        )


def trust(lattice: Lattice, gold: Outputs, temperature: float, *, calibrated: bool = True) -> Trust:
    """Measure the probabilities of a lattice; for `calibrated` see Trust.

    gold   int32[T], negative where the model does not know the label
    """
    best, marginals = lattice.best(), lattice.marginals(temperature)
    token = np.log(np.maximum(marginals.chosen(np.maximum(gold, 0))[gold >= 0], TINY))
    sentences = _known(lattice, gold)
    scores = lattice.evaluate(np.maximum(gold, 0))
    scores[scores < IMPOSSIBLE] = -np.inf
    losses = np.maximum(marginals.log_partition - scores / temperature, 0.0)
    return Trust(
        temperature,
        _mean(losses[sentences]),
        _mean(-token),
        reliability(marginals.chosen(best), best == gold),
        calibrated,
    )


def fit_temperature(lattice: Lattice, gold: Outputs) -> float:
    """The temperature at which held-out labels are most probable."""
    from scipy.optimize import minimize_scalar

    sentences = _known(lattice, gold)
    if not sentences.any():
        raise IncompatibleError("no sentence of the held-out data has only labels that the model knows")
    scores = lattice.evaluate(np.maximum(gold, 0))[sentences]

    def loss(log_temperature: float) -> float:
        temperature = math.exp(log_temperature)
        marginals = lattice.marginals(temperature)
        losses = marginals.log_partition[sentences] - scores / temperature
        return float(losses.mean()) + PULL * log_temperature**2

    bounds = (math.log(COLDEST), math.log(HOTTEST))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    return math.exp(found.x)


def with_temperature(model: Model, corpus: Corpus) -> Model:
    """Return a model with the temperature of labelled data, or as it is if it has one or has no probabilities."""
    lattice = model.lattice(corpus)
    if model.calibrated or not lattice.probable:
        return model
    temperature = fit_temperature(lattice, model.gold(corpus))
    return replace(model, facts=model.facts | {"temperature": temperature})


def _known(lattice: Lattice, gold: Outputs) -> NDArray[np.bool_]:
    """Which sentences have only labels that the model knows. bool[S]"""
    if not len(gold):
        return np.zeros(0, bool)
    return np.minimum.reduceat(gold, lattice.ptr[:-1]) >= 0


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan
