"""One shard alone: the run of one machine in a worker, to the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Keeper
from mtlstruct.distributed.recovery import Recovering
from mtlstruct.distributed.sharded_oracle import Shard, ShardedOracle
from mtlstruct.distributed.team import Guarded, Own
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import Fit, Record, Stop
from mtlstruct.solvers.coordinate_ascent.local_run import OwnAscent


class RemoteAscent(Recovering):
    """Asks the worker what the learner asks of an Ascent."""

    def __init__(
        self, oracle: ShardedOracle, regularizer: Regularizer, c: float, stop: Stop, seed: int
    ) -> None:
        self.team = oracle.team
        self.team.make("ascent", _begun, Own("oracle"), regularizer, c, stop, seed, stateful=True)
        self.guarded, self._here = Guarded(self.team, "ascent"), {}
        self.surely(self.save)

    def begin(self, mu: NDArray[np.float64]) -> None:
        """See Ascent."""

        def begin() -> None:
            self._ask("begin", mu)
            self.save()

        self.surely(begin)

    def cycle(self, keep: Keeper) -> None:
        """See Ascent."""
        while self.within(lambda: self._ask("part")):
            keep.safe(self)

    def ended(self) -> bool:
        """See Ascent."""
        return self.surely(lambda: bool(self._ask("ended")))

    def figures(self) -> Record:
        """See Ascent."""
        found: Record = self.surely(lambda: self._ask("figures"))
        return found

    def snapshot(self) -> Fit:
        """See Ascent."""
        found: Fit = self.surely(lambda: self._ask("snapshot"))
        return found

    def result(self) -> Fit:
        """See Ascent."""
        found: Fit = self.surely(lambda: self._ask("result"))
        return found

    def _ask(self, method: str, *arguments: Any) -> Any:
        return self.team.ask("ascent", method, *arguments)[0]


def _begun(shard: Shard, regularizer: Regularizer, c: float, stop: Stop, seed: int) -> OwnAscent:
    return OwnAscent(shard.oracle, regularizer, c, stop, seed)
