"""Explain labels and heads: the score of an output as a sum of contributions of templates.

A score is a sum over templates, and so is the difference of two scores: the decomposition is exact.
For each token the chosen path is compared with the runner-up, the best path with another label at
that token (max-marginals, forward and backward). Where the data have a label and the chosen one is
wrong, the runner-up is the best path with the label of the data. The contributions of node
templates at the token and of edge templates on its two edges are listed by template; the difference
elsewhere is one number:

    Σ_j values[t, j] + elsewhere[t] = margin[t] = score(chosen path) − score(runner-up path)

Items are sequences of one token. Sums are in double over the float32 weights of the model. The
runner-up of a tree is the best one in which the token has another head, found by one more search
per token; listed are the contributions to the arc of the token. Labels of arcs are predicted after
the tree, independently of each other, and explained as classes. Other structures raise
IncompatibleError.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import UNKNOWN, Corpus, entries
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.encoded import Encoded
from mtlstruct.linear.design import Design
from mtlstruct.model.model import Model
from mtlstruct.structures.base import FORBIDDEN, Batch
from mtlstruct.structures.sequence import edge_rows
from mtlstruct.structures.tree import arc_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FORBIDDEN_SCORE = -1e9
"""The score of an arc that must not be in a tree: below the score of any tree."""

SITES_PER_CHUNK = 10_000
"""The number of sites whose entries are listed at a time, to bound the memory."""


@dataclass(frozen=True)
class Explanation:
    """The explanation of one sentence of n tokens.

    chosen      int64[n]: the predicted labels
    rivals      int64[n]: the label at t of the runner-up for t
    values      float64[n, m]: the contribution of template j to chosen[t] minus that to
                rivals[t], at t and on its two edges
    elsewhere   float64[n]: the difference of the two paths at other places
    margin      float64[n]: the score of the chosen path minus that of the runner-up
    gold        int64[n]: the labels of the data, −1 where unknown; None for trees
    """

    span: slice
    chosen: Ints
    rivals: Ints
    values: Floats
    elsewhere: Floats
    margin: Floats
    gold: Ints | None = None


def explain(model: Model, corpus: Corpus) -> Iterator[Explanation]:
    """Yield an Explanation for each sentence, in order."""
    if model.trees:
        for span in corpus.sentences():
            yield _explain_tree(model, one_sentence(corpus, span), span)
        return
    _check(model)
    outputs = model.lattice(corpus).path().astype(np.int64)
    encoded = model.index.encode(model.observed(corpus), model.structure.sites(corpus.ptr))
    gold = _gold_labels(model, corpus)
    for number, span in enumerate(corpus.sentences()):
        yield _explain_sentence(model, encoded, span, number, outputs[span], gold[span])


def _gold_labels(model: Model, corpus: Corpus) -> Ints:
    """Return the labels of the data as the model learns them; −1 where there is none it knows."""
    if corpus.outputs is None:
        return np.full(corpus.tokens, UNKNOWN, np.int64)
    gold = model.gold(corpus)
    if model.conversion is not None:
        gold = np.where(gold < 0, UNKNOWN, model.conversion.encode(np.maximum(gold, 0), corpus.ptr))
    return gold.astype(np.int64)


def shares(model: Model, corpora: Iterable[Corpus]) -> Floats:
    """Return the share of each template in Σ|contribution to the chosen outputs|.

    float64[m]; all 0 where nothing fires.
    """
    if not model.trees:
        _check(model)
    total = np.zeros(len(model.templates))
    for corpus in corpora:
        outputs = model.lattice(corpus).path().astype(np.int64)
        encoded = model.index.encode(model.observed(corpus), model.structure.sites(corpus.ptr))
        for kind, (rows, parts) in enumerate(_chosen(model, corpus, encoded, outputs)):
            for begin in range(0, len(rows), SITES_PER_CHUNK):
                some = slice(begin, begin + SITES_PER_CHUNK)
                _, template, value = _entries(model, encoded, kind, rows[some], parts[some])
                total += np.bincount(template, np.abs(value), len(total))
    return total / (total.sum() or 1.0)


def one_sentence(corpus: Corpus, span: slice) -> Corpus:
    """Return the tokens of one sentence as a corpus."""
    columns = tuple(column.take(np.arange(span.start, span.stop)) for column in corpus.columns)
    return Corpus(columns, np.array([0, span.stop - span.start], np.int64), names=corpus.names)


def _chosen(model: Model, corpus: Corpus, encoded: Encoded, outputs: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield for each kind the rows and parts that the outputs use."""
    if model.trees:
        yield arc_rows(corpus.ptr) + outputs, np.zeros_like(outputs)
        return
    yield np.arange(corpus.tokens), outputs
    for edges in model.structure.sites(corpus.ptr)[1:]:
        assert edges.tokens is not None
        pairs = outputs[edges.tokens - 1] * len(model.learned_labels) + outputs[edges.tokens]
        yield edge_rows(encoded.rows).astype(np.int64), pairs


