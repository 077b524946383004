"""A tagger in one Python file and one weights file; Python 3.9 or newer, standard library only.

    from tagger import Tagger

    tagger = Tagger.load()                            # tagger.bin beside this file, or a path
    tagger.tag([["Ann", "NP"], ["sleeps", "VB"]])     # rows: ['B-PER', 'O']
    tagger.tag([{"word": "Ann"}, {"word": "sleeps"}]) # feature dicts, if the model takes them
    tagger.tag("Ann sleeps")                          # text: one column, split at blanks
    tagger.tag(rows, forbid=["O>I-*"], valid_bio=True, given=["B-PER", None])
    tagger.tag_all(sentences)                         # many sentences; uses NumPy if it is there
    tagger.marginals(rows)                            # [{'B-PER': 0.98, 'O': 0.01, ...}, ...]
    tagger.segment("text without blanks")             # words, of a segmentation model

On the command line, `python tagger.py FILE` (or standard input) writes a column file with the label
as last column, segmented text as words, JSON lines of feature dicts as tokens with labels.

A feature is found by a 64-bit fingerprint: h = (h ^ fingerprint of the next cell) · MULTIPLIER,
from the seed of its template on. Weights of 16 bits are whole numbers times `scale`, so sums are
exact and do not depend on the machine. Written by `mtlstruct export --format standalone`.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import zlib
from array import array
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, chain, islice
from math import exp, inf, isfinite, log
from operator import add
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence

from mtlstruct.errors import FormatError, IncompatibleError, InfeasibleError, ModelFileError, MtlError
from mtlstruct.formats.key_groups import NamedGroups
from mtlstruct.formats.normalization import NORMALIZERS
from mtlstruct.structures.label_rules import Pairs, allowed_pairs, chunk_pairs
from mtlstruct.templates.functions import VALUE, bound

MAGIC = b"MTLTAG1\n"
PREAMBLE = "<8s16sQ"  # magic, checksum of the rest, size of the rest when it is unpacked
MULTIPLIER = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
BLANKS = " \t\u3000"
MAX_REMEMBERED = 50_000  # entries of a table of remembered cells, which is emptied when it is full
BATCH_SENTENCES = 500
BATCH_WORK = 500_000  # sentences of a batch times pairs of labels

Scores = List[float]
"""A score for each label."""


def fingerprint(text: str) -> int:
    """Return 64 bits that stand for a text."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def packed(head: dict[str, Any], arrays: Sequence[bytes]) -> bytes:
    """Return the contents of a weights file: a JSON object, and arrays that it describes."""
    text = json.dumps(head).encode()
    body = b"".join([struct.pack("<Q", len(text)), text, *arrays])
    squeezed = zlib.compress(body, 6)
    return struct.pack(PREAMBLE, MAGIC, blake2b(squeezed, digest_size=16).digest(), len(body)) + squeezed


def unpacked(data: bytes, source: str) -> tuple[dict[str, Any], list[array[Any]]]:
    """Return the object and the arrays of a weights file."""
    start = struct.calcsize(PREAMBLE)
    if len(data) < start or not data.startswith(MAGIC):
        raise ModelFileError(f"{source}: expected the weights file of a stand-alone tagger, got other data")
    _, checksum, size = struct.unpack_from(PREAMBLE, data)
    if blake2b(data[start:], digest_size=16).digest() != checksum:
        raise ModelFileError(f"{source}: the weights file is damaged: its checksum is wrong")
    body = zlib.decompressobj().decompress(data[start:], size)
    at = 8 + struct.unpack_from("<Q", body)[0]
    head, arrays = json.loads(body[8:at]), []
    for code, count in head["arrays"]:
        found = array(code)
        found.frombytes(body[at : at + count * found.itemsize])
        at += count * found.itemsize
        if sys.byteorder == "big":
            found.byteswap()
        arrays.append(found)
    return head, arrays


