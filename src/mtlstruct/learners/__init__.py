"""The table of learners."""

from .base import Fit, Learner, Record, Stop, Watch, check_needs
from .coordinate import Coordinate
from .cutting_plane import CuttingPlane

LEARNERS = {"coordinate": Coordinate, "cutting-plane": CuttingPlane}

__all__ = [
    "LEARNERS",
    "Coordinate",
    "CuttingPlane",
    "Fit",
    "Learner",
    "Record",
    "Stop",
    "Watch",
    "check_needs",
]
