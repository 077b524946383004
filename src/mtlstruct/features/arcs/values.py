"""Real values of arcs: the numbers that `%value` reads from words near an end of an arc.

A number is 0 where a cell of indicators would be a mark: at the root, beyond the sentence, and
where a step from one end of the arc comes to the other end or would pass it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.arcs.plan import ArcPlan
from mtlstruct.features.values import cell_numbers, unit_factor
from mtlstruct.formats.normalization import NORMALIZERS
from mtlstruct.linear.design import Design

Floats = NDArray[np.float32]

ANCHORS = "hmlr"
"""Anchors as kernels number them."""


def word_numbers(corpus: Corpus, plan: ArcPlan, normalize: str) -> Floats:
    """Return the number that each term of `plan.values` reads at each word: [terms, T]."""
    found = [_column_numbers(corpus, term.column, normalize) for term in plan.values]
    return np.array(found, np.float32).reshape(len(found), corpus.tokens)


def _column_numbers(corpus: Corpus, column: int, normalize: str) -> Floats:
    numbers: Floats
    cells = corpus.columns[column]
    if cells.ptr is None:
        table = cell_numbers(corpus, column, list(map(NORMALIZERS[normalize], cells.strings)))
        width, numbers = table.shape[1], table[cells.ids, 0]
    else:
        width = int(np.diff(cells.ptr).max(initial=1))
        numbers = np.ones(len(cells.ids), np.float32) if cells.values is None else cells.values
    if width != 1 or len(numbers) != corpus.tokens:
        problem = f"expected one number per word of a tree, got {width}"
        raise IncompatibleError(f"column {column}, read by %value: {problem}")
    return numbers


def real_values(
    plan: ArcPlan, numbers: Floats, ptr: NDArray[np.int64], span: tuple[int, int]
) -> Floats | None:
    """Return each term of `plan.values`, then 1, on all arcs of some sentences: [terms + 1, arcs].

    None if there are no terms.
    """
    if not plan.values:
        return None
    lengths = np.diff(ptr[span[0] : span[1] + 1])
    out = np.ones((len(plan.values) + 1, int((lengths * (lengths + 1)).sum())), np.float32)
    for term, read, values in zip(plan.values, numbers, out, strict=False):
        _read_arcs(ANCHORS.index(term.anchor), term.row, read, ptr, span, values)
    return out


def scale_to_unit(design: Design) -> NDArray[np.float64]:
    """Multiply the values of each template by the factor that makes their mean square 1.

    Zeros do not count. Return the factors.
    """
    blocks, m = design.layout.attribute_blocks, len(design.layout.templates)
    squares, firing = np.zeros(m), np.zeros(m, np.int64)
    _add_squares(design.ids, blocks, design.values, squares, firing)
    factors = np.array(list(map(unit_factor, squares.tolist(), firing.tolist())))
    _scale(design.ids, blocks, factors, design.values)
    return factors


# ---------------------------------------------------------------- kernels


@kernel
def _read_arcs(anchor, row, numbers, ptr, span, out):
    """Write the number that a term reads on each arc of some sentences."""
    arc = 0
    for i in range(span[0], span[1]):
        n = ptr[i + 1] - ptr[i]
        for modifier in range(1, n + 1):
            for head in range(n + 1):
                left, right = min(head, modifier), max(head, modifier)
                start = (head, modifier, left, right)[anchor]
                place = start + row
                passed = place >= right if start == left else place <= left
                known = 1 <= place <= n and (row == 0 or not passed)
                out[arc] = numbers[ptr[i] + place - 1] if known else 0
                arc += 1


@kernel
def _add_squares(ids, blocks, values, squares, firing):
    for entry in range(len(values)):
        squares[blocks[ids[entry]]] += np.float64(values[entry]) ** 2
        firing[blocks[ids[entry]]] += values[entry] != 0


@kernel
def _scale(ids, blocks, factors, values):
    for entry in range(len(values)):
        values[entry] *= factors[blocks[ids[entry]]]
