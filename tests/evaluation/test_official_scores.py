"""Scores against answers worked out by hand from the official scripts' rules, and against naive twins."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.errors import FormatError
from mtlstruct.evaluation.chunks import chunk_scores, scheme_of
from mtlstruct.evaluation.counts import Counts
from mtlstruct.evaluation.scores import sequence_scores
from mtlstruct.evaluation.words import word_scores


def labels(*sentences):
    return [sentence.split() for sentence in sentences]


def counts(gold, predicted):
    """Chunks of one sentence: in gold, predicted, correct."""
    found = chunk_scores(labels(gold), labels(predicted)).chunks
    return found.gold, found.predicted, found.correct


def worked_example():
    """Gold chunks: PER 0-1, LOC 3, ORG 4-5 | PER 0, LOC 2-3. Predicted: PER 0-1, LOC 3-4 | LOC 0, LOC 2-3.

    Overall 5 gold, 4 predicted, 2 correct (PER 0-1 and LOC 2-3): P = 2/4, R = 2/5, F = 2·50·40/90 = 44.44.
    PER: 2 gold, 1 predicted, 1 correct: 100, 50, 66.67. LOC: 2, 3, 1: 33.33, 50, 40. ORG: 1, 0, 0: 0, 0, 0.
    Tokens: 10, of which 4 (I-LOC for B-ORG), 5 (O for I-ORG) and the first of sentence two are wrong: 7/10.
    """
    gold = labels("B-PER I-PER O B-LOC B-ORG I-ORG", "B-PER O B-LOC I-LOC")
    return chunk_scores(gold, labels("B-PER I-PER O B-LOC I-LOC O", "B-LOC O B-LOC I-LOC"))


def test_scores_by_hand_under_their_names():
    found = worked_example()
    assert found.chunks == Counts(gold=5, predicted=4, correct=2)
    types = {"LOC": Counts(2, 3, 1), "ORG": Counts(1, 0, 0), "PER": Counts(2, 1, 1)}
    assert list(found.types.items()) == list(types.items())
    assert found.correct_tokens == 7
    scores = found.as_dict()
    assert json.loads(json.dumps(scores)) == scores
    f1 = 2 * 100.0 * 50.0 / 150.0
    own = {"precision": 100.0, "recall": 50.0, "f1": f1, "gold": 2, "predicted": 1, "correct": 1}
    per_type = scores.pop("per_type")
    assert (list(per_type), per_type["PER"]) == (["LOC", "ORG", "PER"], own)
    whole = {"accuracy": 70.0, "sequence_accuracy": 0.0, "scheme": "conlleval", "sentences": 2, "tokens": 10}
    assert scores == {"precision": 50.0, "recall": 40.0, "f1": 2 * 50.0 * 40.0 / 90.0} | whole


BY_SCHEME = {  # one error as IOB2 and two as IOB1; chunks of one sort, without a type
    "bio": "O B-PER I-PER B-LOC | B-A I-A O I-A B-A I-A B-A I-A | B I O",
    "iob1": "O I-PER B-PER",
    "io": "O I-PER | O | ",
    "ioe2": "I-A E-A E-A O",
    "ioe1": "I-A E-A I-A O",
    "bmes": "B-PER M-PER E-PER S-PER O",
    "bioes": "B-PER I-PER E-PER S-PER O | B I E S",
    "bilou": "U-A B-A I-A L-A O",
    "conlleval": "O [-A ]-A .-A",
    "grobid": "I-<day> I-<month> <day> | I-<day> <day> O | I-<day> I-<day>",
    "classes": "B-A W-A E-A L-A | E S | <day> <month> | NOUN VERB ADJ | N V O | B- I- O | X-PER O | b-per o | "
    "B-PER I-PER O PER",  # one label of another form is enough
}


@pytest.mark.parametrize(
    ("scheme", "gold"), [(name, gold) for name, rows in BY_SCHEME.items() for gold in rows.split(" | ")]
)
def test_schemes_by_their_labels(scheme, gold):
    assert scheme_of(labels(gold)) == scheme


@pytest.mark.parametrize(
    ("scheme", "gold", "predicted", "expected"),
    [
        ("bioes", "S-A S-A B-A E-A B-A E-A", "S-A S-A B-A I-A I-A E-A", (4, 3, 2)),
        ("bilou", "U-A U-A B-A L-A B-A L-A", "U-A B-A L-A U-A B-A L-A", (4, 4, 2)),
        # <other> is no field; one field of two tokens, then two touching fields of one token
        ("grobid", "I-<a> <a> I-<a> I-<other> <other>", "I-<a> <a> I-<a> I-<other> I-<a>", (2, 3, 2)),
        ("grobid", "I-<a> <a> I-<a> <other>", "I-<a> <a> <a> <other>", (2, 1, 0)),
    ],
)
def test_chunks_of_schemes_that_the_script_does_not_know(scheme, gold, predicted, expected):
    assert scheme_of(labels(gold), predicted.split()) == scheme
    found = chunk_scores(labels(gold), labels(predicted), scheme=scheme)
    assert found.chunks == Counts(*expected)
    same = [g == p for g, p in zip(gold.split(), predicted.split(), strict=True)]
    assert (found.correct_tokens, found.scheme) == (sum(same), scheme)


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ("B-A I-A O B-B", "B-A I-A O X", ("conlleval", (2, 1, 1))),
        ("B-A E-A O S-B", "B-A E-A _ S-B", ("bioes", (2, 2, 2))),
        ("I-<a> <a> I-<b>", "I-<a> <a> none", ("grobid", (2, 1, 1))),
        ("B-A X", "B-A X", ("classes", None)),
        ("N V", "N B-X", ("classes", None)),
        ("O I", "O N", ("classes", None)),
    ],
)
def test_a_predicted_label_of_another_form_is_an_error_and_no_other_scheme(gold, predicted, expected):
    found = sequence_scores(labels(gold), labels(predicted))
    chunks = getattr(found, "chunks", None)
    counts = None if chunks is None else (chunks.gold, chunks.predicted, chunks.correct)
    assert (getattr(found, "scheme", "classes"), counts) == expected


def test_table_as_the_script_prints_it():
    assert worked_example().table() == (
        "processed 10 tokens with 5 phrases; found: 4 phrases; correct: 2.\n"
        "accuracy:  70.00%; precision:  50.00%; recall:  40.00%; FB1:  44.44\n"
        "              LOC: precision:  33.33%; recall:  50.00%; FB1:  40.00  3\n"
        "              ORG: precision:   0.00%; recall:   0.00%; FB1:   0.00  0\n"
        "              PER: precision: 100.00%; recall:  50.00%; FB1:  66.67  1\n"
    )


BY_NUMBER = {
    # a plain word is a place that the script does not know, of type ""; "." is never in a chunk
    0: "O O O | NP NP O NP | . .-A O",
    # E is the last of its chunk, E then B of one type is no end; S, L and U are unknown: only types tell them apart
    1: "B-A I-A E-A | B-A E-A B-A E-A | S-A S-A | S-A B-A | B-A S-A | B-A L-A U-A | O E O | -A -A O | B-0 I-0",
    # I after O starts (the older IOB); a change of type ends and starts; the type follows the first hyphen
    2: "B-A I-A O B-A | B-A B-A | B-A I-B | O I-A I-A O I-A | I-A B-A I-A | B-A E-A O B-A E-A | E-A E-A | "
    "B-A E-A I-A | B-A E-A B-B E-B | O S-A O S-A | S-A S-B | U-A O B-A L-A | [ ] O | B I O B | B-A NP | "
    "B-A-x I-A-x B-A-y | B-A-x I-A-y",
    3: "[-A [-A ]-A",  # brackets are chunks of one token
}


@pytest.mark.parametrize(
    ("number", "tags"), [(number, tags) for number, rows in BY_NUMBER.items() for tags in rows.split(" | ")]
)
def test_number_of_chunks(number, tags):
    assert counts(tags, tags) == (number, number, number)


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ("B-A I-A O", "B-A I-A O", (1, 1, 1)),
        ("B-A I-A O", "I-A I-A O", (1, 1, 1)),  # other tags, same chunk
        ("B-A I-A O", "B-A E-A O", (1, 1, 1)),
        ("B-A O", "S-A O", (1, 1, 1)),
        ("B-A I-A O", "B-A O O", (1, 1, 0)),  # too short
        ("B-A O O", "B-A I-A O", (1, 1, 0)),  # too long
        ("B-A I-A I-A", "B-A B-A I-A", (1, 2, 0)),  # cut in two
        ("B-A I-A I-A", "B-A I-B I-A", (1, 3, 0)),  # another type in the middle
        ("B-A I-A", "B-B I-B", (1, 1, 0)),  # wrong type
        ("B-A B-A", "B-A I-A", (2, 1, 0)),  # two for one
        ("O O", "B-A O", (0, 1, 0)),
        ("B-A O", "O O", (1, 0, 0)),
    ],
)
def test_correct_chunks(gold, predicted, expected):
    assert counts(gold, predicted) == expected


@pytest.mark.parametrize(
    ("gold", "predicted", "types"),
    [
        # Without the sentence end I-A would go on: one chunk. With it: two, of which the second is right.
        (["B-A", "I-A"], ["O", "I-A"], {"A": Counts(2, 1, 1)}),
        (["B-A", "I-A"], ["B-A", "I-A"], {"A": Counts(2, 2, 2)}),
        # "]" starts a chunk after any tag, but between B and "]" of one type none ends: two are started, and what
        # began at B is closed at the sentence end, as one right chunk. Not even gold is perfect then.
        (["B-A ]-A"], ["B-A ]-A"], {"A": Counts(2, 2, 1)}),
        # NP after B-A starts a chunk of type "". The sentence end is an O of type "" too, so it ends nothing, and
        # at the next B-A the tag before is that O, which has no chunk to end: started once, never right.
        (["B-A NP", "B-A"], ["B-A NP", "B-A"], {"": Counts(1, 1, 0), "A": Counts(2, 2, 2)}),
        (["B-0 O"], ["B O"], {"": Counts(1, 1, 1)}),  # "0" is false to the script: B-0 and B are one label
    ],
)
def test_counts_of_conlleval_in_unusual_cases(gold, predicted, types):
    assert chunk_scores(labels(*gold), labels(*predicted)).types == types


def test_scores_of_nothing_are_0():
    assert chunk_scores(labels("B-0 O"), labels("B O")).accuracy == 100.0
    scores = chunk_scores(labels("O O"), labels("O O"))
    assert (scores.accuracy, *scores.chunks.as_dict().values()) == (100.0, 0.0, 0.0, 0.0)
    nothing = chunk_scores([], [])
    assert nothing.table() == "processed 0 tokens with 0 phrases; found: 0 phrases; correct: 0.\n"
    assert nothing.as_dict()["accuracy"] == 0.0


# The twin: for well-formed BIO a chunk is a span, and the right ones are those in both sets.
@st.composite
def spans(draw, lengths):
    """Chunks that do not overlap, as (sentence, start, stop, type)."""
    found = set()
    for sentence, length in enumerate(lengths):
        start = 0
        while start < length:
            stop = draw(st.integers(start + 1, length))
            kind = draw(st.sampled_from(["", "A", "B"]))
            found |= {(sentence, start, stop, kind)} if kind else set()
            start = stop
    return found


def bio(found, lengths):
    tags = [["O"] * length for length in lengths]
    for sentence, start, stop, kind in found:
        tags[sentence][start:stop] = ["B-" + kind] + ["I-" + kind] * (stop - start - 1)
    return tags


@given(st.data(), st.lists(st.integers(0, 6), max_size=4))
def test_equals_the_naive_twin(data, lengths):
    gold, predicted = data.draw(spans(lengths)), data.draw(spans(lengths))
    scores = chunk_scores(bio(gold, lengths), bio(predicted, lengths))
    assert scores.chunks == Counts(len(gold), len(predicted), len(gold & predicted))
    for kind, found in scores.types.items():
        parts = [{span for span in side if span[3] == kind} for side in (gold, predicted, gold & predicted)]
        assert found == Counts(*map(len, parts))
    assert set(scores.types) == {span[3] for span in gold | predicted}


def test_other_sentences_are_rejected():
    with pytest.raises(FormatError, match=r"out\.txt: sentence 2: expected 1 tokens as in gold, got 2"):
        chunk_scores(labels("O O", "O"), labels("O O", "O O"), source="out.txt")
    with pytest.raises(FormatError, match="prediction: expected 2 sentences as in gold, got 1"):
        chunk_scores(labels("O O", "O"), labels("O O"))


GOLD = labels("我 喜欢 计算机 语言", "语言学 好")
GUESS = labels("我 喜 欢 计算机 语言", "语言 学 好")
"""Line 1: 我 0-1, 计算机 3-6 and 语言 6-8 are right, 喜欢 is missed. Line 2: 好 is right, 语言学 is missed.

