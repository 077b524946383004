"""Responses to requests: predicted sentences with what was asked for beside the labels."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from mtlstruct.corpus import Corpus
from mtlstruct.errors import MtlError
from mtlstruct.explain.records import sentence_record
from mtlstruct.explain.sequences import explain
from mtlstruct.formats import text
from mtlstruct.model.lattice import Lattice
from mtlstruct.model.model import Model, nbest_labels
from mtlstruct.report.tree_svg import Tree, tree_svg
from mtlstruct.serve.requests import Limits, RequestReader, RequestSentence, TagRequest
from mtlstruct.tasks import task_of


def respond(model: Model, request: TagRequest) -> dict[str, Any]:
    """Return the response to a request."""
    corpus = request.corpus(model.facts.get("names") or ())
    lattice = model.lattice(corpus)
    outputs = lattice.best()
    columns: dict[str, list[Any]] = {}
    if model.relations is not None:
        columns["relation"] = text.named(model.relate(corpus, outputs), model.relations.labels)
    if request.probabilities and lattice.has_marginals:
        columns["probability"] = lattice.marginals(model.temperature).chosen(outputs).round(6).tolist()
    if any(sentence.gold for sentence in request.sentences):
        columns["gold"] = [g for s in request.sentences for g in s.gold or [None] * len(s.rows)]
    if request.explain:
        columns["explanation"] = [
            {key: value for key, value in token.items() if key not in ("token", "cells", "gold")}
            for found in explain(model, corpus)
            for token in sentence_record(model, corpus, found, 1, request.explain)["tokens"]
        ]
    sentences = []
    for sentence, span in zip(request.sentences, corpus.sentences(), strict=True):
        found = task_of(model.task).to_json(model, sentence.rows, sentence.runs, outputs[span])
        for name, values in columns.items():
            for token, value in zip(found["tokens"], values[span], strict=True):
                token[name] = value
        if model.trees and request.drawing:
            relations = columns["relation"][span] if "relation" in columns else None
            found["drawing"] = tree_svg(Tree.of(sentence.rows, outputs[span].tolist(), relations))
        sentences.append(found)
    if request.nbest:
        _add_nbest(sentences, model, corpus, lattice, request.nbest)
    state = {"calibrated": model.calibrated} if "probability" in columns or request.nbest else {}
    return {"task": model.task, **state, "sentences": sentences}


def _add_nbest(
    sentences: list[dict[str, Any]], model: Model, corpus: Corpus, lattice: Lattice, n: int
) -> None:
    """Add the n best labellings of each sentence with their probabilities."""
    for found, ranked in zip(sentences, nbest_labels(model, corpus, lattice, n), strict=True):
        found["nbest"] = [{"labels": labels, "probability": round(p, 6)} for labels, p in ranked]


def warm_up(model: Model) -> None:
    """Respond to a small request, so that the first client need not wait for kernels."""
    if model.takes_dicts:
        respond(model, RequestReader(model, Limits()).read({"dicts": [[{}, {}]], "probabilities": True}))
        return
    row = ("a",) * model.columns
    sentences = tuple(
        RequestSentence(tuple(rows)) for rows in task_of(model.task).split_sentences([row, row])
    )
    for top in (0, 1):
        with suppress(MtlError):  # a structure that cannot be explained
            respond(model, TagRequest(sentences, top, probabilities=True))
