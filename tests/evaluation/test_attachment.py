"""Attachment scores: eval.pl's rules by hand-made examples whose figures the script prints too."""

import numpy as np
import pytest
from support.naive import column

from mtlstruct.corpus import Corpus
from mtlstruct.evaluation.attachment import attachment_scores, punctuation


def scores(forms, gold, predicted, lengths=None, relations=None):
    ptr = np.concatenate([[0], np.cumsum(lengths or [len(forms)])])
    corpus = Corpus((column(forms),), ptr, np.array(gold, np.int32))
    return attachment_scores(corpus, np.array(predicted, np.int32), relations)


def test_punctuation_is_what_unicode_says():
    forms = [".", "...", "«", "„–”", "-", "_", "#", "$", "+", "`", "^", "<", "a.", "1", "。", "%", "*"]
    expected = [".", "...", "«", "„–”", "-", "_", "#", "。", "%", "*"]
    assert [form for form, found in zip(forms, punctuation(forms), strict=True) if found] == expected


def test_scores_count_words_tokens_and_sentences():
    forms, relations = ["Go", "home", "!", "Now", "?"], (["r", "o", "p", "r", "p"], ["r", "x", "p", "r", "p"])
    found = scores(forms, [0, 1, 1, 0, 1], [0, 1, 2, 2, 1], [3, 2], relations)
    assert (found.words.total, found.words.heads, found.words.relations, found.words.labelled) == (3, 2, 2, 1)
    assert (found.all.total, found.all.heads) == (5, 3)
    half = {"uas": 200 / 3, "uasp": 60, "acc": 0, "las": 100 / 3, "label_accuracy": 200 / 3}
    assert found.as_dict() == pytest.approx(half | {"sentences": 2, "tokens": 5})
    assert found.table() == (
        "  Labeled   attachment score: 1 / 3 * 100 = 33.33 %\n"
        "  Unlabeled attachment score: 2 / 3 * 100 = 66.67 %\n"
        "  Label accuracy score:       2 / 3 * 100 = 66.67 %\n"
        "  with punctuation:           3 / 5 * 100 = 60.00 %\n"
        "  whole sentences:            0 / 2 * 100 = 0.00 %\n"
    )


def test_a_text_of_punctuation_scores_nothing():
    found = scores(["."], [0], [0])
    assert found.as_dict() == {"uas": 0, "uasp": 100, "acc": 100, "sentences": 1, "tokens": 1}
    assert "Labeled   " not in found.table()


def test_halves_are_rounded_as_the_script_does():
    """100 − err·100/tot is not always the double nearest to right·100/tot."""
    forms = ["w"] * 800
    for wrong in range(1, 800, 7):
        found = scores(forms, [0] * 800, [1] * wrong + [0] * (800 - wrong))
        assert f"{100 - wrong * 100.0 / 800:.2f} %" in found.table()
