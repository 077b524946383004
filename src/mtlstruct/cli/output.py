"""Predictions as they are written: labels alone, or with probabilities and the N best, in the form of crf_test.

Before each labelling that has a probability stands a line, "# PROBABILITY" or, among N best, "# RANK PROBABILITY".
A label becomes LABEL/PROBABILITY, a word WORD/PROBABILITY. Items that stand alone have such lines for N best only.
Trees stay as they are and get comments, "# probability = P" of it and "# head_probabilities = P P ..." of its heads.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.formats import columns, conll, segmented, text
from mtlstruct.model.lattice import Floats, Lattice, Marginals, Outputs, Ranked
from mtlstruct.model.model import Model
from mtlstruct.structures.constraints import Constraints


@dataclass(frozen=True)
class Wishes:
    """What to write beside the best labels: probabilities (of all labels), the N best."""

    scores: bool = False
    all_labels: bool = False
    nbest: int | None = None

    @property
    def probabilities(self) -> bool:
        """Whether any number is written."""
        return self.scores or self.nbest is not None


def annotated(model: Model, batch: Corpus, constraints: Constraints | None, wishes: Wishes) -> str:
    """The text of a batch with what was predicted."""
    lattice = model.lattice(batch, constraints)
    if model.task == "dependency":
        return _trees(model, batch, lattice, wishes)
    if not wishes.probabilities:
        return "".join(_plain(model, batch, lattice.best()))
    marginals = lattice.marginals(model.temperature)
    if wishes.nbest is None:
        best = lattice.best()
        ranked = Ranked(best[None], lattice.evaluate(best)[:, None])
    else:
        ranked = lattice.nbest(wishes.nbest)
    heads = _heads(marginals.sequence(ranked.values), ranks=wishes.nbest is not None)
    if model.task == "multiclass" and wishes.nbest is None:
        heads = [[""] for _ in heads]  # what a sentence of one item is worth stands beside its class
    counts = (ranked.values > -np.inf).sum(axis=1)
    labelings = ranked.outputs[: max(1, counts.max(initial=0))]
    if not wishes.scores:
        found = [_plain(model, batch, outputs) for outputs in labelings]
    elif model.task == "segmentation":
        found = [_words(model, batch, lattice, marginals, outputs) for outputs in labelings]
    else:
        others = _others(model, marginals) if wishes.all_labels else None
        found = [_labels(model, batch, marginals, outputs, others) for outputs in labelings]
    return "".join(_interleaved(found, heads, counts.tolist()))


def _trees(model: Model, batch: Corpus, lattice: Lattice, wishes: Wishes) -> str:
    """The lines of the batch with other heads, and other relations if the model knows any."""
    if wishes.all_labels or wishes.nbest is not None:
        raise IncompatibleError("all labels and N best are for labels: the model is one for trees")
    out = io.StringIO()
    heads, relations = lattice.best(), None
    if model.relations is not None:
        relations = text.named(model.relate(batch, heads), model.relations.labels)
    comments = _tree_comments(model, lattice, heads) if wishes.scores else ()
    conll.write(out, batch, None, heads, relations, comments)
    return out.getvalue()


def _tree_comments(model: Model, lattice: Lattice, heads: Outputs) -> list[dict[str, str]]:
    """For each sentence how probable its tree is, and each of its heads."""
    marginals = lattice.marginals(model.temperature)
    trees = marginals.sequence(lattice.evaluate(heads)).tolist()
    chosen = [f"{p:.4f}" for p in marginals.chosen(heads).tolist()]
    spans = pairwise(lattice.ptr.tolist())
    return [
        {"probability": f"{tree:f}", "head_probabilities": " ".join(chosen[slice(*span)])}
        for tree, span in zip(trees, spans, strict=True)
    ]


def _heads(probabilities: Floats, *, ranks: bool) -> list[list[str]]:
    """For each sentence the lines before its labelings."""
    return [
        [f"# {rank} {p:f}\n" if ranks else f"# {p:f}\n" for rank, p in enumerate(row)]
        for row in probabilities.tolist()
    ]


def _interleaved(found: Sequence[list[str]], heads: list[list[str]], counts: list[int]) -> Iterator[str]:
    """All labelings of the first sentence, of the second, ... An empty line is no sentence and comes back once.

    found[k][i]: the text of line i under its k-th labelling; sentence s has counts[s] of them.
    """
    sentences = zip(heads, counts, strict=True)
    for texts in zip(*found, strict=True):
        if texts[0] == "\n":
            yield "\n"
            continue
        lines, count = next(sentences)
        yield from (head + text for head, text in zip(lines[:count], texts[:count], strict=True))


# One labelling of a batch, int32[T], as the text of each of its sentences (or lines).


def _plain(model: Model, batch: Corpus, outputs: Outputs) -> list[str]:
    labels = text.named(outputs, model.labels)
    if model.task == "segmentation":
        return segmented.blocks(batch, segmented.words_of(batch, labels))
    return _rows(model, batch, labels)


def _labels(
    model: Model, batch: Corpus, marginals: Marginals, outputs: Outputs, others: list[str] | None
) -> list[str]:
    chosen = zip(text.named(outputs, model.labels), marginals.chosen(outputs).tolist(), strict=True)
    cells = [f"{label}/{p:f}" for label, p in chosen]
    if others is not None:
        cells = [cell + other for cell, other in zip(cells, others, strict=True)]
    return _rows(model, batch, cells)


def _rows(model: Model, batch: Corpus, cells: Sequence[str]) -> list[str]:
    return columns.blocks(batch, cells, alone=model.task == "multiclass")


def _others(model: Model, marginals: Marginals) -> list[str]:
    """For each token all labels with their probabilities, in cells of their own."""
    names = [f"\t{label}/" for label in model.labels]
    return [
        "".join([f"{name}{p:f}" for name, p in zip(names, row, strict=True)])
        for row in marginals.node.tolist()
    ]


def _words(
    model: Model, batch: Corpus, lattice: Lattice, marginals: Marginals, outputs: Outputs
) -> list[str]:
    labels = text.named(outputs, model.labels)
    words = segmented.words_of(batch, labels)
    starts = np.array(words.starts, np.int64)
    stops = np.array(segmented.reaches(batch, words, labels), np.int64)
    found = lattice.spans(outputs, starts, stops, marginals)
    return segmented.blocks(batch, words, [f"/{p:f}" for p in found.tolist()])
