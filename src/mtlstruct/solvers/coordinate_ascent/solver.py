"""Block-coordinate Frank–Wolfe on the dual, with a duality gap: the default solver.

The dual of Ω(w) + c·Σξ_i is  max_α c·Σ_i E_α[Δ] − Ω*(‖v_1‖, …, ‖v_m‖)  with one distribution α_i
per sentence, v_j = −c·Σ_i E_α[δΦ_ij] and w_j = −mu_j v_j. For fixed mu each sentence is a block: a
small concave problem that the structure's dual state improves by steps with exact line search (of a
sequence, on its edge marginals). mu is updated multiplicatively from the norms in between. A cycle
is

1. a full pass over all sentences; converged ones are left out for a while (shrinking),
2. passes over the working set, the spans whose dual variables have left gold,
3. between these gap-sampled passes, over the spans of the working set with the largest gaps,
4. bounds. When the estimated gap is small, both are computed from scratch: V is rebuilt from the
   dual variables, the lower bound is taken at the best shrinking of α towards gold, the upper bound
   at the best scale of w.

References
----------
Lacoste-Julien et al.: Block-coordinate Frank–Wolfe optimization for structural SVMs, ICML 2013.
Osokin et al.: Minding the gaps for block Frank–Wolfe optimization of structured SVMs, ICML 2016.
Joachims: Making large-scale SVM learning practical, 1999 (shrinking).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import Solver, Start, Stop, score_bytes, table_bytes
from mtlstruct.solvers.coordinate_ascent.duals import dual_class
from mtlstruct.solvers.coordinate_ascent.run import Run


@dataclass(frozen=True)
class Coordinate(Solver):
    """The solver. `seed` decides the order of block updates."""

    stop: Stop = field(default_factory=Stop)
    seed: int = 0
    needs: tuple[str, ...] = ("decode", "indicator", "weights")

    def memory(self, oracle: Oracle) -> int:
        """Return the bytes of V, the dual state and the part scores."""
        state = dual_class(type(oracle.structure)).memory(oracle)
        return int(table_bytes(oracle) + state + score_bytes(oracle))

    def start(self, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None) -> Run:
        """Return the run before the first pass."""
        run = Run(oracle, regularizer, c, self.stop, self.seed)
        if init is not None:
            run.begin(init)
        return run
