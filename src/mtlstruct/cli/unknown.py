"""A warning for text that a segmentation model was not made for: most of its characters are unknown to the model."""

from __future__ import annotations

from mtlstruct.cli.errors import complain
from mtlstruct.corpus import Corpus
from mtlstruct.features.index import FeatureIndex
from mtlstruct.model.model import Model

LEAST = 20
"""Fewer characters prove nothing."""

ENOUGH = 1000
"""After so many characters a stream is judged before its end."""


class UnknownCharacters:
    """Counts the characters of an input that no template of a segmentation model has seen, and warns once."""

    def __init__(self, model: Model, source: str) -> None:
        self.index = model.index if model.characters else None
        self.source = source
        self.total = self.unknown = 0

    def see(self, corpus: Corpus) -> None:
        """Count the characters of a batch."""
        if not isinstance(self.index, FeatureIndex) or (known := self.index.known_cells(corpus, 0)) is None:
            return
        self.total += len(known)
        self.unknown += int((~known).sum())
        if self.total >= ENOUGH:
            self.finish()

    def finish(self) -> None:
        """Warn if most characters so far are unknown."""
        if self.index is not None and self.total >= LEAST and 2 * self.unknown > self.total:
            complain(
                f"warning: {self.source}: {self.unknown / self.total:.0%} of {self.total:,} characters are unknown "
                "to the model: was it trained on text of this kind?"
            )
            self.index = None
