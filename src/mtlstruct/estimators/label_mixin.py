"""What estimators share whose outputs are labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from mtlstruct.corpus import Corpus, label_outputs
from mtlstruct.errors import FormatError, IncompatibleError, MtlError
from mtlstruct.estimators.base import Structured, check_iterable
from mtlstruct.formats import in_memory as gather
from mtlstruct.formats.sentences import Data
from mtlstruct.training.options import check_type


class Labelling(Structured):
    """Those whose outputs are labels: strings, or whatever else is told apart by its text."""

    loss_weights: Mapping[Any, float] | None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.loss_weights
        if given is None:
            return
        if not isinstance(given, Mapping):
            raise IncompatibleError(f"loss_weights: expected a dict from labels to numbers, got {given!r}")
        for label, weight in given.items():
            check_type(f"loss_weights[{label!r}]", weight, float)
            if not 0 <= weight < math.inf:
                raise MtlError(f"loss_weights[{label!r}] must be finite and not negative, got {weight}")

    def _labelled(self, data: Data, y: Any) -> tuple[Corpus, Mapping[str, Any]]:
        if y is None:
            if data.corpus.outputs is None:
                raise FormatError("y", None, "expected labels, got none")
            return data.corpus, {}
        check_iterable("y", y, "labels")
        spelled = _Spelled(([label] for label in y) if self._alone else y)
        outputs, labels = label_outputs(gather.labels(spelled, data.lengths))
        return replace(data.corpus, outputs=outputs, labels=labels), spelled.originals


class _Spelled:
    """Labels as text, sentence by sentence; `originals` are those that were no text."""

    def __init__(self, y: Iterable[Iterable[Any]]) -> None:
        self.y = y
        self.originals: dict[str, Any] = {}

    def __iter__(self) -> Iterator[list[str]]:
        for number, sentence in enumerate(self.y, 1):
            check_iterable("y", sentence, f"a list of labels for sentence {number}")
            yield [label if type(label) is str else self._text(label) for label in sentence]

    def _text(self, label: Any) -> str:
        text = str(label)
        known = self.originals.setdefault(text, label)
        if known != label:
            raise FormatError("y", None, f"expected labels that differ as text, got {known!r} and {label!r}")
        return text
