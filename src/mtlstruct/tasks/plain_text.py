"""Plain text for models that use only the word: one sentence per line, cut into tokens.

`predict --raw` and the server share this module.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.formats import text
from mtlstruct.model.model import Model

WORD = re.compile(r"\w+(?:['’.\-]\w+)*|[^\w\s]")
"""A token: a word with inner apostrophes, points and hyphens, or a character."""

PADDING = "_"
"""The cell of columns that the model does not use."""

BYTES_PER_TOKEN = 6


@dataclass(frozen=True)
class RawText:
    """The lines of a batch, one per sentence; as a string its tokens, one per line."""

    lines: Sequence[str]

    def __str__(self) -> str:
        return "\n".join(chain.from_iterable(map(WORD.findall, self.lines)))


def used_columns(model: Model) -> list[int]:
    """Return the columns that a model looks at, in order, with the word."""
    used = set(model.index.templates.columns())
    if model.relations is not None:
        used |= model.relations.templates.select(model.relations.live).columns()
    if model.first is not None:  # other columns are made from its labels
        used = {*used, *model.first.index.templates.columns()} & set(range(model.columns))
    return sorted({0, *used})


def takes_text(model: Model) -> bool:
    """Return whether a model uses only the word, or cuts text into words."""
    return model.characters or (not model.takes_dicts and used_columns(model) == [0])


def stream(
    model: Model, lines: BinaryIO, *, source: str, encoding: str, batch_tokens: int, alone: bool
) -> Iterator[Corpus]:
    """Yield batches of the sentences of plain text; a token that stands alone is a sentence."""
    for first, block in text.blocks(lines, source, encoding, batch_tokens * BYTES_PER_TOKEN):
        found = [(number, line) for number, line in enumerate(block.split("\n"), first) if WORD.search(line)]
        if found:
            numbers, kept = zip(*found, strict=True)
            words = [WORD.findall(line) for line in kept]
            lengths = np.array([len(some) for some in words])
            padding = [PADDING] * (model.columns - 1)
            columns = text.row_columns([[[word, *padding] for word in some] for some in words])
            starts = np.repeat(numbers, lengths) if alone else np.array(numbers)
            ptr = np.cumsum([0, *(np.ones(sum(lengths), int) if alone else lengths)], dtype=np.int64)
            yield Corpus(columns, ptr, names=model.names, lines=starts, extra=RawText(kept))
