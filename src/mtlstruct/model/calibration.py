"""Calibration of probabilities: temperature scaling and the expected calibration error.

Scores of a margin model are not log probabilities. Temperature scaling, p(y) ∝ exp(score(y) / T),
picks the T of least negative log-likelihood on held-out data; it is convex in 1/T, so T is unique.
Predictions do not change.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.model.lattice import MIN_PROBABILITY, Floats, Lattice, Outputs
from mtlstruct.model.model import Model
from mtlstruct.structures.base import IMPOSSIBLE

BINS = 15
"""The number of bins of the confidence."""

MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-3, 1e3
"""The range of temperatures."""

LOG_TEMPERATURE_PENALTY = 1e-9
"""The weight of ln² T beside the mean loss; without it, data without errors give T = 0."""


@dataclass(frozen=True)
class Reliability:
    """Tokens binned by the probability of their label: count, mean probability, accuracy."""

    counts: NDArray[np.int64]
    confidence: Floats
    accuracy: Floats

    @property
    def error(self) -> float:
        """The expected calibration error: the mean of |confidence − accuracy| over tokens."""
        gaps = np.abs(self.confidence - self.accuracy)
        return float(np.dot(self.counts, gaps) / max(1, self.counts.sum()))


def reliability(confidence: Floats, right: NDArray[np.bool_], bins: int = BINS) -> Reliability:
    """Bin predictions by their confidence, from 0 to 1. Both [T]"""
    at = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    counts = np.bincount(at, minlength=bins)
    some = np.maximum(counts, 1)
    return Reliability(counts, np.bincount(at, confidence, bins) / some, np.bincount(at, right, bins) / some)


@dataclass(frozen=True)
class CalibrationReport:
    """Measures of probabilities on labelled data.

    calibrated  whether the model has a temperature; otherwise 1 was used
    nll         mean of −ln p(gold labels of a sentence), over sentences with known labels only
    token_nll   mean of −ln p(gold label of a token), over tokens with a known label
    """

    temperature: float
    nll: float
    token_nll: float
    reliability: Reliability
    calibrated: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as `evaluate --json` prints them, the calibration error in percent."""
        ece = 100 * self.reliability.error
        figures = {"ece": ece, "nll": self.nll, "token_nll": self.token_nll, "temperature": self.temperature}
        return figures | {"calibrated": self.calibrated}

    def line(self) -> str:
        """Return the figures in one line of text."""
        state = "" if self.calibrated else "not calibrated, "
        return (
            f"probabilities: {state}calibration error {100 * self.reliability.error:.2f}%, log loss "
            f"{self.nll:.4g} per sentence, {self.token_nll:.4g} per token (temperature {self.temperature:.4g})"
        )


class GoldProbabilities(NamedTuple):
    """Probabilities of some sentences of labelled data.

    losses      −ln p(gold labels), of sentences with known labels only
    token       ln p(gold label), of tokens with a known label
    confidence  the probability of the best label of each token
    right       whether it is the gold label
    """

    losses: Floats
    token: Floats
    confidence: Floats
    right: NDArray[np.bool_]


def gold_probabilities(lattice: Lattice, gold: Outputs, temperature: float) -> GoldProbabilities:
    """Return the probabilities of a lattice that a calibration report measures."""
    best, marginals = lattice.best(), lattice.marginals(temperature)
    token = np.log(np.maximum(marginals.chosen(np.maximum(gold, 0))[gold >= 0], MIN_PROBABILITY))
    scores = lattice.evaluate(np.maximum(gold, 0))
    scores[scores < IMPOSSIBLE] = -np.inf
    losses = np.maximum(marginals.log_partition - scores / temperature, 0.0)
    return GoldProbabilities(losses[_known(lattice, gold)], token, marginals.chosen(best), best == gold)


def calibration_report(
    lattice: Lattice, gold: Outputs, temperature: float, *, calibrated: bool = True
) -> CalibrationReport:
    """Measure the probabilities of a lattice against gold, int32[T], negative if unknown."""
    return report_of([gold_probabilities(lattice, gold, temperature)], temperature, calibrated=calibrated)


def report_of(
    found: Sequence[GoldProbabilities], temperature: float, *, calibrated: bool = True
) -> CalibrationReport:
    """Measure the probabilities of labelled data in parts."""
    losses, token, confidence, right = map(np.concatenate, zip(*found, strict=True))
    bins = reliability(confidence, right)
    return CalibrationReport(temperature, _mean(losses), _mean(-token), bins, calibrated)


def fit_temperature(lattice: Lattice, gold: Outputs) -> float:
    """Return the temperature at which held-out labels are most probable."""
    from scipy.optimize import minimize_scalar

    sentences = _known(lattice, gold)
    if not sentences.any():
        raise IncompatibleError("no sentence of the held-out data has only labels that the model knows")
    scores = lattice.evaluate(np.maximum(gold, 0))[sentences]

    def loss(log_temperature: float) -> float:
        temperature = math.exp(log_temperature)
        marginals = lattice.marginals(temperature)
        losses = marginals.log_partition[sentences] - scores / temperature
        return float(losses.mean()) + LOG_TEMPERATURE_PENALTY * log_temperature**2

    bounds = (math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    return math.exp(found.x)


def with_temperature(model: Model, corpus: Corpus) -> Model:
    """Return the model with a temperature fitted to labelled data, unless it has one."""
    lattice = model.lattice(corpus)
    if model.calibrated or not lattice.has_marginals:
        return model
    temperature = fit_temperature(lattice, model.gold(corpus))
    return replace(model, facts=model.facts | {"temperature": temperature})


def _known(lattice: Lattice, gold: Outputs) -> NDArray[np.bool_]:
    """Return which sentences have only known labels. bool[S]"""
    if not len(gold):
        return np.zeros(0, bool)
    return np.minimum.reduceat(gold, lattice.ptr[:-1]) >= 0


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan
