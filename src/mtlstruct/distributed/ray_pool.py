"""Workers that are Ray actors, on one machine or on many.

Ray restarts an actor that dies and repeats its calls; since answers depend on the arguments only, that is the whole
recovery. A worker that does not answer within the time limit is ended here, then restarted by Ray. Values travel
pickled: Ray hands out arrays that cannot be written to, and kernels are compiled for arrays that can.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from mtlstruct._system.memory import gigabytes
from mtlstruct._system.threads import set_threads
from mtlstruct.corpus import Corpus
from mtlstruct.distributed.pool import Arrays, Pool, Stored, add, in_tree
from mtlstruct.distributed.shard import Shard
from mtlstruct.errors import FormatError, MtlError, ResourceError
from mtlstruct.formats import partition as pieces
from mtlstruct.formats.text import Part

TIME_LIMIT = 1800.0
"""Seconds after which a worker that has not answered is ended."""

RESTARTS = 5
"""How often a worker may be lost."""

PATIENCE = 10.0
"""Seconds in which a cluster must answer."""


class InStore(Stored):
    """A value in Ray's object store."""

    def value(self) -> Any:
        """Return a copy of the value."""
        return pickle.loads(import_module("ray").get(self._value))


class Actor:
    """A Shard in a process of its own. Calls return the process that answered, and the answer."""

    def __init__(self, number: int, read: Callable[[], Corpus], threads: int) -> None:
        set_threads(threads)
        self.shard = Shard(number, read)
        self.place = socket.gethostname(), os.getpid()

    def call(self, live: Collection[int], method: str, *arguments: Any) -> tuple[tuple[str, int], bytes]:
        """Call a method of the shard."""
        self.shard.forget(live)
        try:
            return self.place, pickle.dumps(getattr(self.shard, method)(*arguments), protocol=5)
        except MtlError as error:  # those with fields of their own cannot be unpickled
            raise MtlError(str(error)) from None

    def add(self, a: bytes, b: bytes) -> tuple[tuple[str, int], bytes]:
        """Add the arrays of another worker."""
        return self.place, pickle.dumps(add(pickle.loads(a), pickle.loads(b)), protocol=5)


