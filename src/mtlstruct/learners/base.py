"""What all learners share: the record of a pass, the result, and the promise about the gap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import IncompatibleError, SolverError
from ..oracle import Oracle, Weights
from ..regularizers import Regularizer
from ..structures.base import Structure


@dataclass(frozen=True)
class Record:
    """One pass, for the progress line and the log. `certified` says whether the gap is proved or estimated.

    objective, dual   upper and lower bound of Ω(w) + c·Σξ_i
    risk              Σξ_i / n at the upper bound
    active            templates with mu above 1e-5
    """

    passes: int
    objective: float
    dual: float
    gap: float
    risk: float
    active: int
    certified: bool


Watch = Callable[[Record], bool]
"""Called after each pass; True asks the learner to stop and return what it has."""


@dataclass(frozen=True)
class Fit:
    """w_j = scale_j · weights_j, the weight mu of each template, and the certificate."""

    weights: Weights
    scale: NDArray[np.float64]
    mu: NDArray[np.float64]
    objective: float
    dual: float
    gap: float
    epsilon: float
    passes: int
    converged: bool


@dataclass(frozen=True)
class Stop:
    """When to stop: a relative gap, or the paper's R_emp − R_s < epsilon, or a number of passes."""

    gap: float = 0.01
    epsilon: float | None = None
    max_passes: int = 1000

    @property
    def drop(self) -> float:
        """Templates with mu below this are left out of a sparse model: the paper's 1e-5, less for tight gaps."""
        return min(1e-5, 0.01 * self.gap)

    def reached(self, objective: float, dual: float, C: float, slack: float = 1.0) -> bool:
        """Whether the bounds are within `slack` times what is asked. The paper's epsilon is (P − D) / C."""
        return objective - dual <= slack * self.asked(objective, C)

    def asked(self, objective: float, C: float) -> float:
        """P − D that would do."""
        return self.gap * abs(objective) if self.epsilon is None else self.epsilon * C


class Learner(Protocol):
    """Learns weights from an oracle. `needs` names what it asks of a structure and a regularizer."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What it will ask of structure and regularizer."""
        ...

    def fit(self, oracle: Oracle, regularizer: Regularizer, c: float, watch: Watch) -> Fit:
        """Minimises Ω(w) + c·Σξ_i."""
        ...


def check_needs(learner: Learner, structure: Structure, regularizer: Regularizer) -> None:
    """Says before the first pass what a learner would miss later."""
    for need in learner.needs:
        if not (hasattr(structure, need) or hasattr(regularizer, need)):
            raise IncompatibleError(
                f"{type(learner).__name__} needs `{need}`, which neither {type(structure).__name__} "
                f"nor {type(regularizer).__name__} offers"
            )


def check_finite(passes: int, *numbers: float) -> None:
    """Stops at the pass where a number overflowed, rather than saving it."""
    if not all(math.isfinite(x) for x in numbers):
        raise SolverError(f"pass {passes}: the objective is no longer a number; try a smaller c")


def relative(objective: float, dual: float) -> float:
    """(P − D) / |P|, zero where both are zero."""
    return (objective - dual) / abs(objective) if objective else abs(dual)


def active_templates(mu: NDArray[np.float64]) -> int:
    """How many templates have a weight worth speaking of: above 1e-5 of the total, as the paper counts."""
    return int(np.count_nonzero(mu > 1e-5 * mu.sum()))
