"""The table of structures: how outputs of a task hang together."""

from .base import Parts, Sites, Structure
from .sequence import SequenceStructure
from .tree import ProjectiveTree, SingleRootProjectiveTree, SingleRootTree, TreeStructure

STRUCTURES: dict[str, type[Structure]] = {
    "sequence": SequenceStructure,
    "tree": TreeStructure,
    "projective-tree": ProjectiveTree,
    "single-root-tree": SingleRootTree,
    "single-root-projective-tree": SingleRootProjectiveTree,
}

__all__ = [
    "STRUCTURES",
    "Parts",
    "ProjectiveTree",
    "SequenceStructure",
    "SingleRootProjectiveTree",
    "SingleRootTree",
    "Sites",
    "Structure",
    "TreeStructure",
]
