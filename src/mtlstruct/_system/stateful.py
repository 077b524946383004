"""What a run must remember to be gone on with: plain values, taken out of an object and put back into a new one.

A class names the attributes that matter in `kept`; the rest is made anew from the data and the options. Values are
numbers, texts, arrays, random generators, other `Kept` objects, and dataclasses and lists of all these. Arrays are
put back in place where they fit, so that whoever holds the same array sees them too.

A learner calls `Keeper.begin` once, before its first pass, and `Keeper.safe` wherever it could go on from. What is
done with that is none of its business: `checkpoints` writes files. Keeping only reads: it changes no run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mtlstruct.errors import IncompatibleError

State = dict[str, Any]
"""Nested dicts and lists of numbers, texts and arrays."""


class Kept:
    """Can be taken up again. `kept` names what the future of an object depends on."""

    kept: ClassVar[tuple[str, ...]] = ()

    def pack(self) -> State:
        """The values of `kept`: the arrays themselves, not copies."""
        return {name: packed(getattr(self, name)) for name in self.kept}

    def unpack(self, state: State) -> None:
        """Makes this object, which is new, what the one was that `state` is of."""
        for name in self.kept:
            setattr(self, name, unpacked(getattr(self, name), state[name]))


class Keeper:
    """Keeps nothing and has nothing to go on from: what a run gets that nobody wants to take up again."""

    def begin(self, run: Kept) -> None:
        """Brings the run to where an earlier one was, if there was one."""

    def safe(self, run: Kept) -> None:
        """The run could go on from here. May raise what ends it."""


def packed(value: Any) -> Any:
    """A value as plain ones: the arrays in it are its own."""
    if isinstance(value, Kept):
        return value.pack()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, np.ndarray | int | float | str):
        return value
    if isinstance(value, list | tuple | deque):
        return [packed(item) for item in value]
    if is_dataclass(value):
        return {field.name: packed(getattr(value, field.name)) for field in fields(value)}
    raise IncompatibleError(
        f"{type(value).__name__} cannot be kept in a checkpoint: it does not name what to keep"
    )


def unpacked(now: Any, kept: Any) -> Any:
    """What was kept, in the form of what is there now."""
    if isinstance(now, Kept):
        now.unpack(kept)
    elif isinstance(now, np.random.Generator):
        now.bit_generator.state = kept
    elif isinstance(now, list | deque):
        items = _items(now, kept)
        now.clear()
        now.extend(items)
    elif isinstance(now, tuple):
        return type(now)(*_items(now, kept)) if hasattr(now, "_fields") else tuple(_items(now, kept))
    elif isinstance(kept, dict):
        return replace(now, **{name: unpacked(getattr(now, name), kept[name]) for name in kept})
    elif isinstance(kept, np.ndarray):
        if not (isinstance(now, np.ndarray) and (now.shape, now.dtype) == (kept.shape, kept.dtype)):
            return kept.copy()
        now[...] = kept
    else:
        return kept
    return now


def _items(now: Sequence[Any], kept: Sequence[Any]) -> list[Any]:
    return [unpacked(now[k] if k < len(now) else _absent(item), item) for k, item in enumerate(kept)]


def _absent(kept: Any) -> Any:
    """What stands for an item that the new object does not have yet: only its kind matters."""
    return [] if isinstance(kept, list) else None
