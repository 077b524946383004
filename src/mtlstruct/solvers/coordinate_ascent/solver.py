"""Block-coordinate ascent on the dual, the default learner: one sentence at a time, template weights in between.

The dual of Ω(w) + c·Σξ_i is  max_α c·Σ_i E_α[Δ] − Ω*(‖v_1‖, …, ‖v_m‖)  with v_j = −c·Σ_i E_α[δΦ_ij], one
distribution α_i a sentence, and w_j = −mu_j v_j. For fixed mu each sentence is a small concave problem that the
structure's dual state improves exactly (`visit`); mu then follows the norms. Passes come in three kinds: *full*
ones over all sentences (those that had nothing to gain wait a while), *active* ones over the tokens whose mass
has left gold, and *hot* ones where most was gained of late. What was moved is moved once more for several sentences
together, if the structure can (`joint`): sentences that contradict each other undo each other's steps.

Nothing is believed that is not certified: V is rebuilt from the dual state (which removes rounding), the lower
bound is taken at the best shrinking of α towards gold, the upper bound at the best scale of w.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mtlstruct._system.stateful import Keeper
from mtlstruct.objective.oracle import Oracle, dual_memory
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import NOTHING, Fit, Start, Stop, Watch, score_bytes, table_bytes
from mtlstruct.solvers.coordinate_ascent.local_run import OwnAscent


@dataclass(frozen=True)
class Coordinate:
    """The learner. `seed` orders the visits."""

    stop: Stop = field(default_factory=Stop)
    seed: int = 0
    needs: tuple[str, ...] = ("decode", "indicator", "weights")

    def memory(self, oracle: Oracle) -> int:
        """V, the dual state, the part scores."""
        return table_bytes(oracle) + dual_memory(oracle.structure, oracle.tokens) + score_bytes(oracle)

    def fit(
        self,
        oracle: Oracle,
        regularizer: Regularizer,
        c: float,
        watch: Watch,
        start: Start | None = None,
        keep: Keeper = NOTHING,
    ) -> Fit:
        """Cycles of passes until the certified gap is small enough."""
        ascent = OwnAscent(oracle, regularizer, c, self.stop, self.seed)
        if start is not None:
            ascent.begin(start.mu)
        keep.begin(ascent)
        stopped = False
        while not (stopped or ascent.ended()):
            ascent.cycle(keep)
            stopped = watch(replace(ascent.figures(), now=ascent.snapshot))
            keep.safe(ascent)
        return ascent.result()
