"""Pool of Ray actors, on one machine or on many.

Ray restarts an actor that dies and repeats its calls. Since results depend on the arguments only,
that is the whole recovery. A worker that does not answer within the time limit is killed here, then
restarted by Ray. Values are pickled: Ray returns read-only arrays, and kernels are compiled for
writable ones.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from importlib import import_module
from itertools import cycle
from queue import SimpleQueue
from threading import Lock
from typing import Any

from mtlstruct._system.memory import gigabytes
from mtlstruct._system.threads import set_threads
from mtlstruct.distributed.pool import Arrays, PerWorker, Pool, Stored, add, tree_reduce
from mtlstruct.errors import MtlError, ResourceError

TIME_LIMIT_SECONDS = 1800.0
"""A worker that has not answered within this time is killed."""

MISSED_HEALTH_CHECKS = 60
"""Health checks in a row, one every few seconds, that a machine may miss before Ray gives it up.

Ray's own limit is 5, which a machine with more work than processors reaches.
"""

MAX_RESTARTS = 5
CONNECT_SECONDS = 10.0

RESUME = "; with --checkpoint DIR, --resume continues from the last checkpoint"

Place = tuple[str, int]
"""Host and process id of an actor."""


class InStore(Stored):
    """A value in Ray's object store."""

    def value(self) -> Any:
        """Return a copy of the value."""
        return pickle.loads(import_module("ray").get(self._value))


class Actor:
    """Worker in a process of its own. Methods return its place and the pickled result."""

    def __init__(self, threads: int) -> None:
        set_threads(threads)
        self.place, self.worker = (socket.gethostname(), os.getpid()), None

    def call(self, make: Stored, live: Collection[int], method: str, *arguments: Any) -> tuple[Place, bytes]:
        """Call a method of a worker that has stored values."""
        return self._answer(make, lambda worker: worker.forget(live) or getattr(worker, method)(*arguments))

    def work(self, make: Stored, method: str, item: bytes) -> tuple[Place, bytes]:
        """Call a method of the worker with a pickled item."""
        return self._answer(make, lambda worker: getattr(worker, method)(pickle.loads(item)))

    def _answer(self, make: Stored, work: Callable[[Any], Any]) -> tuple[Place, bytes]:
        """Return the result of the worker, which is made by the first call."""
        try:
            self.worker = self.worker or make.value()()
            return self.place, pickle.dumps(work(self.worker), protocol=5)
        except MtlError as error:  # those with fields of their own cannot be unpickled
            raise MtlError(str(error)) from None

    def add(self, a: bytes, b: bytes) -> tuple[Place, bytes]:
        """Add the arrays of another worker."""
        return self.place, pickle.dumps(add(pickle.loads(a), pickle.loads(b)), protocol=5)


