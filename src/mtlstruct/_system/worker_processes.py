"""Work in worker processes by joblib, which Ctrl-C ends without a traceback."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing import resource_tracker
from typing import Any

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend import resource_tracker as loky_resource_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool

from mtlstruct._system.threads import get_threads, set_threads
from mtlstruct.errors import ResourceError


@contextmanager
def unordered_results(tasks: Iterator[Any], jobs: int) -> Iterator[Iterator[Any]]:
    """Run joblib tasks, `jobs` at a time (one: in this process), and give an iterator over their results.

    Tasks are taken when they begin. The workers end with the block, and with this process.
    """
    parallel = joblib.Parallel(
        jobs,
        backend="loky",
        return_as="generator_unordered",
        pre_dispatch=jobs,
        batch_size=1,
        initializer=_end_with,
        initargs=(os.getpid(),),
    )
    threads, results = get_threads(), None
    with _loky_race_hidden(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="joblib")  # of tasks that are cancelled, workers replaced
        try:
            with _signals_deferred() if jobs > 1 else nullcontext():
                results = parallel(tasks)
            yield results
        except BrokenProcessPool:
            raise ResourceError(
                "a training process was killed, perhaps for want of memory; results so far are kept, and the "
                "same command continues (--jobs 1 needs the least memory)"
            ) from None
        finally:
            if results is not None:
                results.close()
            if jobs > 1:
                get_reusable_executor().shutdown(kill_workers=True)
            set_threads(threads)


@contextmanager
def _loky_race_hidden() -> Iterator[None]:
    """Hide the KeyError of loky's manager thread if it is stopped before it has handed out all tasks."""
    hook = threading.excepthook

    def filtered(arguments: Any) -> None:
        if (arguments.thread.name, arguments.exc_type) != ("ExecutorManagerThread", KeyError):
            hook(arguments)

    threading.excepthook = filtered
    try:
        yield
    finally:
        threading.excepthook = hook


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer SIGINT and SIGTERM while worker processes start, and start them with SIGINT blocked.

    A worker that is interrupted while it imports modules, or whose start is cut short here, prints a traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    for tracker in (resource_tracker, loky_resource_tracker):  # which may unblock SIGINT when they start
        tracker.ensure_running()
    received: list[int] = []
    both = ((number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM))
    handlers = {number: handler for number, handler in both if callable(handler)}  # not if ignored
    for number in handlers:
        signal.signal(number, lambda number, frame: received.append(number))
    posix = hasattr(signal, "pthread_sigmask")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if posix else set()
    try:
        yield
    finally:
        if posix:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def _end_with(parent: int) -> None:
    """End this process when its parent ends, however that ends (on Windows an idle one ends by a time limit)."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
