"""Progress of a training and of a grid of trainings, on stderr.

Nothing here can end a run: training continues if stderr is closed.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from mtlstruct.solvers import Record, Stop
    from mtlstruct.tuning.runner import Outcome
    from mtlstruct.tuning.study import Trial

RECENT_PASSES = 6
"""Passes from which the speed of convergence is estimated."""


class Screen:
    """The state of the work: one redrawn line on a terminal, a new line per change elsewhere.

    `line` returns the state; with `quiet` nothing is shown. As a context it starts and ends the
    display.
    """

    def __init__(self, line: Callable[[], str], *, quiet: bool) -> None:
        self.line, self.quiet = line, quiet
        self.live: Live | None = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, highlight=False, markup=False, emoji=False)
            self.live = Live(self, console=console, refresh_per_second=4, redirect_stdout=False)

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()

    def say(self, sentence: str) -> None:
        """Print a sentence on a line of its own."""
        if self.live is not None:
            self.live.console.print(sentence)
        elif not self.quiet:
            with suppress(OSError):  # stderr may be closed
                print(sentence, file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Show that the state has changed; a terminal redraws by itself."""
        if self.live is None:
            self.say(self.line())

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.line(), no_wrap=True, overflow="ellipsis")


class TrainingProgress:
    """The passes of one training on the screen. `C` is c·n."""

    def __init__(self, templates: int, stop: Stop, C: float, *, quiet: bool) -> None:
        self.templates, self.stop, self.C = templates, stop, C
        self.began = time.perf_counter()
        self.record: Record | None = None
        self.recent: list[tuple[float, float]] = []  # when passes ended, and the logarithm of the gap
        self.screen = Screen(self.line, quiet=quiet)
        self.say = self.screen.say

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.began

    def see(self, record: Record) -> None:
        """Show the end of a pass."""
        self.record = replace(record, now=None)  # it refers to the training data
        excess = record.gap / self.stop.gap  # as a multiple of the gap at which training stops
        if self.stop.epsilon is not None:
            excess = (record.objective - record.dual) / (self.C * self.stop.epsilon)
        if excess > 0 and math.isfinite(excess):
            self.recent = [*self.recent[1 - RECENT_PASSES :], (self.seconds, math.log(excess))]
        self.screen.tick()

    def left(self, passes: int) -> float | None:
        """Return the seconds left after some passes; None if unknown, or if the gap is reached.

        The logarithm of the gap is extrapolated.
        """
        if len(self.recent) < 2:
            return None
        (first, start), (last, now) = self.recent[0], self.recent[-1]
        one_pass = last - self.recent[-2][0]
        most = (self.stop.max_passes - passes) * last / passes
        speed = (start - now) / (last - first) if last > first else 0.0
        left = max(one_pass, now / speed) if speed > 0 else most
        return max(0.0, min(left, most) - (self.seconds - last)) if now > 0 else None

    def line(self) -> str:
        """Return the state in at most 80 columns; ~ marks an estimated gap."""
        if self.record is None:
            return f"preparing … {clock(self.seconds)}"
        record, left = self.record, self.left(self.record.passes)
        coming = "" if left is None else f", {clock(left)} left"
        return (
            f"pass {record.passes}  {clock(self.seconds)}{coming}  gap {'' if record.certified else '~'}"
            f"{percentage(record.gap)}  objective {figure(record.objective)}  risk {record.risk:.3g}  "
            f"active {record.active}/{self.templates}"
        )


class GridProgress:
    """The trainings of a grid on the screen: how many are done, which failed, the time left."""

    def __init__(
        self, name: Callable[[Trial], str], headline: Callable[[dict[str, Any]], str], *, quiet: bool
    ) -> None:
        self.name, self.headline = name, headline
        self.total = self.done = 0
        self.jobs = 1
        self.ends = math.inf
        self.took: list[float] = []
        self.failed: list[tuple[Trial, str]] = []
        self.began = self.last = time.perf_counter()
        self.screen = Screen(self.line, quiet=quiet)

    def see(self, outcome: Outcome) -> None:
        """Show the end of a training."""
        self.done += 1
        self.last = time.perf_counter()
        if outcome.failure is None:
            self.took.append(outcome.result["seconds"])
            said = self.headline(outcome.result)
        else:
            self.failed.append((outcome.trial, outcome.failure))
            said = f"failed: {outcome.failure}"
        self.screen.say(f"{self.name(outcome.trial)}: {said}")
        self.screen.tick()

    def line(self) -> str:
        """Return the state of the grid."""
        now = time.perf_counter()
        failed = f"; {len(self.failed)} failed" if self.failed else ""
        coming = ""
        if self.took and self.done < self.total:  # the others take as long as those that are done
            left = statistics.fmean(self.took) * (self.total - self.done) / self.jobs
            coming = f", {clock(max(0.0, min(left - (now - self.last), self.ends - now)))} left"
        return f"{self.done} of {self.total} done{failed}  {clock(now - self.began)}{coming}"


def figure(value: float) -> str:
    """Return a number with four digits, or as a whole number, in at most 12 characters."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e8 else f"{value:.4g}"


def percentage(value: float) -> str:
    """Return a share in percent, in at most 12 characters."""
    return f"{value:.2%}" if abs(value) < 1e4 else f"{100 * value:.3g}%"


def clock(seconds: float) -> str:
    """Return a duration as 4.2 s, 42 s, 3:07 or 2:03:07."""
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
