"""The table of learners."""

from collections.abc import Callable

from .base import Fit, Learner, Record, Start, Stop, Watch, check_needs
from .coordinate import Coordinate
from .cutting_plane import CuttingPlane
from .lbfgs import LBFGS
from .mira import Mira
from .online import Proximal
from .owlqn import OWLQN
from .reweighted import Reweighted

LEARNERS: dict[str, Callable[..., Learner]] = {
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
    "LEARNERS",
    "OWLQN",
    "Coordinate",
    "CuttingPlane",
    "Fit",
    "Learner",
    "Mira",
    "Proximal",
    "Record",
    "Reweighted",
    "Start",
    "Stop",
    "Watch",
    "check_needs",
]
