"""Label schemes: round trips, invalid sequences as conlleval reads them, valid transitions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlstruct.errors import IncompatibleError
from mtlstruct.evaluation.chunks import chunk_scores
from mtlstruct.structures.schemes import (
    OUTSIDE,
    SCHEMES,
    Recoding,
    chunk_spans,
    converted,
    numbered,
    recognised,
)

KINDS = ("<a>", "<b-c>")
chunks = st.lists(st.tuples(st.sampled_from(["", *KINDS]), st.integers(1, 4)), min_size=1, max_size=6)


def labelled(sentence, scheme):
    """Label chunks by the definition of the scheme."""
    found, before = [], ""
    for n, (kind, length) in enumerate(sentence):
        after = sentence[n + 1][0] if n + 1 < len(sentence) else ""
        for t in range(length):
            first, last = t == 0, t == length - 1
            letter = {
                "grobid": "I" if first else "",
                "io": "I",
                "bio": "B" if first else "I",
                "iob1": "B" if first and kind == before else "I",
                "ioe2": "E" if last else "I",
                "ioe1": "E" if last and kind == after else "I",
                "bioes": "S" if first and last else "B" if first else "E" if last else "I",
                "bilou": "U" if first and last else "B" if first else "L" if last else "I",
                "bmes": "S" if first and last else "B" if first else "E" if last else "M",
            }[scheme]
            found.append(OUTSIDE if not kind else f"{letter}-{kind}" if letter else kind)
        before = kind
    return found


@settings(max_examples=60)
@given(st.lists(chunks, min_size=1, max_size=3), st.sampled_from([*SCHEMES]), st.sampled_from([*SCHEMES]))
def test_conversion_of_valid_labels_is_exact_both_ways(sentences, source, target):
    ours, theirs = ([labelled(s, scheme) for s in sentences] for scheme in (source, target))
    if source == "io":  # touching chunks of a type are one
        assert converted(theirs, target, "io") == ours
    else:
        assert converted(ours, source, target) == theirs


@settings(max_examples=60)
@given(st.lists(chunks, min_size=1, max_size=3), st.sampled_from([name for name in SCHEMES if name != "io"]))
def test_spans_are_those_of_the_chunks(sentences, scheme):
    every = [labelled([(kind, n) for kind in KINDS for n in (1, 2, 3)], scheme)] * 2  # all labels occur
    labels, outputs, ptr = numbered([*every, *(labelled(s, scheme) for s in sentences)])
    expected = []
    for sentence in sentences:
        ends = np.cumsum([length for _, length in sentence]).tolist()
        spans = zip(sentence, ends, strict=True)
        expected.append([(end - n, end, kind) for (kind, n), end in spans if kind])
    found = chunk_spans(labels, outputs, ptr)
    assert found[2:] == expected
    assert chunk_spans(["NN", "VB"], np.zeros(1, np.int32), np.array([0, 1])) is None


@settings(max_examples=60)
@given(st.sampled_from(["BI", "IE"]), st.data())
def test_invalid_sequences_are_read_as_conlleval_reads_them(places, data):
    label = st.sampled_from([OUTSIDE, *(f"{place}-{kind}" for place in places for kind in "XY")])
    sentences = data.draw(st.lists(st.lists(label, min_size=1, max_size=8), min_size=1, max_size=3))
    scheme = {"BI": "bio", "IE": "ioe2"}[places]
    valid = converted(sentences, scheme, "bio")
    assert chunk_scores(sentences, valid).chunks == chunk_scores(valid, valid).chunks
    assert converted(valid, "bio", "bio") == valid


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pairs_are_valid_if_they_occur_in_valid_sequences(scheme):
    kinds = ["", "<a>", "<b>"] if scheme == "grobid" else ["", "a", "b"]
    sentences = [
        labelled(list(zip(types, lengths, strict=True)), scheme)
        for types in itertools.product(kinds, repeat=3)
        for lengths in itertools.product((1, 2, 4), repeat=3)
    ]
    labels, outputs, ptr = numbered(sentences)
    own = Recoding(labels, SCHEMES[scheme], SCHEMES[scheme], labels)
    edge = len(labels)
    seen = np.zeros((edge + 1, edge + 1), bool)
    seen[edge, edge] = True  # an empty sentence
    for start, stop in itertools.pairwise(ptr.tolist()):
        path = [edge, *outputs[start:stop].tolist(), edge]
        seen[path[:-1], path[1:]] = True
    np.testing.assert_array_equal(own.valid, seen)
    assert recognised(labels, outputs, ptr) == scheme
    np.testing.assert_array_equal(own(outputs, ptr), outputs)


def test_other_labels_and_grobids_unmarked_other():
    with pytest.raises(IncompatibleError, match="expected labels of the scheme BIOES, got 'NOUN'"):
        converted([["NOUN"]], "bioes", "bio")
    sentence = [["I-<a>", "<a>", "<other>", "<other>", "I-<a>"]]
    states = converted(sentence, "grobid", "bioes")
    assert states == [["B-<a>", "E-<a>", "<other>", "<other>", "S-<a>"]]
    assert converted(states, "bioes", "grobid") == sentence
