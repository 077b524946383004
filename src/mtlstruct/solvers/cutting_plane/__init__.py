"""Cutting planes, the paper's Algorithm 1, and the table of restricted master problems.

A master solves the problem over the cuts collected so far.
May import: `objective` and the layers below.
Start reading at `solver.CuttingPlane`, `bundle.Bundle` and `qcqp`.
"""

from mtlstruct.errors import IncompatibleError
from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Mixed, PBlock, Regularizer
from mtlstruct.solvers.cutting_plane import qcqp, smooth
from mtlstruct.solvers.cutting_plane.master import Dual, Master, certify

__all__ = ["MASTERS", "Dual", "Master", "certify", "master_for"]

MASTERS: dict[type[Regularizer], Master] = {
    L2: qcqp.solve,
    BlockL1Squared: qcqp.solve,
    PBlock: smooth.solve,
    Mixed: smooth.solve,
    GroupLasso: qcqp.solve_group_lasso,
}
"""Regularizer class -> master that solves its subproblem."""


def master_for(regularizer: Regularizer) -> Master:
    """Return the master of a regularizer."""
    try:
        return MASTERS[type(regularizer)]
    except KeyError:
        known = ", ".join(sorted(kind.__name__ for kind in MASTERS))
        raise IncompatibleError(
            f"no master solves the subproblem of {type(regularizer).__name__}; there is one for {known}"
        ) from None
