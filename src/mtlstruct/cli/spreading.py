"""`predict --engine ray`: large files labelled by the workers of a Ray cluster, piece by piece, written in order."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mtlstruct.cli.errors import complain
from mtlstruct.errors import FormatError, IncompatibleError

if TYPE_CHECKING:
    from mtlstruct.cli.engines import Cluster
    from mtlstruct.cli.output import Wishes
    from mtlstruct.corpus import Corpus
    from mtlstruct.formats.text import Part
    from mtlstruct.model.model import Model
    from mtlstruct.structures.constraints import Constraints

PIECE = 4_000_000
"""Bytes that a worker labels at a time."""


@dataclass(frozen=True)
class Wanted:
    """What is asked of every piece."""

    model: Path
    raw: bool
    partial: bool
    encoding: str
    size: int
    limits: Constraints | None
    wishes: Wishes


def spread(loaded: Model, data: Path, wanted: Wanted, workers: int | None, cluster: Cluster) -> Iterator[str]:
    """The labelled pieces of a file, or of the files of a folder, in order."""
    from mtlstruct.distributed.ray_team import RayTeam
    from mtlstruct.distributed.team import Each
    from mtlstruct.formats import partition as pieces

    if loaded.takes_dicts:
        raise IncompatibleError(f"--engine ray is for text: {wanted.model} takes JSON lines of dicts")
    files = pieces.files_of(data.absolute())
    count = max(1, sum(_size(file) for file in files) // PIECE)
    parts = pieces.cut(files, count, "sequence" if loaded.task == "dependency" else loaded.task)
    workers = max(1, min(len(parts), workers or os.cpu_count() or 1))
    team = RayTeam(workers, address=cluster.address, listeners=[complain])
    try:
        team.make("labeller", Labeller, wanted)
        for first in range(0, len(parts), workers):
            some = parts[first : first + workers]
            yield from team.ask("labeller", "label", Each(some + [[]] * (workers - len(some))))
    finally:
        team.close()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise FormatError(file, None, f"cannot be read: {error.strerror}") from None


class Labeller:
    """A worker's model."""

    def __init__(self, wanted: Wanted) -> None:
        from mtlstruct.model.model import Model

        self.wanted, self.model = wanted, Model.load(wanted.model)

    def label(self, parts: list[Part]) -> str:
        """The labelled text of a piece."""
        return "".join(self._label(part) for part in parts)

    def _label(self, part: Part) -> str:
        from mtlstruct.cli.commands.predict import batches

        wanted = self.wanted
        source = io.BytesIO(part.read_bytes())
        try:
            found = batches(
                self.model,
                source,
                wanted.raw,
                part.path,
                wanted.encoding,
                partial=wanted.partial,
                size=wanted.size,
            )
            return "".join(self._annotated(batch, part) for batch in found)
        except FormatError as error:
            if error.line is None:
                raise
            raise FormatError(part.path, error.line + part.lines_before(), error.problem) from None

    def _annotated(self, batch: Corpus, part: Part) -> str:
        from mtlstruct.cli.commands.predict import and_given
        from mtlstruct.cli.constraints import located
        from mtlstruct.cli.output import annotated

        wanted = self.wanted
        limits = and_given(self.model, batch, wanted.limits) if wanted.partial else wanted.limits
        with located(str(part), batch):
            return annotated(self.model, batch, limits, wanted.wishes)
