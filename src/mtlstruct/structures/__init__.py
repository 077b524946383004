"""The table of structures: how outputs of a task hang together."""

from .base import Parts, Sites, Structure
from .sequence import SequenceStructure

STRUCTURES: dict[str, type[Structure]] = {"sequence": SequenceStructure}

__all__ = ["STRUCTURES", "Parts", "SequenceStructure", "Sites", "Structure"]