class RayPool(Pool):
    """An actor for each of `readers`, which give the sentences of a shard each.

    address    of a running cluster; None starts one on this machine, which ends with the pool
    store      bytes of the object store of a cluster that is started here
    listeners  called with a sentence when a worker was ended or lost
    """

    def __init__(
        self, readers: Sequence[Callable[[], Corpus]], *, address: str | None = None, threads: int = 1,
        time_limit: float = TIME_LIMIT, listeners: Sequence[Callable[[str], None]] = (), store: int | None = None,
    ) -> None:  # fmt: skip
        self._ray = connect(len(readers), address, store)
        self.time_limit, self.listeners = time_limit, list(listeners)
        actor = self._ray.remote(num_cpus=1, max_restarts=RESTARTS, max_task_retries=-1)(Actor)
        super().__init__([actor.remote(k, read, threads) for k, read in enumerate(readers)])
        self.places: list[tuple[str, int] | None] = [None] * self.size

    def call(self, method: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Call a method of every worker and return the answers in their order."""
        return [pickle.loads(self._get(value)) for _, value in self._begin(method, arguments, each)]

    def sum(self, method: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> Arrays:
        """Sum arrays over the workers in a tree; the left worker of each pair adds."""
        adding: list[tuple[int, Any]] = []

        def join(a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
            done, value = self.workers[a[0]].add.options(num_returns=2).remote(a[1], b[1])
            adding.append((a[0], done))
            return a[0], value

        _, root = in_tree(self._begin(method, arguments, each), join)
        self._settle(adding)
        total: Arrays = pickle.loads(self._get(root))
        return total

    def ensure_room(self, needed: int, what: str) -> None:
        """Raise an error for values that do not fit into the object store: Ray would spill to disk."""
        room = int(self._ray.cluster_resources().get("object_store_memory", 0))
        if needed > room:
            raise ResourceError(
                f"{what} needs about {gigabytes(needed)} of Ray's object store, which has {gigabytes(room)}: start "
                "Ray with a larger --object-store-memory"
            )

    def close(self) -> None:
        """End the actors, and the cluster if it was started here."""
        for actor in self.workers:
            self._ray.kill(actor)
        self._ray.shutdown()

    def _put(self, key: int, value: Any) -> Stored:
        return InStore(key, self._safely(self._ray.put, pickle.dumps(value, protocol=5)))

    def _begin(self, method: str, arguments: Any, each: Any) -> list[tuple[int, Any]]:
        """Call all workers and wait; return the number of each, and a reference to its answer."""
        live = frozenset(self._stored)
        asked = [
            actor.call.options(num_returns=2).remote(live, method, *(each[k] if each else ()), *arguments)
            for k, actor in enumerate(self.workers)
        ]
        self._settle([(k, done) for k, (done, _) in enumerate(asked)])
        return [(k, value) for k, (_, value) in enumerate(asked)]

    def _settle(self, waiting: Sequence[tuple[int, Any]]) -> None:
        """Wait for all workers, and tell of those that were restarted."""
        for k, done in waiting:
            place = self._wait(k, done)
            if self.places[k] not in (None, place):
                self._say(f"worker {k} was lost; it was restarted and has its sentences again")
            self.places[k] = place

    def _wait(self, k: int, done: Any) -> tuple[str, int]:
        """Return where worker k answered; end it, for Ray to restart it, as often as it does not answer in time."""
        from ray.exceptions import GetTimeoutError

        for _ in range(RESTARTS + 1):
            try:
                place: tuple[str, int] = self._get(done)
                return place
            except GetTimeoutError:
                self._say(f"worker {k} has not answered for {self.time_limit:g} s and was ended")
                self._end(k)
        raise ResourceError(f"worker {k} has not answered {RESTARTS + 1} times in a row")

    def _say(self, sentence: str) -> None:
        for hear in self.listeners:
            hear(sentence)

    def _end(self, k: int) -> None:
        """End a worker, for Ray to restart it; a stopped process of this machine would not hear Ray."""
        host, process = self.places[k] or ("", 0)
        if host == socket.gethostname():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                return
        self._ray.kill(self.workers[k], no_restart=False)

    def _get(self, reference: Any) -> Any:
        return self._safely(partial(self._ray.get, timeout=self.time_limit), reference)

    def _safely(self, work: Callable[[Any], Any], what: Any) -> Any:
        """Call Ray; raise what a worker raised as it was, and what Ray raises as a sentence."""
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
                f"a worker was lost and cannot be restarted (at most {RESTARTS} times): {_line(found)}"
            )
        if isinstance(found, known.RayError):
            raise ResourceError(f"the Ray cluster failed: {_line(found)}")
        raise found


@contextmanager
def read_pool(
    path: Path, shards: int, read: Callable[[Part], Corpus], *, at_blank_lines: bool, **settings: Any
) -> Iterator[RayPool]:
    """Start at most `shards` workers that each read a piece of a file, or of the files of a folder."""
    parts = pieces.cut(pieces.files_of(path.absolute()), shards, at_blank_lines=at_blank_lines)
    if not parts:
        raise FormatError(path, None, "no sentences: expected data, got an empty file")
    pool = RayPool([partial(pieces.read, part, read) for part in parts], **settings)
    try:
        yield pool
    finally:
        pool.close()


def connect(size: int, address: str | None, store: int | None) -> Any:
    """Return Ray, connected to a cluster that has a processor for each worker."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    ray: Any = import_module("ray")
    settings: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        settings |= {"num_cpus": size, "include_dashboard": False, "object_store_memory": store}
    else:
        _check_answers(address)
    try:
        ray.init(address=address or "local", **settings)
    except Exception as error:  # Ray has no class of its own for a cluster that does not come up
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        raise MtlError(f"cannot reach {where}: {_line(error)}") from None
    there = int(ray.cluster_resources().get("CPU", 0))
    if there < size:
        ray.shutdown()
        raise ResourceError(f"--shards {size} needs as many processors, the Ray cluster has {there}")
    return ray


def _check_answers(address: str) -> None:
    """Raise an error for an address where nobody answers, which Ray would ask for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon:  # names such as `auto` are Ray's own
        return
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise MtlError(f"cannot reach the Ray cluster at {address}: {_line(error)}") from None


def _line(error: Exception) -> str:
    """Return the first line of what an error says, or its name."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
