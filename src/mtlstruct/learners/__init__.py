"""The table of learners."""

from .base import Fit, Learner, Record, Stop, Watch, check_needs
from .coordinate import Coordinate
from .cutting_plane import CuttingPlane
from .mira import Mira

LEARNERS = {"coordinate": Coordinate, "cutting-plane": CuttingPlane, "mira": Mira}

__all__ = [
    "LEARNERS",
    "Coordinate",
    "CuttingPlane",
    "Fit",
    "Learner",
    "Mira",
    "Record",
    "Stop",
    "Watch",
    "check_needs",
]
