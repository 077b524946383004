"""Costs of a wrong output that decompose over positions: Δ(y, ŷ) = Σ_t cost[y_t, ŷ_t].

Because a loss is a table over (right, chosen) pairs, adding it to the part scores is all that loss-augmented
search needs, and one Hamming serves labels, heads and classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Loss(Protocol):
    """What a learner charges for choosing one part where another is right."""

    def table(self, choices: Sequence[str]) -> NDArray[np.float32]:
        """float32[k, k] over k choices (Structure.choices), zero on the diagonal: row = right, column = chosen."""
        ...


class Hamming:
    """One for every wrong position."""

    def table(self, choices: Sequence[str]) -> NDArray[np.float32]:
        """Ones off the diagonal."""
        return 1 - np.eye(len(choices), dtype=np.float32)


LOSSES = {"hamming": Hamming}
