"""Work over sentences, on any number of threads, with the same bits on one and on sixty-four.

The corpus is cut into a *fixed* number of chunks that depends on the data alone; threads take chunks, and
results come back in chunk order, so a sum over them does not depend on who was fast. Kernels release the GIL.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")
Item = TypeVar("Item")

CHUNKS = 64
"""The most pieces a corpus is cut into; more than any thread count we expect, few enough to cost nothing."""

LEAST = 1000
"""Tokens below which a piece is not worth a thread's attention."""


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_threads = cores()
_pool: ThreadPoolExecutor | None = None


def set_threads(count: int | None) -> int:
    """Use `count` threads from now on (None: all cores); returns what is in force."""
    global _threads, _pool
    _threads = max(1, count or cores())
    if _pool is not None:
        _pool.shutdown()
        _pool = None
    return _threads


def _forget() -> None:
    """A copy of this process that was forked has none of its threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def get_threads() -> int:
    """The number of threads that parallel parts use."""
    return _threads


def chunks(ptr: NDArray[np.int64], count: int = CHUNKS) -> list[tuple[int, int]]:
    """Cuts sentences 0..S into at most `count` runs of about equal token counts. ptr: int64[S+1]."""
    sentences = len(ptr) - 1
    if sentences <= 0:
        return []
    count = max(1, min(count, int(ptr[-1] - ptr[0]) // LEAST))
    goals = ptr[0] + (ptr[-1] - ptr[0]) * np.arange(1, count, dtype=np.int64) // count
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ptr, goals), [sentences]]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def shares(size: int) -> list[tuple[int, int]]:
    """Cuts 0..size into an equal run for each thread: for work in which it does not matter where the cuts are."""
    cuts = np.linspace(0, size, _threads + 1).astype(np.int64).tolist()
    return [(first, last) for first, last in pairwise(cuts) if first < last]


def in_order(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """[work(item) for item in items], on threads: this one and others, each taking the next item when it is free."""
    global _pool
    if _threads == 1 or len(items) < 2:
        return [work(item) for item in items]
    if _pool is None:
        _pool = ThreadPoolExecutor(_threads - 1, "mtlstruct")
    found: dict[int, Result] = {}
    numbers, turn = iter(range(len(items))), threading.Lock()

    def following() -> int | None:
        with turn:
            return next(numbers, None)

    def take() -> None:
        try:
            while (k := following()) is not None:
                found[k] = work(items[k])
        except BaseException:
            while following() is not None:  # nobody begins what will not be wanted
                pass
            raise

    # a future for each item would cost more than a small item does
    others = [_pool.submit(take) for _ in range(min(_threads, len(items)) - 1)]
    try:
        take()
    finally:
        for other in others:
            if not other.cancel():  # else it has not begun, and there is nothing left for it
                other.result()
    return [found[k] for k in range(len(items))]


def over_sentences(kernel: Callable[[int, int], Result], ptr: NDArray[np.int64]) -> list[Result]:
    """Calls kernel(first, last) on each fixed chunk of sentences; results in order."""
    return in_order(lambda span: kernel(*span), chunks(ptr))
