"""Calibration: the temperature is the best one, a planted one is found again, bins are counted rightly."""

import math

import numpy as np
import pytest
from support.sequences import problem

from mtlstruct.errors import IncompatibleError
from mtlstruct.model.calibration import MIN_TEMPERATURE, calibration_report, fit_temperature, reliability
from mtlstruct.model.lattice import Lattice
from mtlstruct.structures import SequenceStructure


def lattice_of(seed, lengths, L=3):
    ptr, parts, rows, gold = problem(seed, L, lengths, 2, False)
    return Lattice(SequenceStructure(L), parts, rows, ptr), gold


def drawn(lattice, temperature, seed):
    """Labels of sentences of length one, drawn from what the lattice says at a temperature."""
    rng = np.random.default_rng(seed)
    rising = np.cumsum(lattice.marginals(temperature).node, axis=1)
    return (rng.random(len(rising))[:, None] > rising).sum(axis=1).astype(np.int32)


def negative_log_likelihood(lattice, gold, temperature):
    marginals = lattice.marginals(temperature)
    return float((marginals.log_partition - lattice.evaluate(gold) / temperature).sum())


def test_no_other_temperature_makes_the_labels_more_probable():
    lattice, noise = lattice_of(3, [4, 2, 5, 1, 3] * 4)
    gold = np.where(np.random.default_rng(0).random(len(noise)) < 0.7, lattice.best(), noise)
    best = fit_temperature(lattice, gold)
    assert 0.1 < best < 10
    at_best = negative_log_likelihood(lattice, gold, best)
    for factor in (0.1, 0.9, 0.999, 1.001, 1.1, 10):
        assert negative_log_likelihood(lattice, gold, best * factor) >= at_best


@pytest.mark.parametrize("temperature", [0.25, 1.0, 2.0])
def test_a_planted_temperature_is_found_and_calibrated(temperature):
    lattice, _ = lattice_of(1, [1] * 4000)
    gold = drawn(lattice, temperature, 2)
    assert fit_temperature(lattice, gold) == pytest.approx(temperature, rel=0.15)
    planted = calibration_report(lattice, gold, temperature)
    assert planted.reliability.error < 0.03
    for other in (temperature / 3, temperature * 3):
        worse = calibration_report(lattice, gold, other)
        assert worse.reliability.error > 3 * planted.reliability.error
        assert worse.nll > planted.nll
        assert worse.nll == pytest.approx(worse.token_nll)  # sentences of one token


def test_labels_without_errors_give_a_low_but_positive_temperature():
    lattice, _ = lattice_of(3, [3, 4])
    found = fit_temperature(lattice, lattice.best())
    assert 10 * MIN_TEMPERATURE < found < 0.1
    assert calibration_report(lattice, lattice.best(), found).nll < 1e-6


def test_labels_that_the_model_does_not_know():
    lattice, gold = lattice_of(5, [2, 2, 2])
    unknown = gold.copy()
    unknown[3] = -1
    kept = [0, 1, 4, 5]
    parts, rows = (lattice.parts[0][kept], lattice.parts[1]), (None, lattice.rows[1][[0, 2]])
    both, known = Lattice(lattice.structure, parts, rows, np.array([0, 2, 4])), gold[kept]
    assert fit_temperature(lattice, unknown) == pytest.approx(fit_temperature(both, known), rel=1e-3)
    assert calibration_report(lattice, unknown, 1.0).nll == pytest.approx(
        calibration_report(both, known, 1.0).nll
    )
    assert calibration_report(lattice, unknown, 1.0).reliability.counts.sum() == 6  # it is wrong, not missing
    nothing = np.full(6, -1, np.int32)
    assert math.isnan(calibration_report(lattice, nothing, 1.0).nll)
    with pytest.raises(IncompatibleError, match="no sentence of the held-out data"):
        fit_temperature(lattice, nothing)


def test_bins_and_their_error():
    confidence = np.array([0.05, 0.1, 0.55, 0.99, 1.0, 1.0])
    right = np.array([False, True, True, True, True, False])
    found = reliability(confidence, right, bins=10)
    assert found.counts.tolist() == [1, 1, 0, 0, 0, 1, 0, 0, 0, 3]
    np.testing.assert_allclose(found.confidence[[0, 1, 5, 9]], [0.05, 0.1, 0.55, 2.99 / 3])
    np.testing.assert_allclose(found.accuracy[[0, 1, 5, 9]], [0, 1, 1, 2 / 3])
    assert found.error == pytest.approx((0.05 + 0.9 + 0.45 + 0.99) / 6)
    assert reliability(np.zeros(0), np.zeros(0, bool)).error == 0