class _Table:
    """Attributes by fingerprint, sorted: entries ptr[a]:ptr[a+1] of parts and weights."""

    def __init__(self, keys: array[Any], sizes: array[Any], parts: array[Any], weights: array[Any]) -> None:
        self.keys, self.parts, self.weights = keys, parts, weights
        self.ptr = array("Q", accumulate(sizes, initial=0))
        self.numbers: dict[int, int] = {}

    def finder(self) -> Callable[[int], Optional[int]]:
        """Return the function from a fingerprint to the number of its attribute."""
        if not self.numbers:
            self.numbers = dict(zip(self.keys, range(len(self.keys))))
        return self.numbers.get

    def entries(self, attribute: int) -> Iterable[tuple[int, float]]:
        """Return parts and weights of an attribute."""
        span = slice(self.ptr[attribute], self.ptr[attribute + 1])
        return zip(self.parts[span], self.weights[span])

    def views(self, np: Any) -> list[Any]:
        """Return keys, ptr, parts and weights as NumPy arrays, without a copy."""
        arrays = self.keys, self.ptr, self.parts, self.weights
        return [np.frombuffer(a, a.typecode) if len(a) else np.zeros(0, a.typecode) for a in arrays]


class _Cache(dict):  # type: ignore[type-arg]
    """Values of functions applied one after the other, computed once."""

    def __init__(self, *functions: Callable[[Any], Any]) -> None:
        self.functions = functions

    def __missing__(self, key: Any) -> Any:
        if len(self) >= MAX_REMEMBERED:
            self.clear()
        found = key
        for function in self.functions:
            found = function(found)
        self[key] = found
        return found


