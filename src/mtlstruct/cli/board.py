"""What a person sees of a grid while it runs: how many cells are done, which failed, how long it will take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mtlstruct.cli.progress import clock, screen

if TYPE_CHECKING:
    from mtlstruct._system.process_pool import Outcome

Run = TypeVar("Run")


class Board(Generic[Run]):
    """How far the runs of a grid are. `jobs` run at a time."""

    def __init__(
        self,
        total: int,
        missing: int,
        name: Callable[[Run], str],
        headline: Callable[[dict[str, Any]], str],
        *,
        quiet: bool,
    ) -> None:
        self.total, self.waiting, self.done = total, missing, total - missing
        self.name, self.headline = name, headline
        self.running: dict[int, float] = {}
        self.took: list[float] = []
        self.failed: list[tuple[Run, str]] = []
        self.jobs = 1
        self.began = time.perf_counter()
        self.screen = screen(self.line, quiet=quiet)

    def expect(self, total: int) -> None:
        """So many runs in all, none of which has been looked for yet."""
        self.total, self.waiting, self.done = total, total, 0

    def know(self, count: int) -> None:
        """So many of those that were waited for have been run before."""
        self.waiting -= count
        self.done += count

    def started(self, run: Run) -> None:
        """A run begins."""
        self.waiting -= 1
        self.running[id(run)] = time.perf_counter()

    def see(self, outcome: Outcome[Run]) -> None:
        """A run has ended."""
        self.took.append(time.perf_counter() - self.running.pop(id(outcome.item)))
        self.done += 1
        if outcome.failure is None:
            self.screen.say(f"{self.name(outcome.item)}: {self.headline(outcome.result)}")
        else:
            self.failed.append((outcome.item, outcome.failure))
            self.screen.say(f"{self.name(outcome.item)}: failed: {outcome.failure}")
            if outcome.trace:
                self.screen.say(outcome.trace.rstrip())
        self.screen.tick()

    def line(self) -> str:
        """The state."""
        left = self._left()
        coming = "" if left is None else f", {clock(left)} left"
        failed = f", {len(self.failed)} of them failed" if self.failed else ""
        seconds = clock(time.perf_counter() - self.began)
        return f"{self.done} of {self.total} done{failed}, {len(self.running)} running  {seconds}{coming}"

    def _left(self) -> float | None:
        """As if each took as long as those that are done did; where the long ones come first, it will be less."""
        if not self.took:
            return None
        one, now = statistics.fmean(self.took), time.perf_counter()
        running = sum(max(0.0, one - (now - since)) for since in self.running.values())
        return (one * self.waiting + running) / self.jobs
