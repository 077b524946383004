"""A small corpus, and the result of a command line."""

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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
TEMPLATES = "# words\n\nU0:%x[-1,0]\nU1:%x[0,0]\nU2:%x[1,0]\n# tags\nU3:%x[0,1]\nU4:%x[-1,1]/%x[0,1]\n\nB\n"
WORDS = "今天  天气  好\n我们  今天  去  北京\n\n北京  天气  好\n我  去  图书馆\n"

OLDER_MODEL = b"PK\x03\x04" + bytes(26) + b"model.json, of which the rest is missing"
"""A file that commands recognise as a model, and so may replace."""


class Ran(NamedTuple):
    """Exit code and output of a command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)

    def ok(self) -> "Ran":
        """Assert that the command succeeded; return this result."""
        assert self.code == 0, self.err
        return self

    def rejected(self, *words: str) -> None:
        """Assert exit code 2, no output, and an error message of one line that has these words."""
        assert (self.code, self.out) == (2, "")
        assert self.err.startswith("mtlstruct: ")
        assert self.err.count("\n") == 1
        for word in words:
            assert word in self.err


Run = Callable[..., Ran]
Output = Callable[..., str]


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write text files into a folder; return the folder."""
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


@contextmanager
def sigint_ignored() -> Iterator[None]:
    """Ignore SIGINT in this process and in children that it starts, as in a background job of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
