"""Error analysis of a model: official scores, scores by type, confusions, calibration.

The report shows it and the log of `train --valid` keeps it, so it is a dict of plain numbers and
names. Counts by type are exact counts of labels, words or arcs, not scores of a script.
"""

from collections import Counter
from collections.abc import Callable, Sequence
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

ARCS = (*(f"← {name}" for _, name in reversed(DISTANCES)), "root", *(f"→ {name}" for _, name in DISTANCES))
"""Arcs by direction and distance, in the order of the place of the head."""

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
    if model.trees:
        names = None
        if model.relations is not None and relations is not None:
            names = text.named(relations, model.relations.labels)
        groups, confusions = _trees(gold, predictions, names)
    else:
        groups, confusions = _labels(model, gold, predictions, found)
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
    theirs, ours = text.named(gold.outputs, gold.labels), text.named(predictions, model.labels)
    names = list(dict.fromkeys((*model.labels, *gold.labels)))
    counts = tally(Counter(theirs), Counter(ours), _equal(theirs, ours), names)
    groups = [group_counts("by class" if model.alone else "by label", counts)]
    if isinstance(found, ChunkScores) and not without_chunks(found):
        types = {name or "(no type)": counts for name, counts in found.types.items()}
        groups.insert(0, group_counts("by chunk type", types))
    elif model.characters:
        sides = [segmented.words_of(gold, side) for side in (theirs, ours)]
        spans = [set(zip(words.starts, words.stops, strict=True)) for words in sides]
        lengths = [Counter(map(_length, some)) for some in (*spans, spans[0] & spans[1])]
        groups.insert(0, group_counts("by length of the word", tally(*lengths)))
    return groups, [_confusion("label", names, theirs, ours)]


def _length(span: tuple[int, int]) -> str:
    size = span[1] - span[0]
    return f"{MAX_WORD_LENGTH}+" if size >= MAX_WORD_LENGTH else str(size)


def _trees(
    gold: Corpus, predictions: NDArray[np.int32], relations: Sequence[str] | None
) -> tuple[list[Analysis], list[Analysis]]:
    assert gold.outputs is not None
    places = (np.arange(gold.tokens) - np.repeat(gold.ptr[:-1], np.diff(gold.ptr)) + 1).tolist()
    theirs, ours = (list(map(_arc, h.tolist(), places)) for h in (gold.outputs, predictions))
    same = (gold.outputs == predictions).tolist()
    tags = gold.columns[POSTAG].cells()
    right = [Counter(name for name, hit in zip(names, same, strict=True) if hit) for names in (tags, theirs)]
    groups = [
        group_counts("by part of speech", tally(Counter(tags), Counter(tags), right[0])),
        group_counts(
            "by direction and distance of the head", tally(Counter(theirs), Counter(ours), right[1], ARCS)
        ),
    ]
    confusions = [_confusion("head, as seen from the word", ARCS, theirs, ours)]
    if relations is not None:  # right under the right head, as in LAS; confused under any head
        names = conll.relations(gold).cells()
        hits = Counter(a for a, b, hit in zip(names, relations, same, strict=True) if hit and a == b)
        counts = tally(Counter(names), Counter(relations), hits)
        groups.append(group_counts("by relation, under the right head", counts))
        confusions.append(_confusion("relation", sorted({*names, *relations}), names, relations))
    return groups, confusions


def _arc(head: int, place: int) -> str:
    """Return direction and distance of an arc, one of ARCS."""
    if head == 0:
        return "root"
    distance = next(name for start, name in reversed(DISTANCES) if start <= abs(head - place))
    return f"{'←' if head < place else '→'} {distance}"


def _equal(theirs: Sequence[str], ours: Sequence[str]) -> Counter[str]:
    return Counter(a for a, b in zip(theirs, ours, strict=True) if a == b)


def _confusion(axis: str, names: Sequence[str], theirs: Sequence[str], ours: Sequence[str]) -> Analysis:
    """Return the confusion matrix, rows gold and columns predicted, by its cells above 0."""
    number = {name: n for n, name in enumerate(names)}
    counts = Counter(zip(theirs, ours, strict=True))
    cells = sorted([number[a], number[b], count] for (a, b), count in counts.items())
    return {"axis": axis, "names": list(names), "cells": cells}
