"""Losses of a sentence, and costs of outputs: Δ(y, ŷ) = Σ_t cost[y_t, ŷ_t].

Because a cost is a table over (right, chosen) pairs, adding it to the part scores is all that
loss-augmented inference needs, and one Hamming serves labels, heads and classes. The table need not
be symmetric.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import IncompatibleError, MtlError

LossWeights = tuple[tuple[str, float], ...]
"""What missing a label costs: (label, weight) pairs."""


class Cost(Protocol):
    """What a solver charges for choosing one part where another is right."""

    def table(self, choices: Sequence[str]) -> NDArray[np.float32]:
        """Cost table float32[k, k] by gold and chosen label (Structure.choices); zero diagonal."""
        ...


@dataclass(frozen=True)
class Hamming:
    """Cost of a wrong position: the weight of its gold label, one where none is given."""

    weights: LossWeights = ()

    def table(self, choices: Sequence[str]) -> NDArray[np.float32]:
        """Rows of equal costs off the diagonal."""
        cost = dict.fromkeys(choices, 1.0)
        for label, weight in self.weights:
            if label not in cost:
                known = ", ".join(choices[:20]) + (" …" if len(choices) > 20 else "")
                raise IncompatibleError(f"a weight for the unknown label {label!r}: expected one of {known}")
            cost[label] = weight
        rows = np.array([cost[y] for y in choices], np.float32)[:, None]
        return (1 - np.eye(len(choices), dtype=np.float32)) * rows


@dataclass(frozen=True)
class Loss:
    """ℓ(w) = T·log Σ_y exp((w·Φ(y) + k·Δ(gold, y)) / T) − w·Φ(gold); T is the temperature.

    The limit T = 0 with k = 1 is the hinge max_y [k·Δ + w·Φ(y)] − w·Φ(gold), T = 1 with k = 0 the
    log loss, and T > 0 with k > 0 the softmax-margin (Gimpel and Smith, NAACL 2010).
    """

    temperature: float
    cost_weight: float

    @property
    def probabilistic(self) -> bool:
        """Whether the scores of a model are logarithms of probabilities."""
        return self.temperature > 0 and self.cost_weight == 0


HINGE, LOG = Loss(0.0, 1.0), Loss(1.0, 0.0)


def tabulate(cost: Cost, choices: Sequence[str]) -> NDArray[np.float32]:
    """Return the table if its diagonal is zero and no entry is negative, else raise."""
    table = np.asarray(cost.table(choices))
    name, k = type(cost).__name__, len(choices)
    if table.shape != (k, k):
        raise IncompatibleError(f"expected of {name} a table of {k} × {k} choices, got shape {table.shape}")
    if table.diagonal().any():
        raise IncompatibleError(f"expected of {name} a table with zeros on its diagonal")
    if not (np.isfinite(table).all() and table.min() >= 0):
        raise IncompatibleError(f"expected of {name} costs that are finite and not negative")
    return np.ascontiguousarray(table, np.float32)


def parse_weights(text: str) -> LossWeights:
    """Read LABEL=WEIGHT pairs separated by commas; labels may hold commas and equal signs."""
    found: dict[str, float] = {}
    at = 0
    while at < len(text):
        pair = re.compile(r"(.+?)=([^=,]+)(,|$)").match(text, at)
        if pair is None:
            raise MtlError(f"expected LABEL=WEIGHT pairs with commas between them, got {text[at:]!r}")
        label = pair[1]
        try:
            weight = float(pair[2])
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight):
            raise MtlError(f"expected a number as the weight of {label!r}, got {pair[2]!r}")
        if label in found:
            raise MtlError(f"expected one weight for {label!r}, got two")
        found[label] = weight
        at = pair.end()
    return tuple(found.items())
