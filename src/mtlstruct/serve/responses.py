"""Questions -> responses. Several questions are scored and searched as one text, each is answered on its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.errors import MtlError
from mtlstruct.explain.records import sentence_record
from mtlstruct.explain.sequences import explain
from mtlstruct.formats import text
from mtlstruct.model.model import Model
from mtlstruct.report.tree_svg import Tree, tree_svg
from mtlstruct.serve.requests import Question, Sentence, corpus_of
from mtlstruct.tasks import task_of

Token = dict[str, Any]


def answers(model: Model, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """A response for each question, in order."""
    names = model.facts.get("names") or ()
    whole = corpus_of([sentence for question in questions for sentence in question.sentences], names)
    lattice = model.lattice(whole)
    outputs = lattice.best()
    wanted = lattice.probable and any(question.probabilities for question in questions)
    chances = lattice.marginals(model.temperature).chosen(outputs) if wanted else None
    relations = None if model.relations is None else model.relate(whole, outputs)
    starts = accumulate((question.tokens for question in questions), initial=0)
    return [
        _answer(
            model,
            question,
            outputs[start:stop],
            chances[start:stop] if chances is not None and question.probabilities else None,
            None if relations is None else relations[start:stop],
        )
        for question, (start, stop) in zip(questions, pairwise(starts), strict=True)
    ]


def warm_up(model: Model) -> None:
    """Answers once for nobody, so that the first who asks need not wait for kernels to be compiled or loaded."""
    row = ("a",) * model.columns
    sentences = tuple(Sentence(tuple(rows)) for rows in task_of(model.task).divided([row, row]))
    for wanted in (0, 1):
        with suppress(MtlError):  # a structure that cannot be explained
            answers(model, [Question(sentences, explain=wanted, probabilities=True)])


def _answer(
    model: Model,
    question: Question,
    outputs: NDArray[np.int32],
    chances: NDArray[np.float64] | None,
    relations: NDArray[np.int32] | None,
) -> dict[str, Any]:
    task = task_of(model.task)
    spoken = _explanations(model, question) if question.explain else None
    found, start = [], 0
    for number, sentence in enumerate(question.sentences):
        span = slice(start, start + len(sentence.rows))
        start = span.stop
        answer = task.answer(model, sentence.rows, sentence.runs, outputs[span])
        tokens = answer["tokens"]
        if relations is not None and model.relations is not None:
            _add(tokens, "relation", text.named(relations[span], model.relations.labels))
        if chances is not None:
            _add(tokens, "probability", chances[span].round(6).tolist())
        if spoken is not None:
            _add(tokens, "explanation", spoken[number])
        found.append(answer | _drawing(model, question, tokens))
    state = {} if chances is None else {"calibrated": model.calibrated}
    return {"task": model.task, **state, "sentences": found}


def _add(tokens: Sequence[Token], name: str, values: Sequence[Any]) -> None:
    for token, value in zip(tokens, values, strict=True):
        token[name] = value


def _drawing(model: Model, question: Question, tokens: Sequence[Token]) -> dict[str, Any]:
    """The tree as SVG, if it is wanted."""
    if not model.trees or not question.drawing:
        return {}
    relations = [token["relation"] for token in tokens] if model.relations is not None else None
    tree = Tree.of([token["cells"] for token in tokens], [token["head"] for token in tokens], relations)
    return {"drawing": tree_svg(tree)}


def _explanations(model: Model, question: Question) -> list[list[dict[str, Any]]]:
    """For each token what `explain --json` says, but for its cells."""
    corpus = corpus_of(question.sentences, model.facts.get("names") or ())
    return [list(_said(model, corpus, found, question.explain)) for found in explain(model, corpus)]


def _said(model: Model, corpus: Corpus, found: Any, top: int) -> Iterator[dict[str, Any]]:
    for token in sentence_record(model, corpus, found, 1, top)["tokens"]:
        yield {key: value for key, value in token.items() if key not in ("token", "cells")}
