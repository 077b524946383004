"""Attributes that fire at exactly the same sites, made one: what a learner that treats all features alike works on.

Most attributes are seen once, and all that are seen at one token only are one column of A. Under ½‖w‖² or ‖w‖₁ equal
columns share what one of them would get, in known shares: the optimum of the small problem, spread over its members,
is the optimum of the large one.

Columns are compared by two sums of random 64-bit numbers, one for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct._system import threads
from mtlstruct.features.encoded import Encoded
from mtlstruct.linear.design import LOOKAHEAD, Design


@dataclass(frozen=True)
class Merged:
    """The small problem, and which attribute of it each attribute of the large one became, for each kind.

    large     the large one
    encoded   the small one; designs without blocks: an attribute belongs to no template
    number    for each kind int32[attributes]
    fired     for each kind int64[attributes of the small one]: at how many sites it fires
    Where attributes have features with some labels only, `number` and `fired` are those of features: a learner of the
    small problem knows rows of a table of weights, and no attributes.
    """

    large: Encoded
    encoded: Encoded
    number: tuple[NDArray[np.int32], ...]
    fired: tuple[NDArray[np.int64], ...]

    def sums(self, mu: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """For each kind and merged row of weights, the sum of mu_j over its members, which are rows of j."""
        return [
            np.bincount(
                number, np.repeat(mu[design.templates], np.diff(design.weight_ptr)), len(fired)
            ).astype(np.float64)
            for number, fired, design in zip(self.number, self.fired, self.large.designs, strict=True)
        ]


@dataclass(frozen=True)
class Columns:
    """Where the attributes of one kind fire, told by sums over rows: so that what lies in shards can be added up.

    fired           int64[attributes]: at how many sites
    first, second   uint64[attributes]: random numbers of the rows
    """

    fired: NDArray[np.int64]
    first: NDArray[np.uint64]
    second: NDArray[np.uint64]


@dataclass(frozen=True)
class Groups:
    """Attributes of one kind that are one: the number of each, and at how many sites the merged ones fire."""

    number: NDArray[np.int32]
    fired: NDArray[np.int64]


def merge(encoded: Encoded) -> Merged:
    """Finds the columns of A that are equal."""
    groups = [group(some) for some in columns(encoded)]
    small = merged_by(encoded, groups)
    triples = zip(encoded.designs, small.designs, groups, strict=True)
    found = [_listed(large, merged, some) for large, merged, some in triples]
    return Merged(
        large=encoded,
        encoded=replace(small, designs=tuple(design for design, _ in found)),
        number=tuple(some.number for _, some in found),
        fired=tuple(some.fired for _, some in found),
    )


def columns(encoded: Encoded, seed: int = 0) -> list[Columns]:
    """For each kind. Shards must differ in `seed`."""
    return [
        _columns(design, _sites(design, rows), np.random.Generator(np.random.PCG64(seed)))
        for design, rows in zip(encoded.designs, encoded.rows, strict=True)
    ]


def merged_by(encoded: Encoded, groups: Sequence[Groups]) -> Encoded:
    """The data in merged attributes."""
    designs = zip(encoded.designs, groups, strict=True)
    return replace(
        encoded, designs=tuple(_renumbered(d, some.number, len(some.fired)) for d, some in designs)
    )


def _listed(large: Design, small: Design, groups: Groups) -> tuple[Design, Groups]:
    """The same in features, where attributes have some with the labels they were seen with only."""
    if large.support is None:
        return small, groups
    member = np.empty(len(groups.fired), np.int64)  # members have the same sites, so the same labels
    member[groups.number] = np.arange(len(groups.number))
    own = large.support.take(member)[0]
    _, places = own.take(groups.number)
    return replace(small, support=own), Groups(places.astype(np.int32), np.repeat(groups.fired, own.counts))


def group(found: Columns) -> Groups:
    """Numbers columns that fire at the same rows alike, by falling frequency; reorders what it is given."""
    order = np.argsort(found.first)
    new = np.ones(len(order), bool)
    first, second = found.first, found.second
    for hashes in (first, second):
        hashes[:] = hashes[order]
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    often = found.fired[order[new]]
    falling = np.argsort(-often, kind="stable")
    rank = np.empty(len(often), np.int32)
    rank[falling] = np.arange(len(often), dtype=np.int32)
    number = np.empty(len(order), np.int32)
    number[order] = rank[np.cumsum(new) - 1]
    return Groups(number, often[falling])


def _sites(design: Design, rows: NDArray[np.int32] | None) -> NDArray[np.int64]:
    """How many sites use each row."""
    if rows is None:
        return np.ones(design.rows, np.int64)
    return np.bincount(rows, minlength=design.rows).astype(np.int64)


def _columns(design: Design, sites: NDArray[np.int64], random: np.random.Generator) -> Columns:
    fired = _summed(replace(design, values=design.values[:0]), sites.astype(np.uint64)).astype(np.int64)
    first, second = (
        _summed(design, random.integers(1 << 64, size=design.rows, dtype=np.uint64)) for _ in range(2)
    )
    return Columns(fired, first, second)


def _summed(design: Design, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """For each attribute the sum over its rows of the hash, times the bits of the value."""
    out = np.zeros(design.attributes + 1, np.uint64)
    _sum_hashes(design.ids, design.ptr, design.values.view(np.uint32), hashes, out)
    return out[:-1]


def _renumbered(design: Design, number: NDArray[np.int32], count: int) -> Design:
    """A with its columns renumbered: rows sorted, an attribute once in a row, the null attribute gone."""
    table = np.append(number, np.int32(count))
    padding = np.full(LOOKAHEAD, count, np.int32)
    unit = len(design.values) == 0
    if not design.slotwise and unit and _has_repeat(design.ids, design.ptr, design.attributes):
        design = replace(design, values=np.ones(int(design.ptr[-1]), np.float32))
    ids, values, sizes = _sorted_rows(design, table, count)
    return Design(
        ids=np.concatenate([*ids, padding]),
        ptr=np.append(0, np.cumsum(sizes)).astype(np.int64),
        blocks=np.zeros(0, np.int32),
        values=np.concatenate(values),
        block_ptr=np.array([0, count], np.int64),
        templates=np.zeros(0, np.int32),
    )


def _sorted_rows(
    design: Design, table: NDArray[np.int32], null: int
) -> tuple[list[NDArray[np.int32]], list[NDArray[np.float32]], NDArray[np.int64]]:
    """Ids and values of the new rows, in pieces, and the size of each row."""

    def work(span: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        low, high = design.ptr[span[0]], design.ptr[span[1]]
        ids, ptr = design.ids[low:high], design.ptr[span[0] : span[1] + 1] - low
        values = design.values[low:high].copy()
        merged, sizes = table[ids], np.zeros(len(ptr) - 1, np.int64)
        kept = _sort_rows(ids, ptr, null, merged, values, sizes)
        return merged[:kept], values[:kept], sizes

    found = threads.in_order(work, threads.chunks(np.arange(design.rows + 1, dtype=np.int64)))
    ids, values, sizes = (list(pieces) for pieces in zip(*found, strict=True))
    return ids, values, np.concatenate(sizes)


# ---------------------------------------------------------------- kernels


@kernel
def _sum_hashes(ids, ptr, values, hashes, out):  # type: ignore[no-untyped-def]
    real = len(values) > 0
    for row in range(len(ptr) - 1):
        for k in range(ptr[row], ptr[row + 1]):
            out[ids[k]] += hashes[row] * np.uint64(values[k]) if real else hashes[row]


@kernel
def _has_repeat(ids, ptr, null):  # type: ignore[no-untyped-def]
    """Return whether some row has an attribute twice, so that values are needed to say so."""
    for row in range(len(ptr) - 1):
        some = np.sort(ids[ptr[row] : ptr[row + 1]])
        for k in range(1, len(some)):
            if some[k] == some[k - 1] and some[k] != null:
                return True
    return False


@kernel
def _sort_rows(ids, ptr, null, merged, values, sizes):  # type: ignore[no-untyped-def]
    """Sorts each row by merged attribute and keeps one member of each; returns how many entries are left.

    merged becomes the ids that are left, values what each stands for: the sum over the entries of that member.
    """
    kept = 0
    real = len(values) > 0
    for row in range(len(ptr) - 1):
        start = ptr[row]
        size = ptr[row + 1] - start
        key = np.empty(size, np.int64)  # attribute and place in one number: equals keep their order
        for k in range(size):
            key[k] = np.int64(merged[start + k]) << 32 | k
        key = np.sort(key)
        worth = values[start : start + size].copy() if real else values
        begin = kept
        member = -1
        for each in key:
            own, k = each >> 32, each & 0xFFFFFFFF
            if own == null:
                break
            if kept == begin or merged[kept - 1] != own:
                member = ids[start + k]
                merged[kept] = own
                if real:
                    values[kept] = worth[k]
                kept += 1
            elif real and ids[start + k] == member:
                values[kept - 1] += worth[k]
        sizes[row] = kept - begin
    return kept
