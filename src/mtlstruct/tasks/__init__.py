"""Tasks: how each one reads, streams, formats and scores its data.

May import: `evaluation`, `model` and the layers below; not `training`, so that `predict` stays
light. Start reading at `base.Task`; `task_of` finds the object of a task by its name.
"""

from mtlstruct.tasks.base import FileOptions, OutputOptions, Source, Task
from mtlstruct.tasks.dependency import Dependency
from mtlstruct.tasks.segmentation import Segmentation
from mtlstruct.tasks.sequence import Multiclass, Sequence

TASKS: dict[str, Task] = {
    "sequence": Sequence("sequence"),
    "segmentation": Segmentation("segmentation"),
    "dependency": Dependency("dependency"),
    "multiclass": Multiclass("multiclass"),
}


def task_of(name: str) -> Task:
    """Return the task of a name; a user-defined structure is treated as label sequences."""
    return TASKS.get(name) or Sequence(name)


__all__ = ["TASKS", "FileOptions", "OutputOptions", "Source", "Task", "task_of"]
