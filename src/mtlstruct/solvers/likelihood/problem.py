"""Merged, preconditioned problem that the quasi-Newton solvers of conditional random fields work on.

Columns of A that are equal are merged into one (`features.duplicate_columns`), a fraction of all.
With Ω = ½ Σ_j ‖w_j‖²/mu_j, merged column f has the prior variance total_f = Σ mu_j over its members,
and its weight s_f is shared out among them in proportion to mu. Ω is l1·‖s‖₁ + Σ ridge_f·s_f² with
ridge_f = l2/total_f; without an elastic net l1 is 0 and l2 is ½.

Steps are taken in x_f = s_f/scale_f. The curvature of the objective in s_f is about that of Ω plus
c·curvature·sites, where sites counts those at which an attribute fires: scale_f is its inverse root.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct._system import disk_arrays, threads
from mtlstruct._system.stateful import State, Stateful
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
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

    state_fields = ("mu", "curvature", "reference")

    def __init__(
        self,
        oracle: Oracle,
        mu: NDArray[np.float64],
        c: float,
        l1: float = 0,
        l2: float = 0.5,
        extra: int = 0,
    ) -> None:
        self.full, self.c, self.l1, self.l2, self.extra = oracle, c, l1, l2, extra
        self.merged, self.oracle = oracle.merged, oracle.small()
        self.weights: Weights = self.oracle.zeros()
        parts = oracle.structure.widths()
        shapes = zip(oracle.encoded.designs, parts, strict=True)
        self.widths = [design.layout.weight_shape(width)[1] for design, width in shapes]
        fired = zip(self.merged.fired, parts, strict=True)
        self.sites = [parts[0] / own * some for some, own in fired]  # each part of an edge is rarer
        self.curvature, self.reference = FIRST_CURVATURE, list[NDArray[np.float32]]()
        self.set_mu(mu)
        self.rescale(FIRST_CURVATURE)

    def load_state_dict(self, state: State) -> None:
        """Restore mu and the scale of variables."""
        super().load_state_dict(state)
        self.set_mu(self.mu)

    def set_mu(self, mu: NDArray[np.float64]) -> None:
        """Replace mu where x stays: a weight changes in proportion to 1 / (curvature of the objective).

        If the objective were quadratic and separable, x would stay at its minimum.
        """
        self.mu, self.total = mu, self.merged.sums(mu)
        bends = [2 * self.l2 / some for some in self.total]
        self.ridge: Rows = [(0.5 * bend).astype(np.float32) for bend in bends]
        curvature = self.c * self.curvature
        self.scale: Rows = [
            (1 / np.sqrt(self.l1 + bend + curvature * sites)).astype(np.float32)
            for bend, sites in zip(bends, self.sites, strict=True)
        ]
        if self.reference:
            self.scale = [some * some / old for some, old in zip(self.scale, self.reference, strict=True)]

    def rescale(self, curvature: float, mu: NDArray[np.float64] | None = None) -> Rows:
        """Change the scale of variables to suit the curvature, and mu; return new scale / old scale."""
        old, self.curvature, self.reference = self.scale, curvature, []
        self.set_mu(self.mu if mu is None else mu)
        self.reference = self.scale
        self.set_mu(self.mu)  # with the rounding of every later call
        return [new / some for new, some in zip(self.scale, old, strict=True)]

    def vector(self) -> Vector:
        """Return a vector of zeros, with `extra` entries that belong to no row at the end."""
        sizes = zip(self.total, self.widths, strict=True)
        return np.zeros(sum(len(rows) * width for rows, width in sizes) + self.extra, np.float32)

    def score(self, x: Vector) -> Parts:
        """Return the part scores of the weights at x."""
        self.map_blocks(_scale_into_weights, x, self.scale, self.weights)
        return self.oracle.score(self.weights, np.ones(0))

    def loss_gradient(self, likelihood: Likelihood, out: Vector) -> None:
        """Write v, the gradient of c·Σξ_i in s."""
        self.oracle.count(likelihood.counts, self.weights)
        c = np.float32(self.c)
        self.map_blocks(lambda v, weights: _scale_from_weights(v, c, weights), out, self.weights)

    def gradient(self, x: Vector, v: Vector, out: Vector) -> None:
        """Write the gradient of c·Σξ_i + Σ ridge_f·s_f² in x."""
        self.map_blocks(_gradient, out, self.scale, self.ridge, x, v)

    def map_blocks(self, kernel: Any, *tables: Any, sums: int = 0) -> list[Any]:
        """Call kernel(rows of each table) chunk by chunk; return its results.

        Tables are vectors, or lists with one array per kind. With `sums`, the kernel also gets the
        members of the rows and an array of so many numbers per template, which is the result.
        """

        def work(chunk: tuple[int, slice, slice, int]) -> Any:
            kind, rows, flat, width = chunk
            blocks = [
                table[kind][rows] if isinstance(table, list) else table[flat].reshape(-1, width)
                for table in tables
            ]
            if not sums:
                return kernel(*blocks)
            ptr, templates = self.merged.members[kind]
            out = np.zeros(sums * self.full.templates)
            kernel(*blocks, ptr[rows.start : rows.stop + 1], templates, out)
            return out

        return threads.in_order(work, list(self.chunks()))

    def chunks(self) -> Iterator[tuple[int, slice, slice, int]]:
        """Yield kind, rows, entries of a vector and width of pieces of about CHUNK_ENTRIES."""
        at = 0
        for kind, (total, width) in enumerate(zip(self.total, self.widths, strict=True)):
            step = max(1, CHUNK_ENTRIES // width)
            for first in range(0, len(total), step):
                last = min(first + step, len(total))
                yield kind, slice(first, last), slice(at + first * width, at + last * width), width
            at += len(total) * width

    def template_products(self, a: Vector, b: Vector) -> NDArray[np.float64]:
        """Return ⟨a_j, b_j⟩ of two gradients in s for each template: float64[m]."""
        return np.asarray(np.sum(self.map_blocks(_add_products, a, b, sums=1), axis=0))

    def template_sums(self, x: Vector, v: Vector) -> NDArray[np.float64]:
        """Return sums over the columns of each template, for the loss gradient v at x: float64[4, m].

        They are ‖w_j‖²/mu_j², ‖v_j‖², the derivative of ½ Σ s_f²/total_f + c·Σξ_i by mu_j where x stays, and
        an estimate of the second derivative by mu_j of its minimum over x.
        """
        tables = x, v, self.scale, self.reference, self.total
        return np.asarray(np.sum(self.map_blocks(_add_sums, *tables, sums=4), axis=0)).reshape(4, -1)

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
        x = [np.zeros(0)]
        for w, number, width, scale in zip(
            init.weights, self.merged.number, self.widths, self.scale, strict=True
        ):
            columns = [np.bincount(number, w[:-1, y], len(scale)) for y in range(width)]
            x.append((np.stack(columns, axis=1) / scale[:, None]).ravel())
        return np.concatenate([*x, np.zeros(self.extra)]).astype(np.float32)


def merged_bytes(oracle: Oracle, pairs: int) -> int:
    """Return the bytes of a merged problem: its A and weights, the pairs, and seven vectors more."""
    merged = oracle.merged
    shapes = zip(oracle.encoded.designs, oracle.structure.widths(), strict=True)
    widths = [design.layout.weight_shape(width)[1] for design, width in shapes]
    size = sum(len(fired) * width for fired, width in zip(merged.fired, widths, strict=True))
    ids = sum(design.ids.nbytes + design.ptr.nbytes for design in merged.encoded.designs)
    stored = 0 if disk_arrays.on_disk() else ids + 4 * 2 * pairs * size
    return stored + 4 * 7 * size + 8 * size


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
            x[f, y] = scale * np.float32(weights[f, y])


@fast_kernel
def _gradient(out, scale, ridge, x, v):
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            out[f, y] = scale[f] * (np.float32(2) * ridge[f] * scale[f] * x[f, y] + v[f, y])


@fast_kernel
def _add_products(a, b, ptr, templates, out):
    """Add the products of rows to the templates of their members."""
    for f in range(a.shape[0]):
        product = 0.0
        for y in range(a.shape[1]):
            product += np.float64(a[f, y]) * np.float64(b[f, y])
        for k in range(ptr[f], ptr[f + 1]):
            out[templates[k]] += product


@fast_kernel
def _add_sums(x, v, scale, reference, total, ptr, templates, out):
    """Add four sums of rows to the templates of their members; d(log scale)/d(log total) is `share`."""
    m = len(out) // 4
    for f in range(x.shape[0]):
        share = np.float64(scale[f]) * np.float64(reference[f]) / total[f]
        square = product = slopes = 0.0
        for y in range(x.shape[1]):
            q, g = np.float64(scale[f] * x[f, y]) / total[f], np.float64(v[f, y])
            square += q * q
            slopes += g * g
            product += q * g
        slope = (share - 0.5) * square + share * product
        bend = (1 - share) / total[f] * slopes
        for k in range(ptr[f], ptr[f + 1]):
            j = np.int64(templates[k])
            out[j] += square
            out[m + j] += slopes
            out[2 * m + j] += slope
            out[3 * m + j] += bend
