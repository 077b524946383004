"""Scores of classes against scikit-learn."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlstruct.errors import FormatError
from mtlstruct.evaluation.scores import class_scores, label_scores


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1, max_size=30))
def test_class_scores_are_those_of_scikit_learn(pairs):
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    found = class_scores(gold, predicted)
    each = precision_recall_fscore_support(gold, predicted, zero_division=0.0)
    macro = precision_recall_fscore_support(gold, predicted, average="macro", zero_division=0.0)
    micro = precision_recall_fscore_support(gold, predicted, average="micro", zero_division=0.0)
    values = found.as_dict()
    assert [values[k] / 100 for k in ("precision", "recall", "f1")] == pytest.approx(list(macro[:3]))
    assert values["micro_f1"] / 100 == pytest.approx(micro[2])
    assert found.accuracy / 100 == pytest.approx(accuracy_score(gold, predicted))
    for n, counts_of in enumerate(found.per_type.values()):
        got = [counts_of[k] / 100 for k in ("precision", "recall", "f1")]
        assert got == pytest.approx([each[k][n] for k in range(3)])
        assert counts_of["gold"] == each[3][n]


def test_predictions_about_other_items_or_tokens_are_rejected():
    with pytest.raises(FormatError, match=r"p\.txt: expected 2 items as in gold, got 1"):
        class_scores(["a", "b"], ["a"], source="p.txt")
    with pytest.raises(FormatError, match=r"p\.txt: sentence 1: expected 2 tokens as in gold, got 1"):
        label_scores([["N", "V"]], [["N"]], source="p.txt")


def test_label_scores_are_class_scores_of_all_tokens_and_count_whole_sentences():
    gold, predicted = [["N", "V"], ["N"], ["D", "N"]], [["N", "V"], ["V"], ["D", "N"]]
    found = label_scores(gold, predicted)
    flat = class_scores([*"NVNDN"], [*"NVVDN"])
    assert found.types == flat.types
    own = {
        "sentences": 3,
        "sequence_accuracy": pytest.approx(100 * 2 / 3),
        "scheme": "classes",
        "field_f1": 80,
    }
    assert found.as_dict() == flat.as_dict() | own
