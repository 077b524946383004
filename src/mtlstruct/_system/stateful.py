"""State of a run that a checkpoint stores and a later run restores.

A class names in `state_fields` the attributes that its future depends on: numbers, strings, arrays,
random generators, other `Stateful` objects, and dataclasses and lists of these. A state is flat:
`bundle/cuts/outputs/3` is the name of an array. Arrays are restored in place where their shape
fits, so that all holders of an array see the restored values.

A solver calls `Checkpointer.restore` once, before its first pass, and `Checkpointer.at_safe_point`
wherever the run could be resumed. Neither changes the numbers of the run.
"""

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mtlstruct.errors import IncompatibleError

State = dict[str, Any]
"""Arrays, numbers, strings and None by flat names."""


class Stateful:
    """Object whose state is stored in checkpoints: the attributes that `state_fields` names."""

    state_fields: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> State:
        """Return the values of `state_fields` by flat names: the arrays themselves, not copies."""
        return {key: value for name in self.state_fields for key, value in _flat(name, getattr(self, name))}

    def load_state_dict(self, state: State) -> None:
        """Restore the state that another object's `state_dict` returned."""
        for name in self.state_fields:
            setattr(self, name, _restored(getattr(self, name), name, state))


class Checkpointer:
    """Checkpointer that stores and restores nothing; subclasses write files."""

    def restore(self, run: Stateful) -> None:
        """Restore the state of an earlier run, if there is one."""

    def at_safe_point(self, run: Stateful) -> None:
        """Store the state if a checkpoint is due. May raise an exception that ends the run."""


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Stateful):
        for key, part in value.state_dict().items():
            yield f"{name}/{key}", part
    elif isinstance(value, list | tuple | deque):
        yield f"{name}/length", len(value)
        for k, item in enumerate(value):
            yield from _flat(f"{name}/{k}", item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _flat(f"{name}/{field.name}", getattr(value, field.name))
    elif isinstance(value, np.random.Generator):
        yield name, json.dumps(value.bit_generator.state)
    elif value is None or isinstance(value, np.ndarray | np.generic | int | float | str):
        yield name, value.item() if isinstance(value, np.generic) else value
    else:
        raise IncompatibleError(
            f"{type(value).__name__} cannot be stored in a checkpoint: it has no state_fields"
        )


def _restored(now: Any, name: str, state: State) -> Any:
    """Return the value of `name` in a state; arrays that fit are restored in place."""
    if isinstance(now, Stateful):
        prefix = f"{name}/"
        now.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
    elif isinstance(now, np.random.Generator):
        now.bit_generator.state = json.loads(state[name])
    elif isinstance(now, list | tuple | deque) or f"{name}/length" in state:
        return _restored_items(now, name, state)
    elif is_dataclass(now):
        names = [field.name for field in fields(now)]
        return replace(now, **{n: _restored(getattr(now, n), f"{name}/{n}", state) for n in names})  # type: ignore[type-var]
    elif not isinstance(value := state[name], np.ndarray):
        return value
    elif isinstance(now, np.ndarray) and (now.shape, now.dtype) == (value.shape, value.dtype):
        now[...] = value
    else:
        return value.copy()
    return now


def _restored_items(now: Any, name: str, state: State) -> Any:
    known, numbers = [] if now is None else now, range(state[f"{name}/length"])
    items = [_restored(known[k] if k < len(known) else None, f"{name}/{k}", state) for k in numbers]
    if isinstance(known, tuple):
        return type(known)._make(items) if hasattr(known, "_make") else tuple(items)
    known.clear()
    known.extend(items)
    return known