class Tagger:
    """A label-sequence model; `labels` are its labels."""

    def __init__(self, data: bytes, source: str = "weights") -> None:
        try:
            self._prepare(*unpacked(data, source))
        except (LookupError, ValueError, TypeError, struct.error, zlib.error) as error:
            raise ModelFileError(f"{source}: the weights file cannot be read: {error!r}") from None

    def _prepare(self, head: dict[str, Any], arrays: list[array[Any]]) -> None:
        """Store what the file says."""
        self._head = head
        self.labels: tuple[str, ...] = tuple(head["labels"])
        self.columns: int = head["columns"]
        self.takes_dicts: bool = head["dicts"]
        self.segments: bool = head["task"] == "segmentation"
        self._nodes, self._edges = _Table(*arrays[:4]), _Table(*arrays[4:])
        self._unit = head["scale"] / head["temperature"]
        normalize = NORMALIZERS[head["normalize"]]
        self._streams = [
            (column, _Cache(normalize, bound(name, tuple(given), head["lists"], normalize), fingerprint))
            for column, name, given in head["streams"]
        ]
        lines = [(seed, kind, [tuple(term) for term in terms]) for seed, kind, terms in head["lines"]]
        numbers = [number for number, stream in enumerate(head["streams"]) if stream[1] == VALUE]
        nodes = [(seed, terms) for seed, kind, terms in lines if kind == "U"]
        self._values = [(seed, terms[0]) for seed, terms in nodes if terms and terms[0][0] in numbers]
        self._plain = [(seed, terms) for seed, terms in nodes if not terms or terms[0][0] not in numbers]
        self._varied = [(seed, terms) for seed, kind, terms in lines if kind == "B" and terms]
        rows = [row for _, _, terms in lines for _, row, absolute in terms if not absolute]
        self._before, self._after = max([0, *(-row for row in rows)]), max([0, *rows])
        self._transitions = [0.0] * len(self.labels) ** 2
        for seed in (seed for seed, kind, terms in lines if kind == "B" and not terms):
            self._add(self._transitions, self._edges, seed)
        self._readers: dict[int, list[int]] = {}
        self._always = [seed for seed, terms in self._plain if not terms]
        for seed, terms in self._plain:
            for stream, _, _ in terms:
                self._readers.setdefault(self._streams[stream][0], []).append(seed)
        self._column_of = {name: number for number, name in enumerate(head["names"])}
        self._groups = head["groups"] if head["nested"] == 0 else NamedGroups(head["nested"])
        self._known = _Cache(lambda feature: self._attributes(*feature))

    @classmethod
    def load(cls, path: Any = None) -> Tagger:
        """Load a weights file; by default the one beside this module, with its name and .bin."""
        path = os.path.splitext(__file__)[0] + ".bin" if path is None else path
        try:
            with open(path, "rb") as file:
                return cls(file.read(), str(path))
        except OSError as error:
            raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from None

    # ------------------------------------------------------------ results

    def tag(self, sentence: Any, **limits: Any) -> list[str]:
        """Return the best label of each token of a sentence.

        sentence    a list of rows (one cell per column, or dicts from names of columns to cells) or
                    of feature dicts, as in training; or text: characters of a segmentation model,
                    words between blanks of a model of one column
        forbid      rules: "A>B" forbids label B after A, * matches any text, an empty side is the
                    edge of the sentence
        valid_bio   allow only valid sequences of BIO, BIOES, BILOU, BIE or BMES labels
        given       a label for each token, None where it is to be predicted
        """
        return [self.labels[y] for y in _viterbi(*self._scores(sentence, **limits))[0]]

    def tag_all(
        self, sentences: Iterable[Any], *, forbid: Sequence[str] = (), valid_bio: bool = False
    ) -> Iterator[list[str]]:
        """Yield the best labels of each sentence, batch by batch and with NumPy if it is there."""
        try:
            import numpy
        except ImportError:
            numpy = None  # type: ignore[assignment]
        if numpy is None or self._values:
            yield from (self.tag(sentence, forbid=forbid, valid_bio=valid_bio) for sentence in sentences)
            return
        tokens, size = map(self._tokens, sentences), 1 + BATCH_WORK // len(self.labels) ** 2
        for batch in iter(lambda: list(islice(tokens, min(size, BATCH_SENTENCES))), []):
            yield from self._tag_batch(numpy, batch, self._pairs(tuple(forbid), valid_bio))

    def marginals(self, sentence: Any, **limits: Any) -> list[dict[str, float]]:
        """Return the probability of each label of each token; the arguments are those of `tag`."""
        probabilities, _ = _forward_backward(*self._scores(sentence, **limits), self._unit)
        return [dict(zip(self.labels, row)) for row in probabilities]

    def segment(self, line: str) -> list[str]:
        """Return the words of a line of text, whose blanks are dropped."""
        return _cut([row[0] for row in self._tokens(line)], self.tag(line))

    def scored(self, sentence: Any, **limits: Any) -> tuple[list[str], list[float], float]:
        """Return the best labels, the probability of each, and that of the whole sequence."""
        scores = self._scores(sentence, **limits)
        best, total = _viterbi(*scores)
        probabilities, log_z = _forward_backward(*scores, self._unit)
        chosen = [row[y] for row, y in zip(probabilities, best)]
        return [self.labels[y] for y in best], chosen, exp(min(0.0, self._unit * total - log_z))

    # ------------------------------------------------------------ from input to attributes

    def _tokens(self, sentence: Any) -> list[Any]:
        """Return the rows or feature dicts of a sentence."""
        if isinstance(sentence, str):
            if self.segments:
                return [(char,) for char in sentence if char not in BLANKS]
            if self.takes_dicts or self.columns != 1:
                expected = "feature dicts" if self.takes_dicts else f"rows of {self.columns} cells"
                raise IncompatibleError(f"expected a sentence of {expected}, got text")
            return [(word,) for word in sentence.split()]
        if self.takes_dicts:
            return list(sentence)
        return [self._row(token, number) for number, token in enumerate(sentence, 1)]

    def _row(self, token: Any, number: int) -> list[str]:
        names = self._head["names"]
        if isinstance(token, dict):
            token = [token.get(name) for name in names]
        if isinstance(token, str) or len(token) < self.columns or None in token[: self.columns]:
            got = "text" if isinstance(token, str) else f"{sum(cell is not None for cell in token)}"
            raise IncompatibleError(f"token {number}: expected {self.columns} cells, got {got}")
        return [cell if isinstance(cell, str) else str(cell) for cell in token]

    def _padded(self, batch: Sequence[Any]) -> list[list[int]]:
        """Return for each stream the fingerprints of cells, with marks around each sentence."""
        before = [_mark(k) for k in range(-self._before, 0)]
        after = [_mark(k) for k in range(1, self._after + 1)]
        out = []
        for column, remembered in self._streams:
            found: list[int] = []
            for rows in batch:
                found += before
                found += [remembered[row[column]] for row in rows]
                found += after
            out.append(found)
        return out

    def _fixed(self, stream: int, position: int, rows: Sequence[Any]) -> int:
        """Return the fingerprint of the cell at a position counted from an edge of the sentence."""
        column, remembered = self._streams[stream]
        at = position - 1 if position > 0 else len(rows) + position
        if at >= len(rows):
            return _mark(at - len(rows) + 1)
        return int(remembered[rows[at][column]]) if at >= 0 else _mark(at)

    def _keys(
        self, lines: Sequence[Any], padded: list[list[int]], rows: Sequence[Any]
    ) -> Iterator[list[int]]:
        """Yield for each line the fingerprint of its feature at each token of one sentence."""
        for seed, terms in lines:
            keys = [seed] * len(rows)
            for stream, row, absolute in terms:
                if absolute:
                    cells: Iterable[int] = [self._fixed(stream, row, rows)] * len(rows)
                else:
                    cells = islice(padded[stream], self._before + row, self._before + row + len(rows))
                keys = [(key ^ cell) * MULTIPLIER & MASK for key, cell in zip(keys, cells)]
            yield keys

    def _plain_scores(self, tokens: list[Any]) -> tuple[list[Scores], list[Scores]]:
        """Return scores of labels at tokens, and of pairs at edges: one row for all, or each."""
        nodes, table = [[0.0] * len(self.labels) for _ in tokens], self._nodes
        if self.takes_dicts:
            for scores, token in zip(nodes, tokens):
                for attribute, value in self._features(token):
                    for part, weight in table.entries(attribute):
                        scores[part] += weight * value
            return nodes, [self._transitions]
        padded = self._padded([tokens])
        for keys in self._keys(self._plain, padded, tokens):
            for scores, found in zip(nodes, map(table.finder(), keys)):
                if found is not None:
                    for part, weight in table.entries(found):
                        scores[part] += weight
        for seed, (stream, row, _) in self._values:
            for t in range(max(0, -row), min(len(tokens), len(tokens) - row)):
                for k, value in enumerate(_numbers(tokens[t + row][self._streams[stream][0]])):
                    self._add(nodes[t], table, (seed ^ fingerprint(str(k))) * MULTIPLIER & MASK, value)
        if not self._varied:
            return nodes, [self._transitions]
        edges = [list(self._transitions) for _ in tokens]
        for keys in self._keys(self._varied, padded, tokens):
            for scores, key in zip(edges, keys):
                self._add(scores, self._edges, key)
        return nodes, edges[1:]

    def _scores(
        self, sentence: Any, forbid: Sequence[str] = (), valid_bio: bool = False, given: Any = None
    ) -> tuple[list[Scores], list[Scores]]:
        """Return scores of labels and pairs, −inf where constraints forbid them."""
        nodes, edges = self._plain_scores(self._tokens(sentence))
        pairs, L = self._pairs(tuple(forbid), valid_bio), len(self.labels)
        if pairs is not None and nodes:
            allowed = [pair for row in pairs[:L] for pair in row[:L]]
            edges = [_masked(row, allowed) for row in edges]
            nodes[0] = _masked(nodes[0], pairs[L])
            nodes[-1] = _masked(nodes[-1], [row[L] for row in pairs])
        if given is not None and len(given) != len(nodes):
            raise IncompatibleError(f"expected {len(nodes)} entries in `given`, got {len(given)}")
        for number, label in enumerate(given or ()):
            if label is not None and label not in self.labels:
                raise IncompatibleError(f"expected labels of the model in `given`, got {label!r}")
            if label is not None:
                nodes[number] = _masked(nodes[number], [y == label for y in self.labels])
        return nodes, edges

    def _add(self, scores: Scores, table: _Table, key: int, value: float = 1.0) -> None:
        found = table.finder()(key)
        for part, weight in () if found is None else table.entries(found):
            scores[part] += weight * value

    # ------------------------------------------------------------ feature dicts

    def _features(self, token: Any) -> Iterator[tuple[int, float]]:
        """Yield attributes and values of a dict of features, or of a list or set of strings."""
        if isinstance(token, dict):
            named: Iterable[Any] = chain.from_iterable(_flat(key, value) for key, value in token.items())
        elif isinstance(token, (list, set, frozenset)):
            named = ((str(text).partition("=")[0], text, 1.0) for text in token)
        else:
            raise IncompatibleError(
                f"expected a dict of features or a list of strings, got {str(token)[:40]!r}"
            )
        find = self._nodes.finder()
        for key, text, value in named:
            for attribute in self._known[key, text]:
                yield attribute, value
        yield from ((found, 1.0) for found in map(find, self._always) if found is not None)

    def _attributes(self, key: str, text: str) -> list[int]:
        """Return the attributes of a feature, which is a text of a key."""
        groups, find = self._groups, self._nodes.finder()
        column = self._column_of.get(key if groups is None else groups.get(key, groups.get("*")))
        if column is None or column not in self._readers:
            return []
        cell = fingerprint(NORMALIZERS[self._head["normalize"]](text))
        keys = [(seed ^ cell) * MULTIPLIER & MASK for seed in self._readers[column]]
        return [found for found in map(find, keys) if found is not None]

    # ------------------------------------------------------------ constraints

    @lru_cache(maxsize=100)  # noqa: B019 (a tagger lives as long as the program)
    def _pairs(self, forbid: tuple[str, ...], valid_bio: bool) -> Optional[Pairs]:
        """Return which labels may follow each other; None for all."""
        if not forbid and not valid_bio:
            return None
        pairs = allowed_pairs(forbid, self.labels)
        valid = chunk_pairs(self.labels) if valid_bio else pairs
        return [[a and b for a, b in zip(*rows)] for rows in zip(pairs, valid)]

    # ------------------------------------------------------------ many sentences, with NumPy

    def _tag_batch(self, np: Any, batch: list[list[Any]], pairs: Optional[Pairs]) -> list[list[str]]:
        """Return the labels of a batch of sentences."""
        lengths, L = np.array([len(tokens) for tokens in batch], np.int64), len(self.labels)
        starts = np.cumsum(lengths) - lengths
        tokens, edges = int(lengths.sum()), np.array(self._transitions).reshape(1, L, L)
        if self.takes_dicts:
            flat = [list(self._features(token)) for sentence in batch for token in sentence]
            at = np.repeat(np.arange(tokens), [len(found) for found in flat])
            both = np.array([pair for found in flat for pair in found], np.float64).reshape(-1, 2)
            nodes = _summed(np, self._nodes, [(at, both[:, 0].astype(np.int64), both[:, 1])], tokens, L)
        else:
            padded = [np.array(cells, np.uint64) for cells in self._padded(batch)]
            shift = np.arange(len(batch)) * (self._before + self._after) + self._before
            place = np.arange(tokens) + np.repeat(shift, lengths)
            found = self._found(np, self._nodes, self._plain, padded, place, batch, lengths)
            nodes = _summed(np, self._nodes, found, tokens, L)
            if self._varied:
                found = self._found(np, self._edges, self._varied, padded, place, batch, lengths)
                edges = edges + _summed(np, self._edges, found, tokens, L * L).reshape(tokens, L, L)
        if pairs is not None:
            may, filled = np.array(pairs), lengths > 0
            edges = np.where(may[:L, :L], edges, -inf)
            for at, row in ((starts[filled], may[L, :L]), ((starts + lengths)[filled] - 1, may[:L, L])):
                nodes[at] = np.where(row, nodes[at], -inf)
        best = [self.labels[y] for y in _viterbi_batch(np, nodes, edges, starts, lengths)]
        return [best[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist())]

    def _found(
        self, np: Any, table: _Table, lines: Any, padded: Any, place: Any, batch: Any, lengths: Any
    ) -> Iterator[tuple[Any, Any, None]]:
        """Yield for each line the tokens where its feature is known, and the attributes."""
        known = table.views(np)[0]
        for seed, terms in lines:
            keys = np.full(len(place), seed, np.uint64)
            for stream, row, absolute in terms:
                if absolute:
                    fixed = [self._fixed(stream, row, rows) if rows else 0 for rows in batch]
                    cells = np.repeat(np.array(fixed, np.uint64), lengths)
                else:
                    cells = padded[stream][place + row]
                keys = (keys ^ cells) * np.uint64(MULTIPLIER)
            at = np.searchsorted(known, keys)
            hits = np.flatnonzero(at < len(known))
            hits = hits[known[at[hits]] == keys[hits]]
            yield hits, at[hits], None


