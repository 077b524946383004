"""Explain labels and heads: the score of an output as a sum of contributions of templates.

A score is a sum over templates, and so is the difference of two scores: the decomposition is exact.
For each token the chosen output is compared with the runner-up, the best output with another label,
or head, at that token, found by one more search. Where the data have a label and the chosen one is
wrong, the runner-up is the best path with the label of the data. The contributions of node
templates at the token and of edge templates on its two edges (of trees: to the arc of the token)
are listed by template; the difference elsewhere is one number:

    Σ_j values[t, j] + elsewhere[t] = margin[t] = score(chosen) − score(runner-up)

Items are sequences of one token. Sums are in double over the float32 weights of the model. Labels
of arcs are predicted after the tree, independently of each other, and explained as classes. Other
structures raise IncompatibleError.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import UNKNOWN, Corpus, entries
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.encoded import Encoded
from mtlstruct.model.lattice import Lattice
from mtlstruct.model.model import Model
from mtlstruct.structures.base import FORBIDDEN, IMPOSSIBLE, Batch
from mtlstruct.structures.tree import arc_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXCLUDED = 10 * FORBIDDEN
"""The score of a part that the runner-up must not have: below outputs that constraints forbid."""

SITES_PER_CHUNK = 10_000
"""The number of sites whose entries are listed at a time, to bound the memory."""


@dataclass(frozen=True)
class Explanation:
    """The explanation of one sentence of n tokens.

    chosen      int64[n]: the predicted labels, or heads
    rivals      int64[n]: the label, or head, at t of the runner-up for t; −1 for no head
    values      float64[n, m]: the contribution of template j to chosen[t] minus that to
                rivals[t], at t and on its two edges
    elsewhere   float64[n]: the difference of the two outputs at other places
    margin      float64[n]: the score of the chosen output minus that of the runner-up
    gold        int64[n]: the labels of the data, −1 where unknown and for trees
    """

    span: slice
    chosen: Ints
    rivals: Ints
    values: Floats
    elsewhere: Floats
    margin: Floats
    gold: Ints


def explain(model: Model, corpus: Corpus) -> Iterator[Explanation]:
    """Yield an Explanation for each sentence, in order."""
    _check(model)
    if model.trees and len(corpus) > 1:  # a sentence has many arcs
        for number, span in enumerate(corpus.sentences()):
            (found,) = explain(model, corpus.take(np.array([number])))
            yield replace(found, span=span)
        return
    lattice, gold = model.lattice(corpus), _gold_labels(model, corpus)
    outputs = lattice.path().astype(np.int64)
    encoded = model.index.encode(model.observed(corpus), model.structure.sites(corpus.ptr))
    for number, span in enumerate(corpus.sentences()):
        yield _explain_sentence(model, lattice, encoded, number, span, outputs[span], gold[span])


def _gold_labels(model: Model, corpus: Corpus) -> Ints:
    """Return the labels of the data as the model learns them; −1 where there is none it knows."""
    if corpus.outputs is None or model.trees:
        return np.full(corpus.tokens, UNKNOWN, np.int64)
    gold = model.gold(corpus)
    if model.conversion is not None:
        gold = np.where(gold < 0, UNKNOWN, model.conversion.encode(np.maximum(gold, 0), corpus.ptr))
    return gold.astype(np.int64)


def shares(model: Model, corpora: Iterable[Corpus]) -> Floats:
    """Return the share of each template in Σ|contribution to the chosen outputs|.

    float64[m]; all 0 where nothing fires.
    """
    _check(model)
    total = np.zeros(len(model.templates))
    for corpus in corpora:
        outputs = model.lattice(corpus).path().astype(np.int64)
        encoded = model.index.encode(model.observed(corpus), model.structure.sites(corpus.ptr))
        for kind, (sites, parts) in enumerate(_used(model, corpus.ptr, outputs)):
            for begin in range(0, len(sites), SITES_PER_CHUNK):
                some = slice(begin, begin + SITES_PER_CHUNK)
                _, template, value = _entries(model, encoded, kind, sites[some], parts[some])
                total += np.bincount(template, np.abs(value), len(total))
    return total / (total.sum() or 1.0)


def one_sentence(corpus: Corpus, span: slice) -> Corpus:
    """Return the tokens of one sentence as a corpus."""
    columns = tuple(column.take(np.arange(span.start, span.stop)) for column in corpus.columns)
    return Corpus(columns, np.array([0, span.stop - span.start], np.int64), names=corpus.names)


def _used(model: Model, ptr: Ints, outputs: Ints) -> list[tuple[Ints, Ints]]:
    """Return for each kind the sites (of trees: arcs) and parts that outputs use."""
    if model.trees:
        return [(arc_rows(ptr) + outputs, np.zeros_like(outputs))]
    found = [(np.arange(len(outputs)), outputs)]
    for edges in model.structure.sites(ptr)[1:]:
        assert edges.tokens is not None
        pairs = outputs[edges.tokens - 1] * len(model.learned_labels) + outputs[edges.tokens]
        found.append((np.arange(len(pairs)), pairs))
    return found


def _check(model: Model) -> None:
    if not model.trees and model.structure.name not in ("sequence", "multiclass"):
        raise IncompatibleError(
            f"only label sequences and classes can be explained: the model is for {model.structure.name}"
        )
    if len(model.labels) == 1:
        raise IncompatibleError(
            f"the model has one label only ({model.labels[0]!r}): there is no other to compare it with"
        )


def _explain_sentence(
    model: Model, lattice: Lattice, encoded: Encoded, number: int, span: slice, chosen: Ints, gold: Ints
) -> Explanation:
    n, ptr = len(chosen), np.array([0, len(chosen)])
    sites = [np.arange(*first[number : number + 2]) for first in model.structure.site_ptr(lattice.ptr)]
    paths = np.vstack([chosen, _runners_up(model, lattice, sites, chosen, gold)])
    used = [_used(model, ptr, path) for path in paths]
    tables = [_part_scores(model, encoded, kind, some) for kind, some in enumerate(sites)]
    total = np.sum([[table[at].sum() for table, at in zip(tables, parts, strict=True)] for parts in used], 1)
    rivals = paths[1:].diagonal()
    known = rivals >= 0

    def given(kind: int, at: Ints, parts: Ints) -> Floats:
        return _contributions(model, encoded, kind, sites[kind][at], parts)

    at, part = _used(model, ptr, rivals)[0]
    values = given(0, *used[0][0])
    values[known] -= given(0, at[known], part[known])
    if n > 1 and len(sites) > 1:  # edge t − 1 is the one that enters token t
        edge, pairs = np.arange(n - 1), np.stack([parts[1][1] for parts in used])
        mine = given(1, edge, pairs[0])
        values[1:] += mine - given(1, edge, pairs[edge + 2, edge])
        values[:-1] += mine - given(1, edge, pairs[edge + 1, edge])
    margin = np.where(known, total[0] - total[1:], np.inf)
    elsewhere = np.where(known, margin - values.sum(axis=1), 0.0)
    return Explanation(span, chosen, rivals, values, elsewhere, margin, gold)


def _runners_up(model: Model, lattice: Lattice, sites: list[Ints], chosen: Ints, gold: Ints) -> Ints:
    """Return for each t the best output with another label, or head, at t; −1 there if none. [n, n]

    If the chosen label is wrong, the other one is gold[t], which is −1 if unknown.
    """
    n, ptr, value = len(chosen), np.array([0, len(chosen)]), np.zeros(1)
    scores, paths = lattice.parts[0][sites[0]], np.zeros((n, n), np.int32)
    rows = [
        edge_row[at] for edge_row, at in zip(lattice.rows[1:], sites[1:], strict=True) if edge_row is not None
    ]
    batch = Batch((scores, *lattice.parts[1:]), (None, *rows), ptr)
    at, part = _used(model, ptr, chosen)[0]
    for t in range(n):
        right = gold[t] in (UNKNOWN, chosen[t])
        excluded = (at[t], part[t]) if right else (t, np.arange(scores.shape[1]) != gold[t])
        before = scores[excluded]
        scores[excluded] = EXCLUDED
        model.structure.decode(batch, (0, 1), paths[t], value)
        scores[excluded] = before
        if model.trees and value < IMPOSSIBLE:
            paths[t, t] = -1
    return paths.astype(np.int64)


def _rows(encoded: Encoded, kind: int, sites: Ints) -> Ints:
    """Return the rows of A of some sites."""
    row = encoded.rows[kind]
    return sites if row is None else row[sites].astype(np.int64)


def _part_scores(model: Model, encoded: Encoded, kind: int, sites: Ints) -> Floats:
    """Return the score of every part of some sites, in double. float64[sites, parts]"""
    design, weights = encoded.designs[kind], model.weights[kind]
    entry, ptr = entries(design.ptr, _rows(encoded, kind, sites))
    site = np.repeat(np.arange(len(sites)), np.diff(ptr))
    out = np.zeros((len(sites), design.layout.parts(weights)))
    value = design.layout.rows_of(weights, design.ids[entry]).astype(np.float64)
    np.add.at(out, site, value * design.values[entry, None] if len(design.values) else value)
    return out


def _contributions(model: Model, encoded: Encoded, kind: int, sites: Ints, parts: Ints) -> Floats:
    """Return the contribution of each template to a part of some sites. float64[sites, m]"""
    site, template, value = _entries(model, encoded, kind, sites, parts)
    out = np.zeros((len(sites), len(model.templates)))
    np.add.at(out, (site, template), value)
    return out


def _entries(
    model: Model, encoded: Encoded, kind: int, sites: Ints, parts: Ints
) -> tuple[Ints, Ints, Floats]:
    """Return place in `sites`, template of the model, and contribution of each entry of A."""
    design, weights, rows = encoded.designs[kind], model.weights[kind], _rows(encoded, kind, sites)
    entry, ptr = entries(design.ptr, rows)
    site = np.repeat(np.arange(len(rows)), np.diff(ptr))
    value = design.layout.weights_of(weights, design.ids[entry], parts[site]).astype(np.float64)
    if len(design.values):
        value *= design.values[entry]
    listed, blocks = design.entry_blocks
    place = (entry - design.ptr[rows][site], entry, design.ids[entry])[listed]
    return site, np.array(model.live, np.int64)[blocks[place]], value


def relation_shares(model: Model, corpora: Iterable[Corpus]) -> NDArray[np.float64]:
    """Return the share of each template of arc labels in the scores of arcs. float64[m]"""
    assert model.relations is not None
    return shares(model.relations, (model.arcs(corpus, model.predict(corpus)) for corpus in corpora))
