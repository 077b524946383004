"""Work over sentences on any number of threads, with the same bits for every number of threads.

The corpus is cut into chunks whose number depends on the data alone. Threads take chunks, and
results come back in the order of the chunks, so that sums over them do not depend on timing.
Kernels release the GIL.
"""

import os
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from queue import SimpleQueue
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import interpreting

Result = TypeVar("Result")
Item = TypeVar("Item")

MAX_CHUNKS = 64
MIN_CHUNK_TOKENS = 1000


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_threads = cores()
_pool: ThreadPoolExecutor | None = None
_inside = threading.local()
"""Its attribute `pool` is set on the threads of the pool."""


def set_threads(count: int | None) -> int:
    """Use `count` threads from now on (None: all cores); return the number."""
    global _threads
    _threads = max(1, count or cores())
    if _pool is not None:
        _pool.shutdown()
    _forget_pool()
    return _threads


def get_threads() -> int:
    """Return the number of threads that parallel parts use."""
    return _threads


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads of its parent
    os.register_at_fork(after_in_child=_forget_pool)


def chunks(ptr: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Cut sentences 0..S into runs of about equal token counts. ptr: int64[S+1]."""
    sentences = len(ptr) - 1
    if sentences <= 0:
        return []
    count = max(1, min(MAX_CHUNKS, int(ptr[-1] - ptr[0]) // MIN_CHUNK_TOKENS))
    if count == 1:
        return [(0, sentences)]
    goals = ptr[0] + (ptr[-1] - ptr[0]) * np.arange(1, count, dtype=np.int64) // count
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ptr, goals), [sentences]]))
    return list(pairwise(cuts.tolist()))


def shares(size: int) -> list[tuple[int, int]]:
    """Cut 0..size into an equal run per thread; results must not depend on the cuts."""
    cuts = np.linspace(0, size, _threads + 1).astype(np.int64).tolist()
    return [(first, last) for first, last in pairwise(cuts) if first < last]


def in_order(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return [work(item) for item in items], computed on threads unless called from one of them."""
    if len(items) < 2 or _alone():
        return [work(item) for item in items]
    return list(_the_pool().map(work, items))


def with_helpers(work: Callable[[int], Result], count: int) -> Result:
    """Return work(0) of this thread; others may call work(1) to work(count - 1) meanwhile."""
    if count == 1 or _alone():
        return work(0)
    helpers = [_the_pool().submit(work, rank) for rank in range(1, count)]
    try:
        return work(0)
    finally:
        for helper in helpers:
            if not helper.cancel():  # it has started
                helper.result()


def _alone() -> bool:
    """Return whether a thread works alone: there is one, it is of the pool, or the JIT is off."""
    return _threads == 1 or hasattr(_inside, "pool") or interpreting()


def _the_pool() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(_threads, "mtlstruct", lambda: setattr(_inside, "pool", True))
    return _pool


def over_sentences(kernel: Callable[[int, int], Result], ptr: NDArray[np.int64]) -> list[Result]:
    """Return the results of kernel(first, last) for each chunk of sentences."""
    return in_order(lambda span: kernel(*span), chunks(ptr))


def as_completed(
    work: Callable[[Item], Result], items: Iterable[Item], jobs: int
) -> Generator[Result, None, None]:
    """Yield work(item) for each item, `jobs` at a time, in the order of completion.

    One job runs on this thread. An item is drawn when its work begins; none is drawn after the
    generator is closed. `work` must not raise an exception. The threads do not keep an interrupted
    process alive.
    """
    if jobs == 1:
        yield from map(work, items)
        return
    source, lock, closed = iter(items), threading.Lock(), threading.Event()
    done: SimpleQueue[list[Result]] = SimpleQueue()

    def worker() -> None:
        while True:
            with lock:
                drawn = [] if closed.is_set() else list(islice(source, 1))
            done.put([work(item) for item in drawn])
            if not drawn:
                return

    for _ in range(jobs):
        threading.Thread(target=worker, daemon=True).start()
    try:
        while jobs:
            found = done.get()
            jobs -= not found
            yield from found
    finally:
        closed.set()
