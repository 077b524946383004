"""Questions -> responses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

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


def answer(model: Model, question: Question) -> dict[str, Any]:
    """Return the response to a question."""
    corpus = corpus_of(question.sentences, model.facts.get("names") or ())
    lattice = model.lattice(corpus)
    outputs = lattice.best()
    chances = None
    if question.probabilities and lattice.probable:
        chances = lattice.marginals(model.temperature).chosen(outputs).round(6).tolist()
    relations = None
    if model.relations is not None:
        relations = text.named(model.relate(corpus, outputs), model.relations.labels)
    explained = _explanations(model, corpus, question.explain) if question.explain else None
    found = []
    for number, (sentence, span) in enumerate(zip(question.sentences, corpus.sentences(), strict=True)):
        predicted = task_of(model.task).answer(model, sentence.rows, sentence.runs, outputs[span])
        tokens = predicted["tokens"]
        _add(tokens, "relation", relations and relations[span])
        _add(tokens, "probability", chances and chances[span])
        _add(tokens, "explanation", explained and explained[number])
        found.append(predicted | _drawing(model, question, tokens))
    state = {} if chances is None else {"calibrated": model.calibrated}
    return {"task": model.task, **state, "sentences": found}


def warm_up(model: Model) -> None:
    """Answer once, so that the first request need not wait for kernels to be compiled or loaded."""
    row = ("a",) * model.columns
    sentences = tuple(Sentence(tuple(rows)) for rows in task_of(model.task).divided([row, row]))
    for top in (0, 1):
        with suppress(MtlError):  # a structure that cannot be explained
            answer(model, Question(sentences, top, probabilities=True))


def _add(tokens: Sequence[Token], name: str, values: Sequence[Any] | None) -> None:
    if values is not None:
        for token, value in zip(tokens, values, strict=True):
            token[name] = value


def _drawing(model: Model, question: Question, tokens: Sequence[Token]) -> dict[str, Any]:
    """The tree as SVG, if it is wanted."""
    if not model.trees or not question.drawing:
        return {}
    relations = [token["relation"] for token in tokens] if model.relations is not None else None
    tree = Tree.of([token["cells"] for token in tokens], [token["head"] for token in tokens], relations)
    return {"drawing": tree_svg(tree)}


def _explanations(model: Model, corpus: Corpus, top: int) -> list[list[dict[str, Any]]]:
    """Return for each token what `explain --json` prints, without its number and cells."""
    records = (sentence_record(model, corpus, found, 1, top)["tokens"] for found in explain(model, corpus))
    return [
        [{key: value for key, value in token.items() if key not in ("token", "cells")} for token in tokens]
        for tokens in records
    ]
