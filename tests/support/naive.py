"""Slow, obvious twins of what the package does fast. Tests compare the two."""

import itertools
from dataclasses import dataclass, replace

import numpy as np

from mtlstruct.corpus import Column, Corpus, label_outputs
from mtlstruct.distributed.index import runs_of
from mtlstruct.features.encoded import Encoded
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design
from mtlstruct.linear.weight_layout import WeightLayout
from mtlstruct.objective.losses import Hamming
from mtlstruct.objective.oracle import Oracle
from mtlstruct.templates import TemplateSet, Term, boundary
from mtlstruct.templates.arc_terms import BINS, MIDDLE, ROOT
from mtlstruct.templates.functions import bound
from mtlstruct.templates.terms import MAX_ROW, expand


def place(term, position, length):
    """The position of the cell of a term, seen from `position`; may be outside."""
    if not term.absolute:
        return position + term.row
    return term.row - 1 if term.row > 0 else length + term.row


def pieces_of(corpus, count):
    """Runs of sentences with about equal token counts; none is empty."""
    return [corpus.take(np.arange(a, b)) for a, b in runs_of(corpus.ptr, count)]


def column(cells):
    strings = list(dict.fromkeys(cells))
    number = {s: i for i, s in enumerate(strings)}
    return Column(np.array([number[c] for c in cells], np.int32), strings)


def corpus(sentences, labels):
    """sentences: lists of rows (tuples of cells); labels: lists of label strings."""
    rows = [row for sentence in sentences for row in sentence]
    ptr = np.concatenate([[0], np.cumsum([len(s) for s in sentences])]).astype(np.int64)
    outputs, names = label_outputs(column([y for ys in labels for y in ys]))
    return Corpus(tuple(column(cells) for cells in zip(*rows, strict=True)), ptr, outputs, names)


def random_corpus(rng, sentences=12, longest=7, words=6, labels=3):
    """Small, with repeated words, so that features are shared; labels depend on the words a little."""
    xs, ys = [], []
    for _ in range(sentences):
        n = int(rng.integers(1, longest + 1))
        w = rng.integers(0, words, n)
        xs.append([(f"w{a}", f"p{a % 3}") for a in w])
        noise = rng.integers(0, labels, n)
        ys.append(
            [f"L{(a + (k if rng.random() < 0.3 else 0)) % labels}" for a, k in zip(w, noise, strict=True)]
        )
    return corpus(xs, ys)


def expansions(data: Corpus, templates: TemplateSet):
    """For each template, the expanded line at each token: [m][T] strings."""
    columns = [column.cells() for column in data.columns]

    def at(s, t):
        def cell(row, column, absolute=False):
            n, k = s.stop - s.start, place(Term(row, column, absolute=absolute), t, s.stop - s.start)
            return columns[column][s.start + k] if 0 <= k < n else boundary(k if k < 0 else k - n + 1)

        return cell

    places = [at(s, t) for s in data.sentences() for t in range(s.stop - s.start)]
    return [[expand(template, cell, templates.lists) for cell in places] for template in templates]


def random_items(rng, items=30, words=8, labels=4):
    """Items that stand alone, with repeated words and labels that depend on them a little."""
    word = rng.integers(0, words, items)
    noise = rng.integers(0, labels, items) * (rng.random(items) < 0.3)
    rows = [[(f"w{a}", f"p{a % 3}")] for a in word]
    return corpus(rows, [[f"L{y}"] for y in (word + noise) % labels])


def all_labelings(n, L):
    return itertools.product(range(L), repeat=n)


def path_score(nodes, edges, path):
    """nodes [n, L], edges [n, L, L] (edges[t] enters t; edges[0] is not used)."""
    total = sum(nodes[t, y] for t, y in enumerate(path))
    return total + sum(edges[t, path[t - 1], path[t]] for t in range(1, len(path)))


def best_path(nodes, edges):
    n, L = nodes.shape
    return max(path_score(nodes, edges, p) for p in all_labelings(n, L))


def entries(design):
    """Yield row, position in A, attribute and value of each entry that is not null."""
    for row in range(design.rows):
        for k in range(design.ptr[row], design.ptr[row + 1]):
            if design.ids[k] != design.layout.attributes:
                yield row, k, int(design.ids[k]), float(design.values[k]) if len(design.values) else 1.0


