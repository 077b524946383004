"""`predict`: label a stream of text batch by batch, in order, in constant memory."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal, TextIO

from mtlstruct._system.atomic_write import replacing
from mtlstruct.cli import common
from mtlstruct.cli.command import option
from mtlstruct.cli.constraints import FORBID, VALID_BIO, constraints_of, rule_files
from mtlstruct.cli.engine import Engine
from mtlstruct.cli.errors import print_message
from mtlstruct.cli.outputs import Kind, check_outputs
from mtlstruct.corpus import Corpus
from mtlstruct.errors import MtlError
from mtlstruct.tasks import OutputOptions
from mtlstruct.tasks.base import BATCH_TOKENS


def predict(
    model: Path = common.MODEL,
    data: Path = common.INPUT,
    out: Path = option(
        common.STANDARD, "File to write when all is labelled; - is standard output.", "-o", "--out"
    ),
    raw: bool = option(False, "Plain text, one sentence per line: cut it into tokens (models of words)."),
    form: Literal["columns", "json"] = option(
        "columns", "Rows, words or trees; or a JSON object per sentence, with entities.", "--format"
    ),
    scores: Literal["best", "all"] | None = option(
        None,
        "Add the probability of each label (or word) and sentence; all: of all labels of each token.",
        metavar="[all]",
        bare="best",
    ),
    nbest: int | None = option(None, "Write the N best labellings, best first.", range=(1, 1000)),
    partial: bool = option(
        False, "Keep labels of the input (_ or ? is no label), or its spaces as word ends; predict the rest."
    ),
    forbid: list[str] | None = FORBID,
    valid_bio: bool = VALID_BIO,
    force: bool = common.FORCE,
    threads: int | None = common.THREADS,
    engine: common.Workers = common.ENGINE,
    address: str | None = common.ADDRESS,
    workers: int | None = common.WORKERS,
    encoding: str | None = common.MODEL_ENCODING,
) -> None:
    """Label text from a file or from standard input.

    Column data are written with the label as one more column, segmented text as words separated by
    two spaces, CoNLL trees with new heads. Output is written while input is still arriving, in the
    same order. --scores and --nbest write what crf_test writes with -v and -n.

    --raw cuts plain text into words and punctuation, for models that use only the word. A
    segmentation model drops the spaces of its input, with a note; --raw keeps them as word
    boundaries. JSON has the tokens, the labels, and of each entity its type, its tokens (first,
    stop) and its place in the text in characters (start, end).

    Example: mtlstruct predict ner.mtl test.txt -o labelled.txt --scores
    """
    where = Engine(engine, address, workers)
    where.check()
    loaded, task = common.load_model(model, threads)
    encoding = encoding or loaded.encoding
    written = (None if out == common.STANDARD else out, Kind.TEXT if loaded.characters else Kind.TABLE)
    check_outputs([written], inputs=[model, data, *rule_files(forbid)], force=force)
    # N labellings of each token are in memory at a time.
    output = OutputOptions(
        scores, nbest, raw, partial, form == "json", size=max(200, BATCH_TOKENS // (nbest or 1))
    )
    task.check_options(output, loaded, model)
    if output.probabilities:
        common.warn_uncalibrated(loaded, model)
    # Several labellings give the same words; only one of them is valid.
    valid_bio |= loaded.characters and nbest is not None
    pairs = constraints_of(loaded.labels, forbid, valid_bio)

    def batches() -> Iterator[Corpus]:
        for number, batch in enumerate(task.stream(loaded, source, output, _note_spaces)):
            if number == 0:
                common.warn_unknown_characters(loaded, batch, source.name)
            yield batch

    with (
        common.reading(data, encoding) as source,
        _writing(out, encoding) as sink,
        where.labellers(loaded, model, source.name, pairs, output) as pool,
    ):
        for text in pool.map("text", batches()):
            try:
                sink.write(text)
                sink.flush()  # the reader of a pipe gets each batch at once
            except UnicodeEncodeError as error:
                letter = error.object[error.start : error.end]
                raise MtlError(f"{encoding} has no {letter!r}, a character of the model's labels") from None


def _note_spaces(name: str, line: int) -> None:
    print_message(
        f"note: {name}, line {line}: spaces of the input are dropped (--raw keeps them as word boundaries)"
    )


@contextmanager
def _writing(path: Path, encoding: str) -> Iterator[TextIO]:
    """Open an output for text in the encoding of the input."""
    with nullcontext(sys.stdout.buffer) if path == common.STANDARD else replacing(path) as binary:
        sink = io.TextIOWrapper(binary, encoding, newline="\n")
        try:
            yield sink
            sink.flush()
        finally:
            sink.detach()  # leaves the binary output open
