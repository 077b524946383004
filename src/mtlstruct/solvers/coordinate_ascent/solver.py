"""Block-coordinate pairwise Frank–Wolfe on the dual, with a duality-gap certificate: the default solver.

The dual of Ω(w) + c·Σξ_i is  max_α c·Σ_i E_α[Δ] − Ω*(‖v_1‖, …, ‖v_m‖)  with v_j = −c·Σ_i E_α[δΦ_ij], one
distribution α_i a sentence, and w_j = −mu_j v_j. For fixed mu each sentence is a block: a small concave problem
that the structure's dual state improves by pairwise steps with exact line search (of a sequence, on its edge
marginals). mu is updated multiplicatively from the norms in between. A cycle is

1. a full pass over all sentences; converged ones are left out for a while (shrinking),
2. passes over the working set, the spans whose dual variables have left gold,
3. between these gap-sampled passes, over the spans of the working set with the largest gaps,
4. bounds. When the estimated gap is small, both are computed from scratch: V is rebuilt from the dual variables,
   the lower bound is taken at the best shrinking of α towards gold, the upper bound at the best scale of w.

References
----------
Lacoste-Julien et al.: Block-coordinate Frank–Wolfe optimization for structural SVMs, ICML 2013.
Osokin et al.: Minding the gaps for block Frank–Wolfe optimization of structured SVMs, ICML 2016.
Joachims: Making large-scale SVM learning practical, 1999 (shrinking).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mtlstruct._system.stateful import Keeper
from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import (
    NO_CHECKPOINTS,
    Callback,
    Fit,
    Record,
    Start,
    Stop,
    run_passes,
    score_bytes,
    table_bytes,
)
from mtlstruct.solvers.coordinate_ascent.duals import dual_class
from mtlstruct.solvers.coordinate_ascent.run import Run


@dataclass(frozen=True)
class Coordinate:
    """The solver. `seed` decides the order of block updates."""

    stop: Stop = field(default_factory=Stop)
    seed: int = 0
    needs: tuple[str, ...] = ("decode", "indicator", "weights")

    def memory(self, oracle: Oracle) -> int:
        """Return the bytes of V, the dual state and the part scores."""
        state = dual_class(oracle.structure).memory(oracle.tokens)
        return int(table_bytes(oracle) + state + score_bytes(oracle))

    def fit(
        self,
        oracle: Oracle,
        regularizer: Regularizer,
        c: float,
        callback: Callback | None = None,
        *,
        init: Start | None = None,
        checkpointer: Keeper | None = None,
    ) -> Fit:
        """Run cycles of passes until the certified gap is small enough."""
        run = Run(oracle, regularizer, c, self.stop, self.seed)
        if init is not None:
            run.begin(init.mu)

        def cycle() -> Record:
            while run.next_pass():  # full, working-set and gap-sampled passes; bounds after the last
                (checkpointer or NO_CHECKPOINTS).safe(run)
            return replace(run.figures(), now=run.snapshot)

        run_passes(run, cycle, run.ended, callback, checkpointer)
        return run.result()
