"""Lines that expand alike share parameters, as in CRF++, which identifies a feature by its text."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.duals import check_certificate
from support.naive import expansions, random_corpus
from support.oracles import make_oracle
from test_crfpp import crfpp_best
from test_solvers import NORMS, SOLVERS

from mtlstruct.features.index import encode_training
from mtlstruct.interop import crfpp, wapiti
from mtlstruct.model.model import Model
from mtlstruct.structures import SequenceStructure
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

BAGS = """\
U0:%x[0,0]
U:%x[-1,0]
U:%x[1,0]
U1:%x[-1,0]/%x[0,0]
U1:%x[0,0]/%x[1,0]
U1:%x[1,0]/%x[-1,0]
U:%x[0,1]
U:%prefix[0,1,1]
U2
U2
B
B1:%x[0,1]
B1:%x[-1,0]
"""
"""A window of words, pairs near and far and in either order, two columns, a function, nothing, edges."""


def shared(text=BAGS):
    return TemplateSet.parse(text).shared()


def encode(data, templates, **options):
    structure = SequenceStructure(max(2, len(data.labels)))
    encoded, index = encode_training(data, templates, structure.sites(data.ptr), **options)
    return encoded, index, structure


def rows(encoded, kind):
    """The attributes of each site of a kind, sorted, null ones left out."""
    design, row = encoded.designs[kind], encoded.rows[kind]
    table = design.ids[: design.ptr[-1]].reshape(design.rows, -1)
    table = table if row is None else table[row]
    return [sorted(a for a in ids if a != design.layout.attributes) for ids in table.tolist()]


def texts(data, templates, kind):
    """The expanded lines of each token (or of those that end an edge): what CRF++ looks up."""
    lines = tuple(line for template in templates for line in template.members if line.kind == kind)
    expanded = list(zip(*expansions(data, replace(templates, templates=lines)), strict=True))
    first = set(data.ptr.tolist())
    return [expanded[t] for t in range(data.tokens) if kind == "U" or t not in first]


def test_lines_with_equal_text_around_their_cells_are_one_template():
    templates = shared()
    assert [t.title for t in templates] == [
        "U0:%x[0,0]",
        "U:%x[-1,0] + U:%x[1,0] + U:%x[0,1] + U:%prefix[0,1,1]",
        "U1:%x[-1,0]/%x[0,0] + U1:%x[0,0]/%x[1,0] + U1:%x[1,0]/%x[-1,0]",
        "U2 + U2",
        "B",
        "B1:%x[0,1] + B1:%x[-1,0]",
    ]
    assert templates.shared() == templates == TemplateSet.parse(templates.text()).shared()
    assert templates.columns() == {0, 1}
    assert templates.reach() == (1, 1)
    assert shared("U0:%x[0,0]\nU1:%x[0,0]") == TemplateSet.parse("U0:%x[0,0]\nU1:%x[0,0]")


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 5), st.integers(2, 4))
def test_an_attribute_is_an_expanded_line(seed, sentences, words, min_count):
    data = random_corpus(np.random.default_rng(seed), sentences, 6, words)
    counts = Counter(line for lines in texts(data, shared(), "U") for line in lines)
    often = Counter(text.partition(":")[0] for text, n in counts.items() if n >= min_count)
    sizes = encode(data, shared(), min_count=min_count)[1].sizes[:4].tolist()
    assert sizes == [often[name] for name in ("U0", "U", "U1", "U2")]
    encoded, index, structure = encode(data, shared())
    again = index.encode(data, structure.sites(data.ptr))
    for kind, letter in enumerate("UB"):
        number = {}
        for ids, lines in zip(rows(encoded, kind), texts(data, shared(), letter), strict=True):
            # Lines of a template are not in order in a row, so only counts can be compared at once.
            assert Counter(Counter(lines).values()) == Counter(Counter(ids).values())
            for line in lines:
                number.setdefault(line, set(ids)).intersection_update(ids)
        assert all(number.values())
        assert encoded.designs[kind].layout.attributes == len(number)
        assert rows(again, kind) == rows(encoded, kind)


@pytest.mark.parametrize("regularizer", NORMS, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("name", SOLVERS)
def test_the_certificate_holds(name, regularizer):
    oracle = make_oracle(random_corpus(np.random.default_rng(0), 10, 4, 5), BAGS, shared=True)
    assert not any(design.slots_aligned for design in oracle.encoded.designs)
    fit = SOLVERS[name].fit(oracle, regularizer, 1.0)
    check_certificate(fit, oracle, regularizer, 1.0)


@pytest.fixture(scope="module")
def model():
    data = random_corpus(np.random.default_rng(2), 40, 8, 12)
    options = Options(method="svm", share_identical=True)
    return train(data, TemplateSet.parse(BAGS.replace("U:%prefix[0,1,1]\n", "")), options).model


def test_a_model_predicts_as_crfpp_would_with_its_weights(model):
    """The twin keeps one set of parameters for each text, whichever line gave it."""
    text = crfpp.observations(model)
    assert text.patterns == tuple(model.templates.text().splitlines())
    data = random_corpus(np.random.default_rng(77), 40, 5, 15)
    assert crfpp_best(text, data) == model.predict(data).tolist()


def test_saved_and_loaded_models_predict_the_same(model, tmp_path):
    model.save(tmp_path / "m.mtl")
    loaded = Model.load(tmp_path / "m.mtl")
    assert loaded.templates == model.templates
    data = random_corpus(np.random.default_rng(5), 30, 9, 15)
    assert np.array_equal(loaded.predict(data), model.predict(data))
    loaded.save(tmp_path / "n.mtl")
    assert (tmp_path / "n.mtl").read_bytes() == (tmp_path / "m.mtl").read_bytes()


def test_other_programs_get_all_lines_and_give_the_labels_back(model, tmp_path):
    data = random_corpus(np.random.default_rng(6), 30, 9, 15)
    crfpp.write(model, tmp_path / "m.txt")
    back = crfpp.to_model(crfpp.read(tmp_path / "m.txt"), "m.txt")
    assert len(back.templates) > len(model.templates)
    assert np.array_equal(back.predict(data), model.predict(data))
    bare = TemplateSet.parse("U:%x[-1,0]\nU:%x[1,0]\nB")
    own = train(data, bare, Options(share_identical=True)).model
    crfpp.write(own, tmp_path / "own.txt", rename=True)
    back = crfpp.to_model(crfpp.read(tmp_path / "own.txt"), "own.txt")
    assert [t.text for t in back.templates] == ["U0.:%x[-1,0]", "U0.:%x[1,0]", "B"]
    assert np.array_equal(back.predict(data), own.predict(data))
    assert wapiti.observations(own).patterns == ("u:%x[-1,0]", "u:%x[1,0]", "b")
