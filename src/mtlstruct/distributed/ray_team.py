"""A team whose workers are Ray actors, on one machine or on many; what it does when one of them is lost.

Arrays travel through Ray's object store: what goes to all workers is put there once, what is summed goes from worker
to worker in the tree of `teams.in_tree`, and what is kept stays in the store, where it outlives the worker that made
it. A worker that dies, or does not answer within the time limit, is replaced: the new one makes all objects anew
from the calls that made them, so it reads and encodes the same sentences again. Every such event is told to `say`.

Refused: Ray where it is not installed, data that do not fit into its object store, a worker that is lost again and
again.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mtlstruct._system.memory import gigabytes
from mtlstruct.corpus import Corpus
from mtlstruct.distributed.ray_actor import LARGE, Actor, bytes_of, thawed
from mtlstruct.distributed.ray_cluster import connect, own_error, reason, store_full
from mtlstruct.distributed.sharded_index import Piece, whole
from mtlstruct.distributed.team import Arrays, Each, Held, Replaced, for_worker, in_tree
from mtlstruct.errors import FormatError, ResourceError
from mtlstruct.formats import partition as pieces
from mtlstruct.formats.text import Part

TIME_LIMIT = 1800.0
"""Seconds after which a worker that has not answered counts as lost."""

STARTING = 300.0
"""The same for a worker that is started and reads its sentences, at least."""

PATIENCE = 5
"""How often one worker may be lost before that is no accident."""


class RayTeam:
    """K actors.

    address    of a running cluster; None starts one on this machine, which ends with the team
    store      bytes of the object store of a cluster that is started here
    listeners  hear a sentence about everything that befalls a worker
    """

    mortal = True
    worker: type[Actor] = Actor

    def __init__(
        self,
        size: int,
        *,
        address: str | None = None,
        time_limit: float = TIME_LIMIT,
        listeners: Sequence[Callable[[str], None]] = (),
        threads: int = 1,
        store: int | None = None,
    ) -> None:
        self._ray = connect(size, address, store)
        self.time_limit, self.listeners = time_limit, list(listeners)
        self._actor = self._ray.remote(max_restarts=0, max_concurrency=1)(self.worker)
        self._threads = threads
        self._made: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = []
        self._stateful: set[str] = set()
        self._fresh: set[int] = set()
        self._losses = [0] * size
        self.actors = [self._start() for _ in range(size)]
        self.places: list[tuple[str, int]] = self._ray.get([actor.place.remote() for actor in self.actors])

    @property
    def size(self) -> int:
        """K."""
        return len(self.actors)

    def make(self, name: str, factory: Callable[..., Any], *arguments: Any, stateful: bool = False) -> None:
        """See Team."""
        arguments = self._stored(arguments)
        self._made = [entry for entry in self._made if entry[0] != name]
        self._stateful |= {name} if stateful else set()
        self._surely("make", name, factory, arguments)
        self._made.append((name, factory, arguments))

    def ask(self, name: str, method: str, *arguments: Any) -> list[Any]:
        """See Team."""
        return self.fetch(self.hold(name, method, *arguments))

    def hold(self, name: str, method: str, *arguments: Any) -> Held:
        """See Team."""
        return Held(self, self._surely("ask", name, method, self._stored(arguments)))

    def fetch(self, held: Held) -> list[Any]:
        """See Team."""
        return [thawed(answer) for answer in self._get(held.answers)]

    def lend(self, values: Sequence[Any]) -> Sequence[Any]:
        """See Team."""
        return [self._put(value) for value in values]

    def sum(self, name: str, method: str, *arguments: Any) -> Arrays:
        """See Team. The pairs of the tree are added by the worker on the left."""
        while True:
            answers = self.hold(name, method, *arguments).answers
            self._adding: list[tuple[int, Any]] = []
            root = in_tree(list(enumerate(answers)), lambda a, b: (a[0], self._added(a, b)))
            if not any(self._settle({k: done}, name in self._stateful) for k, done in self._adding):
                total: Arrays = thawed(self._get([root[1]])[0])
                return total

    def ensure_room(self, needed: int, what: str) -> None:
        """Refuses what cannot go through the object store, with both figures: beyond that Ray would crawl on disk."""
        room = int(self._ray.cluster_resources().get("object_store_memory", 0))
        if needed > room:
            raise ResourceError(
                f"{what} needs about {gigabytes(needed)} of Ray's object store, which has {gigabytes(room)}: start "
                "Ray with a larger --object-store-memory"
            )

    def outline(self) -> Corpus:
        """What all workers have read, without the text."""
        return whole(self.ask("piece", "outline"))

    def close(self) -> None:
        """Ends the actors, and the cluster if it was started here."""
        for actor in self.actors:
            self._ray.kill(actor)
        self._ray.shutdown()

    def _added(self, left: tuple[int, Any], right: tuple[int, Any]) -> Any:
        """Does not wait: the tree grows from references, and is waited for at its root."""
        done, value = self.actors[left[0]].add.options(num_returns=2).remote(left[1], right[1])
        self._adding.append((left[0], done))
        return value

    def say(self, sentence: str) -> None:
        """Something that befell a worker."""
        for hear in self.listeners:
            hear(sentence)

    def _end(self, k: int) -> None:
        """Ends a worker that does not listen; a stopped process would not even hear Ray."""
        self._ray.kill(self.actors[k])
        host, process = self.places[k]
        if host == socket.gethostname():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)

    def _start(self) -> Any:
        return self._actor.options(num_cpus=1).remote(self._threads)

    def _surely(self, call: str, name: str, what: Any, arguments: Sequence[Any]) -> list[Any]:
        """The answers of all workers, as references; those of workers that were lost are asked for again."""
        stateful = call == "ask" and name in self._stateful
        if stateful and self._fresh:
            self._raise_replaced()
        answers: dict[int, Any] = {}
        while len(answers) < self.size:
            asked = {}
            for k in range(self.size):
                if k not in answers:
                    method = getattr(self.actors[k], call).options(num_returns=2)
                    asked[k] = method.remote(name, what, *for_worker(arguments, k))
            lost = self._settle({k: done for k, (done, _) in asked.items()}, stateful)
            answers |= {k: value for k, (_, value) in asked.items() if k not in lost}
        return [answers[k] for k in range(self.size)]

    def _settle(self, waiting: dict[int, Any], stateful: bool = False) -> set[int]:
        """Waits for all; replaces workers that were lost, and returns which."""
        from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

        deadline = time.monotonic() + self.time_limit
        lost = set()
        for k, done in waiting.items():
            try:
                self._ray.get(done, timeout=max(0.01, deadline - time.monotonic()))
            except GetTimeoutError:
                self._end(k)
                lost.add(k)
                self.say(f"worker {k} has not answered for {self.time_limit:g} s and was ended")
            except RayActorError as error:
                lost.add(k)
                self.say(f"worker {k} was lost: {reason(error)}")
            except RayTaskError as error:
                raise own_error(error) from None
        for k in sorted(lost):
            self._replace(k)
        if stateful and lost:
            self._raise_replaced()
        return lost

    def _replace(self, k: int) -> None:
        began = time.monotonic()
        self._losses[k] += 1
        if self._losses[k] > PATIENCE:
            raise ResourceError(f"worker {k} was lost {self._losses[k]} times: that is no accident")
        self.actors[k] = self._start()
        self.places[k] = self._settle_one(k, self.actors[k].place.remote())
        for name, factory, arguments in self._made:
            make = self.actors[k].make.options(num_returns=2)
            done, _ = make.remote(name, factory, *for_worker(arguments, k))
            self._settle_one(k, done)
        if self._stateful & {name for name, _, _ in self._made}:
            self._fresh.add(k)
        self.say(
            f"worker {k} was replaced and has its sentences again after {time.monotonic() - began:.1f} s"
        )

    def _settle_one(self, k: int, done: Any) -> Any:
        """What a worker that is being prepared answers; a busy machine may take its time to start one."""
        from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

        limit = max(STARTING, self.time_limit)
        try:
            return self._ray.get(done, timeout=limit)
        except GetTimeoutError:
            raise ResourceError(f"worker {k} could not take another's place within {limit:g} s") from None
        except RayActorError as error:
            raise ResourceError(
                f"worker {k} was lost while it took another's place: {reason(error)}"
            ) from None
        except RayTaskError as error:
            raise own_error(error) from None

    def _raise_replaced(self) -> None:
        fresh, self._fresh = sorted(self._fresh), set()
        raise Replaced(fresh)

    def _stored(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Large arguments as references to the one copy that all workers read."""
        return tuple(
            Each([self._put(v) for v in a.values]) if isinstance(a, Each) else self._put(a) for a in arguments
        )

    def _put(self, argument: Any) -> Any:
        size = bytes_of(argument)
        if size < LARGE:
            return argument
        from ray.exceptions import ObjectStoreFullError, OutOfDiskError

        try:
            return self._ray.put(argument)
        except (ObjectStoreFullError, OutOfDiskError):
            raise store_full(size) from None

    def _get(self, references: Sequence[Any]) -> list[Any]:
        from ray.exceptions import ObjectStoreFullError, RayTaskError

        try:
            found: list[Any] = self._ray.get(list(references), timeout=self.time_limit)
            return found
        except ObjectStoreFullError:
            raise store_full(None) from None
        except RayTaskError as error:
            raise own_error(error) from None


@contextmanager
def read_team(
    path: Path, shards: int, read: Callable[[Part], Corpus], *, at_blank_lines: bool, **settings: Any
) -> Iterator[RayTeam]:
    """Start a team of at most `shards` workers that have each read a piece of a file, or of the files of a folder."""
    parts = pieces.cut(pieces.files_of(path.absolute()), shards, at_blank_lines=at_blank_lines)
    if not parts:
        raise FormatError(path, None, "no sentences: expected data, got an empty file")
    team = RayTeam(len(parts), **settings)
    try:
        team.make("piece", _read_piece, Each(parts), read)
        yield team
    finally:
        team.close()


def _read_piece(parts: list[Part], read: Callable[[Part], Corpus]) -> Piece:
    return Piece(pieces.read(parts, read))
