"""What tests of the command line share: a small corpus, and what a command came to."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

TRAIN = """\
Ana N B-PER
Paz N I-PER
vive V O
en P O
Lima N B-LOC

en P O
Quito N B-LOC
canta V O
Eva N B-PER

Eva N B-PER
Sol N I-PER
canta V O

Lima N B-LOC
canta V O
en P O
Cusco N B-LOC
"""
WORDS = "今天  天气  好\n我们  今天  去  北京\n\n北京  天气  好\n我  去  图书馆\n"

OLDER_MODEL = b"PK\x03\x04" + bytes(26) + b"model.json, of which the rest is missing"
"""What a command takes for a model that it may replace."""


@dataclass(frozen=True)
class Ran:
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


Run = Callable[..., Ran]


@contextmanager
def sigint_ignored() -> Iterator[None]:
    """Ignore SIGINT in this process and in children that it starts, as in a background job of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
