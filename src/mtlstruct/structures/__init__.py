"""Decoding, n-best, marginals and constraints on part scores, and the table of structures.

May import: `errors`, `_numba` and `_system`; no weights, no text, no solver state.
Start reading at `base.Structure` and `sequence`.
"""

from mtlstruct.errors import IncompatibleError
from mtlstruct.structures.base import Parts, Sites, Structure
from mtlstruct.structures.sequence import MulticlassStructure, SequenceStructure
from mtlstruct.structures.tree import ProjectiveTree, SingleRootProjectiveTree, SingleRootTree, TreeStructure

STRUCTURES: dict[str, type[Structure]] = {
    "sequence": SequenceStructure,
    "multiclass": MulticlassStructure,
    "tree": TreeStructure,
    "projective-tree": ProjectiveTree,
    "single-root-tree": SingleRootTree,
    "single-root-projective-tree": SingleRootProjectiveTree,
}

TASK_STRUCTURES: dict[str, tuple[str, ...]] = {
    "segmentation": ("sequence",),
    "dependency": ("tree", "projective-tree", "single-root-tree", "single-root-projective-tree"),
}
"""The structures of tasks whose name is not that of their structure."""


def structures_of(task: str) -> tuple[str, ...]:
    """Return the names of the structures that a task may have."""
    return TASK_STRUCTURES.get(task, (task,))


def structure_for(task: str, name: str | None = None) -> type[Structure]:
    """Return the structure of that name, or the default of the task."""
    name = name or structures_of(task)[0]
    if name not in STRUCTURES:
        raise IncompatibleError(
            f"unknown task {task!r}: expected one of {', '.join([*STRUCTURES, *TASK_STRUCTURES])}"
        )
    return STRUCTURES[name]


__all__ = [
    "STRUCTURES", "TASK_STRUCTURES", "MulticlassStructure", "Parts", "ProjectiveTree", "SequenceStructure",
    "SingleRootProjectiveTree", "SingleRootTree", "Sites", "Structure", "TreeStructure", "structure_for",
    "structures_of",
]  # fmt: skip
