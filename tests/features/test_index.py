"""Encoding counts and shares exactly what the expanded lines of the template file say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.duals import on_threads
from support.naive import corpus, expansions, random_corpus

from mtlstruct.features.index import encode_training
from mtlstruct.features.plan import make_plan
from mtlstruct.structures import SequenceStructure
from mtlstruct.templates import TemplateSet, preset

WORDS = TemplateSet.parse(
    "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,0]/%x[1,0]\nU3:%x[1,1]|%x[-2,0]|%x[0,1]\nU\nB"
)


RICH = TemplateSet.parse(
    "U0:%suffix[0,0,1]/%x[-1,1]\nU1:%len[1,0]\nU2:%prefix[-1,0,1]/%suffix[0,0,1]/%x[@1,0]\nU3:%x[@-1,0]\n"
    'U4:%x[@3,0]/%x[1,0]\nU5:%suffix[@-4,0,1]\nU6:%in[0,0,"l"]/%x[-2,0]\nU7:%test[1,0,"[1-3]"]\nB:%type[0,0]\nB',
    lists={"l": ("w1", "w2")},
)


def encode(data, templates, **options):
    structure = SequenceStructure(max(2, len(data.labels)))
    return encode_training(data, templates, structure.sites(data.ptr), **options)


def node_templates(encoded):
    design = encoded.designs[0]
    table = design.ids[: design.ptr[-1]].reshape(design.rows, -1)
    return {int(j): table[:, slot] for slot, j in enumerate(design.layout.templates)}


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 5), st.sampled_from([WORDS, RICH]))
def test_ids_partition_tokens_as_the_expanded_lines_do(seed, sentences, words, templates):
    data = random_corpus(np.random.default_rng(seed), sentences, 6, words)
    encoded, index = encode(data, templates)
    lines = expansions(data, templates)
    for j, ids in node_templates(encoded).items():
        pairs = set(zip(ids.tolist(), lines[j], strict=True))
        assert len(pairs) == len(set(ids.tolist())) == len(set(lines[j]))
    again = index.encode(data, SequenceStructure(max(2, len(data.labels))).sites(data.ptr))
    for a, b in zip(encoded.designs, again.designs, strict=True):
        assert np.array_equal(a.ids, b.ids)


def test_attributes_are_numbered_by_falling_frequency_inside_their_block():
    data = random_corpus(np.random.default_rng(0), 30, 8, 9)
    encoded, _ = encode(data, WORDS)
    design = encoded.designs[0]
    for slot, ids in enumerate(node_templates(encoded).values()):
        counts = np.bincount(ids)[design.layout.block_ptr[slot] : design.layout.block_ptr[slot + 1]]
        assert counts.min() >= 1
        assert np.all(np.diff(counts) <= 0)


def test_templates_of_one_shape_share_their_joins():
    plan = make_plan(preset("ner-134"))
    assert len(plan.streams) == 2
    assert len(plan.joins) == 6 + 6 + 12 + 15


def test_unseen_observations_become_the_null_attribute():
    _, index = encode(corpus([[("a", "x"), ("b", "x")]], [["A", "B"]]), WORDS)
    fresh = corpus([[("b", "x"), ("zzz", "x")]], [["A", "B"]])
    encoded = index.encode(fresh, SequenceStructure(2).sites(fresh.ptr))
    null = encoded.designs[0].layout.attributes
    known = {j: (ids != null).tolist() for j, ids in node_templates(encoded).items()}
    # zzz was not seen, nor was b at the beginning; the bias fires everywhere
    assert (known[0], known[1], known[4]) == ([True, False], [False, False], [True, True])


def test_min_count_drops_rare_attributes():
    data = random_corpus(np.random.default_rng(3), 20, 6, 8)
    encoded, cut = encode(data, WORDS, min_count=2)
    _, counts = zip(
        *(np.unique(some, return_counts=True) for some in expansions(data, WORDS)[:4]), strict=True
    )
    assert encode(data, WORDS)[1].sizes[:4].tolist() == [len(some) for some in counts]
    assert cut.sizes[:4].tolist() == [np.count_nonzero(some >= 2) for some in counts]
    design = encoded.designs[0]
    assert np.any(design.ids[: design.ptr[-1]] == design.layout.attributes)


@pytest.mark.parametrize("lines", ["B", "B\nB1:%x[0,0]\nB2:%x[-1,1]/%x[0,1]"])
def test_edges_with_equal_observations_share_a_row_and_fire_from_the_second_token(lines):
    templates = TemplateSet.parse("U0:%x[0,0]\n" + lines)
    data = random_corpus(np.random.default_rng(5), 10, 6, 4)
    encoded, _ = encode(data, templates)
    tokens = SequenceStructure(3).sites(data.ptr)[1].tokens
    assert not set(tokens) & set(data.ptr.tolist())
    expanded = list(zip(*expansions(data, templates)[1:], strict=True))
    seen, rows = [expanded[t] for t in tokens], encoded.rows[1]
    assert len(set(zip(seen, rows.tolist(), strict=True))) == len(set(seen)) == encoded.designs[1].rows


def test_bits_do_not_depend_on_threads():
    data = random_corpus(np.random.default_rng(7), 40, 8, 20)
    results = on_threads((1, 2, 4), lambda: encode(data, WORDS)[0].designs[0].ids.tobytes())
    assert len(set(results)) == 1