class RayPool(Pool):
    """An actor for each of `makers`, which return a worker each, such as a Shard.

    address    of a running cluster; None starts one on this machine, which ends with the pool
    time_limit seconds for a call; None for any number
    store      bytes of the object store of a cluster that is started here
    listeners  called with a sentence when a worker was killed or lost
    hint       what to do after a failure, for messages
    """

    def __init__(
        self, makers: Sequence[Callable[[], Any]], *, address: str | None = None, threads: int = 1,
        time_limit: float | None = TIME_LIMIT_SECONDS, listeners: Sequence[Callable[[str], None]] = (),
        store: int | None = None, hint: str = "",
    ) -> None:  # fmt: skip
        self.hint = hint
        self._ray = connect(len(makers), address, store)
        self._stdout = redirect_stdout(sys.stderr)  # where Ray prints its own messages
        self._stdout.__enter__()
        self._dumps = partial(import_module("ray.cloudpickle").dumps, protocol=5)
        self.time_limit, self.listeners = time_limit, list(listeners)
        try:
            self._start(makers, threads)
        except BaseException:
            self.close()
            raise

    def _start(self, makers: Sequence[Callable[[], Any]], threads: int) -> None:
        """Start the actors, and store what makes their workers."""
        actor = self._ray.remote(num_cpus=1, max_restarts=MAX_RESTARTS, max_task_retries=-1)(Actor)
        Pool.__init__(self, [actor.remote(threads) for _ in makers])
        stored = {make: self.store(make) for make in makers}
        self._makers = [stored[make] for make in makers]
        self.places: list[Place | None] = [None] * self.size
        self._free: SimpleQueue[int] = SimpleQueue()
        for k in range(self.size):
            self._free.put(k)
        self._alive, self._lock = self.size, Lock()

    def call(self, method: str, *arguments: Any, each: PerWorker | None = None) -> list[Any]:
        """Call a method of every worker k with `each[k]` and `arguments`; return the results."""
        return [pickle.loads(self._get(result)) for _, result in self._call(method, arguments, each)]

    def sum(self, method: str, *arguments: Any, each: PerWorker | None = None) -> Arrays:
        """Return sums over the workers, computed in a tree: the left worker of each pair adds."""
        additions: list[tuple[int, Any]] = []

        def join(a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
            place, result = self.workers[a[0]].add.options(num_returns=2).remote(a[1], b[1])
            additions.append((a[0], place))
            return a[0], result

        _, root = tree_reduce(join, self._call(method, arguments, each))
        self._wait_for(additions)
        total: Arrays = pickle.loads(self._get(root))
        return total

    def work(self, method: str, item: Any) -> Any:
        """Call a method of a worker that is free with an item; may be called from many threads."""
        k, lost = self._free.get(), False
        try:
            return self._answer(*self._send(k, method, item))
        except ResourceError:  # the worker cannot be restarted
            lost = True
            raise
        finally:
            with self._lock:
                self._alive -= lost
                if not lost or self._alive == 0:  # the last one answers the rest with its error
                    self._free.put(k)

    def map(self, method: str, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the result of a method for each item, in order; draw two items per worker ahead."""
        waiting = deque[tuple[int, Any, Any]]()
        try:
            for k, item in zip(cycle(range(self.size)), items, strict=False):
                waiting.append(self._send(k, method, item))
                if len(waiting) == 2 * self.size:
                    yield self._answer(*waiting.popleft())
            while waiting:
                yield self._answer(*waiting.popleft())
        finally:  # Ray would report calls that end with their worker
            if waiting:
                results = [result for _, _, result in waiting]
                self._ray.wait(results, num_returns=len(results), timeout=CONNECT_SECONDS)

    def _send(self, k: int, method: str, item: Any) -> tuple[int, Any, Any]:
        call = self.workers[k].work.options(num_returns=2)
        return k, *call.remote(self._makers[k], method, self._dumps(item))

    def _answer(self, k: int, place: Any, result: Any) -> Any:
        self._wait_for([(k, place)])
        return pickle.loads(self._get(result))

    def ensure_capacity(self, needed: int, what: str) -> None:
        """Raise an error if arrays do not fit into the object store: Ray would use the disk."""
        capacity = int(self._ray.cluster_resources().get("object_store_memory", 0))
        if needed > capacity:
            raise ResourceError(
                f"{what} needs about {gigabytes(needed)} of Ray's object store, which has {gigabytes(capacity)}: "
                "start Ray with a larger --object-store-memory"
            )

    def close(self) -> None:
        """End the actors, and the cluster if it was started here."""
        with suppress(Exception):  # a cluster that has failed cannot end its actors
            for actor in self.workers:
                self._ray.kill(actor)
        self._ray.shutdown()
        self._stdout.__exit__(None, None, None)

    def _put(self, key: int, value: Any) -> Stored:
        return InStore(key, self._safely(self._ray.put, self._dumps(value)))

    def _call(self, method: str, arguments: Any, each: PerWorker | None) -> list[tuple[int, Any]]:
        """Call all workers and wait; return the number of each, and a reference to its result."""
        live = frozenset(self._stored)
        calls = [
            actor.call.options(num_returns=2).remote(make, live, method, *first, *arguments)
            for actor, make, first in zip(self.workers, self._makers, each or [()] * self.size, strict=True)
        ]
        self._wait_for([(k, place) for k, (place, _) in enumerate(calls)])
        return [(k, result) for k, (_, result) in enumerate(calls)]

    def _wait_for(self, calls: Sequence[tuple[int, Any]]) -> None:
        """Wait for calls, given by worker and reference to its place; report restarts."""
        for k, reference in calls:
            place = self._wait(k, reference)
            if self.places[k] not in (None, place):
                self._report(f"worker {k} was lost; it was restarted and repeats its work")
            self.places[k] = place

    def _wait(self, k: int, reference: Any) -> Place:
        """Return the place of worker k; kill it, for a restart, when it does not answer in time."""
        from ray.exceptions import GetTimeoutError

        for _ in range(MAX_RESTARTS + 1):
            try:
                place: Place = self._get(reference)
                return place
            except GetTimeoutError:
                self._report(f"worker {k} has not answered for {self.time_limit:g} s and was ended")
                self._kill(k)
        raise ResourceError(f"worker {k} has not answered {MAX_RESTARTS + 1} times in a row")

    def _report(self, sentence: str) -> None:
        for listener in self.listeners:
            listener(sentence)

    def _kill(self, k: int) -> None:
        """Kill a worker, for Ray to restart it; a stopped process would not respond to Ray."""
        host, process = self.places[k] or ("", 0)
        if host == socket.gethostname():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                return
        self._ray.kill(self.workers[k], no_restart=False)

    def _get(self, reference: Any) -> Any:
        return self._safely(partial(self._ray.get, timeout=self.time_limit), reference)

    def _safely(self, work: Callable[[Any], Any], what: Any) -> Any:
        """Call Ray; re-raise errors of workers as they are, and errors of Ray as ResourceError."""
        from ray import exceptions as known

        try:
            return work(what)
        except known.GetTimeoutError:
            raise
        except known.RayError as error:
            found = getattr(error, "cause", None) or error  # what a worker raised
        if isinstance(found, known.ObjectStoreFullError | known.OutOfDiskError):
            raise ResourceError("Ray's object store is full: start Ray with a larger --object-store-memory")
        if isinstance(found, known.RayActorError):
            what = f"a worker was lost and cannot be restarted (at most {MAX_RESTARTS} times)"
            raise ResourceError(f"{what}: {_first_line(found)}{self.hint}")
        if isinstance(found, known.RayError):
            raise ResourceError(f"the Ray cluster failed: {_first_line(found)}{self.hint}")
        raise found


def connect(size: int, address: str | None, store: int | None) -> Any:
    """Return Ray, connected to a cluster that has a processor for each worker."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    os.environ.setdefault("RAY_health_check_failure_threshold", str(MISSED_HEALTH_CHECKS))
    ray: Any = import_module("ray")
    settings: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        settings |= {"num_cpus": size, "include_dashboard": False, "object_store_memory": store}
    else:
        _check_reachable(address)
    try:
        ray.init(address=address or "local", **settings)
    except Exception as error:  # Ray has no class of its own for a cluster that does not start
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        raise MtlError(f"cannot reach {where}: {_first_line(error)}") from None
    processors = int(ray.cluster_resources().get("CPU", 0))
    if processors < size:
        ray.shutdown()
        raise ResourceError(f"--shards {size} needs as many processors, the Ray cluster has {processors}")
    return ray


def _check_reachable(address: str) -> None:
    """Raise an error for an address that does not respond: Ray would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon:  # names such as `auto` are Ray's own
        return
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise MtlError(f"cannot reach the Ray cluster at {address}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    """Return the first line of the message of an error, or its name."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
