"""The worker of a Ray team, in a process of its own, and what happens to values on their way to it and back.

Ray's object store hands out arrays that cannot be written to, and kernels are compiled for arrays that can: so what
arrives is copied. Sentences travel, exceptions with fields of their own do not.
"""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mtlstruct._system.threads import set_threads
from mtlstruct.distributed.team import Arrays, Host, add_up
from mtlstruct.errors import MtlError

LARGE = 100_000
"""Bytes from which an argument is put into the object store once instead of being sent to every worker."""


class Actor:
    """A Host. Calls answer twice: that they are done, and the answer, which may stay in the store."""

    def __init__(self, threads: int) -> None:
        set_threads(threads)
        self.host = Host()

    def make(self, name: str, factory: Callable[..., Any], *arguments: Any) -> tuple[bool, None]:
        """See Host."""
        with _plain_errors():
            self.host.make(name, factory, *map(thawed, arguments))
        return True, None

    def ask(self, name: str, method: str, *arguments: Any) -> tuple[bool, Any]:
        """See Host."""
        with _plain_errors():
            return True, self.host.ask(name, method, *map(thawed, arguments))

    def add(self, a: Arrays, b: Arrays) -> tuple[bool, Arrays]:
        """a + b, of which b is another worker's."""
        return True, add_up(a, b)

    def place(self) -> tuple[str, int]:
        """Where this process is."""
        return socket.gethostname(), os.getpid()


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except MtlError as error:
        raise MtlError(str(error)) from None


def bytes_of(what: Any) -> int:
    """Of the arrays and bytes in it."""
    if isinstance(what, np.ndarray):
        return int(what.nbytes)
    if isinstance(what, bytes):
        return len(what)
    return sum(map(bytes_of, _inside(what)))


def thawed(what: Any) -> Any:
    """The same with arrays that may be written to."""
    if isinstance(what, np.ndarray):
        return what if what.flags.writeable else what.copy()
    if not any(map(bytes_of, _inside(what))):
        return what
    if isinstance(what, dict):
        return {name: thawed(value) for name, value in what.items()}
    if isinstance(what, list | tuple):
        return type(what)(map(thawed, what))
    fields = [field.name for field in dataclasses.fields(what) if field.init]
    return dataclasses.replace(what, **{name: thawed(getattr(what, name)) for name in fields})


def _inside(what: Any) -> list[Any]:
    """What a list, a tuple, a dict or a dataclass is made of."""
    if isinstance(what, dict):
        return list(what.values())
    if isinstance(what, list | tuple):
        return list(what)
    if dataclasses.is_dataclass(what) and not isinstance(what, type):
        return [getattr(what, field.name) for field in dataclasses.fields(what)]
    return []
