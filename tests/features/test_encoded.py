"""Some sentences of encoded data are what encoding these sentences alone gives, up to the numbers of attributes."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.naive import random_corpus

from mtlstruct.features.encoded import subset
from mtlstruct.features.index import encode_training
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design, padded_ids
from mtlstruct.linear.weight_layout import WeightLayout
from mtlstruct.structures import SequenceStructure
from mtlstruct.templates import TemplateSet

TEMPLATES = TemplateSet.parse("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[1,1]\nB\nB1:%x[0,1]")


def rows_of_sites(encoded, kind):
    """The attributes at each site, None where they are not known: [sites][slots] (block, number in the whole)."""
    design, row_of = encoded.designs[kind], encoded.rows[kind]
    width = len(design.blocks)
    table = design.ids[: design.ptr[-1]].reshape(design.rows, width)
    sites = table if row_of is None else table[row_of]
    return [[None if a == design.layout.attributes else int(a) for a in row] for row in sites]


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 3), st.data())
def test_a_subset_is_what_its_sentences_alone_would_be(seed, min_count, data):
    corpus = random_corpus(np.random.default_rng(seed), sentences=8, longest=4)
    chosen = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=8, max_size=8).filter(any)))
    structure = SequenceStructure(3)
    sites = structure.sites(corpus.ptr)
    encoded, _ = encode_training(corpus, TEMPLATES, sites, min_count=min_count)
    part = subset(encoded, chosen, sites, min_count)
    few = corpus.take(chosen)
    alone, _ = encode_training(few, TEMPLATES, structure.sites(few.ptr), min_count=min_count)
    assert part.ptr.tolist() == alone.ptr.tolist() == few.ptr.tolist()
    for kind in range(2):
        ours, theirs = rows_of_sites(part, kind), rows_of_sites(alone, kind)
        assert [len(row) for row in ours] == [len(row) for row in theirs]
        pairs = set(zip(*map(chain.from_iterable, (ours, theirs)), strict=True))
        # One number here for one number there, and unknown for unknown.
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
        assert all((a is None) == (b is None) for a, b in pairs)
        design = part.designs[kind]
        assert design.ids[design.ptr[-1] :].tolist() == [design.layout.attributes] * PREFETCH_DISTANCE


def test_sentences_of_a_corpus():
    corpus = replace(random_corpus(np.random.default_rng(2)), extra="as read", lines=np.arange(12) * 10)
    few = corpus.take(np.array([4, 1]))
    assert few.extra is None
    assert few.labels == corpus.labels
    assert few.lines.tolist() == [40, 10]
    spans = list(corpus.sentences())
    for column, whole in zip(few.columns, corpus.columns, strict=True):
        assert column.cells() == whole.cells()[spans[4]] + whole.cells()[spans[1]]
    assert few.outputs.tolist() == corpus.outputs[spans[4]].tolist() + corpus.outputs[spans[1]].tolist()
    bare = replace(corpus, outputs=None, lines=None).take(np.array([0]))
    assert bare.outputs is None
    assert bare.lines is None


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(
    ("ids", "ptr", "blocks", "rows", "expected"),
    [
        ([0, 3, 1, 2, 0], [0, 2, 2, 5], [0, 1, 0, 1, 0], [2, 0], [2, 3, 4, 0, 1]),
        ([0, 1, 2, 3, 0, 2], [0, 2, 4, 6], [0, 1], [2, 0], [4, 5, 0, 1]),
    ],
    ids=["ragged", "uniform"],
)
def test_rows_of_a_design(ids, ptr, blocks, rows, expected, real):
    values = np.arange(len(ids) if real else 0, dtype=np.float32)
    layout = WeightLayout(np.array([0, 2, 4]), np.array([0, 1], np.int32))
    design = Design(
        padded_ids(np.array(ids, np.int32), 4), np.array(ptr), np.array(blocks, np.int32), values, layout
    )
    part = design.take(np.array(rows))
    assert part.ragged == (len(blocks) > 2)
    assert part.ids.tolist() == [ids[k] for k in expected] + [4] * PREFETCH_DISTANCE
    assert np.diff(part.ptr).tolist() == np.diff(ptr)[rows].tolist()
    assert part.blocks.tolist() == ([blocks[k] for k in expected] if part.ragged else blocks)
    assert part.values.tolist() == (expected if real else [])
