"""Feature indexes as the arrays of a model file, and back. Loading trusts nothing: every number is checked first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import ModelFileError
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.arcs.index import KIND
from mtlstruct.features.arcs.kernels import EMPTY, MASK_BITS
from mtlstruct.features.arcs.plan import CLASSES, make_plan
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.vocabulary import PairTable, Vocabulary
from mtlstruct.linear.label_support import Support
from mtlstruct.templates import TemplateSet

Index = FeatureIndex | ArcIndex
"""What turns text into features, of tokens or of arcs."""

Arrays = Mapping[str, NDArray[Any]]


def arrays(index: Index) -> dict[str, NDArray[Any]]:
    """What a model file keeps of an index, by name."""
    if isinstance(index, FeatureIndex):
        some = index.support
        listed: Arrays = {} if some is None else {"support/ptr": some.ptr, "support/labels": some.labels}
        return {"index/sizes": index.sizes, **listed} | _token_arrays(index)
    own = {"index/sizes": index.sizes, "arcs/table": index.table, "arcs/first": index.first}
    return own | {"words/sizes": index.words.sizes} | _token_arrays(index.words)


def load(found: Arrays, templates: TemplateSet, kind_of: Mapping[str, str], normalize: str) -> Index:
    """The index of these templates; ModelFileError for arrays that do not fit them or each other.

    kind_of    the kinds of sites there are, by the letter of the templates that look there
    """
    kinds = tuple(kind_of[template.kind] for template in templates)
    sizes = vector(found["index/sizes"], len(templates), np.int64)
    require(bool((sizes >= 0).all()), "sizes of templates below 0")
    if KIND in kind_of.values():
        return _load_arcs(found, templates, normalize, sizes)
    return _load_tokens(found, templates, kinds, normalize, sizes)


def load_support(found: Arrays, index: Index, kind: str, width: int) -> FeatureIndex:
    """The same index with the labels that attributes of a kind, its first, have weights for."""
    require(isinstance(index, FeatureIndex), "arcs have no labels")
    assert isinstance(index, FeatureIndex)
    attributes = attributes_of(index, kind)
    ptr = vector(found["support/ptr"], attributes + 2, np.int64)
    labels = array_of(found["support/labels"], np.int32)
    require(ptr[0] == 0 and ptr[-2] == ptr[-1] == len(labels), "labels of attributes out of place")
    require(bool((np.diff(ptr) >= 0).all()), "labels of attributes out of place")
    _check_range(labels, width)
    inside = np.ones(len(labels), np.bool_)
    inside[ptr[:-2][np.diff(ptr[:-1]) > 0]] = False  # the first of an attribute follows nothing
    require(bool((np.diff(labels, prepend=0)[inside] > 0).all()), "labels of an attribute do not rise")
    return replace(index, support=Support(ptr, labels, width))


def attributes_of(index: Index, kind: str) -> int:
    """How many attributes the templates of a kind have."""
    return sum(int(size) for size, own in zip(index.sizes, index.kinds, strict=True) if own == kind)


def _token_arrays(index: FeatureIndex) -> dict[str, NDArray[Any]]:
    out: dict[str, NDArray[Any]] = {}
    for n, vocabulary in enumerate(index.vocabularies):
        out[f"streams/{n}/bytes"] = vocabulary.bytes_
        out[f"streams/{n}/ptr"] = vocabulary.ptr
        out[f"streams/{n}/slots"] = vocabulary.slots
    for n, table in enumerate(index.tables):
        out[f"joins/{n}/pairs"] = table.pairs
        out[f"joins/{n}/slots"] = table.slots
    for n, map_ in enumerate(index.maps):
        out[f"maps/{n}"] = map_
    return out


def _load_tokens(
    arrays: Arrays,
    templates: TemplateSet,
    kinds: tuple[str, ...],
    normalize: str,
    attributes: NDArray[np.int64],
) -> FeatureIndex:
    index = FeatureIndex(templates, kinds, normalize, (), (), (), attributes)
    plan = index.plan
    vocabularies = tuple(_load_vocabulary(arrays, n) for n in range(len(plan.streams)))
    counts = [len(v) for v in vocabularies]
    tables = []
    for n, join in enumerate(plan.joins):
        table = PairTable(
            array_of(arrays[f"joins/{n}/pairs"], np.int64), array_of(arrays[f"joins/{n}/slots"], np.int32)
        )
        _check_slots(table.slots, len(table))
        _check_range(table.left(), counts[join.left])
        _check_range(table.right(), counts[join.stream])
        tables.append(table)
        counts.append(len(table))
    sizes = [1 if use.node < 0 else counts[use.node] for use in plan.uses]
    maps = tuple(
        _load_map(arrays[f"maps/{r}"], sizes[r], int(attributes[j])) for r, j in enumerate(plan.owners)
    )
    return FeatureIndex(templates, kinds, normalize, vocabularies, tuple(tables), maps, attributes)


def _load_vocabulary(arrays: Arrays, n: int) -> Vocabulary:
    blob = array_of(arrays[f"streams/{n}/bytes"], np.uint8)
    ptr = array_of(arrays[f"streams/{n}/ptr"], np.int64)
    slots = array_of(arrays[f"streams/{n}/slots"], np.int32)
    require(len(ptr) >= 1 and ptr[0] == 0 and ptr[-1] == len(blob), "vocabulary offsets do not fit its text")
    require(bool(np.all(np.diff(ptr) >= 0)), "vocabulary offsets fall")
    _check_slots(slots, len(ptr) - 1)
    bytes(blob).decode()  # must be text
    inner = ptr[(ptr > 0) & (ptr < len(blob))]
    require(bool(np.all(blob[inner] & 0xC0 != 0x80)), "vocabulary offsets cut a character in two")
    return Vocabulary(blob, ptr, slots)


def _load_map(map_: NDArray[Any], values: int, attributes: int) -> NDArray[np.int32]:
    map_ = vector(map_, values + 1, np.int32)
    require(
        attributes >= 0 and int(map_.min()) >= -1 and int(map_.max()) < attributes, "attribute out of range"
    )
    require(map_[-1] == -1, "the map of a template does not end with 'unknown'")
    return map_


# ---------------------------------------------------------------- arcs


def _load_arcs(found: Arrays, templates: TemplateSet, normalize: str, sizes: NDArray[np.int64]) -> ArcIndex:
    slots = make_plan(templates).words
    word_sizes = vector(found["words/sizes"], len(slots), np.int64)
    words = _load_tokens(found, slots, ("node",) * len(slots), normalize, word_sizes)
    table = found["arcs/table"]
    require(table.dtype == np.int64 and table.ndim == 2, "expected a table of int64")
    index = ArcIndex(templates, words, table, array_of(found["arcs/first"], np.int64), sizes)
    _check_tables(index)
    return index


def _check_tables(index: ArcIndex) -> None:
    plan, first = index.plan, index.first
    count = len(plan.bases) + len(plan.sources)
    most = max((len(js) for js in plan.templates_of), default=1)
    require(
        len(first) == count + 1 and first[0] == 0 and first[-1] == len(index.table), "tables out of place"
    )
    require(index.table.shape[1] == 1 + max(1, most), "tables of a wrong width")
    sizes = np.diff(first)
    require(bool((sizes >= 8).all() and (sizes & (sizes - 1) == 0).all()), "hash table of an odd size")
    for node in range(count):
        rows = index.table[first[node] : first[node + 1]]
        keys = rows[:, 0]
        require(bool((keys == EMPTY).any() and (keys >= EMPTY).all()), "hash table without a free row")
        if node >= len(plan.bases):
            numbers = rows[keys != EMPTY, 1]
            require(bool(((numbers >= 0) & (numbers < 2**31)).all()), "numbers of pairs out of range")
            continue
        for k, j in enumerate(plan.templates_of[node]):
            _check_records(rows[keys != EMPTY, 1 + k], int(index.sizes[j]))


def _check_records(records: NDArray[np.int64], size: int) -> None:
    """Every attribute that a record can lead to must be one of its template."""
    seen = records & ((1 << MASK_BITS) - 1)
    require(bool((seen < 1 << CLASSES).all()), "classes out of range")
    ones = np.zeros(len(records), np.int64)
    for c in range(CLASSES):
        ones += seen >> c & 1
    start = records >> MASK_BITS
    require(bool((start >= 0).all() and (start + ones <= size).all()), "attribute out of range")


# ---------------------------------------------------------------- checks


def array_of(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The array, if it is a vector of that type."""
    require(array.dtype == dtype and array.ndim == 1, f"expected a vector of {np.dtype(dtype)}")
    return array


def vector(array: NDArray[Any], length: int, dtype: Any) -> NDArray[Any]:
    """The array, if it is a vector of that type and length, of numbers that are finite."""
    require(len(array_of(array, dtype)) == length, f"expected {length} entries, got {len(array)}")
    require(dtype != np.float64 or bool(np.isfinite(array).all()), "numbers that are not finite")
    return array


def _check_slots(slots: NDArray[np.int32], entries: int) -> None:
    """A hash table must have a power-of-two size, point at its entries, and have a free slot to end a search."""
    size = len(slots)
    require(size >= 8 and size & (size - 1) == 0, "hash table of an odd size")
    require(int(slots.min()) == -1 and int(slots.max()) < entries, "hash table out of range")


def _check_range(numbers: NDArray[np.int64], limit: int) -> None:
    if len(numbers):
        require(int(numbers.min()) >= 0 and int(numbers.max()) < limit, "join out of range")


def require(truth: bool, problem: str) -> None:
    """Refuses a file with a problem."""
    if not truth:
        raise ModelFileError(problem)