def block_of(design, row, k):
    """The template of an entry."""
    return int(design.blocks[k if design.ragged else k - design.ptr[row]])


def score(design, weights, scale):
    """A·w by loops."""
    out = np.zeros((design.rows, weights.shape[1]))
    for row, k, a, x in entries(design):
        out[row] += scale[block_of(design, row, k)] * x * weights[a]
    return out


def count(design, z, shape):
    """Aᵀ·z by loops."""
    out = np.zeros(shape)
    for row, _, a, x in entries(design):
        out[a, : z.shape[1]] += x * z[row]
    return out


def sentence_scores(oracle, weights, scale):
    """For each sentence node scores [n, L], edge scores [n, L, L] (edges[t] enters t) and gold, by loops."""
    structure, encoded = oracle.structure, oracle.encoded
    nodes = score(encoded.designs[0], weights[0].astype(float), scale)[:, : structure.labels]
    linked = len(encoded.designs) > 1
    if linked:
        rows = score(encoded.designs[1], weights[1].astype(float), scale)
        rows = rows.reshape(-1, structure.labels, structure.labels)
    site = 0
    for i in range(oracle.sentences):
        a, b = encoded.ptr[i], encoded.ptr[i + 1]
        edges = np.zeros((b - a, structure.labels, structure.labels))
        for t in range(1, b - a if linked else 0):
            edges[t] = rows[encoded.rows[1][site]]
            site += 1
        yield nodes[a:b], edges, oracle.gold[a:b]


def block_squares(oracle, weights, scale):
    """‖w_j‖² by slices."""
    squares = np.zeros(oracle.templates)
    for design, u in zip(oracle.encoded.designs, weights, strict=True):
        spans = itertools.pairwise(design.layout.block_ptr)
        for j, (first, last) in zip(design.layout.templates, spans, strict=True):
            squares[j] = scale[j] ** 2 * float((u[first:last].astype(float) ** 2).sum())
    return squares


def objective(oracle, weights, scale, regularizer, c):
    """Ω(w) + c·Σξ_i with every labeling of every sentence looked at."""
    total = 0.0
    for nodes, edges, gold in sentence_scores(oracle, weights, scale):
        costly = nodes + oracle.cost[gold]
        total += max(0.0, best_path(costly, edges) - path_score(nodes, edges, gold))
    return regularizer.value(np.sqrt(block_squares(oracle, weights, scale))) + c * total


def log_loss(oracle, weights, scale):
    """Σ −log p(y_i) with every labeling of every sentence looked at."""
    return smooth_loss(replace(oracle, temperature=1.0, cost=0 * oracle.cost), weights, scale)


def smooth_loss(oracle, weights, scale):
    """Return Σ T·log Σ_y exp((score + cost) / T) − score of gold, with every labeling looked at."""
    total, T = 0.0, oracle.temperature
    for nodes, edges, gold in sentence_scores(oracle, weights, scale):
        costly = nodes + oracle.cost[gold]
        scores = [path_score(costly, edges, p) / T for p in all_labelings(*nodes.shape)]
        total += T * np.logaddexp.reduce(scores) - path_score(nodes, edges, gold)
    return total


def is_tree(heads):
    """heads[m - 1] is the head of token m; from each token the root is reached."""
    for token in range(1, len(heads) + 1):
        for _ in range(len(heads) + 1):
            token = heads[token - 1] if token else 0
        if token:
            return False
    return True


