"""Costs of a wrong output that decompose over positions: Δ(y, ŷ) = Σ_t cost[y_t, ŷ_t].

Because a loss is a table over (right, chosen) pairs, adding it to the part scores is all that loss-augmented
search needs, and one Hamming serves labels, heads and classes. The table need not be symmetric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import IncompatibleError, MtlError

LossWeights = tuple[tuple[str, float], ...]
"""What missing a label costs: (label, weight) pairs."""


class Loss(Protocol):
    """What a learner charges for choosing one part where another is right."""

    def table(self, choices: Sequence[str]) -> NDArray[np.float32]:
        """float32[k, k] over k choices (Structure.choices), zero on the diagonal: row = right, column = chosen."""
        ...


@dataclass(frozen=True)
class Hamming:
    """One for every wrong position."""

    def table(self, choices: Sequence[str]) -> NDArray[np.float32]:
        """Ones off the diagonal."""
        return 1 - np.eye(len(choices), dtype=np.float32)


@dataclass(frozen=True)
class WeightedHamming:
    """For every wrong position the weight of the label that would have been right; one where none is given."""

    weights: LossWeights = ()

    def table(self, choices: Sequence[str]) -> NDArray[np.float32]:
        """Rows of equal costs off the diagonal."""
        cost = dict.fromkeys(choices, 1.0)
        for label, weight in self.weights:
            if label not in cost:
                known = ", ".join(choices[:20]) + (" …" if len(choices) > 20 else "")
                raise IncompatibleError(f"a weight for the unknown label {label!r}: expected one of {known}")
            cost[label] = weight
        return Hamming().table(choices) * np.array([cost[y] for y in choices], np.float32)[:, None]


class Free:
    """Nothing for any choice: what a likelihood charges, which compares gold with all outputs as they score."""

    def table(self, choices: Sequence[str]) -> NDArray[np.float32]:
        """Zeros."""
        return np.zeros((len(choices), len(choices)), np.float32)


LOSSES: dict[str, Callable[..., Loss]] = {
    "hamming": Hamming,
    "weighted-hamming": WeightedHamming,
    "free": Free,
}


def tabulate(loss: Loss, choices: Sequence[str]) -> NDArray[np.float32]:
    """The table of a loss, if it is one: what is right costs nothing, nothing costs less than that."""
    table = np.asarray(loss.table(choices))
    name, k = type(loss).__name__, len(choices)
    if table.shape != (k, k):
        raise IncompatibleError(f"expected of {name} a table of {k} × {k} choices, got shape {table.shape}")
    if table.diagonal().any():
        raise IncompatibleError(f"expected of {name} a table with zeros on its diagonal")
    if not (np.isfinite(table).all() and table.min() >= 0):
        raise IncompatibleError(f"expected of {name} costs that are finite and not negative")
    return np.ascontiguousarray(table, np.float32)


def parse_weights(text: str) -> LossWeights:
    """Reads LABEL=WEIGHT pairs with commas between them; labels may hold commas and equal signs themselves."""
    found: dict[str, float] = {}
    at = 0
    while at < len(text):
        pair = re.compile(r"(.+?)=([^=,]+)(,|$)").match(text, at)
        if pair is None:
            raise MtlError(f"expected LABEL=WEIGHT pairs with commas between them, got {text[at:]!r}")
        label, weight = pair[1], _number(pair[2])
        if not (math.isfinite(weight) and weight >= 0):
            raise MtlError(f"expected for {label!r} a weight of 0 or more, got {pair[2]!r}")
        if label in found:
            raise MtlError(f"expected one weight for {label!r}, got two")
        found[label] = weight
        at = pair.end()
    return tuple(found.items())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
