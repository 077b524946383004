"""Interface of solvers: the record of a pass, the result, and the stopping rule."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Checkpointer, Stateful
from mtlstruct.errors import IncompatibleError, SolverError
from mtlstruct.linear.weight_layout import padded
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.structures.base import Structure


@dataclass(frozen=True)
class Record:
    """Figures of one pass, for the progress line, the log and callbacks.

    objective, dual   upper and lower bound of Ω(w) + c·Σξ_i
    risk              Σξ_i / n at the upper bound
    active            templates with mu above 1e-5
    certified         whether the bounds are proved, not estimated
    now               function that returns the present weights as a Fit, with their
                      objective; its arrays change in the next pass
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
        """Return the figures by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "now"}


Callback = Callable[[Record], bool]
"""Function called after each pass; a true result stops the solver, which returns what it has."""


FIGURES = ("objective", "dual", "gap", "epsilon", "passes", "converged")


@dataclass(frozen=True)
class Fit:
    """Result: w_j = scale_j·weights_j in the oracle's layout, mu, and the certificate."""

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
        """Return the certificate and the number of passes, as models and reports store them."""
        return {name: getattr(self, name) for name in FIGURES}


@dataclass(frozen=True)
class Start:
    """Weights and mu of an earlier model, from which a solver starts.

    w_j = scale_j·weights_j in the layout of the oracle. Only where singletons share rows, which
    only the coordinate solver supports, is a scale other than 1; None stands for ones.
    """

    weights: Weights
    mu: NDArray[np.float64]
    scale: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Stop:
    """Stopping rule: a relative gap, or the paper's R_emp − R_s < epsilon, and a number of passes.

    eta   rule of CRF++ instead: the objective changed by less than this share three times in a row
    """

    gap: float = 0.01
    epsilon: float | None = None
    max_passes: int = 1000
    eta: float | None = None

    @property
    def drop(self) -> float:
        """Return the share of mu below which a template is dropped: 1e-5, less for tight gaps."""
        return min(1e-5, 0.01 * self.gap)

    def reached(self, objective: float, dual: float, C: float, slack: float = 1.0) -> bool:
        """Return whether P − D is at most `slack` times the tolerance."""
        return objective - dual <= slack * self.asked(objective, C)

    def asked(self, objective: float, C: float) -> float:
        """Return the tolerance for P − D. The paper's epsilon is (P − D) / C."""
        return self.gap * abs(objective) if self.epsilon is None else self.epsilon * C

    def settled(self, trace: Sequence[float]) -> bool:
        """Return whether the last three objectives each changed by less than eta."""
        if self.eta is None or len(trace) < 4:
            return False
        last = np.array(trace[-4:])
        return bool(np.all(np.abs(np.diff(last)) < self.eta * np.abs(last[:-1])))


class SolverRun(Stateful, ABC):
    """State of one run of a solver."""

    @abstractmethod
    def advance(self) -> Record | None:
        """Make one pass, which ends at a safe point; return its record, None inside a cycle."""

    @abstractmethod
    def ended(self) -> bool:
        """Return whether there is no further pass."""

    @abstractmethod
    def result(self) -> Fit:
        """Return the weights and their certificate."""


class Solver(ABC):
    """Solver of the training problem, which sees the data through an oracle only.

    `needs` names methods that the structure or the regularizer must have.
    """

    needs: tuple[str, ...]

    @abstractmethod
    def memory(self, oracle: Oracle) -> int:
        """Return the bytes that `fit` takes on top of the encoded data."""

    @abstractmethod
    def start(self, oracle: Oracle, regularizer: Any, c: float, init: Start | None) -> SolverRun:
        """Return the run before its first pass, at the weights of `init` if given."""

    def fit(
        self,
        oracle: Oracle,
        regularizer: Any,
        c: float,
        callback: Callback | None = None,
        *,
        init: Start | None = None,
        checkpointer: Checkpointer | None = None,
    ) -> Fit:
        """Minimise Ω(w) + c·Σξ_i, from the weights of `init` if given, which may be overwritten.

        The callback is called after each pass. The checkpointer may restore an earlier run on the
        same data, and is called at each safe point.
        """
        run, checkpointer = self.start(oracle, regularizer, c, init), checkpointer or Checkpointer()
        checkpointer.restore(run)
        stopped = False
        while not (stopped or run.ended()):
            record = run.advance()
            stopped = record is not None and callback is not None and bool(callback(record))
            checkpointer.at_safe_point(run)
        return run.result()


def check_needs(solver: Solver, structure: Structure, regularizer: Regularizer) -> None:
    """Raise IncompatibleError if structure and regularizer lack a method that the solver needs."""
    for need in solver.needs:
        if not (hasattr(structure, need) or hasattr(regularizer, need)):
            raise IncompatibleError(
                f"{type(solver).__name__} needs `{need}`, which neither {type(structure).__name__} "
                f"nor {type(regularizer).__name__} offers"
            )


def table_bytes(oracle: Oracle) -> int:
    """Return the bytes of one table of weights, `Oracle.zeros`."""
    widths = oracle.structure.widths()
    (rows, node), *rest = (
        d.layout.weight_shape(w) for d, w in zip(oracle.encoded.designs, widths, strict=True)
    )
    return rows * padded(node) * 4 + sum(8 * rows * width for rows, width in rest)


def score_bytes(oracle: Oracle) -> int:
    """Return the bytes of three tables of part scores: old, new, and those of the search."""
    return 3 * sum(4 * rows * width for rows, width in oracle.part_shapes())


def check_finite(passes: int, **numbers: float) -> None:
    """Raise SolverError if a quantity has overflowed."""
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise SolverError(
                f"pass {passes}: the {name.replace('_', ' ')} is no longer a number ({number}); try a smaller c, or "
                "smaller values (scaling unit)"
            )


def relative(objective: float, dual: float) -> float:
    """Return (P − D) / |P|, zero where both are zero."""
    return (objective - dual) / abs(objective) if objective else abs(dual)


def active_templates(mu: NDArray[np.float64]) -> int:
    """Return the number of templates with mu above 1e-5 of the total, as the paper counts."""
    return int(np.count_nonzero(mu > 1e-5 * mu.sum()))


def golden_section(value: Callable[[float], float], at_zero: float, steps: int = 8) -> float:
    """Return the k in [0, 1] with the least value of a unimodal function; 0 unless it improves."""
    ratio = (5**0.5 - 1) / 2
    low, high = 0.0, 1.0
    a, b = high - ratio, low + ratio
    fa, fb = value(a), value(b)
    best = min((at_zero, 0.0), (fa, a), (fb, b), (value(1.0), 1.0))
    for _ in range(steps):
        if fa < fb:
            high, b, fb = b, a, fa
            a = high - ratio * (high - low)
            fa = value(a)
            best = min(best, (fa, a))
        else:
            low, a, fa = a, b, fb
            b = low + ratio * (high - low)
            fb = value(b)
            best = min(best, (fb, b))
    return best[1]
