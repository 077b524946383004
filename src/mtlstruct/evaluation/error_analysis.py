"""Error analysis of a model: official scores, scores by type, confusions, calibration.

The report shows it and the log of `train --valid` keeps it, so it is a dict of plain numbers and
names. Counts by type are exact counts of labels, words or arcs, not scores of a script.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.evaluation.chunks import ChunkScores
from mtlstruct.evaluation.counts import Counts, tally
from mtlstruct.evaluation.scores import Scores, headline, without_chunks
from mtlstruct.formats import conll, segmented, text
from mtlstruct.model.calibration import CalibrationReport, calibration_report
from mtlstruct.model.model import Model

POSTAG = 2
"""The column of a tree's coarse part of speech."""

DISTANCES = ((1, "1"), (2, "2"), (3, "3–4"), (5, "5–9"), (10, "10+"))
"""Bins of the distance between a word and its head: where they begin, and their names."""

MAX_WORD_LENGTH = 5
"""Words of this length and longer are one type."""


Analysis = dict[str, Any]
"""The analysis, or a table of it, as JSON has it."""


def assess(model: Model, gold: Corpus, source: str, score: Callable[..., Scores]) -> Analysis:
    """Predict labelled data and count errors; `score` is `score_model` of the task.

    The keys are source, headline, scores, groups (counts by one criterion: title and rows),
    confusions (axis, names, and cells above 0 as gold, predicted, count), and calibration, None
    without probabilities.
    """
    lattice = model.lattice(gold)
    predictions = lattice.best()
    relations = None if model.relations is None else model.relate(gold, predictions)
    found = score(model, gold, predictions, None, relations)
    if not model.trees:
        groups, confusions = _labels(model, gold, predictions, found)
    else:
        groups, confusions = _trees(gold, predictions)
        if model.relations is not None and relations is not None:
            more = _relations(gold, predictions, text.named(relations, model.relations.labels))
            groups, confusions = [*groups, more[0]], [*confusions, more[1]]
    report = None
    if lattice.has_marginals:
        report = calibration_report(lattice, model.gold(gold), model.temperature, calibrated=model.calibrated)
    return analysis(source, found, groups, confusions, report)


def analysis(
    source: str,
    found: Scores,
    groups: list[Analysis],
    confusions: list[Analysis],
    report: CalibrationReport | None,
) -> Analysis:
    """Return the analysis of the parts."""
    calibration = None
    if report is not None:
        bins = report.reliability
        table = np.stack([bins.counts, bins.confidence, bins.accuracy], axis=1)
        calibration = report.as_dict() | {"bins": table.tolist()}
    return {
        "source": source,
        "headline": headline(found),
        "scores": {k: v for k, v in found.as_dict().items() if k != "per_type"},
        "groups": groups,
        "confusions": confusions,
        "calibration": calibration,
    }


def group_counts(title: str, rows: dict[str, Counts]) -> Analysis:
    """Return counts by one criterion: chunks by type, arcs by distance."""
    return {"title": title, "rows": [{"name": name} | counts.full_dict() for name, counts in rows.items()]}


def _labels(
    model: Model, gold: Corpus, predictions: NDArray[np.int32], found: Scores
) -> tuple[list[Analysis], list[Analysis]]:
    assert gold.outputs is not None
    names = (*model.labels, *(label for label in gold.labels if label not in set(model.labels)))
    number = {name: n for n, name in enumerate(names)}
    right = np.array([number[label] for label in gold.labels], np.int64)[gold.outputs]
    confusion = _confusion("label", names, right, predictions)
    by_label = group_counts("by class" if model.alone else "by label", _counts_of(names, right, predictions))
    if isinstance(found, ChunkScores) and not without_chunks(found):
        types = {name or "(no type)": counts for name, counts in found.types.items()}
        return [group_counts("by chunk type", types), by_label], [confusion]
    if model.characters:
        return [_words_by_length(gold, model.labels, predictions), by_label], [confusion]
    return [by_label], [confusion]


def _words_by_length(gold: Corpus, labels: Sequence[str], predictions: NDArray[np.int32]) -> Analysis:
    assert gold.outputs is not None
    theirs = _spans(gold, text.named(gold.outputs, gold.labels))
    ours = _spans(gold, text.named(predictions, labels))
    return group_counts(
        "by length of the word", tally(_lengths(theirs), _lengths(ours), _lengths(theirs & ours))
    )


