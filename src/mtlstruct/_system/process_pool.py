"""Work in several processes, where neither a fault nor the death of one costs what the others do.

Processes are started afresh (spawned, not forked: a forked copy of a program with threads may lock up) and kept
for many items. One that dies is reported as the failure of the item it had, and replaced. All of them end with
the program that started them, however that ends.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from mtlstruct.errors import MtlError

Item = TypeVar("Item")
Work = Callable[[Any], Any]


@dataclass(frozen=True)
class Outcome(Generic[Item]):
    """What came of an item: a result, or a sentence on why there is none, with the traceback if it is our fault."""

    item: Item
    result: Any = None
    failure: str | None = None
    trace: str = ""


def in_processes(
    prepare: Callable[[], Work],
    items: Sequence[Item],
    count: int,
    started: Callable[[Item], None] = lambda item: None,
    go_on: Callable[[], bool] = lambda: True,
) -> Generator[Outcome[Item], None, None]:
    """work(item) for each item, `count` at a time; outcomes as they come.

    prepare    called once in each process, gives `work`; it, items and results must be fit for pickling
    started    is told when an item begins
    go_on      is asked before an item begins; once it says no, those that are running are the last
    """
    waiting = list(reversed(items))
    workers: list[_Worker[Item]] = []
    try:
        while True:
            while waiting and len(workers) < count and go_on():
                workers.append(_Worker(prepare))
                workers[-1].give(waiting.pop(), started)
            if not workers:
                return
            for worker in _ready(workers):
                outcome = worker.collect()
                if waiting and worker.alive and go_on():
                    worker.give(waiting.pop(), started)
                else:
                    workers.remove(worker)
                    worker.dismiss()
                yield outcome
    finally:
        for worker in workers:
            worker.kill()


class _Worker(Generic[Item]):
    """A process and the item it is at."""

    def __init__(self, prepare: Callable[[], Work]) -> None:
        context = mp.get_context("spawn")
        self.line, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, prepare), daemon=True)
        with _uninterrupted():
            self.process.start()
        other.close()  # so that the line ends when the process does
        self.alive = True

    def give(self, item: Item, started: Callable[[Item], None]) -> None:
        """Sends an item. A process that has died meanwhile is noticed when its outcome is collected."""
        self.item = item
        started(item)
        with suppress(OSError):
            self.line.send(item)

    def collect(self) -> Outcome[Item]:
        """The outcome that is there; the process's end is one too."""
        try:
            return Outcome(self.item, *self.line.recv())
        except (EOFError, OSError):
            self.alive = False
            self.process.join()
            return Outcome(self.item, failure=_death(self.process.exitcode))

    def dismiss(self) -> None:
        """No more items."""
        self.line.close()
        self.process.join()

    def kill(self) -> None:
        """At once."""
        self.process.kill()
        self.process.join()
        self.line.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back while a process starts, and let it start with SIGINT blocked.

    A process that is interrupted while it imports modules, or whose start is cut short here, prints a traceback.
    """
    resource_tracker.ensure_running()  # else it starts inside, and unblocks SIGINT when it has
    heard: list[int] = []
    held: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = ((number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM))
        held = {number: handler for number, handler in handlers if callable(handler)}
    for number in held:
        signal.signal(number, lambda number, frame: heard.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in held.items():
            signal.signal(number, handler)
        for number in heard[:1]:
            signal.raise_signal(number)


def _ready(workers: Sequence[_Worker[Item]]) -> list[_Worker[Item]]:
    """Those that have something to say; waits for the first."""
    lines = wait([worker.line for worker in workers])
    return [worker for worker in workers if worker.line in lines]


def _death(code: int | None) -> str:
    if code is None or code >= 0:
        return f"its process ended with code {code}"
    perhaps = ", perhaps for want of memory" if -code == signal.SIGKILL else ""
    return f"its process was ended by signal {-code} ({signal.strsignal(-code)}){perhaps}"


# ---------------------------------------------------------------- in the worker process


def _serve(line: Connection, prepare: Callable[[], Work]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the program that started us decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    work: Work | None = None
    with suppress(EOFError, OSError):
        while True:
            item = line.recv()
            try:
                work = work or prepare()
                line.send((work(item),))
            except MtlError as error:
                line.send((None, str(error)))
            except MemoryError:
                line.send((None, "there is not enough memory for it"))
            except Exception as error:
                line.send((None, f"{type(error).__name__}: {error}", traceback.format_exc()))


def _end_with_parent() -> None:
    parent = mp.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
