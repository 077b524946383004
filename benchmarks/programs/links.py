"""One pass of sharded training on Ray with links of so many bytes a second: TEMPLATES DATA SENTENCES WORKERS LINK.

A link of 0 is as fast as it goes. Prints the seconds of each joint step in which all shared rows travel, and the
bytes of these rows. A value that a worker or the driver gets from elsewhere is slept for as long as its way would
take; values that many workers get are slept for by all at once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
from mtlstruct.distributed.cocoa import ShardedAscent

from mtlstruct.distributed.ray_actor import LARGE, Actor, bytes_of
from mtlstruct.distributed.ray_team import RayTeam
from mtlstruct.distributed.sharded_index import Piece, pieces_of
from mtlstruct.distributed.team import Arrays, Each
from mtlstruct.formats import columns
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import train_shards


class Linked(Actor):
    """A worker at the end of a slow link."""

    link = 0.0

    def ask(self, name: str, method: str, *arguments: Any) -> tuple[bool, Any]:
        """See Actor."""
        if name == "link":
            type(self).link = arguments[0]
            return True, None
        travel(arguments, self.link)
        return super().ask(name, method, *arguments)

    def add(self, a: Arrays, b: Arrays) -> tuple[bool, Arrays]:
        """See Actor."""
        travel(b, self.link)
        return super().add(a, b)


class LinkedTeam(RayTeam):
    """Its driver has such a link, too."""

    worker = Linked
    link = 0.0

    def _get(self, references: Any) -> list[Any]:
        found = super()._get(references)
        travel(found, self.link)
        return found


def travel(what: Any, link: float) -> None:
    """As long as the way of large values takes."""
    if link and bytes_of(what) >= LARGE:
        time.sleep(bytes_of(what) / link)


def timed(join: Callable[..., None], seconds: list[float], sizes: list[int]) -> Callable[..., None]:
    """The same with a stop-watch."""

    def work(ascent: ShardedAscent, loss: float) -> None:
        began = time.perf_counter()
        join(ascent, loss)
        seconds.append(time.perf_counter() - began)
        sizes.append(bytes_of(ascent.base))

    return work


def main(templates: str, data: str, sentences: str, workers: str, link: str) -> None:
    """The program."""
    corpus = columns.read(data).take(np.arange(int(sentences)))
    seconds: list[float] = []
    sizes: list[int] = []
    ShardedAscent._join = timed(ShardedAscent._join, seconds, sizes)  # type: ignore[method-assign]
    with closing(LinkedTeam(int(workers), store=2_000_000_000)) as team:
        team.make("piece", Piece, Each(pieces_of(corpus, team.size)))
        team.ask("link", "is", float(link))
        team.link = float(link)
        options = Options(shards=team.size, max_iter=1)
        train_shards(team, TemplateSet.read(templates), options, lambda record: True)
    print(json.dumps({"seconds": seconds, "bytes": sizes[0]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
