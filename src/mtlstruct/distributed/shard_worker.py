"""What a worker does in the rounds of sharded_ascent.py: visits to its sentences, its moves, the joint step.

Moves of an attribute that n_a shards have are taken for 1 + care·(n_a − 1) times their length, the square of `root`:
the visits see a *stretched* problem, values root_a and V_a/root_a.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct._system import threads
from mtlstruct._system.stateful import Kept, State
from mtlstruct.distributed.sharded_oracle import Shard
from mtlstruct.distributed.team import Arrays
from mtlstruct.errors import IncompatibleError
from mtlstruct.objective.oracle import Weights
from mtlstruct.solvers.coordinate_ascent.local_run import ROUNDS
from mtlstruct.solvers.coordinate_ascent.run import ACTIVE, HOT


class ShardPasses(Kept):
    """The dual variables of a worker's sentences, and the passes over them.

    V, base    of the stretched problem, now and at the last joint step: V_a/root_a of the first kind; V/edge of the
               others, whose features can have no values, so that mu is multiplied by `edge` for them
    slot       of each attribute of the first kind its place among the shared ones, -1 where one shard alone has it
    here       the attributes of the first kind that fire here, the only ones whose rows matter; `blocks`: where those
               of each template begin
    """

    kept = ("state", "random", "gaps", "rest", "wait")

    def __init__(self, shard: Shard, c: float, seed: int, number: int) -> None:
        self.oracle, self.c = shard.oracle, c
        self.random = np.random.Generator(np.random.PCG64([seed, number]))
        S = self.oracle.sentences
        self.gaps = np.full(S, np.inf)
        self.rest, self.wait = np.zeros(S, np.int64), np.zeros(S, np.int64)
        self.spans = np.zeros((0, 3), np.int64)
        self.order = np.zeros(0, np.int64)
        first = self.oracle.encoded.designs[0]
        fires = np.zeros(first.attributes + 1, np.bool_)
        fires[first.ids[: first.ptr[-1]]] = True
        self.here = np.flatnonzero(fires[:-1])
        self.blocks = np.searchsorted(self.here, first.block_ptr)

    # ------------------------------------------------------------ the stretched problem

    def present(self) -> Arrays:
        """1 for each attribute that fires here; features of kinds other than the first are everywhere."""
        first, *rest = self.oracle.encoded.designs
        some = np.zeros(first.attributes + 1, np.int32)
        some[self.here] = 1
        return [some, *(np.append(np.ones(d.attributes, np.int32), np.int32(0)) for d in rest)]

    def stretch(self, owners: Arrays, shards: int, care: float) -> None:
        """Sets up the dual for attributes that so many shards have."""
        encoded = self.oracle.encoded
        first = encoded.designs[0]
        self.shards, self.edge = shards, 1.0
        self.owners = np.maximum(owners[0], 1)
        self.slot = np.where(owners[0] > 1, np.cumsum(owners[0] > 1) - 1, -1).astype(np.int32)
        self.root = np.ones(len(self.owners), np.float32)
        self.values = np.ones(int(first.ptr[-1]), np.float32)
        stretched = replace(encoded, designs=(replace(first, values=self.values), *encoded.designs[1:]))
        self.stretched = replace(self.oracle, encoded=stretched)
        self.V, self.base = self.oracle.zeros(), self.oracle.zeros()
        self.N = np.zeros(self.oracle.templates)
        self.factor = np.ones(self.oracle.templates)
        self.state: Any = self.stretched.dual(self.V, self.N)
        if not hasattr(self.state, "approach"):
            raise IncompatibleError(
                f"{type(self.oracle.structure).__name__} cannot be trained in shards: its dual does not `approach`"
            )
        self.own: Weights = []
        self.restretch(care)

    def restretch(self, care: float) -> None:
        """Between rounds: another care."""
        first, before = self.oracle.encoded.designs[0], self.root
        self.care = care
        self.root = np.sqrt(1 + care * (self.owners - 1)).astype(np.float32)
        np.take(self.root, first.ids[: first.ptr[-1]], out=self.values)
        if len(first.values):
            self.values *= first.values
        for table in (self.V[0], self.base[0]):
            table *= (before / self.root)[:, None]
        edge, self.edge = self.edge, 1 + care * (self.shards - 1)
        for table in (*self.V[1:], *self.base[1:]):
            table *= edge / self.edge
        for design in self.oracle.encoded.designs[1:]:
            self.factor[design.templates] = self.edge

    # ------------------------------------------------------------ a round

    def begin(self, kind: str, limit: float) -> int:
        """Begins a round; how many spans it will visit."""
        self.order, self.own = np.zeros(0, np.int64), []
        if kind == ACTIVE:
            spans = self.state.active()
            self.spans = spans[self.random.permutation(len(spans))]
        elif kind == HOT:
            self.order = self.random.permutation(np.flatnonzero(self.gaps > limit))
            self.spans = self.state.spans(self.order, 0)
        else:
            self.order = self.random.permutation(np.flatnonzero(self.wait == 0))
            self.wait[self.wait > 0] -= 1
            self.spans = self.state.spans(self.order, int(self.random.integers(1 << 30)))
        self._mark()
        self.found = np.zeros(self.oracle.sentences)
        return len(self.spans)

    def _mark(self) -> None:
        """What is done from now on is joined next."""
        self.N[:] = 0
        self.before = self.state.remembered()
        self.loss = 0.0

    def visit(
        self, part: tuple[int, int], mu: NDArray[np.float64], tolerance: float, enough: float
    ) -> tuple[NDArray[np.float64], float]:
        """Visits one part of the spans; what was done since the last step to the squared norms and to the loss."""
        first, last = (len(self.spans) * k // part[1] for k in (part[0], part[0] + 1))
        some = self.spans[first:last]
        visits = self.state.visit(some, self.factor * mu, self.c, ROUNDS, tolerance, enough)
        np.add.at(self.found, some[:, 2], visits.gaps)
        self.loss += visits.loss
        return self.factor * self.N, self.loss

    def moves(self) -> Arrays:
        """⟨v_j, d_j⟩ and ‖d_j‖² over attributes that are here alone, then the moves d of the shared ones."""
        m = self.oracle.templates
        out, first = np.zeros((2, m)), self.oracle.encoded.designs[0]
        shared = np.zeros((int(self.slot.max(initial=-1)) + 1, self.V[0].shape[1]), np.float32)

        def work(b: int) -> tuple[float, float]:
            some = self.here[self.blocks[b] : self.blocks[b + 1]]
            return _moves(some, self.V[0], self.base[0], self.root, self.slot, shared)  # type: ignore[no-any-return]

        found = threads.in_order(work, range(len(first.templates)))
        out[:, first.templates] = np.array(found).reshape(-1, 2).T
        return [*out, shared, *(v[:-1] - b[:-1] for v, b in zip(self.V[1:], self.base[1:], strict=True))]

    def join(self, step: float, shared: Weights) -> None:
        """Takes the step: the dual goes so far from what it was to what it is; shared rows are those given."""
        if step < 1:
            self.state.approach(self.before, 1 - step)
        self._take(step, shared)
        self._mark()

    def end(self, tolerance: float) -> float:
        """Remembers the gaps of the sentences that were visited as a whole; the sum of all that are known."""
        due, gaps = self.order, self.found[self.order]
        self.gaps[due] = gaps
        self.rest[due] = np.where(gaps < tolerance, np.minimum(2 * self.rest[due] + 1, 15), 0)
        self.wait[due] = self.rest[due]
        return self.gap_figures()[0]

    def gap_figures(self) -> tuple[float, int]:
        """Sum and number of the gaps that are known."""
        known = self.gaps[np.isfinite(self.gaps)]
        return float(known.sum()), len(known)

    # ------------------------------------------------------------ certificates and checkpoints

    def repair(self) -> float:
        """Makes the dual exact again; the loss."""
        self.state.repair()
        return float(self.state.loss(self.state.counts()[0]))

    def counted(self) -> Weights:
        """V of the own sentences, from their dual."""
        self.own = self.oracle.zeros()
        self.oracle.count([self.c * z for z in self.state.counts()], self.own)
        return self.own

    def rebase(self, shared: Weights) -> None:
        """Begins anew at the V of the whole, of which shared rows are given and all others are those counted last."""
        self.V[0][:] = self.own[0]
        self.base[0][:] = self.own[0]
        self.own = []
        self._take(0.0, shared)

    def _take(self, step: float, shared: Weights) -> None:
        """V and base after a step."""

        def work(b: int) -> None:
            some = self.here[self.blocks[b] : self.blocks[b + 1]]
            _join(some, self.V[0], self.base[0], self.root, self.slot, shared[0], np.float32(step))

        threads.in_order(work, range(len(self.blocks) - 1))
        for v, base, given in zip(self.V[1:], self.base[1:], shared[1:], strict=True):
            base[:-1] = given / self.edge
            v[:] = base

    def pack(self) -> State:
        """Between rounds, where V is what the last joint step made it. Rows of attributes elsewhere do not matter."""
        return {**super().pack(), "care": self.care, "V": [self.V[0][self.here], *self.V[1:]]}

    def unpack(self, state: State) -> None:
        """See Kept."""
        super().unpack(state)
        self.restretch(state["care"])
        for table in (self.V, self.base):
            table[0][self.here] = state["V"][0]
            for now, kept in zip(table[1:], state["V"][1:], strict=True):
                now[...] = kept


# ---------------------------------------------------------------- kernels


@kernel
def _moves(some, V, base, root, slot, shared):  # type: ignore[no-untyped-def]
    cross = 0.0
    square = 0.0
    for a in some:
        k = slot[a]
        for y in range(V.shape[1]):
            d = V[a, y] - base[a, y]
            if k >= 0:
                shared[k, y] = d / root[a]
            else:
                cross += np.float64(d) * np.float64(base[a, y])
                square += np.float64(d) * np.float64(d)
    return cross, square


@kernel
def _join(some, V, base, root, slot, shared, step):  # type: ignore[no-untyped-def]
    for a in some:
        k = slot[a]
        for y in range(V.shape[1]):
            v = shared[k, y] / root[a] if k >= 0 else base[a, y] + step * (V[a, y] - base[a, y])
            base[a, y] = v
            V[a, y] = v