6 true words, 8 test words, 4 right: R = 4/6 = 0.667, P = 4/8 = 0.5, F = 2·0.5·0.667/1.167 = 4/7 = 0.571.
Vocabulary 我 喜欢 语言 好: of these 4 gold words 喜欢 is missed, R_iv = 3/4. Not in it: 计算机 (found) and
语言学 (missed), R_oov = 1/2; the rate of such words is 2/6 = 0.333.
"""
VOCABULARY = {"我", "喜欢", "语言", "好", "unused"}


def test_words_by_hand():
    scores = word_scores(GOLD, GUESS, VOCABULARY)
    assert scores.words == Counts(gold=6, predicted=8, correct=4)
    found = scores.as_dict()
    assert json.loads(json.dumps(found)) == found
    assert found.pop("oov_rate") == pytest.approx(100 * 2 / 6, abs=1e-12)
    assert (found.pop("r_iv"), found.pop("r_oov")) == (75.0, 50.0)
    recall, f1 = pytest.approx(100 * 4 / 6, abs=1e-12), pytest.approx(100 * 4 / 7, abs=1e-12)
    assert found == {"precision": 50.0, "recall": recall, "f1": f1, "sentences": 2, "tokens": 12}
    bare = word_scores(GOLD, GUESS)
    assert bare.as_dict() == found


def test_word_table_as_the_script_prints_it():
    head = (
        "=== TOTAL TRUE WORD COUNT:\t6\n"
        "=== TOTAL TEST WORD COUNT:\t8\n"
        "=== TOTAL TRUE WORDS RECALL:\t0.667\n"
        "=== TOTAL TEST WORDS PRECISION:\t0.500\n"
        "=== F MEASURE:\t0.571\n"
    )
    known = "=== OOV Rate:\t0.333\n=== OOV Recall Rate:\t0.500\n=== IV Recall Rate:\t0.750\n"
    assert word_scores(GOLD, GUESS).table() == head
    assert word_scores(GOLD, GUESS, VOCABULARY).table() == head + known


def test_scores_of_no_words():
    everything = {word for line in GOLD for word in line}
    for vocabulary, sort in ((everything, "oov"), (set(), "iv")):
        scores = word_scores(GOLD, GUESS, vocabulary)
        assert scores.as_dict()[f"r_{sort}"] is None
        assert f"=== {sort.upper()} Recall Rate:\t--\n" in scores.table()
    assert word_scores(GOLD, GUESS, everything).as_dict()["oov_rate"] == 0.0
    scores = word_scores([["a"], [], ["b"]], [["a"], [], ["b"], []])
    assert (scores.sentences, scores.words) == (2, Counts(2, 2, 2))  # empty lines are no sentences
    assert word_scores([], []).as_dict()["f1"] == 0.0
    assert "F MEASURE:\t0.000" in word_scores([["ab"]], [["a", "b"]]).table()


@pytest.mark.parametrize(
    ("predicted", "line", "problem"),
    [
        ([["我"], ["喜欢"]], 1, "expected the text of gold, '我们' around character 2, got '我'"),
        ([["我们"], ["喜爱"]], 2, "expected the text of gold, '喜欢' around character 2, got '喜爱'"),
        ([["我们"]], 2, "expected the text of gold, '喜欢' around character 1, got ''"),
        ([["我们"], ["喜欢"], ["好"]], 3, "expected the text of gold, '' around character 1, got '好'"),
    ],
)
def test_another_text_is_rejected(predicted, line, problem):
    with pytest.raises(FormatError) as caught:
        word_scores([["我", "们"], ["喜欢"]], predicted, source="out.txt")
    assert (caught.value.path, caught.value.line) == ("out.txt", line)
    assert str(caught.value) == f"out.txt, line {line}: {problem}"


@given(st.text("ab", min_size=1, max_size=12), st.data())
def test_words_equal_a_naive_twin(text, data):
    """Right words are a longest common subsequence, here by the table that everybody knows."""
    inner = st.sets(st.integers(1, len(text)))
    both = [sorted({0, len(text), *data.draw(inner)}) for _ in range(2)]
    words = [[text[a:b] for a, b in pairwise(cuts)] for cuts in both]
    table = [[0] * (len(words[1]) + 1) for _ in range(len(words[0]) + 1)]
    for i, x in enumerate(words[0]):
        for j, y in enumerate(words[1]):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    right = table[-1][-1]
    assert word_scores([words[0]], [words[1]]).words == Counts(len(words[0]), len(words[1]), right)
