"""Merging of equal columns of A, for solvers that treat all features alike.

Most attributes occur once, and all that occur at one token only are equal columns. Under ½‖w‖² or
‖w‖₁ equal columns share the weight that one of them would get, in known shares: the optimum of the
merged problem, distributed over the members, is the optimum of the original one.

Columns are compared by two sums of random 64-bit numbers, one number per row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct._system import disk_arrays, threads
from mtlstruct.features.encoded import Encoded
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design
from mtlstruct.linear.label_support import LabelSupport
from mtlstruct.linear.weight_layout import WeightLayout


@dataclass(frozen=True)
class MergedColumns:
    """The problem with merged columns, and the merged attribute of each attribute.

    large     the original data
    encoded   the merged data; attributes belong to no template
    number    for each kind int32[attributes]: the merged attribute
    fired     for each kind int64[merged attributes]: number of sites where it fires
    With label support, `number` and `fired` are those of features: rows of a weight table.
    """

    large: Encoded
    encoded: Encoded
    number: tuple[NDArray[np.int32], ...]
    fired: tuple[NDArray[np.int64], ...]

    @cached_property
    def members(self) -> list[tuple[NDArray[np.int64], NDArray[np.unsignedinteger]]]:
        """For each kind where the members of each merged weight row begin, and their templates."""
        found = []
        for number, fired, design in zip(self.number, self.fired, self.large.designs, strict=True):
            ptr = np.append(0, np.cumsum(np.bincount(number, minlength=len(fired)))).astype(np.int64)
            some = design.layout.templates
            some = some.astype(np.min_scalar_type(int(some.max(initial=0))))
            found.append(
                (ptr, _sort_members(number, np.repeat(some, np.diff(design.layout.weight_ptr)), ptr))
            )
        return found

    def sums(self, mu: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return for each kind and merged weight row the sum of mu_j over its members."""
        return [_sum_members(ptr, templates, mu) for ptr, templates in self.members]


@dataclass(frozen=True)
class ColumnHashes:
    """Hashes of the columns of one kind: sums over rows, which can be added over shards.

    fired           int64[attributes]: number of sites
    first, second   uint64[attributes]: sums of the random numbers of rows
    """

    fired: NDArray[np.int64]
    first: NDArray[np.uint64]
    second: NDArray[np.uint64]


@dataclass(frozen=True)
class ColumnGroups:
    """Groups of equal columns: the group of each attribute, and the sites of each group."""

    number: NDArray[np.int32]
    fired: NDArray[np.int64]


def merge(encoded: Encoded) -> MergedColumns:
    """Merge the equal columns of A."""
    groups = [group(some) for some in columns(encoded)]
    return described(encoded, merged_by(encoded, groups), groups)


def described(large: Encoded, small: Encoded, groups: Sequence[ColumnGroups]) -> MergedColumns:
    """Return the description of data that are merged already."""
    designs = zip(large.designs, groups, strict=True)
    found = [some if d.layout.support is None else _supported(d, some)[1] for d, some in designs]
    return MergedColumns(large, small, tuple(g.number for g in found), tuple(g.fired for g in found))


def columns(encoded: Encoded, seed: int = 0) -> list[ColumnHashes]:
    """Return the hashes of the columns of each kind; shards must differ in `seed`."""
    found = []
    for design, rows in zip(encoded.designs, encoded.rows, strict=True):
        random = np.random.Generator(np.random.PCG64(seed))
        sites = np.bincount(np.arange(design.rows) if rows is None else rows, minlength=design.rows)
        fired = _summed(replace(design, values=design.values[:0]), sites.astype(np.uint64))
        first, second = (
            _summed(design, random.integers(1 << 64, size=design.rows, dtype=np.uint64)) for _ in range(2)
        )
        found.append(ColumnHashes(fired.astype(np.int64), first, second))
    return found


def merged_by(encoded: Encoded, groups: Sequence[ColumnGroups]) -> Encoded:
    """Return the data in merged attributes."""
    return replace(encoded, designs=tuple(map(_renumbered, encoded.designs, groups)))


def merged_layout(large: Design, groups: ColumnGroups) -> WeightLayout:
    """Return the layout of the weights of merged attributes, which belong to no template."""
    support = None if large.layout.support is None else _supported(large, groups)[0]
    return WeightLayout(np.array([0, len(groups.fired)]), np.zeros(0, np.int32), support=support)


def _supported(large: Design, groups: ColumnGroups) -> tuple[LabelSupport, ColumnGroups]:
    """Return the label support of merged attributes, and the groups of features."""
    assert large.layout.support is not None
    member = np.empty(len(groups.fired), np.int64)  # members have the same labels
    member[groups.number] = np.arange(len(groups.number))
    support = large.layout.support.take(member)[0]
    _, features = support.take(groups.number)
    return support, ColumnGroups(features.astype(np.int32), np.repeat(groups.fired, support.counts))


