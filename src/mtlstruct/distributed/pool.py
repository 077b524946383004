"""Pool of workers, in this process or in Ray actors, that are called together.

A value for all workers is stored once and passed by its key. A stored value that is no longer
referenced here is dropped by the workers with their next call. Sums are taken in a tree whose shape
depends on the number of workers alone, so that they have the same bits here and on Ray, run after
run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads

Arrays = list[NDArray[Any]]
PerWorker = Sequence[tuple[Any, ...]]
"""Arguments for each worker, in the order of the workers."""


class Stored:
    """A value that every worker can read."""

    def __init__(self, key: int, value: Any) -> None:
        self.key, self._value = key, value

    def value(self) -> Any:
        """Return the value."""
        return self._value


class Pool(AbstractContextManager["Pool"]):
    """Workers in this process, one per thread; if they are fewer, in turn on all threads.

    The results of a worker depend on the arguments only. Its method `forget(live)` drops cached
    results of other stored values. As a context the pool closes itself.
    """

    def __init__(self, workers: list[Any]) -> None:
        self.workers, self.size = workers, len(workers)
        self._stored: WeakValueDictionary[int, Stored] = WeakValueDictionary()
        self._keys = count()

    def store(self, value: Any) -> Stored:
        """Store a value for all workers."""
        key = next(self._keys)
        self._stored[key] = stored = self._put(key, value)
        return stored

    def call(self, method: str, *arguments: Any, each: PerWorker | None = None) -> list[Any]:
        """Call a method of every worker k with `each[k]` and `arguments`; return the results."""
        live = frozenset(self._stored)

        def work(task: tuple[Any, tuple[Any, ...]]) -> Any:
            worker, first = task
            worker.forget(live)
            return getattr(worker, method)(*first, *arguments)

        tasks = list(zip(self.workers, each or [()] * self.size, strict=True))
        return threads.in_order(work, tasks) if self.size >= threads.get_threads() else list(map(work, tasks))

    def sum(self, method: str, *arguments: Any, each: PerWorker | None = None) -> Arrays:
        """Call a method that returns a list of arrays; return the sums over the workers."""
        total: Arrays = tree_reduce(add, self.call(method, *arguments, each=each))
        return total

    def map(self, method: str, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the result of a method of some worker for each item, in order."""
        return map(getattr(self.workers[0], method), items)

    def ensure_capacity(self, needed: int, what: str) -> None:
        """Raise an error if arrays of so many bytes cannot be stored; here they always can."""

    def close(self) -> None:
        """End the workers."""

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, key: int, value: Any) -> Stored:
        return Stored(key, value)


def tree_reduce(join: Callable[[Any, Any], Any], items: Sequence[Any]) -> Any:
    """Join neighbours, then the results, until one is left."""
    left = list(items)
    while len(left) > 1:
        pairs = [join(left[k], left[k + 1]) for k in range(0, len(left) - 1, 2)]
        left = pairs + left[2 * len(pairs) :]
    return left[0]


def add(a: Arrays, b: Arrays) -> Arrays:
    """Return a + b, in the arrays of a."""
    return [np.add(x, y, out=x) for x, y in zip(a, b, strict=True)]
