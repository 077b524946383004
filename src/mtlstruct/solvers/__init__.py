"""Solvers of the training problem, a package per family, and the table of them.

May import: `objective` and the layers below.
Start reading at `base` (the interface), then `coordinate_ascent.solver`, the default.
"""

from collections.abc import Callable

from mtlstruct.solvers.base import Callback, Fit, Record, Solver, Start, Stop, check_needs
from mtlstruct.solvers.coordinate_ascent.solver import Coordinate
from mtlstruct.solvers.cutting_plane.solver import CuttingPlane
from mtlstruct.solvers.likelihood.lbfgs import LBFGS, Reweighted
from mtlstruct.solvers.likelihood.owlqn import OWLQN
from mtlstruct.solvers.online import Mira, Proximal

SOLVERS: dict[str, Callable[..., Solver]] = {
    "coordinate": Coordinate,
    "cutting-plane": CuttingPlane,
    "lbfgs": LBFGS,
    "owl-qn": OWLQN,
    "reweighted": Reweighted,
    "proximal": Proximal,
    "mira": Mira,
}

__all__ = [
    "LBFGS",
    "OWLQN",
    "SOLVERS",
    "Callback",
    "Coordinate",
    "CuttingPlane",
    "Fit",
    "Mira",
    "Proximal",
    "Record",
    "Reweighted",
    "Solver",
    "Start",
    "Stop",
    "check_needs",
]
