"""Templates made from what the columns hold."""

from mtlstruct.corpus import Corpus
from mtlstruct.formats.text import column
from mtlstruct.templates.generate import automatic, kind_of


def corpus(*columns):
    import numpy as np

    return Corpus(tuple(map(column, columns)), np.array([0, len(columns[0])], np.int64))


WORDS = [f"w{n}" for n in range(300)]
TAGS = ["N", "V", "D"] * 100
NUMBERS = [f"{n / 7:.3f}" for n in range(300)]
CONSTANT = ["0"] * 300


def test_the_kind_of_a_column_follows_from_its_values():
    kinds = [kind_of(column(cells)) for cells in (WORDS, TAGS, NUMBERS, CONSTANT, ["1", "0"] * 150)]
    assert kinds == ["open", "tags", "numbers", "constant", "tags"]


def test_templates_look_at_the_columns_that_tell_something():
    data = corpus(WORDS, CONSTANT, TAGS, NUMBERS, [w.upper() for w in WORDS], TAGS)
    for chunks in (True, False):
        found = automatic(data, "sequence", chunks=chunks)
        assert found.columns() == {0, 2, 3, 4, 5}
        assert found[-1].text == "B"
        assert "%value[0,3]" in found.text()
        texts = [template.text.partition(":")[2] for template in found if template.kind == "U"]
        assert len(texts) == len(set(texts))
        found.check_columns(6)
    assert automatic(corpus(WORDS), "sequence", chunks=True).columns() == {0}
    assert len(automatic(corpus(WORDS), "segmentation", chunks=False)) > 100
    items = automatic(data, "multiclass", chunks=False)
    assert {term.row for template in items for term in template.terms} == {0}
    assert all(template.kind == "U" for template in items)