def _spans(corpus: Corpus, labels: list[str]) -> set[tuple[int, int]]:
    found = segmented.words_of(corpus, labels)
    return set(zip(found.starts, found.stops, strict=True))


def _lengths(spans: Iterable[tuple[int, int]]) -> Counter[str]:
    sizes = (stop - start for start, stop in spans)
    return Counter(f"{MAX_WORD_LENGTH}+" if size >= MAX_WORD_LENGTH else str(size) for size in sizes)


def _trees(gold: Corpus, predictions: NDArray[np.int32]) -> tuple[list[Analysis], list[Analysis]]:
    assert gold.outputs is not None
    lengths = np.diff(gold.ptr)
    place = np.arange(gold.tokens) - np.repeat(gold.ptr[:-1], lengths) + 1
    theirs, ours = _arcs(gold.outputs, place), _arcs(predictions, place)
    names = _arc_names()
    same = gold.outputs == predictions
    counted = [_named(numbers, names) for numbers in (theirs, ours, theirs[same])]
    by_arc = tally(counted[0], counted[1], counted[2], names)
    tags = gold.columns[POSTAG].cells()
    every, right = Counter(tags), Counter(tag for tag, hit in zip(tags, same.tolist(), strict=True) if hit)
    groups = [
        group_counts("by part of speech", tally(every, every, right)),
        group_counts("by direction and distance of the head", by_arc),
    ]
    return groups, [_confusion("head, as seen from the word", names, theirs, ours)]


def _relations(
    gold: Corpus, predictions: NDArray[np.int32], ours: Sequence[str]
) -> tuple[Analysis, Analysis]:
    """Count relations under right heads, as in LAS, and their confusions under any head."""
    theirs = conll.relations(gold).cells()
    assert gold.outputs is not None
    hits = zip(theirs, ours, (gold.outputs == predictions).tolist(), strict=True)
    right = Counter(name for name, other, same in hits if same and name == other)
    names = sorted({*theirs, *ours})
    number = {name: n for n, name in enumerate(names)}
    sides = [np.array([number[name] for name in side], np.int64) for side in (theirs, ours)]
    counts = tally(Counter(theirs), Counter(ours), right)
    return group_counts("by relation, under the right head", counts), _confusion("relation", names, *sides)


def _arcs(heads: NDArray[np.int32], place: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index in _arc_names of each arc."""
    starts = [start for start, _ in DISTANCES]
    reach = np.searchsorted(starts, np.abs(heads - place), side="right") - 1
    # left heads from far to near, then the root, then right heads from near to far
    left, right = len(DISTANCES) - 1 - reach, len(DISTANCES) + 1 + reach
    return np.where(heads == 0, len(DISTANCES), np.where(heads < place, left, right)).astype(np.int64)


def _arc_names() -> tuple[str, ...]:
    names = [name for _, name in DISTANCES]
    return (*(f"← {name}" for name in reversed(names)), "root", *(f"→ {name}" for name in names))


def _confusion(
    axis: str, names: Sequence[str], right: NDArray[np.integer], chosen: NDArray[np.integer]
) -> Analysis:
    """Return the confusion matrix, rows gold and columns predicted, by its cells above 0."""
    table = _table(len(names), right, chosen)
    rows, columns = np.nonzero(table)
    cells = np.stack([rows, columns, table[rows, columns]], axis=1)
    return {"axis": axis, "names": list(names), "cells": cells.tolist()}


def _table(n: int, right: NDArray[np.integer], chosen: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.bincount(right.astype(np.int64) * n + chosen, minlength=n * n).reshape(n, n)


def _counts_of(
    names: Sequence[str], right: NDArray[np.integer], chosen: NDArray[np.integer]
) -> dict[str, Counts]:
    """Return the counts of each name that occurs."""
    table = _table(len(names), right, chosen)
    rows = zip(names, table.sum(axis=1), table.sum(axis=0), np.diag(table), strict=True)
    return {name: Counts(int(g), int(p), int(c)) for name, g, p, c in rows if g or p}


def _named(numbers: NDArray[np.int64], names: Sequence[str]) -> Counter[str]:
    counts = np.bincount(numbers, minlength=len(names)).tolist()
    return Counter({name: count for name, count in zip(names, counts, strict=True) if count})
