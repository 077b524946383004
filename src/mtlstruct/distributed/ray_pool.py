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
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from mtlstruct._system.memory import gigabytes
from mtlstruct._system.threads import set_threads
from mtlstruct.corpus import Corpus
from mtlstruct.distributed.pool import Arrays, PerWorker, Pool, Stored, add, tree_reduce
from mtlstruct.distributed.shard import Shard
from mtlstruct.errors import FormatError, MtlError, ResourceError
from mtlstruct.formats import partition
from mtlstruct.formats.text import Part

TIME_LIMIT_SECONDS = 1800.0
"""A worker that has not answered within this time is killed."""

MISSED_HEALTH_CHECKS = 60
"""Health checks in a row, one every few seconds, that a machine may miss before Ray gives it up.

Ray's own limit is 5, which a machine with more work than processors reaches.
"""

MAX_RESTARTS = 5
CONNECT_SECONDS = 10.0

RESUME = "with --checkpoint DIR, --resume continues from the last checkpoint"

Place = tuple[str, int]
"""Host and process id of an actor."""


class InStore(Stored):
    """A value in Ray's object store."""

    def value(self) -> Any:
        """Return a copy of the value."""
        return pickle.loads(import_module("ray").get(self._value))


class Actor:
    """Shard in a process of its own. Methods return its place and the pickled result."""

    def __init__(self, number: int, read: Callable[[], Corpus] | None, threads: int) -> None:
        set_threads(threads)
        self.shard = Shard(number, read)
        self.place = socket.gethostname(), os.getpid()

    def call(self, live: Collection[int], method: str, *arguments: Any) -> tuple[Place, bytes]:
        """Call a method of the shard."""
        self.shard.forget(live)
        try:
            return self.place, pickle.dumps(getattr(self.shard, method)(*arguments), protocol=5)
        except MtlError as error:  # those with fields of their own cannot be unpickled
            raise MtlError(str(error)) from None

    def add(self, a: bytes, b: bytes) -> tuple[Place, bytes]:
        """Add the arrays of another worker."""
        return self.place, pickle.dumps(add(pickle.loads(a), pickle.loads(b)), protocol=5)


class RayPool(Pool):
    """An actor for each of `readers`, which return the sentences of a shard each; None if encoded.

    address    of a running cluster; None starts one on this machine, which ends with the pool
    store      bytes of the object store of a cluster that is started here
    listeners  called with a sentence when a worker was killed or lost
    """

    def __init__(
        self, readers: Sequence[Callable[[], Corpus] | None], *, address: str | None = None, threads: int = 1,
        time_limit: float = TIME_LIMIT_SECONDS, listeners: Sequence[Callable[[str], None]] = (),
        store: int | None = None,
    ) -> None:  # fmt: skip
        self._ray = connect(len(readers), address, store)
        self.time_limit, self.listeners = time_limit, list(listeners)
        actor = self._ray.remote(num_cpus=1, max_restarts=MAX_RESTARTS, max_task_retries=-1)(Actor)
        super().__init__([actor.remote(k, read, threads) for k, read in enumerate(readers)])
        self.places: list[Place | None] = [None] * self.size

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

    def _put(self, key: int, value: Any) -> Stored:
        return InStore(key, self._safely(self._ray.put, pickle.dumps(value, protocol=5)))

    def _call(self, method: str, arguments: Any, each: PerWorker | None) -> list[tuple[int, Any]]:
        """Call all workers and wait; return the number of each, and a reference to its result."""
        live = frozenset(self._stored)
        calls = [
            actor.call.options(num_returns=2).remote(live, method, *first, *arguments)
            for actor, first in zip(self.workers, each or [()] * self.size, strict=True)
        ]
        self._wait_for([(k, place) for k, (place, _) in enumerate(calls)])
        return [(k, result) for k, (_, result) in enumerate(calls)]

    def _wait_for(self, calls: Sequence[tuple[int, Any]]) -> None:
        """Wait for calls, given by worker and reference to its place; report restarts."""
        for k, reference in calls:
            place = self._wait(k, reference)
            if self.places[k] not in (None, place):
                self._report(f"worker {k} was lost; it was restarted and has its sentences again")
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
            raise ResourceError(
                f"a worker was lost and cannot be restarted (at most {MAX_RESTARTS} times): {_first_line(found)}; "
                + RESUME
            )
        if isinstance(found, known.RayError):
            raise ResourceError(f"the Ray cluster failed: {_first_line(found)}; {RESUME}")
        raise found


def read_pool(
    path: Path, shards: int, read: Callable[[Part], Corpus], *, at_blank_lines: bool, **settings: Any
) -> RayPool:
    """Start at most `shards` workers that each read a part of a file or folder."""
    parts = partition.split(partition.files_of(path.absolute()), shards, at_blank_lines=at_blank_lines)
    if not parts:
        raise FormatError(path, None, "no sentences: expected data, got an empty file")
    return RayPool([partial(partition.read, part, read) for part in parts], **settings)


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
