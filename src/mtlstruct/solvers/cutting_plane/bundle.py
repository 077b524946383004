"""Cuts and the bundle: the working set W of Algorithm 1.

A cut is the pair (p, q) of the paper: p_j = −(1/n)·Σ_i δΦ_j^i(ŷ_i), q = (1/n)·Σ_i Δ(y_i, ŷ_i). It
is stored as the outputs ŷ that made it, one small integer per token; p is rebuilt when needed. The
bundle adds the Gram matrices Q^j_{rr'} = ⟨p_j^r, p_j^r'⟩ of each template. A new cut adds a row to
them in one pass over the data: a weight is fetched once and serves all cuts.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct._system.stateful import State, Stateful
from mtlstruct.linear.design import BY_ENTRY, BY_SLOT
from mtlstruct.linear.label_support import find_feature, support_arrays
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.structures.base import Triplets

CACHED_ENTRIES = 20_000_000
"""Entries of sparse differences to gold that are cached; beyond that, differences are rebuilt."""


class Cuts(Stateful):
    """Cuts as outputs of local sentences; q and p are means over all `sentences`."""

    state_fields: ClassVar[tuple[str, ...]] = ("outputs",)

    def __init__(self, oracle: Oracle, sentences: int) -> None:
        self.oracle, self.sentences = oracle, sentences
        self.outputs: list[NDArray[np.integer]] = []
        self._differences: list[tuple[Triplets, ...] | None] = []

    def load_state_dict(self, state: State) -> None:
        """Restore the outputs; differences to gold are rebuilt when needed."""
        super().load_state_dict(state)
        self._differences = [None] * len(self.outputs)

    def add(self, outputs: NDArray[np.int32]) -> None:
        """Add the cut of these outputs."""
        self.outputs.append(outputs.astype(np.min_scalar_type(int(outputs.max(initial=0)))))
        self._differences.append(None)

    def combine(self, alpha: NDArray[np.float64], weights: Weights) -> None:
        """Write Σ_r α_r p^r into weights."""
        counts = [np.zeros(shape) for shape in self.oracle.part_shapes()]
        for r in np.flatnonzero(alpha).tolist():
            for triplets, table in zip(self._difference(r), counts, strict=True):
                triplets.add_to(table, alpha[r] / self.sentences)
        self.oracle.count(counts, weights)

    def products(self, p: Weights) -> NDArray[np.float64]:
        """Return ⟨p_j, p_j^r⟩ for all templates and cuts: float64[m, s]."""
        out = np.zeros((self.oracle.templates, len(self.outputs)))
        differences = [self._difference(r) for r in range(len(self.outputs))]
        for kind, design in enumerate(self.oracle.encoded.designs):
            table = _by_row([difference[kind] for difference in differences], design.rows)
            _dots(
                design.ids, design.ptr, *design.entry_blocks, design.values, design.layout.attributes,
                *support_arrays(design.layout.support), p[kind], *table, out,
            )  # fmt: skip
        return out / self.sentences

    def select(self, kept: NDArray[np.int64]) -> None:
        """Drop all other cuts."""
        self.outputs = [self.outputs[r] for r in kept]
        self._differences = [self._differences[r] for r in kept]

    def _difference(self, r: int) -> tuple[Triplets, ...]:
        found = self._differences[r]
        if found is None:
            found = self.oracle.indicator(self.outputs[r])
            known = [*self._differences, found]
            if sum(len(t.row) for each in known if each is not None for t in each) <= CACHED_ENTRIES:
                self._differences[r] = found
        return found


class Bundle(Stateful):
    """Cuts, gram float64[m, s, s], q float64[s], and for how many solves each was idle."""

    state_fields = ("cuts", "gram", "q", "idle")

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        sharded = getattr(oracle, "cuts", None)
        self.cuts: Cuts = sharded() if sharded is not None else Cuts(oracle, oracle.sentences)
        self.gram = np.zeros((oracle.templates, 0, 0))
        self.q = np.zeros(0)
        self.idle = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.q)

    def add(self, outputs: NDArray[np.int32], loss: float, buffer: Weights) -> None:
        """Add the cut of these outputs; overwrites `buffer` with p."""
        self.cuts.add(outputs)
        self.q = np.append(self.q, loss / self.oracle.sentences)
        self.idle = np.append(self.idle, 0)
        newest = np.zeros(len(self))
        newest[-1] = 1
        self.cuts.combine(newest, buffer)
        self.gram = np.pad(self.gram, ((0, 0), (0, 1), (0, 1)))
        self.gram[:, -1, :] = self.gram[:, :, -1] = self.cuts.products(buffer)

    def prune(self, alpha: NDArray[np.float64], patience: int) -> NDArray[np.float64]:
        """Drop cuts that have had no weight for `patience` solves; return alpha of the rest."""
        self.idle = np.where(alpha > 1e-9 * alpha.max(initial=0.0), 0, self.idle + 1)
        kept = np.flatnonzero(self.idle < patience)
        if len(kept) < len(self):
            self.cuts.select(kept)
            self.gram = np.ascontiguousarray(self.gram[:, kept][:, :, kept])
            self.q, self.idle = self.q[kept], self.idle[kept]
        return alpha[kept]


def _by_row(triplets: list[Triplets], rows: int) -> tuple[NDArray[Any], ...]:
    """Return triplets of all cuts by row: ptr int64[rows+1], and cut, part, count of each."""
    row = np.concatenate([t.row for t in triplets])
    cut = np.repeat(np.arange(len(triplets)), [len(t.row) for t in triplets]).astype(np.int32)
    part = np.concatenate([t.part for t in triplets])
    count = np.concatenate([t.count for t in triplets])
    ptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int64)
    order = np.argsort(row, kind="stable")
    return ptr, cut[order], part[order], count[order]


# ---------------------------------------------------------------- kernels


@kernel
def _dots(ids, ptr, by, blocks, values, null, own, of, p, entry_ptr, cut, part, count, out):
    listed = len(own) > 0
    for row in range(len(entry_ptr) - 1):
        if entry_ptr[row] == entry_ptr[row + 1]:
            continue
        for k in range(ptr[row], ptr[row + 1]):
            if ids[k] == null:
                continue
            a = np.int64(ids[k])
            at = k - ptr[row] if by == BY_SLOT else k if by == BY_ENTRY else np.int64(ids[k])
            block = out[blocks[at]]
            x = values[k] if len(values) > 0 else np.float32(1)
            for e in range(entry_ptr[row], entry_ptr[row + 1]):
                if not listed:
                    block[cut[e]] += np.float64(x * count[e]) * p[a, part[e]]
                    continue
                f = find_feature(own, of, a, part[e])
                if f >= 0:
                    block[cut[e]] += np.float64(x * count[e]) * p[f, 0]
