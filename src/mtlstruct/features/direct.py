"""Attributes of single sentences, without a corpus: for inputs of a few tokens.

A corpus costs more than its features if it has one sentence. Here, cells and values of feature
dicts are looked up in Python dicts, filled on the first occurrence from the tables of the index,
and one kernel follows the joins. The result is that of `FeatureIndex.encode`: the attributes of
each token, in order.

Input of another form than the usual one raises Unusual; the caller then takes the path through a
corpus, which accepts it or describes the error.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import inner_kernel, kernel, make_peek, make_prefetch_at
from mtlstruct.corpus import Corpus
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.extraction import Normalizer, stream_functions
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.vocabulary import ABSENT, Vocabulary, pair_hash
from mtlstruct.formats.feature_dicts import MAX_DEPTH, MAX_VALUE, SEPARATOR, group_of
from mtlstruct.formats.normalization import NORMALIZERS
from mtlstruct.templates import boundary
from mtlstruct.templates.functions import VALUE

Int32 = NDArray[np.int32]

MAX_REMEMBERED = 20_000
"""Entries of one dict of remembered cells; it is emptied when it is full."""

NO_VALUES = np.zeros(0, np.float32)


class Unusual(Exception):
    """Input that has to take the path through a corpus."""


class Entries(NamedTuple):
    """Attributes of the tokens of one sentence.

    ids      int32: attributes of the first kind, token by token; ABSENT if unknown
    sizes    int32[n]: number of entries of each token
    values   float32: a value for each entry; empty if all are 1
    edges    int32[n - 1, lines]: attributes of the second kind; None if always the same
    """

    ids: Int32
    sizes: Int32
    values: NDArray[np.float32] = NO_VALUES
    edges: Int32 | None = None


def direct_encoder(
    index: FeatureIndex, columns: int, names: Sequence[str], dicts: bool, groups: Mapping[str, str] | None
) -> DictEncoder | RowEncoder | None:
    """Return an encoder for the sentences of a model, None if its templates need a corpus."""
    large = int(index.sizes.sum()) >= np.iinfo(np.int32).max
    if large or any(stream.function == VALUE for stream in index.plan.streams):
        return None
    if not dicts:
        return RowEncoder(index, columns, names)
    alone = all(use.anchor == 0 and use.node < len(index.plan.streams) for use in index.plan.uses)
    plain = all(not stream.function and not stream.absolute for stream in index.plan.streams)
    once = len(index.plan.uses) == len(index.templates)
    edges = all(not t.terms for t in index.templates if t.kind != "U")
    return DictEncoder(index, names, groups) if alone and plain and once and edges else None


def first_attributes(index: FeatureIndex | ArcIndex) -> list[int]:
    """Return for each template the number of its first attribute within its kind."""
    ends: dict[str, int] = {}
    first = []
    for kind, size in zip(index.kinds, index.sizes.tolist(), strict=True):
        first.append(ends.get(kind, 0))
        ends[kind] = first[-1] + size
    return first


class _Remembered(dict[str, Any]):
    """A dict that finds missing entries by a function and remembers them, up to MAX_REMEMBERED."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        self._find = find

    def __missing__(self, text: str) -> Any:
        if type(text) is not str:
            raise Unusual
        try:
            found = self._find(text)
        except UnicodeEncodeError:
            raise Unusual from None
        if len(self) >= MAX_REMEMBERED:
            self.clear()
        self[text] = found
        return found


# ---------------------------------------------------------------- feature dicts


class DictEncoder:
    """Encoder of sentences of feature dicts, where each template is a column."""

    def __init__(self, index: FeatureIndex, names: Sequence[str], groups: Mapping[str, str] | None) -> None:
        self._group, self._numbers = group_of(groups), {name: number for number, name in enumerate(names)}
        self._normal = NORMALIZERS[index.normalize]
        self._readers: dict[int, list[tuple[Vocabulary, Int32, int]]] = {}
        self._constant: list[int] = []
        first = first_attributes(index)
        for use, map_, j in zip(index.plan.uses, index.maps, index.plan.template_of, strict=True):
            if use.node != ABSENT:
                reader = index.vocabularies[use.node], map_, first[j]
                self._readers.setdefault(index.plan.streams[use.node].column, []).append(reader)
            elif index.templates[j].kind == "U" and map_[0] != ABSENT:
                self._constant.append(first[j] + int(map_[0]))
        self._keys = _Remembered(lambda key: _Key(self, key))
        self._texts = _Remembered(lambda text: self.find(text.partition("=")[0], text))

    def find(self, key: str, text: str) -> int:
        """Return the attribute of a feature of a key, ABSENT if there is none."""
        name = self._group(key)
        column = ABSENT if name is None else self._numbers.get(name, ABSENT)
        found = [ABSENT]
        for vocabulary, map_, first in self._readers.get(column, ()):
            attribute = int(map_[vocabulary.lookup([self._normal(text)])[0]])
            if attribute != ABSENT:
                found.append(first + attribute)
        if len(found) > 2:
            raise Unusual  # several templates read the column
        return found[-1]

    def encode(self, sentence: Any) -> Entries:
        """Return the attributes of a sentence."""
        ids: list[int] = []
        numbers: dict[int, float] = {}
        ends = [0]
        for token in sentence:
            if type(token) is dict:
                _add(self._keys, token, ids, numbers, 0)
            elif type(token) in (list, set, frozenset):
                ids += [self._texts[text] for text in token]
            else:
                raise Unusual
            ids += self._constant
            ends.append(len(ids))
        values = np.ones(len(ids) if numbers else 0, np.float32)
        values[list(numbers)] = list(numbers.values())
        found = np.frombuffer(array("i", ids or [ABSENT]), np.int32)
        return Entries(found, np.diff(ends).astype(np.int32), values)


class _Key(_Remembered):
    """The attribute of each string value of a key; `bare` that of the key itself, for numbers."""

    def __init__(self, encoder: DictEncoder, key: str) -> None:
        super().__init__(lambda value: encoder.find(key, f"{key}{SEPARATOR}{value}"))
        self.bare = encoder.find(key, key)
        self.inner = _Remembered(lambda inner: _Key(encoder, f"{key}{SEPARATOR}{inner}"))


def _add(
    keys: _Remembered, features: dict[str, Any], ids: list[int], numbers: dict[int, float], depth: int
) -> None:
    """Add the attributes of a dict of features, and the values that are numbers by their places."""
    append = ids.append
    for key, value in features.items():
        kind = type(value)
        if kind is str:
            append(keys[key][value])
        elif value is True:
            append(keys[key].bare)
        elif kind is dict and depth < MAX_DEPTH:
            _add(keys[key].inner, value, ids, numbers, depth + 1)
        elif kind in (list, set, frozenset, tuple):
            table = keys[key]
            ids += [table[entry] for entry in value]
        elif kind in (float, int) and abs(value) <= MAX_VALUE:
            if value != 0:
                numbers[len(ids)] = value
                append(keys[key].bare)
        elif value is not False:
            raise Unusual


# ---------------------------------------------------------------- rows