def group(found: ColumnHashes) -> ColumnGroups:
    """Number equal columns alike, by falling frequency."""
    order = np.argsort(found.first)
    new = np.ones(len(order), bool)
    first, second = found.first[order], found.second[order]
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    often = found.fired[order[new]]
    falling = np.argsort(-often, kind="stable")
    rank = np.empty(len(often), np.int32)
    rank[falling] = np.arange(len(often), dtype=np.int32)
    number = np.empty(len(order), np.int32)
    number[order] = rank[np.cumsum(new) - 1]
    return ColumnGroups(number, often[falling])


def _summed(design: Design, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return for each attribute the sum of hash · (1 + bits of the value) over its rows.

    An entry of value 0 counts: it may have a part in the label support.
    """
    out = np.zeros(design.layout.attributes + 1, np.uint64)
    _sum_hashes(design.ids, design.ptr, design.values.view(np.uint32), hashes, out)
    return out[:-1]


def _renumbered(design: Design, groups: ColumnGroups) -> Design:
    """Return A with merged columns: sorted rows, distinct attributes, no null attribute."""
    number, count, layout = groups.number, len(groups.fired), merged_layout(design, groups)
    table = np.append(number, np.int32(count))
    unit = len(design.values) == 0
    if not design.slots_aligned and unit and _has_repeat(design.ids, design.ptr, design.layout.attributes):
        design = replace(design, values=np.ones(int(design.ptr[-1]), np.float32))

    def work(span: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        low, high = design.ptr[span[0]], design.ptr[span[1]]
        ids, ptr = design.ids[low:high], design.ptr[span[0] : span[1] + 1] - low
        values = design.values[low:high].copy()
        merged, sizes = table[ids], np.zeros(len(ptr) - 1, np.int64)
        kept = _sort_rows(ids, ptr, count, merged, values, sizes)
        return merged[:kept], values[:kept], sizes

    spans, step, end = threads.chunks(np.arange(design.rows + 1, dtype=np.int64)), threads.get_threads(), 0
    merged = disk_arrays.zeros(int(design.ptr[-1]) + PREFETCH_DISTANCE, np.int32)
    values, sizes = [np.zeros(0, np.float32)], [np.zeros(1, np.int64)]
    for first in range(0, len(spans), step):
        for ids, some, lengths in threads.in_order(work, spans[first : first + step]):
            merged[end : end + len(ids)] = ids
            end += len(ids)
            values.append(some)
            sizes.append(lengths)
    merged[end : end + PREFETCH_DISTANCE] = count
    ptr = np.cumsum(np.concatenate(sizes))
    none = np.zeros(0, np.int32)
    return Design(merged[: end + PREFETCH_DISTANCE], ptr, none, np.concatenate(values), layout)


# ---------------------------------------------------------------- kernels


@kernel
def _sort_members(number, templates, ptr):
    """Return the templates in order of their merged rows, which begin at ptr."""
    place, out = ptr[:-1].copy(), np.empty_like(templates)
    for a in range(len(number)):
        out[place[number[a]]] = templates[a]
        place[number[a]] += 1
    return out


@kernel
def _sum_members(ptr, templates, mu):
    out = np.zeros(len(ptr) - 1)
    for row in range(len(out)):
        for k in range(ptr[row], ptr[row + 1]):
            out[row] += mu[templates[k]]
    return out


@kernel
def _sum_hashes(ids, ptr, values, hashes, out):
    real = len(values) > 0
    for row in range(len(ptr) - 1):
        for k in range(ptr[row], ptr[row + 1]):
            out[ids[k]] += hashes[row] * (np.uint64(values[k]) + np.uint64(1)) if real else hashes[row]


@kernel
def _has_repeat(ids, ptr, null):
    """Return whether some row has an attribute twice."""
    for row in range(len(ptr) - 1):
        some = np.sort(ids[ptr[row] : ptr[row + 1]])
        for k in range(1, len(some)):
            if some[k] == some[k - 1] and some[k] != null:
                return True
    return False


@kernel
def _sort_rows(ids, ptr, null, merged, values, sizes):
    """Sort each row by merged attribute and keep one member of each; return the entries left.

    merged becomes the ids that are left, values what each stands for: the sum over the entries of
    that member.
    """
    kept = 0
    real = len(values) > 0
    for row in range(len(ptr) - 1):
        start = ptr[row]
        size = ptr[row + 1] - start
        key = np.empty(size, np.int64)  # attribute and position: a stable sort
        for k in range(size):
            key[k] = np.int64(merged[start + k]) << 32 | k
        key = np.sort(key)
        worth = values[start : start + size].copy() if real else values
        begin = kept
        member = -1
        for each in key:
            attribute, k = each >> 32, each & 0xFFFFFFFF
            if attribute == null:
                break
            if kept == begin or merged[kept - 1] != attribute:
                member = ids[start + k]
                merged[kept] = attribute
                if real:
                    values[kept] = worth[k]
                kept += 1
            elif real and ids[start + k] == member:
                values[kept - 1] += worth[k]
        sizes[row] = kept - begin
    return kept
