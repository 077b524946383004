"""Predictions as JSON lines: one object per sentence, for `predict --format json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mtlstruct.corpus import Corpus
from mtlstruct.formats import text
from mtlstruct.model.lattice import Lattice, Outputs
from mtlstruct.model.model import Model
from mtlstruct.structures.schemes import chunk_spans
from mtlstruct.tasks.plain_text import WORD, RawText

if TYPE_CHECKING:
    from mtlstruct.tasks.base import OutputOptions, Task

Record = dict[str, Any]


def json_lines(task: Task, model: Model, batch: Corpus, lattice: Lattice, output: OutputOptions) -> str:
    """Return a line per sentence: its text and tokens, the prediction, and what `output` adds."""
    best = lattice.best()
    found = [
        given | made
        for given, made in zip(inputs(model, batch), task.records(model, batch, best), strict=True)
    ]
    if output.probabilities:
        _add_probabilities(found, model, batch, lattice, output, best)
    if output.nbest is not None:
        _add_nbest(found, task, model, batch, lattice, output.nbest)
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in found)


def inputs(model: Model, batch: Corpus) -> list[Record]:
    """Return text and tokens of each sentence; feature dicts have neither."""
    if model.takes_dicts:
        return [{} for _ in range(len(batch))]
    cells = batch.columns[0].cells()
    words = [cells[span] for span in batch.sentences()]
    if isinstance(batch.extra, RawText) and len(batch.extra.lines) == len(batch):
        lines = list(batch.extra.lines)
    else:
        lines = [("" if model.characters else " ").join(some) for some in words]
    return [{"text": line, "tokens": some} for line, some in zip(lines, words, strict=True)]


def label_records(model: Model, batch: Corpus, outputs: Outputs) -> list[Record]:
    """Return labels and entities of each sentence.

    An entity has its type, its first token and the one after its last, and the same in characters
    of the text. Labels that mark no chunks have no entities.
    """
    labels = text.named(outputs, model.labels)
    found: list[Record] = [{"labels": labels[span]} for span in batch.sentences()]
    spans = chunk_spans(model.labels, outputs, batch.ptr)
    if spans is not None:
        given = inputs(model, batch)
        for number, some in enumerate(spans):
            found[number]["entities"] = [_entity(given[number], *span) for span in some]
    return found


def _entity(given: Record, first: int, stop: int, kind: str) -> Record:
    found: Record = {"type": kind, "first": first, "stop": stop}
    if "text" not in given:
        return found
    places = [match.span() for match in WORD.finditer(given["text"])]
    if [given["text"][a:b] for a, b in places] != given["tokens"]:  # rows of cells, joined by blanks
        ends = [len(" ".join(given["tokens"][: n + 1])) for n in range(len(given["tokens"]))]
        places = [(end - len(word), end) for end, word in zip(ends, given["tokens"], strict=True)]
    start, end = places[first][0], places[stop - 1][1]
    return found | {"start": start, "end": end, "text": given["text"][start:end]}


def _add_probabilities(
    found: list[Record], model: Model, batch: Corpus, lattice: Lattice, output: OutputOptions, best: Outputs
) -> None:
    marginals = lattice.marginals(model.temperature)
    chosen, whole = marginals.chosen(best).round(6), marginals.sequence(lattice.evaluate(best))
    for record, span, p in zip(found, batch.sentences(), whole.tolist(), strict=True):
        record["probability"], record["calibrated"] = round(p, 6), model.calibrated
        record["probabilities"] = chosen[span].tolist()
        if output.scores == "all":
            rows = marginals.node[span].round(6).tolist()
            record["marginals"] = [dict(zip(model.labels, row, strict=True)) for row in rows]


def _add_nbest(
    found: list[Record], task: Task, model: Model, batch: Corpus, lattice: Lattice, count: int
) -> None:
    ranked = lattice.nbest(count)
    chances = lattice.marginals(model.temperature).sequence(ranked.values).round(6).tolist()
    for record in found:
        record["nbest"] = []
    for rank, outputs in enumerate(ranked.outputs):
        for number, made in enumerate(task.records(model, batch, outputs)):
            if ranked.values[number, rank] > -float("inf"):
                found[number]["nbest"].append(made | {"probability": chances[number][rank]})