def _check(model: Model) -> None:
    if model.structure.name not in ("sequence", "multiclass"):
        raise IncompatibleError(
            f"only label sequences and classes can be explained: the model is for {model.structure.name}"
        )
    if len(model.labels) < 2:
        raise IncompatibleError(
            f"the model has one label only ({model.labels[0]!r}): there is no other to compare it with"
        )


def _explain_sentence(
    model: Model, encoded: Encoded, span: slice, number: int, chosen: Ints, gold: Ints
) -> Explanation:
    n, L = len(chosen), len(model.learned_labels)
    later, node_rows = np.arange(1, n), np.arange(span.start, span.stop)

    def given(kind: int, rows: Ints, parts: Ints) -> Floats:
        return _contributions(model, encoded, kind, rows, parts)

    nodes = _part_scores(encoded.designs[0], model.weights[0], node_rows)
    edges = np.zeros((n, L, L))
    linked = n > 1 and len(encoded.designs) > 1
    if linked:  # row t − 1 is that of the edge that enters token t
        rows = edge_rows(encoded.rows)[span.start - number : span.stop - number - 1].astype(np.int64)
        edges[1:] = _part_scores(encoded.designs[1], model.weights[1], rows).reshape(-1, L, L)
    paths = runners_up(*_valid(model, nodes, edges), chosen, gold)
    rivals = np.diagonal(paths).copy()
    values = given(0, node_rows, chosen) - given(0, node_rows, rivals)
    if linked:
        mine = given(1, rows, chosen[:-1] * L + chosen[1:])
        entering = paths[later, later - 1] * L + paths[later, later]
        leaving = paths[later - 1, later - 1] * L + paths[later - 1, later]
        values[1:] += mine - given(1, rows, entering)
        values[:-1] += mine - given(1, rows, leaving)
    best = path_score(nodes, edges, chosen)
    margin = np.array([best - path_score(nodes, edges, path) for path in paths])
    return Explanation(span, chosen, rivals, values, margin - values.sum(axis=1), margin, gold)


