"""The data and templates that programs are compared on, written as files that all of them read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure
from benchmarks.peers.base import Job
from benchmarks.places import DANISH, ESP, NED, PKU, corpus, head, work
from benchmarks.tasks import preset

FEW, ROUNDS = 3, 8


@dataclass(frozen=True)
class Case:
    """A corpus, its templates, and how its columns are made of it: as they are, with more of them, of characters."""

    name: str
    data: str
    templates: str
    columns: str = "plain"

    def job(self, sentences: int | None = None) -> Job:
        """Its files; with a number of sentences, those of a trial."""
        train, test = (self._part(part, sentences) for part in ("train", "test"))
        files = (self._templates(train), train, test, head(test, FEW), laid_out(test))
        return Job(self.name, *files, segmented=self.columns == "segmented")

    def _templates(self, train: Path) -> Path:
        return preset(self.templates)

    def _part(self, part: str, sentences: int | None) -> Path:
        suffix = "txt" if self.columns == "segmented" else "conll"
        source = corpus(self.data, f"{part}.{suffix}")
        if sentences is not None:
            source = head(source, sentences)
        target = work() / f"{self.data.rpartition('/')[2]}.{self.columns}.{source.stem}.columns"
        measure.python("benchmarks.programs.columns", self.columns, source, target)
        return target


CASES = (
    Case("ESP ner-134", ESP, "ner-134"),
    Case("ESP hand", ESP, "hand", "hand"),
    Case("ESP chunking-19", ESP, "chunking-19"),
    Case("NED ner-134", NED, "ner-134"),
    Case("NED hand", NED, "hand", "hand"),
    Case("PKU cws-tp1", PKU, "cws-tp1", "segmented"),
    Case("PKU cws-tp2", PKU, "cws-tp2", "segmented"),
)


@dataclass(frozen=True)
class Trees(Case):
    """Trees in CoNLL-X; the templates are ours alone, the peers have theirs in their code."""

    def _templates(self, train: Path) -> Path:
        target = work() / f"{train.stem}.arcs.tpl"
        made = ["templates", "generate", "--preset", self.templates, "--reach", train, "-o", target]
        measure.python("mtlstruct", *made)
        return target

    def _part(self, part: str, sentences: int | None) -> Path:
        source = corpus(self.data, f"{part}.conll")
        return source if sentences is None else head(source, sentences)


def laid_out(test: Path, rounds: int = ROUNDS) -> Path:
    """A text laid end to end, with one blank line between sentences: MSTParser stumbles over two."""
    target = work() / f"{test.parent.name}.{test.name}.long"
    text = test.read_bytes().strip(b"\n") + b"\n\n"
    with target.open("wb") as out:
        for _ in range(rounds):
            out.write(text)
    return target


TREES = (Trees("Danish trees", DANISH, "dependency"),)