def is_projective(heads):
    """No two arcs cross."""
    arcs = [(min(m, h), max(m, h)) for m, h in enumerate(heads, 1)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


def all_trees(n, projective=False, single_root=False):
    for heads in itertools.product(range(n + 1), repeat=n):
        if (
            is_tree(heads)
            and (not projective or is_projective(heads))
            and (not single_root or heads.count(0) == 1)
        ):
            yield heads


def tree_score(arcs, heads):
    """arcs [n, n + 1]: of token m + 1 under each head."""
    return sum(arcs[m, h] for m, h in enumerate(heads))


def random_treebank(rng, sentences=12, longest=6, templates=5, values=7):
    """Arcs with features that tell a little about gold: ptr, heads, and the ragged Design of the arcs."""
    lengths = rng.integers(1, longest + 1, sentences)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    heads, rows = [], []
    for n in lengths:
        order = rng.permutation(n) + 1
        gold = np.zeros(n, int)
        for k in range(1, n):
            gold[order[k] - 1] = order[rng.integers(0, k)]
        heads += gold.tolist()
        for m in range(1, n + 1):
            for h in range(n + 1):
                seen = rng.integers(0, values, templates)
                if h == gold[m - 1]:
                    seen[: rng.integers(0, templates)] = 0
                fires = np.flatnonzero(rng.random(templates) < 0.8)
                rows.append([] if h == m else [(j, j * values + seen[j]) for j in fires.tolist()])
    ids = [f for row in rows for _, f in row] + [templates * values] * PREFETCH_DISTANCE
    row_ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    design = Design(
        np.array(ids, np.int32), row_ptr, np.array([j for row in rows for j, _ in row], np.int32),
        np.zeros(0, np.float32),
        WeightLayout(np.arange(templates + 1, dtype=np.int64) * values, np.arange(templates, dtype=np.int32)),
    )  # fmt: skip
    return ptr, np.array(heads, np.int32), design


def tree_oracle(rng, structure, **sizes):
    """An oracle on a random treebank."""
    ptr, heads, design = random_treebank(rng, **sizes)
    encoded = Encoded(("arc",), (design,), (None,), ptr, len(design.layout.templates))
    return Oracle(structure, encoded, heads, Hamming().table(structure.choices(())))


ARC_FUNCTIONS = {
    "direction": lambda head, modifier, between: "right" if modifier > head else "left",
    "distance": lambda head, modifier, between: str(max(b for b in BINS if b < abs(head - modifier))),
    "position": lambda head, modifier, between: str(min(between - min(head, modifier), MAX_ROW)),
}


@dataclass(frozen=True)
class Arc:
    """An arc of a sentence with `length` words: places are 1..length, 0 is the root."""

    head: int
    modifier: int
    length: int

    def between(self, template):
        """The words between that a template looks at; [0] if it looks at none, [] if there is none to look at."""
        terms = [term for term in template.terms if term.anchor == "b"]
        words = range(min(self.head, self.modifier) + 1, max(self.head, self.modifier))
        if not terms:
            return [0]
        row = next((term.row for term in terms if term.absolute), None)
        if row is None:
            return list(words)
        place = row - 1 if row > 0 else len(words) + row
        return [words[place]] if 0 <= place < len(words) else []

    def place(self, term, between):
        """Where the cell of a term lies, None where the step comes to the other end."""
        left, right = sorted((self.head, self.modifier))
        start = {"h": self.head, "m": self.modifier, "l": left, "r": right, "b": between}[term.anchor]
        if term.absolute or term.row == 0:
            return start
        place = start + term.row
        if term.anchor != "b" and ((start == left and place >= right) or (start == right and place <= left)):
            return None
        return place


def expand_arc(template, arc, cells, lists=None):
    """The distinct strings of a template on an arc; cells(place, column) reads a word's cell."""
    found = []
    for between in arc.between(template):
        values = [_value(term, arc, between, cells, lists or {}) for term in template.terms]
        rest = "".join(value + piece for value, piece in zip(values, template.pieces[1:], strict=True))
        found.append(template.pieces[0] + rest)
    return list(dict.fromkeys(found))


def _value(term, arc, between, cells, lists):
    if not term.sees:
        return ARC_FUNCTIONS[term.function](arc.head, arc.modifier, between)
    place = arc.place(term, between)
    if place is None:
        return MIDDLE
    if place == 0:
        return ROOT
    if not 0 < place <= arc.length:
        return boundary(place if place < 0 else place - arc.length)
    return bound(term.function, term.arguments, lists)(cells(place, term.column))


def best_labels(found, data, texts):
    """Return the best labeling by the rules of CRF++ and Wapiti: a feature is its text.

    texts: the kind of each template, and the function from a token to its feature
    """
    L, out = len(found.labels), []
    for span in data.sentences():

        def total(path, span=span):
            score = 0.0
            for kind, text in texts:
                for k, t in enumerate(range(span.start, span.stop)):
                    weights = found.weights.get((kind, text(t)))
                    if weights is not None and kind == "U":
                        score += weights[path[k]]
                    elif weights is not None and k:
                        score += weights[path[k - 1] * L + path[k]]
            return score

        out += max(all_labelings(span.stop - span.start, L), key=total)
    return out