def _summed(np: Any, table: _Table, found: Iterable[tuple[Any, Any, Any]], rows: int, width: int) -> Any:
    """Return the sums of weights of attributes at tokens. float64[rows, width]"""
    total = np.zeros(rows * width)
    _, ptr, parts, weights = table.views(np)
    ptr = ptr.astype(np.int64)
    for tokens, attributes, values in found:
        sizes = ptr[attributes + 1] - ptr[attributes]
        entries = np.repeat(ptr[attributes] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        terms = weights[entries] if values is None else weights[entries] * np.repeat(values, sizes)
        places = np.repeat(tokens * width, sizes) + parts[entries]
        total += np.bincount(places, terms, minlength=len(total))
    return total.reshape(rows, width)


def _viterbi_batch(np: Any, nodes: Any, edges: Any, starts: Any, lengths: Any) -> list[int]:
    """Return the best path of each sentence: one step for all sentences, longest first."""
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    longest = int(lengths.max(initial=0))
    active = [int(np.count_nonzero(lengths > t)) for t in range(longest)]
    now = nodes[starts[: active[0]]] if longest else nodes
    back, best = np.zeros(nodes.shape, np.int32), np.zeros(len(nodes), np.int64)
    for t in range(1, longest):
        at = starts[: active[t]] + t
        paths = now[: active[t], :, None] + (edges if len(edges) == 1 else edges[at])
        back[at] = paths.argmax(axis=1)
        now[: active[t]] = paths.max(axis=1) + nodes[at]
    impossible = np.flatnonzero(~np.isfinite(now.max(axis=1)))
    if len(impossible):
        raise InfeasibleError(int(order[impossible[0]]))
    y = now.argmax(axis=1)
    for t in range(longest - 1, -1, -1):
        at = starts[: active[t]] + t
        best[at] = y[: active[t]]
        y[: active[t]] = back[at, y[: active[t]]]
    return list(best.tolist())


# ---------------------------------------------------------------- inference


def _viterbi(nodes: list[Scores], edges: list[Scores]) -> tuple[list[int], float]:
    """Return the best labels and their score; ties go to the smaller label."""
    if not nodes:
        return [], 0.0
    L, now, back = len(nodes[0]), nodes[0], []
    columns = [[row[y::L] for y in range(L)] for row in edges]
    for t in range(1, len(nodes)):
        paths = [list(map(add, now, column)) for column in columns[min(t, len(columns)) - 1]]
        best = list(map(max, paths))
        back.append([path.index(top) for path, top in zip(paths, best)])
        now = list(map(add, best, nodes[t]))
    total = max(now)
    if not isfinite(total):
        raise InfeasibleError(0)
    outputs = [now.index(total)]
    for arg in reversed(back):
        outputs.append(arg[outputs[-1]])
    return outputs[::-1], total


def _forward_backward(
    nodes: list[Scores], edges: list[Scores], unit: float
) -> tuple[list[list[float]], float]:
    """Return the probability of each label of each token, and log Z; scores are times `unit`."""
    if not nodes:
        return [], 0.0
    L = len(nodes[0])
    emit = [[unit * score for score in row] for row in nodes]
    rows = [[unit * score for score in row] for row in edges]
    rows = rows * (len(nodes) - 1) if len(rows) == 1 else rows
    ahead = [emit[0]]
    for row, scores in zip(rows, emit[1:]):
        ahead.append([_log_sum(map(add, ahead[-1], row[y::L])) + scores[y] for y in range(L)])
    log_z = _log_sum(ahead[-1])
    if not isfinite(log_z):
        raise InfeasibleError(0)
    behind, out = [0.0] * L, []
    for t in range(len(nodes) - 1, -1, -1):
        out.append([exp(min(0.0, a + b - log_z)) for a, b in zip(ahead[t], behind)])
        if t:
            after, row = list(map(add, emit[t], behind)), rows[t - 1]
            behind = [_log_sum(map(add, row[z * L : z * L + L], after)) for z in range(L)]
    return out[::-1], log_z


def _log_sum(values: Iterable[float]) -> float:
    values = list(values)
    top = max(values)
    return top + log(sum([exp(value - top) for value in values])) if top > -inf else top


def _masked(scores: Scores, allowed: Iterable[bool]) -> Scores:
    return [score if may else -inf for score, may in zip(scores, allowed)]


# ---------------------------------------------------------------- small functions


@lru_cache(maxsize=1000)
def _mark(k: int) -> int:
    """Return the fingerprint of the cell k before the first (k < 0) or after the last token."""
    return fingerprint(f"_B{k:+d}")


def _numbers(cell: str) -> list[float]:
    try:
        return [] if cell in ("", "_") else [float(number) for number in cell.split(",")]
    except ValueError:
        raise IncompatibleError(f"expected numbers in a cell, got {cell[:50]!r}") from None


def _flat(key: str, value: Any) -> Iterator[tuple[str, str, float]]:
    """Yield the features of a key of a feature dict, as python-crfsuite does: key, text, value."""
    if isinstance(value, str):
        yield key, f"{key}:{value}", 1.0
    elif isinstance(value, dict):
        for inner, deeper in value.items():
            yield from _flat(f"{key}:{inner}", deeper)
    elif hasattr(value, "__iter__"):
        for number, entry in enumerate(value):
            if isinstance(entry, str):
                yield key, f"{key}:{entry}", 1.0
            elif entry:  # a vector
                yield key, f"{key}:{number}", float(entry)
    elif value:
        yield key, key, float(value)


def _cut(characters: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Return words, which start at B and S and after E and S."""
    words: list[str] = []
    for char, label, before in zip(characters, labels, ["E", *labels]):
        if label in ("B", "S") or before in ("E", "S"):
            words.append(char)
        else:
            words[-1] += char
    return words


# ---------------------------------------------------------------- command


def _read(tagger: Tagger, lines: Iterable[str], source: str) -> Iterator[tuple[list[str], Any]]:
    """Yield the lines to write and the tokens of each sentence."""
    head, echo, rows = tagger._head, [], []
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r\n")
        if number == 1 and line.startswith("\ufeff"):
            line = line[1:]
        if tagger.segments:
            yield [], line
        elif tagger.takes_dicts and line.strip():
            try:
                value = json.loads(line)
                value = value["tokens"] if isinstance(value, dict) else value
                yield [json.dumps(token, ensure_ascii=False) for token in value], value
            except (ValueError, TypeError, KeyError):
                raise FormatError(source, number, "expected a JSON list of feature dicts") from None
        elif line.strip(" \t"):
            cells = line.split(head["separator"]) if head["separator"] else line.replace("\t", " ").split(" ")
            cells = cells if head["separator"] else [cell for cell in cells if cell]
            if head["ragged"]:
                cells += ["_"] * (tagger.columns - len(cells))
            if len(cells) < tagger.columns:
                raise FormatError(source, number, f"expected {tagger.columns} columns, got {len(cells)}")
            rows.append(cells)
            echo.append("\t".join(cells))
        elif rows:
            yield echo, rows
            echo, rows = [], []
    if rows:
        yield echo, rows


def _labelled(tagger: Tagger, group: list[tuple[list[str], Any]], scores: bool, limits: Any) -> str:
    """Return the text of some sentences with their labels."""
    if scores and not tagger.segments:
        found = [tagger.scored(tokens, **limits) for _, tokens in group]
    else:
        found = [(best, [], 0.0) for best in tagger.tag_all([tokens for _, tokens in group], **limits)]
    out = []
    for (echo, tokens), (labels, chosen, whole) in zip(group, found):
        if tagger.segments:
            out.append("  ".join(_cut([row[0] for row in tagger._tokens(tokens)], labels)) + "\n")
            continue
        cells = [f"{label}/{p:f}" for label, p in zip(labels, chosen)] or labels
        out += [f"# {whole:f}\n"] * bool(chosen)
        out += [f"{row}\t{cell}\n" for row, cell in zip(echo, cells)]
        out.append("\n")
    return "".join(out)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Label a file or standard input."""
    import argparse

    parser = argparse.ArgumentParser(description="Label a file, or standard input; writes standard output.")
    parser.add_argument("file", nargs="?", default="-", help="data in the form of the training data")
    parser.add_argument("--weights", help="weights file (default: beside this program)")
    parser.add_argument("--scores", action="store_true", help="add probabilities of labels and sentences")
    parser.add_argument("--forbid", action="append", default=[], metavar="A>B", help="never label B after A")
    parser.add_argument("--valid-bio", action="store_true", help="only allow valid sequences of labels")
    options = parser.parse_args(arguments)
    try:
        limits = {"forbid": options.forbid, "valid_bio": options.valid_bio}
        tagger, name = Tagger.load(options.weights), options.file
        encoding = tagger._head["encoding"]
        stream = sys.stdin.buffer if name == "-" else open(name, "rb")  # noqa: SIM115
        with stream:
            sentences = _read(tagger, (line.decode(encoding) for line in stream), name)
            for group in iter(lambda: list(islice(sentences, BATCH_SENTENCES)), []):
                sys.stdout.buffer.write(_labelled(tagger, group, options.scores, limits).encode(encoding))
    except (MtlError, OSError, UnicodeError) as error:
        problem = f"{options.file}: {error.strerror}" if isinstance(error, OSError) else error
        print(f"error: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
