"""DependencyParser: one head per token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.errors import FormatError
from mtlstruct.estimators.base import StructuredEstimator, Templates, check_iterable
from mtlstruct.estimators.parameters import documented
from mtlstruct.evaluation.attachment import attachment_scores
from mtlstruct.formats import conll
from mtlstruct.formats.in_memory import InputData
from mtlstruct.formats.sentences import data_of
from mtlstruct.templates import TemplateSet, preset
from mtlstruct.training.options import Options


@documented
class DependencyParser(StructuredEstimator):
    """Predict dependency trees from templates of arcs, with a weight per template.

    X is a list of sentences. A token is a row of the CoNLL-X columns form, lemma, cpos, pos and
    feats (or of `columns`), or a dict from such names to cells. y has the number of each token's
    head: 1 for the first token, 0 for the root. X may also be the path of a CoNLL-X or CoNLL-U
    file, or a Corpus.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Notes
    -----
    `score` returns the unlabelled attachment score: the share of tokens with the right head,
    punctuation left out.
    """

    _task = "dependency"

    def __init__(
        self,
        templates: Templates = None,
        *,
        method: str = Options.method,
        c: float | None = Options.c,
        p: float | None = Options.p,
        solver: str | None = Options.solver,
        gap: float | None = Options.gap,
        epsilon: float | None = Options.epsilon,
        max_iter: int | None = Options.max_iter,
        min_count: int = Options.min_count,
        normalize: str = Options.normalize,
        columns: Sequence[str] | None = None,
        projective: bool = Options.projective,
        single_root: bool = Options.single_root,
        random_state: int | None = 0,
        patience: int | None = None,
        threads: int | None = None,
    ) -> None:
        self._set(locals())

    def _default_templates(self, data: InputData) -> TemplateSet:
        return preset("dependency")

    def _data(self, X: Any) -> InputData:
        found = data_of(X, columns=self.columns or True, task="dependency")
        corpus = found.corpus
        if not corpus.names and len(corpus.columns) == len(conll.OBSERVED):
            found = replace(found, corpus=replace(corpus, names=conll.OBSERVED))
        return found

    def _labelled(self, data: InputData, y: Any) -> tuple[Corpus, Mapping[str, Any]]:
        if y is None:
            if data.corpus.outputs is None:
                raise FormatError("y", None, "expected heads, got none")
            return data.corpus, {}
        return replace(data.corpus, outputs=_heads(y, data.lengths, self.single_root)), {}

    def _score(self, gold: Corpus, found: NDArray[np.int32], labels: Sequence[str]) -> float:
        assert gold.outputs is not None
        return attachment_scores(gold, found).uas / 100


def _heads(y: Iterable[Iterable[int]], lengths: NDArray[np.int64], single_root: bool) -> NDArray[np.int32]:
    """Return the heads of all tokens; raise if those of a sentence are no tree."""
    found: list[int] = []
    check_iterable("y", y, "heads")
    sentences: list[list[int]] = []
    for number, heads in enumerate(y, 1):
        check_iterable("y", heads, f"a list of heads for sentence {number}")
        sentences.append(list(heads))
    if len(sentences) != len(lengths):
        raise FormatError("y", None, f"expected heads for {len(lengths)} sentences, got {len(sentences)}")
    for number, (heads, length) in enumerate(zip(sentences, lengths.tolist(), strict=True), 1):
        if len(heads) != length:
            raise FormatError("y", None, f"sentence {number}: expected {length} heads, got {len(heads)}")
        for token, head in enumerate(heads, 1):
            if not isinstance(head, int | np.integer) or not 0 <= head <= length or head == token:
                problem = f"expected a head from 0 to {length} other than the token itself, got {head!r}"
                raise FormatError("y", None, f"sentence {number}, token {token}: {problem}")
        wrong = conll.tree_problem(heads, single_root)
        if wrong is not None:
            raise FormatError("y", None, f"sentence {number}, token {wrong[0]}: {wrong[1]}")
        found += heads
    return np.array(found, np.int32)