class RowEncoder:
    """Encoder of rows: one cell per column, or dicts from names of columns to cells.

    nodes        number of nodes of the plan
    plan         the arguments of `find_values` that do not depend on a sentence
    node_lines   int64[lines, 4]: node, distance, address of the map, first attribute of each U line
    node_maps    the maps of these lines
    simple       whether all edges have the same scores and each template has one line
    """

    def __init__(self, index: FeatureIndex, columns: int, names: Sequence[str]) -> None:
        plan = index.plan
        self._columns, self._names = columns, tuple(names)
        functions = stream_functions(plan, index.templates, index.normalize)
        # streams in the order in which the numbers of a row are found: column by column
        order = sorted(range(len(plan.streams)), key=lambda s: plan.streams[s].column)
        rank = {n: n for n in range(ABSENT, plan.nodes)} | {s: k for k, s in enumerate(order)}
        self._readers: dict[int, list[tuple[Vocabulary, Normalizer]]] = {}
        for s in order:
            reader = index.vocabularies[s], functions[s]
            self._readers.setdefault(plan.streams[s].column, []).append(reader)
        self._remembered = [(c, _Remembered(partial(self._cell, c))) for c in self._readers]
        reach = max([plan.before, plan.after, *(abs(stream.absolute) for stream in plan.streams)], default=0)
        marks = np.full((len(order), 2 * reach + 1), ABSENT, np.int32)
        for k, s in enumerate(order):
            edges = plan.marks(plan.streams[s])
            found = index.vocabularies[s].lookup([boundary(e) for e in edges])
            marks[k, np.array(edges, int) + reach] = found
        first = first_attributes(index)
        # the arrays must live as long as their addresses are used
        self._arrays = [np.ascontiguousarray(a) for t in index.tables for a in (t.pairs, t.slots)]
        self._maps = [np.ascontiguousarray(map_) for map_ in index.maps]
        joins = [
            (rank[j.left], rank[j.stream], j.gap, pairs.ctypes.data, slots.ctypes.data, len(slots) - 1)
            for j, pairs, slots in zip(plan.joins, self._arrays[::2], self._arrays[1::2], strict=True)
        ]
        lines = [
            (rank[use.node], use.anchor, map_.ctypes.data, first[j])
            for use, map_, j in zip(plan.uses, self._maps, plan.template_of, strict=True)
        ]
        kinds = [index.templates[j].kind for j in plan.template_of]
        absolute = np.array([plan.streams[s].absolute for s in order], np.int64)
        steps = np.array(joins, np.int64).reshape(-1, 6)
        self.nodes, self.plan = plan.nodes, (plan.before, plan.after, reach, marks, absolute, steps)
        table, kind = np.array(lines, np.int64).reshape(-1, 4), np.array(kinds, str)
        self.node_lines, self._edge = table[kind == "U"], table[kind == "B"]
        self.node_maps = [self._maps[k] for k in np.flatnonzero(kind == "U").tolist()]
        self._edges_vary = bool((self._edge[:, 0] != ABSENT).any())
        self.simple = not self._edges_vary and len(lines) == len(index.templates)

    def encode(self, sentence: Any) -> Entries:
        """Return the attributes of a sentence."""
        numbers: list[int] = []
        width = len(self._names)
        for row in sentence:
            if type(row) is dict and self._names:
                try:
                    row = [row[name] for name in self._names]
                except KeyError:
                    raise Unusual from None
            elif type(row) is not list and type(row) is not tuple:
                raise Unusual
            width = width or len(row)
            if len(row) != width or width < self._columns:
                raise Unusual
            for column, remembered in self._remembered:
                numbers += remembered[row[column]]
        cells, tokens = np.frombuffer(array("i", numbers or [0]), np.int32), len(sentence)
        ids = np.empty((tokens, len(self.node_lines)), np.int32)
        edges = np.empty((tokens, len(self._edge)), np.int32) if self._edges_vary else None
        _find_attributes(cells, *self.plan, self.node_lines, ids, self._edge, edges)
        sizes = np.full(tokens, len(self.node_lines), np.int32)
        return Entries(ids.ravel(), sizes, NO_VALUES, None if edges is None else edges[1:])

    def cells(self, corpus: Corpus) -> Int32:
        """Return the numbers of the cells of a corpus: int32[tokens · streams]."""
        found = [self._numbers(c, corpus.columns[c].strings)[corpus.columns[c].ids] for c in self._readers]
        return np.concatenate([*found, np.empty((corpus.tokens, 0), np.int32)], axis=1).ravel()

    def _numbers(self, column: int, cells: Sequence[str]) -> Int32:
        """Return the numbers of cells in the streams of a column: int32[cells, streams]."""
        found = [v.lookup(list(map(function, cells))) for v, function in self._readers[column]]
        return np.stack(found, axis=1)

    def _cell(self, column: int, cell: str) -> list[int]:
        numbers: list[int] = self._numbers(column, [cell])[0].tolist()
        return numbers


