"""The coordinate learner over shards: local passes joined by an exact step (CoCoA), the certificate of one machine.

In a *round*, a pass of all shards at once, each visits its own sentences against the V of the last joint step and its
own moves. Where shards share an attribute their moves add up, so each must be taken for as many times its length as
there are shards that have the attribute, n_a. With that, for fixed mu, all moves together gain at least what the
shards think they gain alone,

    ‖Σ_k d_k‖² ≤ Σ_a n_a Σ_k ‖d_ka‖²

and attributes that one shard has alone, most of them, lose nothing; one factor for all would be K times too careful
with these. How much of this care is needed is learned from the joint steps (`_dare`).

mu follows within the round as often as on one machine. It wants the norms of the whole; to first order they are those
of the beginning plus what each shard has changed, so m numbers of each shard are exchanged. The step that joins
shards is the best along all moves for the mu of the moment, a quadratic. Only rows of shared attributes travel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mtlstruct.distributed.recovery import Recovering
from mtlstruct.distributed.shard_worker import ShardPasses
from mtlstruct.distributed.sharded_oracle import ShardedOracle
from mtlstruct.distributed.team import Each, Guarded, Own
from mtlstruct.linear.products import inner_products
from mtlstruct.objective.oracle import Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import Fit, Stop
from mtlstruct.solvers.coordinate_ascent.run import HOT, UPDATES, Ascent

JOINS = 4
"""How often a round is joined: what a shard does not know of others' moves comes back as gaps of its sentences."""

LEAST = 0.02
"""The least care, and the first: moves of different shards are never quite independent, but beginning with more costs
a cycle and does no harm that the joint step would not see."""


class ShardedAscent(Recovering, Ascent):
    """The state of one run, as Ascent has it; dual variables and V are with the workers.

    base      V of the attributes that several shards have: for each kind the rows `shared`
    care      1: moves of shards are taken to add up in full; 0: not at all. `least` is what it may not go below
    steps     the best joint steps of this cycle: 1 where moves added up as much as was feared
    """

    kept = (*Ascent.kept, "base", "care", "least", "steps")
    oracle: ShardedOracle

    def __init__(
        self, oracle: ShardedOracle, regularizer: Regularizer, c: float, stop: Stop, seed: int
    ) -> None:
        super().__init__(oracle, regularizer, c, stop)
        self.team = team = oracle.team
        numbers = Each(range(team.size))
        team.make("passes", ShardPasses, Own("oracle"), c, seed, numbers, stateful=True)
        self.guarded, self._here = Guarded(team, "passes"), {}
        owners = self.surely(lambda: team.sum("passes", "present"))
        team.make("stretched", ShardPasses.stretch, Own("passes"), owners, team.size, LEAST)
        self.shared = [np.flatnonzero(some > 1) for some in owners]
        self.base: Weights = [v[rows] for v, rows in zip(oracle.zeros(), self.shared, strict=True)]
        self.blocks = [
            np.searchsorted(rows, design.block_ptr)
            for rows, design in zip(self.shared, oracle.encoded.designs, strict=True)
        ]
        self.care, self.least, self.steps = LEAST, LEAST, [1.0]
        self.surely(self.save)

    def part(self) -> bool:
        """See Ascent."""
        return self.within(super().part)

    def snapshot(self) -> Fit:
        """See Ascent; V is collected from all shards."""
        self.V = self.surely(self._collected)
        return self.surely(super().snapshot)

    def result(self) -> Fit:
        """See Ascent. A run that was taken up again at its end has no V yet."""
        if self.certified and not self.V:
            self.V = self.surely(self._collected)
        return self.surely(super().result)

    def _schedule(self) -> list[str]:
        """See Ascent; the V of the last certificate has served."""
        self._dare()
        self.V = []
        return super()._schedule()

    def _dare(self) -> None:
        """Care for the next cycle: with steps of one in the last, moves added up as much as was feared.

        A care that led to shorter steps was too little, and is not tried again. Each change costs a walk over the
        data, so small ones are left.
        """
        others, shortest = self.team.size - 1, min(self.steps)
        if shortest < 0.9:
            self.least = max(self.least, min(1.0, 2 * self.care))
        wanted = ((1 + self.care * others) / max(0.5, shortest) - 1) / others
        care = float(np.clip(max(wanted, 0.5 * self.care), self.least, 1.0))
        if abs(care - self.care) > 0.1 * self.care:
            self.care = care
            self.team.ask("passes", "restretch", care)
        self.steps = []

    def _pass(self, kind: str) -> float:
        """A round: local passes, joined a few times."""
        limit = 2.5 * self._mean_gap() if kind == HOT else 0.0
        sizes = self.team.ask("passes", "begin", kind, limit)
        times = min(UPDATES, max(1, sum(sizes) // 25))
        for part in range(times):
            found = self.team.ask("passes", "visit", (part, times), self.mu.mu, self.tolerance, self.enough)
            if (part + 1) * JOINS // times > part * JOINS // times:
                self._join(sum(loss for _, loss in found))
                self.mu.follow(self.N)
            else:
                self.mu.follow(self.N + sum(change for change, _ in found))
        return float(sum(self.team.ask("passes", "end", self.tolerance)))

    def _join(self, loss: float) -> None:
        """The best step along the moves of all shards, of the dual at the present mu."""
        cross, square, *moves = self.team.sum("passes", "moves")
        cross += self._over_shared(self.base, moves)
        square += self._over_shared(moves, moves)
        rise, curve = self.c * loss - float(self.mu.mu @ cross), float(self.mu.mu @ square)
        best = rise / curve if curve > 0 else 1.0
        self.steps.append(best)
        step = min(1.0, max(0.0, best))
        self.base = [v + u.dtype.type(step) * u for v, u in zip(self.base, moves, strict=True)]
        self.N = self.N + 2 * step * cross + step * step * square
        self.loss += step * loss
        self.team.ask("passes", "join", step, self.base)

    def _over_shared(self, a: Weights, b: Weights) -> NDArray[np.float64]:
        return inner_products(self.oracle.encoded.designs, self.blocks, a, b, self.oracle.templates)

    def _mean_gap(self) -> float:
        total, count = np.sum(self.team.ask("passes", "gap_figures"), axis=0)
        return float(total / count) if count else np.inf

    def _rebuild(self) -> None:
        self.loss = float(sum(self.team.ask("passes", "repair")))
        self.V = self._collected()
        self.N = self.oracle.squared_norms(self.V)
        self.base = [v[rows] for v, rows in zip(self.V, self.shared, strict=True)]
        self.team.ask("passes", "rebase", self.base)

    def _collected(self) -> Weights:
        """V of the whole, from the dual variables."""
        return self.team.sum("passes", "counted")
