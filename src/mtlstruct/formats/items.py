"""Column files of items that stand alone: each line that is not blank is one, and blank lines mean nothing.

Otherwise as in `columns`: the last column is the label (here a class), and the same is refused. An item is a sentence
of one token, so templates see the columns of its own line only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.formats import columns as rows
from mtlstruct.formats import text


def read(
    path: str | Path | text.Part, *, labelled: bool = True, encoding: str = "utf-8", names: Sequence[str] = ()
) -> Corpus:
    """A whole file. `names` are for the observation columns; if given, the file must have just these."""
    return rows.read(path, labelled=labelled, encoding=encoding, names=names, alone=True)


def stream(
    lines: BinaryIO,
    *,
    columns: int,
    source: str,
    encoding: str = "utf-8",
    batch_tokens: int = 20000,
    known: Collection[str] | None = None,
) -> Iterator[Corpus]:
    """Batches of items, as soon as they have been read; for the arguments see `columns.stream`."""
    return rows.stream(
        lines,
        columns=columns,
        source=source,
        encoding=encoding,
        batch_tokens=batch_tokens,
        known=known,
        alone=True,
    )


def write(out: TextIO, corpus: Corpus, labels: Sequence[str] | None, predictions: NDArray[np.int32]) -> None:
    """The input's rows, cells joined by tabs, each with its predicted label, and no blank lines."""
    out.write("".join(blocks(corpus, text.named(predictions, corpus.labels if labels is None else labels))))


def blocks(corpus: Corpus, cells: Sequence[str]) -> list[str]:
    """Each item as it is written: its row with one more cell."""
    return rows.longer_rows(corpus, cells)
