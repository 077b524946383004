"""Which master solves the subproblem of which regularizer."""

from __future__ import annotations

from ..regularizers import L2, BlockL1Squared, Regularizer
from . import conic
from .base import Dual, Master, certify

MASTERS: dict[type, Master] = {L2: conic.solve, BlockL1Squared: conic.solve}


def master_for(regularizer: Regularizer) -> Master:
    """The master that can solve with this regularizer."""
    return MASTERS[type(regularizer)]


__all__ = ["MASTERS", "Dual", "Master", "certify", "master_for"]
