"""Merged, preconditioned problem that the quasi-Newton solvers of conditional random fields work on.

Columns of A that are equal are merged into one (`features.duplicate_columns`), a fraction of all.
With Ω = ½ Σ_j ‖w_j‖²/mu_j, merged column f has the prior variance total_f = Σ mu_j over its members,
and its weight is shared out among them in proportion to mu.

Three scalings of one variable: the weight s_f that scores, the prior-scaled h_f = s_f/√total_f, in
which Ω is ½‖h‖², and x_f = h_f/precond_f, in which steps are taken. The curvature in h grows with the
number of sites where an attribute fires; the diagonal preconditioner makes it about equal for all x.
With an elastic net, Ω is l1·‖h‖₁ + l2·Σ h_f²/total_f and h the weight itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct._system import threads
from mtlstruct._system.stateful import State, Stateful
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
from mtlstruct.objective.regularizers import ElasticNet
from mtlstruct.solvers.base import Start
from mtlstruct.solvers.likelihood.quasi_newton import CHUNK_ENTRIES, Vector
from mtlstruct.structures.base import Parts

FIRST_CURVATURE = 0.02
"""Variance p·(1 − p) of a label assumed before it is measured: its mean after the first steps."""

Rows = list[NDArray[np.float32]]
"""One number per merged row of weights, in one array per kind."""


class MergedProblem(Stateful):
    """Merged problem. Vectors are flat float32: all parts of the rows of one kind, then of the next.

    With observed label support, a row of weights is a feature (one part); otherwise an attribute.
    """

    state_fields = ("mu", "precond")

    def __init__(
        self, oracle: Oracle, mu: NDArray[np.float64], c: float, elastic: ElasticNet | None = None
    ) -> None:
        self.full, self.c, self.elastic = oracle, c, elastic
        self.merged = oracle.merged
        self.oracle = oracle.small()
        self.weights: Weights = self.oracle.zeros()
        self.parts = oracle.structure.widths()
        shapes = zip(oracle.encoded.designs, self.parts, strict=True)
        self.widths = [design.layout.weight_shape(width)[1] for design, width in shapes]
        self._set_mu(mu)
        self.precond = self._preconditioner(FIRST_CURVATURE)

    def load_state_dict(self, state: State) -> None:
        """Restore mu and the preconditioner; prior scales follow from mu."""
        super().load_state_dict(state)
        self._set_mu(self.mu)

    def _set_mu(self, mu: NDArray[np.float64]) -> None:
        self.mu, self.total = mu, self.merged.sums(mu)
        squares = [some if self.elastic is None else np.ones_like(some) for some in self.total]
        self.prior_scale: Rows = [np.sqrt(square).astype(np.float32) for square in squares]

    def _preconditioner(self, curvature: float) -> Rows:
        """Return (1 + c·curvature·total·sites)^−½ of each row; each part of an edge is rarer.

        With an elastic net, l1 + 2·l2/total takes the place of 1.
        """
        sites = [
            self.parts[0] / parts * fired for fired, parts in zip(self.merged.fired, self.parts, strict=True)
        ]
        own = self.elastic
        return [
            (1 / np.sqrt(bend + self.c * curvature * scale.astype(np.float64) ** 2 * count)).astype(
                np.float32
            )
            for scale, count, bend in zip(
                self.prior_scale,
                sites,
                [1.0 if own is None else own.l1 + 2 * own.l2 / total for total in self.total],
                strict=True,
            )
        ]

    def rescale(self, curvature: float, mu: NDArray[np.float64] | None = None) -> tuple[Rows, Rows, Rows]:
        """Change the preconditioner, and mu if given.

        Returns ratio, shift and growth per row: x becomes x/ratio; a gradient g of Ω + c·Σξ_i (or a
        change of it) at x becomes ratio·g + shift·x; a gradient in h becomes growth times as long.
        """
        precond, scale = self.precond, self.prior_scale
        if mu is not None:
            self._set_mu(mu)
        self.precond = self._preconditioner(curvature)
        growth = [new / old for new, old in zip(self.prior_scale, scale, strict=True)]
        pairs = list(zip(growth, precond, self.precond, strict=True))
        ratio = [grown * (new / old) for grown, old, new in pairs]
        shift = [new * old * (1 / grown - grown) for grown, old, new in pairs]
        return ratio, shift, growth

    def vector(self) -> Vector:
        """Return a vector of zeros."""
        sizes = zip(self.prior_scale, self.widths, strict=True)
        return np.zeros(sum(len(rows) * width for rows, width in sizes), np.float32)

    def score(self, x: Vector) -> Parts:
        """Return the part scores of the weights at x."""
        scale = [a * b for a, b in zip(self.prior_scale, self.precond, strict=True)]
        self.map_blocks(_scale_into_weights, x, scale, self.weights)
        return self.oracle.score(self.weights, np.ones(0))

    def loss_gradient(self, likelihood: Likelihood, out: Vector) -> None:
        """Write v, the gradient of c·Σξ_i in h."""
        self.oracle.count(likelihood.counts, self.weights)
        scale = [np.float32(self.c) * some for some in self.prior_scale]
        self.map_blocks(_scale_from_weights, out, scale, self.weights)

    def map_blocks(self, kernel: Any, x: Vector, *tables: Any) -> list[float]:
        """Call kernel(rows of x, the same rows of each table) chunk by chunk; return its results.

        Tables are vectors, too, or lists with one array per kind.
        """

        def work(chunk: tuple[int, slice, slice, int]) -> float:
            kind, rows, flat, width = chunk
            others = [
                table[kind][rows] if isinstance(table, list) else table[flat].reshape(-1, width)
                for table in tables
            ]
            return float(kernel(x[flat].reshape(-1, width), *others) or 0.0)

        return threads.in_order(work, list(self.chunks()))

    def chunks(self) -> Iterator[tuple[int, slice, slice, int]]:
        """Yield kind, rows, entries of a vector and width of pieces of about CHUNK_ENTRIES."""
        at = 0
        for kind, (scale, width) in enumerate(zip(self.prior_scale, self.widths, strict=True)):
            step = max(1, CHUNK_ENTRIES // width)
            for first in range(0, len(scale), step):
                last = min(first + step, len(scale))
                yield kind, slice(first, last), slice(at + first * width, at + last * width), width
            at += len(scale) * width

    def template_products(self, *pairs: tuple[Vector, Vector]) -> NDArray[np.float64]:
        """Return Σ a_f·b_f/total_f over the columns of each template, for each pair: float64[pairs, m].

        For gradients in h these are ⟨a_j, b_j⟩ of gradients in w; for h itself ‖w_j‖²/mu_j².
        """

        def work(chunk: tuple[int, slice, slice, int]) -> NDArray[np.float64]:
            kind, rows, flat, width = chunk
            out, (ptr, templates) = np.zeros((len(pairs), self.full.templates)), self.merged.members[kind]
            at, total = ptr[rows.start : rows.stop + 1], self.total[kind][rows]
            for (a, b), products in zip(pairs, out, strict=True):
                vectors = a[flat].reshape(-1, width), b[flat].reshape(-1, width)
                _add_products(*vectors, total, at, templates, products)
            return out

        return np.asarray(np.sum(threads.in_order(work, list(self.chunks())), axis=0))

    def full_weights(self, x: Vector, mu: NDArray[np.float64]) -> Weights:
        """Return the weights of all attributes: merged ones are shared out in proportion to mu."""
        self.score(x)
        total, out = self.merged.sums(mu), self.full.zeros()
        for j, (kind, first, last) in self.full.blocks.items():
            if mu[j] > 0:
                rows = self.merged.number[kind][first:last]
                out[kind][first:last] = self.weights[kind][rows] * (mu[j] / total[kind][rows])[:, None]
        return out

    def merged_vector(self, init: Start) -> Vector:
        """Return the x whose part scores are those of the weights of `init`."""
        x = []
        for w, number, width, scale, precond in zip(
            init.weights, self.merged.number, self.widths, self.prior_scale, self.precond, strict=True
        ):
            columns = [np.bincount(number, w[:-1, y], len(scale)) for y in range(width)]
            x.append((np.stack(columns, axis=1) / (scale * precond)[:, None]).ravel())
        return np.concatenate(x).astype(np.float32)


def merged_bytes(oracle: Oracle, pairs: int) -> int:
    """Return the bytes of a merged problem: its A and weights, the pairs, and seven vectors more."""
    merged = oracle.merged
    shapes = zip(oracle.encoded.designs, oracle.structure.widths(), strict=True)
    widths = [design.layout.weight_shape(width)[1] for design, width in shapes]
    size = sum(len(fired) * width for fired, width in zip(merged.fired, widths, strict=True))
    ids = sum(design.ids.nbytes + design.ptr.nbytes for design in merged.encoded.designs)
    return ids + 4 * (2 * pairs + 7) * size + 8 * size


# ---------------------------------------------------------------- kernels


@fast_kernel
def _scale_into_weights(x, scale, weights):
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            weights[f, y] = scale[f] * x[f, y]


@fast_kernel
def _scale_from_weights(x, scale, weights):
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            x[f, y] = scale[f] * np.float32(weights[f, y])


@fast_kernel
def _add_products(a, b, total, ptr, templates, out):
    """Add the products of rows, divided by their totals, to the templates of their members."""
    for f in range(a.shape[0]):
        product = 0.0
        for y in range(a.shape[1]):
            product += np.float64(a[f, y]) * np.float64(b[f, y])
        product /= total[f]
        for k in range(ptr[f], ptr[f + 1]):
            out[templates[k]] += product