load_int32, load_int64 = make_peek(), make_peek(64)
prefetch_int32, prefetch_int64 = make_prefetch_at(), make_prefetch_at(64)
ZERO, ONE, TWO, THREE = map(np.uint64, range(4))  # indices that cannot be negative need no test


@kernel
def _find_attributes(cells, before, after, reach, marks, absolute, joins, lines, ids, edge_lines, edge_ids):
    """Write the attributes of each line at each token, ABSENT if unknown.

    cells   int32[tokens · streams]: the numbers of the cells of each token
    """
    width = len(ids) + before + after
    values = np.empty((len(marks) + len(joins), width), np.int32)
    todo = np.empty((width, 4), np.int64)
    find_values(cells, len(ids), before, reach, marks, absolute, joins, values, todo)
    _map_values(values, before, lines, ids)
    if edge_ids is not None:
        _map_values(values, before, edge_lines, edge_ids)


@inner_kernel
def find_values(cells, tokens, before, reach, marks, absolute, joins, values, todo):
    """Write the values of all nodes at each place of a sentence and its boundaries.

    Finding pairs waits for memory, so slots and pairs of all places are prefetched first.
    todo   int64[places, 4], workspace: pair, hash, place and slot of what is looked up
    """
    streams, width = len(marks), values.shape[1]
    for s in range(streams):
        for place in range(width):
            at = place - before
            if absolute[s] > 0:
                at = absolute[s] - 1
            elif absolute[s] < 0:
                at = tokens + absolute[s]
            if at < 0:
                values[s, place] = marks[s, reach + at]
            elif at >= tokens:
                values[s, place] = marks[s, reach + at - tokens + 1]
            else:
                values[s, place] = cells[at * streams + s]
    for j in range(len(joins)):
        left, right, gap = values[joins[j, 0]], values[joins[j, 1]], np.uint64(joins[j, 2])
        pairs, slots, mask = joins[j, 3], joins[j, 4], np.uint64(joins[j, 5])
        found, known = values[streams + j], ZERO
        found[:] = -1
        for place in range(np.uint64(max(0, width - joins[j, 2]))):
            pair = np.int64(left[place]) << 32 | np.int64(right[place + gap])
            h = np.int64(pair_hash(pair) & mask)
            todo[known, ZERO], todo[known, ONE], todo[known, TWO] = pair, h, np.int64(place)
            if (left[place] | right[place + gap]) >= 0:
                prefetch_int32(slots, h)
                known += ONE
        for k in range(known):
            slot = np.int64(load_int32(slots, todo[k, ONE]))
            todo[k, THREE] = slot
            if slot >= 0:
                prefetch_int64(pairs, slot)
        for k in range(known):
            h, slot = todo[k, ONE], todo[k, THREE]
            while slot >= 0 and load_int64(pairs, slot) != todo[k, ZERO]:
                h = np.int64(np.uint64(h + 1) & mask)
                slot = np.int64(load_int32(slots, h))
            found[np.uint64(todo[k, TWO])] = slot


@kernel
def _map_values(values, before, lines, ids):
    for k in range(len(lines)):
        node, anchor, map_, first = lines[k]
        for t in range(len(ids)):
            value = np.int64(0) if node < 0 else np.int64(values[node, t + before + anchor])
            found = np.int64(-1) if value < 0 else np.int64(load_int32(map_, value))
            ids[t, k] = -1 if found < 0 else first + found
