"""`predict`: labels for a stream of text, batch by batch, in order, in memory that does not grow."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer
from typer.core import TyperCommand

from mtlstruct.cli.common import EncodingOption, ThreadsOption, use_threads, warn_uncalibrated
from mtlstruct.cli.constraints import ForbidOption, ValidOption, constraints_of, located, rule_files
from mtlstruct.cli.errors import complain
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs
from mtlstruct.errors import FormatError, MtlError

if TYPE_CHECKING:
    from mtlstruct.tasks import Source

STANDARD = Path("-")
"""The name of stdin and stdout."""


class PredictCommand(TyperCommand):
    """A command whose option --scores may stand alone, or be followed by the word all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse --scores as --scores=best, and --scores all as --scores=all."""
        end = args.index("--") if "--" in args else len(args)
        given: list[str] = []
        for argument in args[:end]:
            if argument == "all" and given[-1:] == ["--scores=best"]:
                given[-1] = "--scores=all"
            else:
                given.append("--scores=best" if argument == "--scores" else argument)
        return super().parse_args(ctx, [*given, *args[end:]])


COMMAND_CLASS = PredictCommand


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    data: Annotated[
        Path, typer.Argument(metavar="INPUT", help="The text, with or without labels; - is stdin.")
    ] = STANDARD,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", help="Where to write; - is stdout. A file appears when it is whole."),
    ] = STANDARD,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="Segmentation: blanks of the input stay word boundaries. Without it they are dropped.",
        ),
    ] = False,
    scores: Annotated[
        Literal["best", "all"] | None,
        typer.Option(
            "--scores",
            metavar="[all]",
            help="Write how probable each label (or word) and each sentence is; with all, all labels of a token.",
        ),
    ] = None,
    nbest: Annotated[
        int | None,
        typer.Option("--nbest", metavar="N", min=1, help="Write the N best labelings, best first."),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Keep the labels of the input (_ or ? is no label), or its blanks as word ends; find the rest.",
        ),
    ] = False,
    forbid: ForbidOption = None,
    valid_bio: ValidOption = False,
    force: ForceOption = False,
    threads: ThreadsOption = None,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Label text, from a file or a stream.

    Column data come back with the label as one more column, plain text as words with blanks between them, CoNLL
    trees with new heads and all else as it was. Output begins while input is still coming, in the same order.
    Scores and N best are written as by crf_test.

    A segmentation model reads text with or without blanks and finds all words anew: blanks of the input are dropped,
    and a note says so. With --raw they stay word boundaries. Either way words are written with two blanks between
    them, and all other characters come back as they were.
    """
    from mtlstruct.cli.unknown import UnknownCharacters
    from mtlstruct.formats.text import check_encoding
    from mtlstruct.model.model import Model
    from mtlstruct.tasks import Wanted, task_of
    from mtlstruct.tasks.base import BATCH

    use_threads(threads)
    check_encoding(encoding, data)
    loaded = Model.load(model)
    task = task_of(loaded.task)
    written = (None if out == STANDARD else out, Kind.TEXT if loaded.characters else Kind.TABLE)
    check_outputs([written], inputs=[model, data, *rule_files(forbid)], force=force)
    # N labelings of each token are in memory at a time.
    wanted = Wanted(scores, nbest, raw, partial, size=max(200, BATCH // (nbest or 1)))
    task.check(wanted, loaded, model)
    if wanted.probabilities:
        warn_uncalibrated(loaded, model)
    # Two labelings that cut alike are one answer: only one of them is valid.
    valid_bio |= loaded.characters and nbest is not None
    pairs = constraints_of(loaded.labels, forbid, valid_bio)
    with reading(data, encoding) as source, _writing(out, encoding) as sink:
        unknown = UnknownCharacters(loaded, source.name)
        for batch in task.stream(loaded, source, wanted, _note_blanks):
            unknown.see(batch)
            limits = pairs
            if partial:
                given = task.given(loaded, batch)
                limits = given if pairs is None else given & pairs
            with located(source.name, batch):
                text = task.format(loaded, batch, loaded.lattice(batch, limits), wanted)
            _write(sink, text, encoding)
        unknown.finish()


def _note_blanks(name: str, line: int) -> None:
    complain(
        f"note: {name}, line {line}: blanks of the input are dropped and all words found anew "
        "(--raw keeps blanks as word boundaries)"
    )


def _write(sink: TextIO, text: str, encoding: str) -> None:
    try:
        sink.write(text)
        sink.flush()  # whoever waits at the other end of a pipe gets the answer now
    except UnicodeEncodeError as error:
        letter = error.object[error.start : error.end]
        raise MtlError(f"{encoding} has no {letter!r}, which is in the model's labels") from None


@contextmanager
def reading(path: Path, encoding: str) -> Iterator[Source]:
    """Open a file, or stdin."""
    from mtlstruct.tasks import Source

    if path == STANDARD:
        yield Source(sys.stdin.buffer, "standard input", encoding)
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise FormatError(path, None, f"cannot be read: {error.strerror or error}") from None
    with file:
        yield Source(file, str(path), encoding)


@contextmanager
def _writing(path: Path, encoding: str) -> Iterator[TextIO]:
    """Open an output for text in the encoding of the input."""
    from mtlstruct._system.atomic_write import replacing

    if path == STANDARD:
        with _text(sys.stdout.buffer, encoding) as sink:
            yield sink
    else:
        with replacing(path) as file, _text(file, encoding) as sink:
            yield sink


@contextmanager
def _text(binary: IO[bytes], encoding: str) -> Iterator[TextIO]:
    """Wrap binary output as text, and leave it open."""
    sink = io.TextIOWrapper(binary, encoding, newline="\n")
    try:
        yield sink
        sink.flush()
    finally:
        sink.detach()
