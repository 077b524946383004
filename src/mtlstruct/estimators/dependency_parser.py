"""DependencyParser: a head for each token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.errors import FormatError
from mtlstruct.estimators.base import Structured, Templates, check_iterable
from mtlstruct.evaluation.attachment import attachment_scores
from mtlstruct.formats import conll
from mtlstruct.formats.sentences import Data, data_of
from mtlstruct.templates import TemplateSet, preset


class DependencyParser(Structured):
    """Heads for the tokens of sentences: dependency trees, from templates of arcs, which weigh themselves.

    X is a list of sentences; a token is a row of the CoNLL-X columns form, lemma, cpos, pos, feats (or of `columns`),
    or a dict from such names to cells. y has the number of each token's head, 1 for the first token and 0 for the
    root. `fit`, `predict` and `score` also take the path of a CoNLL-X or CoNLL-U file. `score` is the share of
    tokens other than punctuation with the right head (UAS).

    Parameters
    ----------
    templates : TemplateSet, path, list of lines or None
        Templates of arcs; None for the preset `dependency`.
    method, c, p, solver, gap, epsilon, max_iter, min_count, normalize
        See SequenceLabeler.
    columns : sequence of str, optional
        The names of the columns of rows.
    projective, single_root : bool
        Whether arcs may not cross, and whether one token only may hang on the root.
    random_state, patience, threads
        See SequenceLabeler.

    Attributes
    ----------
    model_, template_weights_, gap_, objective_, n_iter_, validation_scores_
        See SequenceLabeler.
    """

    _task = "dependency"

    def __init__(
        self,
        templates: Templates = None,
        *,
        method: str = "mtl",
        c: float = 1.0,
        p: float | None = None,
        solver: str | None = None,
        gap: float | None = None,
        epsilon: float | None = None,
        max_iter: int | None = None,
        min_count: int = 1,
        normalize: str = "none",
        columns: Sequence[str] | None = None,
        projective: bool = False,
        single_root: bool = False,
        random_state: int | None = 0,
        patience: int | None = None,
        threads: int | None = None,
    ) -> None:
        self._set(locals())

    def _lines(self, data: Data) -> TemplateSet:
        return preset("dependency")

    def _data(self, X: Any) -> Data:
        found = data_of(X, columns=self.columns or True, task="dependency")
        corpus = found.corpus
        if not corpus.names and len(corpus.columns) == len(conll.OBSERVED):
            found = replace(found, corpus=replace(corpus, names=conll.OBSERVED))
        return found

    def _labelled(self, data: Data, y: Any) -> tuple[Corpus, Mapping[str, Any]]:
        if y is None:
            if data.corpus.outputs is None:
                raise FormatError("y", None, "expected heads, got none")
            return data.corpus, {}
        return replace(data.corpus, outputs=_heads(y, data.lengths, self.single_root)), {}

    def _quality(self, gold: Corpus, found: NDArray[np.int32], labels: Sequence[str]) -> float:
        assert gold.outputs is not None
        return attachment_scores(gold.columns[0].cells(), gold.ptr, gold.outputs, found).uas / 100


def _heads(y: Iterable[Iterable[int]], lengths: NDArray[np.int64], single_root: bool) -> NDArray[np.int32]:
    """Heads of all tokens, if they make trees."""
    found: list[int] = []
    check_iterable("y", y, "heads")
    sentences = [_list_of(heads, number) for number, heads in enumerate(y, 1)]
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


def _list_of(heads: Iterable[int], number: int) -> list[int]:
    check_iterable("y", heads, f"a list of heads for sentence {number}")
    return list(heads)
