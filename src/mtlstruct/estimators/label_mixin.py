"""What estimators share whose outputs are labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from mtlstruct.corpus import Corpus, label_outputs
from mtlstruct.errors import FormatError
from mtlstruct.estimators.base import Structured
from mtlstruct.formats import in_memory as gather
from mtlstruct.formats.sentences import Data


class Labelling(Structured):
    """Those whose outputs are labels: strings, or whatever else is told apart by its text."""

    def _labelled(self, data: Data, y: Any) -> tuple[Corpus, Mapping[str, Any]]:
        if y is None:
            if data.corpus.outputs is None:
                raise FormatError("y", None, "expected labels, got none")
            return data.corpus, {}
        spelled = _Spelled(([label] for label in y) if self._alone else y)
        outputs, labels = label_outputs(gather.labels(spelled, data.lengths))
        return replace(data.corpus, outputs=outputs, labels=labels), spelled.originals


class _Spelled:
    """Labels as text, sentence by sentence; `originals` are those that were no text."""

    def __init__(self, y: Iterable[Iterable[Any]]) -> None:
        self.y = y
        self.originals: dict[str, Any] = {}

    def __iter__(self) -> Iterator[list[str]]:
        for sentence in self.y:
            yield [label if type(label) is str else self._text(label) for label in sentence]

    def _text(self, label: Any) -> str:
        text = str(label)
        known = self.originals.setdefault(text, label)
        if known != label:
            raise FormatError("y", None, f"expected labels that differ as text, got {known!r} and {label!r}")
        return text
