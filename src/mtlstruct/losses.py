"""Costs of a wrong output that decompose over positions: Δ(y, ŷ) = Σ_t cost[y_t, ŷ_t].

Because a loss is a table over (right, chosen) pairs, adding it to the part scores is all that loss-augmented
search needs, and one Hamming serves labels, heads and classes.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Loss(Protocol):
    """What a learner charges for choosing one part where another is right."""

    def table(self, parts: int) -> NDArray[np.float32]:
        """float32[parts, parts], zero on the diagonal: row = right, column = chosen."""
        ...


class Hamming:
    """One for every wrong position."""

    def table(self, parts: int) -> NDArray[np.float32]:
        """Ones off the diagonal."""
        return 1 - np.eye(parts, dtype=np.float32)


LOSSES = {"hamming": Hamming}
