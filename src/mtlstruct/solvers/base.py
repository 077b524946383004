"""What all learners share: the record of a pass, the result, and the promise about the gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Keeper, Kept
from mtlstruct.errors import IncompatibleError, SolverError
from mtlstruct.linear.weight_layout import padded
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.structures.base import Structure


@dataclass(frozen=True)
class Record:
    """One pass, for the progress line and the log. `certified` says whether the gap is proved or estimated.

    objective, dual   upper and lower bound of Ω(w) + c·Σξ_i
    risk              Σξ_i / n at the upper bound
    active            templates with mu above 1e-5
    now               the present weights as a Fit, on arrays that the learner goes on to change; its objective is
                      computed for just these weights
    """

    passes: int
    objective: float
    dual: float
    gap: float
    risk: float
    active: int
    certified: bool
    now: Callable[[], Fit] | None = field(default=None, compare=False, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "now"}


Callback = Callable[[Record], bool]
"""Called after each pass; a true answer stops the solver, which returns what it has."""

NO_CHECKPOINTS = Keeper()
"""The checkpointer of runs without checkpoints."""


FIGURES = ("objective", "dual", "gap", "epsilon", "passes", "converged")


@dataclass(frozen=True)
class Fit:
    """w_j = scale_j · weights_j, in the layout of the oracle; the weight mu of each template, and the certificate."""

    weights: Weights
    scale: NDArray[np.float64]
    mu: NDArray[np.float64]
    objective: float
    dual: float
    gap: float
    epsilon: float
    passes: int
    converged: bool

    @classmethod
    def bounded(
        cls,
        weights: Weights,
        scale: NDArray[np.float64],
        mu: NDArray[np.float64],
        bounds: tuple[float, float],
        C: float,
        passes: int,
        converged: bool,
    ) -> Fit:
        """Return a fit with the gap and epsilon of its bounds: objective, dual."""
        objective, dual = bounds
        gap, epsilon = relative(objective, dual), (objective - dual) / C
        return cls(weights, scale, mu, objective, dual, gap, epsilon, passes, converged)

    def figures(self) -> dict[str, Any]:
        """The certificate, and what it took: as models and reports have them."""
        return {name: getattr(self, name) for name in FIGURES}


@dataclass(frozen=True)
class Start:
    """Where to begin: weights w (scale 1) in the layout of the oracle, and mu, both of an earlier model."""

    weights: Weights
    mu: NDArray[np.float64]


@dataclass(frozen=True)
class Stop:
    """When to stop: a relative gap, or the paper's R_emp − R_s < epsilon, or a number of passes.

    eta   instead of these, CRF++'s rule: the objective changed by less than this share three times in a row
    """

    gap: float = 0.01
    epsilon: float | None = None
    max_passes: int = 1000
    eta: float | None = None

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

    def settled(self, trace: Sequence[float]) -> bool:
        """Whether the last three of these objectives each changed by less than eta."""
        if self.eta is None or len(trace) < 4:
            return False
        last = np.array(trace[-4:])
        return bool(np.all(np.abs(np.diff(last)) < self.eta * np.abs(last[:-1])))


class Learner(Protocol):
    """Learns weights from an oracle. `needs` names what it asks of a structure and a regularizer."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What it will ask of structure and regularizer."""
        ...

    def memory(self, oracle: Oracle) -> int:
        """Bytes that `fit` will take on top of the encoded data."""
        ...

    def fit(
        self,
        oracle: Oracle,
        regularizer: Any,
        c: float,
        callback: Callback | None = None,
        *,
        init: Start | None = None,
        checkpointer: Keeper | None = None,
    ) -> Fit:
        """Minimise Ω(w) + c·Σξ_i, from the weights of `init` if given, which may be overwritten.

        The callback is called after each pass. The checkpointer may restore an earlier run on the same data, and
        is called at each safe point.
        """
        ...


def run_passes(
    run: Kept,
    advance: Callable[[], Record],
    ended: Callable[[], bool],
    callback: Callback | None,
    checkpointer: Keeper | None,
) -> None:
    """Repeat `advance`, one pass, until `ended` or the callback says so; each pass ends at a safe point."""
    checkpointer = checkpointer or NO_CHECKPOINTS
    checkpointer.begin(run)
    stopped = False
    while not (stopped or ended()):
        record = advance()
        stopped = callback is not None and bool(callback(record))
        checkpointer.safe(run)


def check_needs(learner: Learner, structure: Structure, regularizer: Regularizer) -> None:
    """Says before the first pass what a learner would miss later."""
    for need in learner.needs:
        if not (hasattr(structure, need) or hasattr(regularizer, need)):
            raise IncompatibleError(
                f"{type(learner).__name__} needs `{need}`, which neither {type(structure).__name__} "
                f"nor {type(regularizer).__name__} offers"
            )


def table_bytes(oracle: Oracle) -> int:
    """Bytes of one table of weights, Oracle.zeros."""
    widths = oracle.structure.widths()
    (rows, node), *rest = (d.weight_shape(w) for d, w in zip(oracle.encoded.designs, widths, strict=True))
    return rows * padded(node) * 4 + sum(8 * rows * width for rows, width in rest)


def score_bytes(oracle: Oracle) -> int:
    """Bytes of the part scores of the corpus, three times: scores, scores to come, and what a search keeps."""
    return 3 * sum(4 * rows * width for rows, width in oracle.part_shapes())


def check_finite(passes: int, **numbers: float) -> None:
    """Stops at the pass where a quantity overflowed, rather than saving what came of it."""
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise SolverError(
                f"pass {passes}: the {name.replace('_', ' ')} is no longer a number ({number}); try a smaller c, or "
                "smaller values (scaling unit)"
            )


def relative(objective: float, dual: float) -> float:
    """(P − D) / |P|, zero where both are zero."""
    return (objective - dual) / abs(objective) if objective else abs(dual)


def active_templates(mu: NDArray[np.float64]) -> int:
    """How many templates have a weight worth speaking of: above 1e-5 of the total, as the paper counts."""
    return int(np.count_nonzero(mu > 1e-5 * mu.sum()))
