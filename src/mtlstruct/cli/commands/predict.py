"""`predict`: labels for a stream of text, batch by batch, in order, in memory that does not grow."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, BinaryIO, TextIO

import typer

from mtlstruct.cli.common import EncodingOption, ThreadsOption, use_threads, warn_uncalibrated
from mtlstruct.cli.constraints import ForbidFileOption, ForbidOption, ValidOption, constraints_of, located
from mtlstruct.cli.engines import AddressOption, EngineOption, cluster_of
from mtlstruct.cli.errors import complain
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs
from mtlstruct.errors import FormatError, IncompatibleError, MtlError

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.model.model import Model
    from mtlstruct.structures.constraints import Constraints

STANDARD = Path("-")
"""The name of stdin and stdout."""

UNKNOWN_LABELS = ("_", "?")
"""What stands for a label that is to be found, unless the model has a label of that name."""

BATCH = 20_000
"""How many tokens are labelled at a time, if they come fast enough."""


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="The text, with or without labels; - is stdin, a folder is for --engine ray.",
        ),
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
        bool, typer.Option("--scores", help="Write how probable each label (or word) and each sentence is.")
    ] = False,
    all_labels: Annotated[
        bool, typer.Option("--all-labels", help="The same for all labels of a token, not the best one alone.")
    ] = False,
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
    forbid_file: ForbidFileOption = None,
    valid_bio: ValidOption = False,
    engine: EngineOption = "local",
    address: AddressOption = None,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            metavar="K",
            min=1,
            help="How many Ray workers label.",
            show_default="a processor each",
        ),
    ] = None,
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
    from mtlstruct.cli.output import Wishes, annotated
    from mtlstruct.cli.unknown import UnknownCharacters
    from mtlstruct.formats.text import check_encoding
    from mtlstruct.model.model import Model

    use_threads(threads)
    check_encoding(encoding, data)
    cluster = cluster_of(engine, address)
    if cluster is None and shards is not None:
        raise IncompatibleError("--shards is for --engine ray: here all threads label")
    if cluster is not None and data == STANDARD:
        raise IncompatibleError(
            "--engine ray reads files, or a folder of them: standard input has one reader"
        )
    loaded = Model.load(model)
    segmenting = loaded.task == "segmentation"
    written = (None if out == STANDARD else out, Kind.TEXT if segmenting else Kind.TABLE)
    check_outputs([written], inputs=[model, data, forbid_file], force=force)
    if raw and not segmenting:
        raise IncompatibleError(
            f"--raw is for segmentation models: {model} is one for {loaded.task} labelling"
        )
    if partial and loaded.task == "dependency":
        raise IncompatibleError(f"--partial is for labels and words: {model} is for trees")
    if all_labels and segmenting:
        raise IncompatibleError(f"--all-labels is for labels in columns: {model} is for segmentation")
    wishes = Wishes(scores or all_labels, all_labels, nbest)
    if wishes.probabilities:
        warn_uncalibrated(loaded, model)
    # Two labelings that cut alike are one answer: only one of them is valid.
    valid_bio |= segmenting and nbest is not None
    pairs = constraints_of(loaded.labels, forbid, forbid_file, valid_bio)
    size = max(200, BATCH // (nbest or 1))  # tokens: N labelings of each are in memory at a time
    if cluster is not None:
        from mtlstruct.cli.spreading import Wanted, spread

        wanted = Wanted(model.absolute(), raw, partial, encoding, size, pairs, wishes)
        with _writing(out, encoding) as sink:
            for piece in spread(loaded, data, wanted, shards, cluster):
                with _complaining(encoding):
                    sink.write(piece)
        return
    with reading(data) as source, _writing(out, encoding) as sink:
        unknown = UnknownCharacters(loaded, _named(data))
        for batch in batches(loaded, source, raw, data, encoding, partial=partial, size=size, notes=True):
            unknown.see(batch)
            limits = and_given(loaded, batch, pairs) if partial else pairs
            with located(_named(data), batch), _complaining(encoding):
                sink.write(annotated(loaded, batch, limits, wishes))
            sink.flush()  # whoever waits at the other end of a pipe gets the answer now
        unknown.finish()


def batches(
    model: Model,
    source: BinaryIO,
    raw: bool,
    path: Path,
    encoding: str,
    *,
    partial: bool = False,
    size: int = BATCH,
    notes: bool = False,
) -> Iterator[Corpus]:
    """Whole sentences in the format of the model's task, as they come in, about `size` tokens at a time.

    With `notes`, blanks that are dropped from text to be segmented are mentioned on stderr.
    """
    from mtlstruct.formats import columns, conll, segmented
    from mtlstruct.formats import jsonl as dicts

    name = _named(path)
    if model.takes_dicts:
        if partial:
            raise IncompatibleError("--partial is for columns and text: the model takes JSON lines of dicts")
        return dicts.stream(
            source,
            source=name,
            encoding=encoding,
            batch_tokens=size,
            names=model.names,
            groups=model.groups,
            alone=model.task == "multiclass",
        )
    if model.task == "segmentation":
        return segmented.stream(
            source,
            raw=raw or partial,
            source=name,
            encoding=encoding,
            batch_tokens=size,
            on_blanks=(lambda line: _say_blanks_are_dropped(name, line)) if notes else None,
        )
    if model.task == "dependency":
        return conll.stream(source, source=name, encoding=encoding, batch_tokens=size)
    known = {*model.labels, *UNKNOWN_LABELS} if partial else None
    return columns.stream(
        source,
        columns=model.columns,
        source=name,
        encoding=encoding,
        batch_tokens=size,
        known=known,
        alone=model.task == "multiclass",
    )


def _named(path: Path) -> str:
    """An input for messages."""
    return "standard input" if path == STANDARD else str(path)


def and_given(model: Model, batch: Corpus, pairs: Constraints | None) -> Constraints:
    """Constraints that also keep what the input says of its labels, or of its words."""
    from mtlstruct.formats import segmented
    from mtlstruct.structures.constraints import Constraints, cutting, keeping

    if model.task == "segmentation":
        given = cutting(segmented.stretches(batch), batch.tokens, model.labels)
    else:
        outputs = batch.relabelled(model.labels).outputs
        assert outputs is not None
        given = keeping(outputs, len(model.labels))
    return given & (pairs or Constraints())


def _say_blanks_are_dropped(name: str, line: int) -> None:
    complain(
        f"note: {name}, line {line}: blanks of the input are dropped and all words found anew "
        "(--raw keeps blanks as word boundaries)"
    )


@contextmanager
def _complaining(encoding: str) -> Iterator[None]:
    try:
        yield
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
    from mtlstruct._system.atomic_write import replacing

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
