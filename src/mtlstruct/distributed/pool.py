"""Workers that are asked together: one interface for threads and for Ray.

A value for all workers is stored once and goes by its number; a stored value that is no longer referenced here is
forgotten by the workers with their next call. Sums are taken in a tree whose shape depends on the number of workers
alone, so they have the same bits on threads and on Ray, run after run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads

Arrays = list[NDArray[Any]]


class Stored:
    """A value that every worker can read."""

    def __init__(self, key: int, value: Any) -> None:
        self.key, self._value = key, value

    def value(self) -> Any:
        """Return the value."""
        return self._value


class Pool:
    """Workers in this process, each on a thread of its own where there are threads enough.

    A worker's answers depend on the arguments only. Its `forget(live)` drops what was made from other stored values.
    """

    def __init__(self, workers: list[Any]) -> None:
        self.workers, self.size = workers, len(workers)
        self._stored: WeakValueDictionary[int, Stored] = WeakValueDictionary()
        self._keys = count()
        self._threads: ThreadPoolExecutor | None = None

    def store(self, value: Any) -> Stored:
        """Store a value for all workers."""
        key = next(self._keys)
        self._stored[key] = found = self._put(key, value)
        return found

    def call(self, method: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Call a method of every worker, with `each[k]` before the other arguments; answers in order of workers."""
        live = frozenset(self._stored)

        def work(k: int) -> Any:
            self.workers[k].forget(live)
            return getattr(self.workers[k], method)(*(each[k] if each else ()), *arguments)

        # not by threads.in_order: a worker may use that pool itself, and would wait for its own thread
        if threads.get_threads() == 1 or self.size == 1:
            return [work(k) for k in range(self.size)]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(min(self.size, threads.get_threads()), "shard")
        return list(self._threads.map(work, range(self.size)))

    def sum(self, method: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> Arrays:
        """Call a method whose answers are lists of arrays, and add them up."""
        total: Arrays = in_tree(self.call(method, *arguments, each=each), add)
        return total

    def ensure_room(self, needed: int, what: str) -> None:
        """Raise an error if arrays of so many bytes cannot be passed on; here all workers see the same memory."""

    def close(self) -> None:
        """End the workers."""
        if self._threads is not None:
            self._threads.shutdown()

    def _put(self, key: int, value: Any) -> Stored:
        return Stored(key, value)


def in_tree(items: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join neighbours, then the joined ones, until one is left."""
    left = list(items)
    while len(left) > 1:
        pairs = [join(left[k], left[k + 1]) for k in range(0, len(left) - 1, 2)]
        left = pairs + left[2 * len(pairs) :]
    return left[0]


def add(a: Arrays, b: Arrays) -> Arrays:
    """Return a + b in new arrays."""
    return [np.add(x, y) for x, y in zip(a, b, strict=True)]
