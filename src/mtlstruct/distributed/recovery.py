"""Runs whose state is with workers, which may be lost: all go back to the end of the last cycle, and on from there.

The state of a run at that place is whole: what is here and what each worker has. So a run in which workers were lost
makes the same steps as one in which none was, only later, and comes to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mtlstruct._system.stateful import Kept, State
from mtlstruct.distributed.team import Guarded, Replaced

Result = TypeVar("Result")


class Recovering(Kept):
    """`kept` names what is here; the workers' part is what their object `guarded` packs."""

    guarded: Guarded
    _here: State

    def pack(self) -> State:
        """See Kept."""
        return self.surely(lambda: {**super(Recovering, self).pack(), "workers": self.guarded.pack()})

    def unpack(self, state: State) -> None:
        """See Kept."""

        def take() -> None:
            super(Recovering, self).unpack(state)
            self.guarded.unpack(state["workers"])
            self.save()

        self.surely(take)

    def save(self) -> None:
        """Here is where to go back to."""
        self.guarded.save()
        self._here = super().pack()

    def surely(self, work: Callable[[], Result]) -> Result:
        """Work between cycles, done anew where workers were replaced meanwhile."""
        while True:
            try:
                return work()
            except Replaced:
                self._back()

    def within(self, part: Callable[[], bool]) -> bool:
        """A part of a cycle; the cycle begins again where workers were replaced. Whether there is more of it."""
        try:
            more = part()
            if not more:
                self.save()
            return more
        except Replaced:
            self._back()
            return True

    def _back(self) -> None:
        self.guarded.back()
        if self._here:
            super().unpack(self._here)
