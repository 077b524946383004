"""Cutting planes, the paper's Algorithm 1, and the table of restricted master problems.

A master solves the problem over the cuts collected so far.
May import: `objective` and the layers below.
Start reading at `solver.CuttingPlane`, `bundle.Bundle` and `qcqp`.
"""

from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Mixed, PBlock, Regularizer
from mtlstruct.solvers.cutting_plane import qcqp, smooth
from mtlstruct.solvers.cutting_plane.master import Master

MASTERS: dict[type[Regularizer], Master] = {
    L2: qcqp.solve,
    BlockL1Squared: qcqp.solve,
    PBlock: smooth.solve,
    Mixed: smooth.solve,
    GroupLasso: qcqp.solve,
}
"""Regularizer class -> master that solves its subproblem."""
