"""The table of structures: how outputs of a task hang together."""

from ..errors import IncompatibleError
from .base import Parts, Sites, Structure
from .multiclass import MulticlassStructure
from .sequence import SequenceStructure

STRUCTURES: dict[str, type[Structure]] = {
    "sequence": SequenceStructure,
    "multiclass": MulticlassStructure,
}

TASKS: dict[str, tuple[str, ...]] = {"segmentation": ("sequence",)}
"""Tasks that are not called like their structure, and the structures they may have."""


def structures_of(task: str) -> tuple[str, ...]:
    """The names of structures that a task may have."""
    return TASKS.get(task, (task,))


def structure_for(task: str) -> type[Structure]:
    """The structure of a task."""
    name = structures_of(task)[0]
    if name not in STRUCTURES:
        raise IncompatibleError(f"unknown task {task!r}: expected one of {', '.join([*STRUCTURES, *TASKS])}")
    return STRUCTURES[name]


__all__ = [
    "STRUCTURES",
    "TASKS",
    "MulticlassStructure",
    "Parts",
    "SequenceStructure",
    "Sites",
    "Structure",
    "structure_for",
    "structures_of",
]