def _valid(model: Model, nodes: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return scores that forbid sequences which are not valid in the label scheme of the model."""
    if model.conversion is None:
        return nodes, edges
    valid = model.conversion.valid
    nodes = nodes.copy()
    nodes[0, ~valid[-1, :-1]] = nodes[-1, ~valid[:-1, -1]] = FORBIDDEN
    return nodes, np.where(valid[:-1, :-1], edges, FORBIDDEN)


def _part_scores(design: Design, weights: NDArray[np.float32], rows: Ints) -> Floats:
    """Return the score of every part of some sites, in double. float64[sites, parts]"""
    entry, ptr = entries(design.ptr, rows)
    site = np.repeat(np.arange(len(rows)), np.diff(ptr))
    out = np.zeros((len(rows), design.layout.parts(weights)))
    value = design.layout.rows_of(weights, design.ids[entry]).astype(np.float64)
    np.add.at(out, site, value * design.values[entry, None] if len(design.values) else value)
    return out


def runners_up(nodes: Floats, edges: Floats, chosen: Ints, gold: Ints) -> Ints:
    """Return for each t the best path with another label than chosen[t] at t. int64[n, n]

    That label is gold[t] if chosen[t] is wrong; gold[t] is −1 if unknown.

    nodes float64[n, L]; edges float64[n, L, L] (previous, current), edges[t] enters t and edges[0]
    is not used.
    """
    n = len(nodes)
    ahead, came = _sweep(nodes, edges)
    # A backward sweep: edge t of the mirrored sentence is edge n − t with its ends swapped.
    mirrored = np.concatenate([edges[:1], edges[:0:-1].swapaxes(1, 2)])
    behind, goes = (table[::-1] for table in _sweep(nodes[::-1], mirrored))
    through = ahead + behind - nodes
    through[np.arange(n), chosen] = -np.inf
    paths = np.empty((n, n), np.int64)
    for t in range(n):
        paths[t, t] = through[t].argmax() if gold[t] in (UNKNOWN, chosen[t]) else gold[t]
        for s in range(t, 0, -1):
            paths[t, s - 1] = came[s, paths[t, s]]
        for s in range(t, n - 1):
            paths[t, s + 1] = goes[s, paths[t, s]]
    return paths


def path_score(nodes: Floats, edges: Floats, path: Ints) -> float:
    """Return the score of one path."""
    later = np.arange(1, len(path))
    total = nodes[np.arange(len(path)), path].sum() + edges[later, path[:-1], path[1:]].sum()
    return float(total)


def _sweep(nodes: Floats, edges: Floats) -> tuple[Floats, Ints]:
    """Return the best score of a path that ends at t in y, and the label before it. [n, L] each."""
    best, came = nodes.copy(), np.zeros(nodes.shape, np.int64)
    for t in range(1, len(nodes)):
        reach = best[t - 1][:, None] + edges[t]
        came[t] = reach.argmax(axis=0)
        best[t] += reach.max(axis=0)
    return best, came


def _contributions(model: Model, encoded: Encoded, kind: int, rows: Ints, parts: Ints) -> Floats:
    """Return the contribution of each template to a part of some rows. float64[rows, m]"""
    site, template, value = _entries(model, encoded, kind, rows, parts)
    out = np.zeros((len(rows), len(model.templates)))
    np.add.at(out, (site, template), value)
    return out


def _entries(model: Model, encoded: Encoded, kind: int, rows: Ints, parts: Ints) -> tuple[Ints, Ints, Floats]:
    """Return place in `rows`, template of the model, and contribution of each entry of A."""
    design, weights = encoded.designs[kind], model.weights[kind]
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


def _explain_tree(model: Model, sentence: Corpus, span: slice) -> Explanation:
    """Explain one tree; `chosen` and `rivals` are heads, −1 for none."""
    n = sentence.tokens
    encoded = model.index.encode(sentence, model.structure.sites(sentence.ptr))
    (scores,), _ = model.index.score(sentence, model.structure.sites(sentence.ptr), model.weights)

    def best_tree(scores: NDArray[np.float32]) -> tuple[Ints, float]:
        heads, value = np.zeros(n, np.int32), np.zeros(1)
        model.structure.decode(Batch((scores,), (None,), sentence.ptr), (0, 1), heads, value)
        return heads.astype(np.int64), float(value[0])

    chosen, best = best_tree(scores)
    rivals, margin = np.full(n, -1, np.int64), np.full(n, np.inf)
    first, part = np.arange(n) * (n + 1), np.zeros(n, np.int64)
    for t in range(n):
        others = scores.copy()
        others[first[t] + chosen[t], 0] = FORBIDDEN_SCORE
        heads, value = best_tree(others)
        if value > FORBIDDEN_SCORE / 2:
            rivals[t], margin[t] = heads[t], best - value
    known = rivals >= 0
    values = _contributions(model, encoded, 0, first + chosen, part)
    values[known] -= _contributions(model, encoded, 0, (first + rivals)[known], part[known])
    elsewhere = np.where(known, margin - values.sum(axis=1), 0.0)
    return Explanation(span, chosen, rivals, values, elsewhere, margin)
