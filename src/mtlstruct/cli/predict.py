"""`predict`: labels for a stream of text, batch by batch, in order, in memory that does not grow."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, BinaryIO, TextIO

import typer

from mtlstruct.cli.common import EncodingOption, ThreadsOption, refuse_overwriting, use_threads
from mtlstruct.errors import FormatError, IncompatibleError, MtlError

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.model import Model

STANDARD = Path("-")
"""The name of stdin and stdout."""


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
        bool, typer.Option("--raw", help="The input is plain text; its blanks stay word boundaries.")
    ] = False,
    threads: ThreadsOption = None,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Label text, from a file or a stream.

    Column data come back with the label as one more column, plain text as words with blanks between them, CoNLL
    trees with new heads and all else as it was.
    Output begins while input is still coming, in the same order.
    """
    from mtlstruct.formats.text import check_encoding
    from mtlstruct.model import Model

    use_threads(threads)
    check_encoding(encoding, data)
    if out != STANDARD:
        refuse_overwriting([model, data], [out])
    loaded = Model.load(model)
    if raw and loaded.task != "segmentation":
        raise IncompatibleError(
            f"--raw is for segmentation models: {model} is one for {loaded.task} labelling"
        )
    with reading(data) as source, _writing(out, encoding) as sink:
        for batch in batches(loaded, source, raw, str(data), encoding):
            _write(loaded, sink, batch, encoding)
            sink.flush()  # whoever waits at the other end of a pipe gets the answer now


def batches(model: Model, source: BinaryIO, raw: bool, name: str, encoding: str) -> Iterator[Corpus]:
    """Whole sentences in the format of the model's task, as they come in."""
    from mtlstruct.formats import columns, conll, segmented

    name = "standard input" if name == "-" else name
    if model.task == "segmentation":
        return segmented.stream(source, raw=raw, source=name, encoding=encoding)
    if model.task == "dependency":
        return conll.stream(source, source=name, encoding=encoding)
    return columns.stream(source, columns=model.columns, source=name, encoding=encoding)


def _write(model: Model, sink: TextIO, batch: Corpus, encoding: str) -> None:
    from mtlstruct.formats import columns, conll, segmented

    write = {"segmentation": segmented.write, "dependency": conll.write}.get(model.task, columns.write)
    try:
        write(sink, batch, model.labels, model.predict(batch))
    except UnicodeEncodeError as error:
        letter = error.object[error.start : error.end]
        raise MtlError(f"{encoding} has no {letter!r}, which is in the model's labels") from None


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """A file, or stdin."""
    if path == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise FormatError(path, None, f"cannot be read: {error.strerror or error}") from None
    with file:
        yield file


@contextmanager
def _writing(path: Path, encoding: str) -> Iterator[TextIO]:
    """Text goes out in the encoding in which it came in."""
    from mtlstruct.files import replacing

    if path == STANDARD:
        with _text(sys.stdout.buffer, encoding) as sink:
            yield sink
    else:
        with replacing(path) as file, _text(file, encoding) as sink:
            yield sink


@contextmanager
def _text(binary: IO[bytes], encoding: str) -> Iterator[TextIO]:
    """Binary as text, and left open."""
    sink = io.TextIOWrapper(binary, encoding, newline="\n")
    try:
        yield sink
        sink.flush()
    finally:
        sink.detach()
