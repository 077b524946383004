"""K workers that hold a part of the data each, asked together: one interface for threads and for Ray.

A worker is a host of named objects. `make` builds an object in each, `ask` calls a method of it in each and brings
the answers back in the order of the workers, `hold` leaves the answers where they are, to be passed to later calls,
and `sum` adds up arrays in a tree whose shape depends on K alone: the same bits on threads, on Ray, run after run.

A worker may be lost and replaced (distributed.py). Objects are then made anew from the calls that made them. What
has a state of its own is made with `stateful`: the next call to it says by `Replaced` whose state is gone, and
`Guarded` brings the objects of all workers back to where they were last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct._system.stateful import Kept, State, packed, unpacked

Arrays = list[NDArray[Any]]


@dataclass(frozen=True)
class Each:
    """An argument that differs: the value for each worker."""

    values: Sequence[Any]


@dataclass(frozen=True)
class Own:
    """An argument that the worker has: one of its objects, by name."""

    name: str


class Held(Kept):
    """Answers that stayed with the workers; only good as an argument to later calls of the same team."""

    def __init__(self, team: Team, answers: Sequence[Any]) -> None:
        self.team, self.answers = team, answers

    def pack(self) -> State:
        """What the workers have."""
        return {"answers": packed(self.team.fetch(self))}

    def unpack(self, state: State) -> None:
        """Lends it to the workers again."""
        self.answers = self.team.lend(unpacked(self.team.fetch(self), state["answers"]))


class Replaced(Exception):
    """Workers were lost, and others stand in their place whose stateful objects are as they were made."""

    def __init__(self, workers: Sequence[int]) -> None:
        self.workers = tuple(workers)
        super().__init__(f"workers {', '.join(map(str, self.workers))} were replaced")


class Team(Protocol):
    """K workers."""

    @property
    def size(self) -> int:
        """K."""
        ...

    @property
    def mortal(self) -> bool:
        """Whether workers may be lost."""
        ...

    def make(self, name: str, factory: Callable[..., Any], *arguments: Any, stateful: bool = False) -> None:
        """In each worker, name = factory(*arguments); Each, Own and Held arguments are resolved there."""
        ...

    def ask(self, name: str, method: str, *arguments: Any) -> list[Any]:
        """What method(*arguments) of each worker's object answers."""
        ...

    def hold(self, name: str, method: str, *arguments: Any) -> Held:
        """The same, left with the workers."""
        ...

    def fetch(self, held: Held) -> list[Any]:
        """What was left with the workers."""
        ...

    def lend(self, values: Sequence[Any]) -> Sequence[Any]:
        """The opposite: answers of a Held for these values, one a worker."""
        ...

    def sum(self, name: str, method: str, *arguments: Any) -> Arrays:
        """The same where answers are lists of arrays, summed over workers by `add_up`."""
        ...

    def ensure_room(self, needed: int, what: str) -> None:
        """Refuses arrays that could not be passed on."""
        ...

    def close(self) -> None:
        """Dismisses the workers."""
        ...


class Host:
    """A worker: objects by name, and how arguments find them."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}

    def make(self, name: str, factory: Callable[..., Any], *arguments: Any) -> None:
        """name = factory(*arguments)."""
        self.objects[name] = factory(*map(self._resolved, arguments))

    def ask(self, name: str, method: str, *arguments: Any) -> Any:
        """method(*arguments) of an object."""
        return getattr(self.objects[name], method)(*map(self._resolved, arguments))

    def _resolved(self, argument: Any) -> Any:
        return self.objects[argument.name] if isinstance(argument, Own) else argument


class LocalTeam:
    """Workers in this process, each on a thread of its own where there are threads enough."""

    mortal = False

    def __init__(self, size: int) -> None:
        self.hosts = [Host() for _ in range(size)]
        self._pool: ThreadPoolExecutor | None = None

    @property
    def size(self) -> int:
        """K."""
        return len(self.hosts)

    def make(self, name: str, factory: Callable[..., Any], *arguments: Any, stateful: bool = False) -> None:
        """See Team."""
        self._each(lambda k: self.hosts[k].make(name, factory, *for_worker(arguments, k)))

    def ask(self, name: str, method: str, *arguments: Any) -> list[Any]:
        """See Team."""
        return self._each(lambda k: self.hosts[k].ask(name, method, *for_worker(arguments, k)))

    def hold(self, name: str, method: str, *arguments: Any) -> Held:
        """See Team."""
        return Held(self, self.ask(name, method, *arguments))

    def fetch(self, held: Held) -> list[Any]:
        """See Team."""
        return list(held.answers)

    def lend(self, values: Sequence[Any]) -> Sequence[Any]:
        """See Team."""
        return values

    def sum(self, name: str, method: str, *arguments: Any) -> Arrays:
        """See Team."""
        answers = self.ask(name, method, *arguments)
        total: Arrays = in_tree(answers, add_up)
        return total

    def ensure_room(self, needed: int, what: str) -> None:
        """Nothing is passed on: all workers see the same memory."""

    def close(self) -> None:
        """Ends the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _each(self, work: Callable[[int], Any]) -> list[Any]:
        """Not by threads.in_order: what a worker does may use that pool itself, and would wait for its own thread."""
        if threads.get_threads() == 1 or self.size == 1:
            return [work(k) for k in range(self.size)]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(self.size, threads.get_threads()), "shard")
        return list(self._pool.map(work, range(self.size)))


class Guarded:
    """A stateful object of each worker, one that can be packed; all can go back to where they were saved."""

    def __init__(self, team: Team, name: str) -> None:
        self.team, self.name = team, name
        self._saved: Held | None = None

    def save(self) -> None:
        """Here is where to go back to. Costs nothing where workers cannot be lost."""
        if self.team.mortal:
            self._saved = self.team.hold(self.name, "pack")

    def back(self) -> None:
        """All workers to where they were saved, the new ones and the old; as they were made if nowhere yet."""
        while self._saved is not None:
            try:
                self.team.ask(self.name, "unpack", self._saved)
                return
            except Replaced:
                continue

    def pack(self) -> list[State]:
        """The states of all workers."""
        return self.team.ask(self.name, "pack")

    def unpack(self, states: Sequence[State]) -> None:
        """Other states for all."""
        self.team.ask(self.name, "unpack", Each(states))


def for_worker(arguments: Sequence[Any], k: int) -> list[Any]:
    """The arguments as worker k gets them."""
    return [
        a.values[k] if isinstance(a, Each) else a.answers[k] if isinstance(a, Held) else a for a in arguments
    ]


def in_tree(items: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """join over neighbours, then over the joined ones, until one is left."""
    left = list(items)
    while len(left) > 1:
        pairs = [join(left[k], left[k + 1]) for k in range(0, len(left) - 1, 2)]
        left = pairs + left[2 * len(pairs) :]
    return left[0]


def add_up(a: Arrays, b: Arrays) -> Arrays:
    """a + b, in fresh arrays: what a worker answered may still be its own."""
    return [np.add(x, y) for x, y in zip(a, b, strict=True)]
