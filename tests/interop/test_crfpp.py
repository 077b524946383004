"""CRF++'s text model: a hand-written one with a known best path, round trips, and what is rejected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.naive import best_labels, corpus, expansions, random_corpus

from mtlstruct._system import memory
from mtlstruct.errors import FormatError, IncompatibleError, ResourceError, TemplateError
from mtlstruct.interop import crfpp, feature_text
from mtlstruct.interop.feature_text import divisions
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

TEXT = """\
version: 100
cost-factor: 1
maxid: 14
xsize: 2

N
V

U0:%x[0,0]
U1:%x[-1,1]/%x[0,0]
B
B1:%x[0,1]

0 B
4 B1:p
8 U0:dogs
10 U0:run
12 U1:_B-1/run

0.5000000000000000 0.0000000000000000 0.2500000000000000 -1.0000000000000000
0.0000000000000000 0.7500000000000000 0.0000000000000000 0.0000000000000000
1.0000000000000000 -0.5000000000000000 -0.2500000000000000 0.2500000000000000
0.0000000000000000 2.0000000000000000
""".replace("000 ", "000\n")
NAMED = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]/%x[2,0]\nU3:%x[2,1]\nU\nB\nB1:%x[0,1]\n"


def model_of(text, **options):
    data = random_corpus(np.random.default_rng(0), 40, 8, 12)
    return train(data, TemplateSet.parse(text), Options(**options)).model


@pytest.fixture(scope="module")
def model():
    return model_of(NAMED)


@pytest.fixture
def handmade(tmp_path):
    path = tmp_path / "m.txt"
    path.write_text(TEXT)
    return path


def crfpp_best(text, data):
    """What CRF++ would predict, by its own rules: a feature is its text, and every labeling is tried."""
    templates = TemplateSet.parse("".join(line + "\n" for line in text.patterns))
    lines = expansions(data, templates)
    return best_labels(text, data, [(t.kind, lines[j].__getitem__) for j, t in enumerate(templates)])


def test_a_handmade_model_labels_as_worked_out_by_hand_and_is_written_back(handmade, tmp_path):
    text = crfpp.read(handmade)
    model = crfpp.to_model(text, handmade)
    data = corpus([[("dogs", "x"), ("run", "p")], [("run", "x")], [("dogs", "x"), ("dogs", "x")]],
                  [["N", "V"], ["V"], ["N", "N"]])  # fmt: skip
    # dogs/N 1 + run/V .25 + B1:p (N,V) .75 + B (N,V) 0 = 2, the next best is N N: 1 − .25 + .5 = 1.25
    assert [model.labels[y] for y in model.predict(data)] == ["N", "V", "V", "N", "N"]
    assert model.features.tolist() == [4, 1, 3, 1]
    assert [w.name for w in model.template_weights()] == ["U1", "U0", "B", "B1"]
    crfpp.write(model, tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text() == TEXT


def test_a_round_trip_predicts_the_same(model, tmp_path):
    written = crfpp.write(model, tmp_path / "a.txt")
    text = crfpp.read(tmp_path / "a.txt")
    assert (text.labels, text.patterns) == (model.labels, written.patterns)
    back = crfpp.to_model(text, tmp_path / "a.txt")
    back.save(tmp_path / "b.mtl")
    back = Model.load(tmp_path / "b.mtl")
    for seed in range(5):
        data = random_corpus(np.random.default_rng(seed + 50), 30, 9, 15)
        assert np.array_equal(back.predict(data), model.predict(data))
    crfpp.write(back, tmp_path / "c.txt")
    assert (tmp_path / "c.txt").read_bytes() == (tmp_path / "a.txt").read_bytes()


def test_crfpps_own_rules_give_the_same_labels(model):
    data = random_corpus(np.random.default_rng(77), 20, 5, 15)
    assert crfpp_best(crfpp.observations(model), data) == model.predict(data).tolist()


def test_features_are_sorted_and_bare_b_is_first(tmp_path):
    text = crfpp.write(model_of(NAMED, method="svm"), tmp_path / "m.txt")
    block = (tmp_path / "m.txt").read_text().split("\n\n")[3].split("\n")
    ids, names = zip(*(line.split(" ") for line in block), strict=True)
    assert list(names) == sorted((name for _, name in text.weights), key=str.encode)
    assert names[0] == "B"
    widths = [3 if name[0] == "U" else 9 for name in names]
    assert list(map(int, ids)) == np.cumsum([0, *widths[:-1]]).tolist()
    kinds = [line[0] for line in text.patterns]
    assert kinds == sorted(kinds, reverse=True)


BAGS = ["U:%x[0,0]\nU:%x[-1,0]\nB\n", "U1:%x[0,0]/%x[1,0]\nU1:%x[0,0]\nB\n"]


@pytest.mark.parametrize("lines", BAGS)
def test_templates_that_could_be_mistaken_are_rejected_or_renamed(lines, tmp_path):
    model = model_of(lines, method="svm")
    with pytest.raises(IncompatibleError, match=r"cannot tell .* from .*--rename"):
        crfpp.observations(model)
    text = crfpp.write(model, tmp_path / "r.txt", rename=True)
    assert text.patterns[0].startswith("U0.")
    data = random_corpus(np.random.default_rng(5), 20, 5)
    assert crfpp_best(text, data) == model.predict(data).tolist()
    back = crfpp.to_model(crfpp.read(tmp_path / "r.txt"), "r.txt")
    assert np.array_equal(back.predict(data), model.predict(data))


def test_a_feature_of_several_templates_goes_to_all_of_them(tmp_path):
    """CRF++'s bag of words: one feature, found by two templates; and one cut into cells in two ways."""
    templates = "U0:%x[-1,0]\nU1:%x[0,0]/%x[1,0]"
    text = TEXT.replace("U1:%x[-1,1]/%x[0,0]", templates).replace("U1:_B-1/run", "U1:a/b/c")
    (tmp_path / "m.txt").write_text(text)
    rng = np.random.default_rng(0)
    read = crfpp.read(tmp_path / "m.txt")
    for row in read.weights.values():
        row[:] = rng.normal(size=len(row))  # without ties
    model = crfpp.to_model(read, "m.txt")
    words = ["dogs", "run", "a", "a/b", "b/c", "c"]
    sentences = [[(words[k], "p") for k in rng.integers(0, 6, 4)] for _ in range(30)]
    data = corpus(sentences, [["N", "V", "N", "V"]] * 30)
    assert model.predict(data).tolist() == crfpp_best(read, data)


@pytest.mark.parametrize(
    ("line", "problem"),
    [("U:%x[-9,0]", "within ±8"), ("U:%x[0,0] %x[1,0]", "blank"), ("U\t:%x[0,0]", "blank")],
)
def test_templates_that_crfpp_lacks_are_rejected(line, problem):
    with pytest.raises(TemplateError, match=problem):
        crfpp.observations(model_of(line + "\nB\n", method="svm"))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("maxid: 14", "maxid: 15", "expected 15 weights as maxid says, got 14"),
        ("maxid: 14", "maxid: many", "line 3: expected a header line"),
        ("xsize: 2\n", "", "no xsize"),
        ("xsize: 2", "xsize 2", "line 4: expected a header line"),
        ("\nN\nV\n", "\nN\nN\n", "distinct labels"),
        ("8 U0:dogs", "13 U0:dogs", "beyond maxid"),
        ("8 U0:dogs", "8 X0:dogs", "line 16: .*begins with U or B"),
        ("8 U0:dogs", "x U0:dogs", "line 16: expected an id and a feature"),
        ("0.7500000000000000", "three", "a number on each line"),
        ("0.7500000000000000", "1e60", "finite"),
        (TEXT[100:], "", "line 14: expected an id and a feature"),
        (TEXT, "\n", "expected a header"),
    ],
)
def test_a_damaged_file_is_rejected_in_a_sentence(handmade, old, new, problem):
    assert old in TEXT
    handmade.write_text(TEXT.replace(old, new))
    with pytest.raises(FormatError, match=problem):
        crfpp.read(handmade)


def naive_divisions(template, feature):
    """All ways, by trying every place for every end of a cell."""

    def cut(text, pieces):
        if not pieces:
            return [()] if not text else []
        out = []
        for end in range(1, len(text) + 1):
            if text.startswith(pieces[0], end):
                out += [(text[:end], *more) for more in cut(text[end + len(pieces[0]) :], pieces[1:])]
        return out

    first, *rest = template.pieces
    return cut(feature[len(first) :], rest) if feature.startswith(first) else []


@given(st.lists(st.text("ab", max_size=2), min_size=1, max_size=4), st.text("ab", max_size=9))
def test_divisions_are_those_that_enumeration_finds(pieces, text):
    line = "U:" + "".join(f"%x[{k},0]{piece}" for k, piece in enumerate(pieces))
    template = TemplateSet.parse(line)[0]
    feature = f"U:{text}"
    found = naive_divisions(template, feature)
    assert divisions(template, feature) == found
    assert feature_text.can_give(template, feature) == bool(found)


def test_cells_have_no_blanks():
    template = TemplateSet.parse("U x:%x[0,0]/%x[1,0]")[0]
    assert feature_text.can_give(template, "U x:a/b")
    assert not feature_text.can_give(template, "U x:a b/c")
    assert not feature_text.can_give(template, "U x:a/b c")


HEAD = "version: 100\nmaxid: {maxid}\nxsize: 1\n\n{labels}\n\n{line}\n\n0 {feature}\n\n"


def test_a_feature_that_reads_in_too_many_ways_is_rejected(handmade):
    line = "U:" + "".join(f"%x[{k},0]" for k in range(-8, 9))
    handmade.write_text(HEAD.format(maxid=2, labels="N\nV", line=line, feature=f"U:{'a' * 400}") + "1\n2\n")
    with pytest.raises(FormatError, match="in too many ways"):
        crfpp.to_model(crfpp.read(handmade), handmade)


def test_weights_that_do_not_fit_are_rejected(handmade):
    labels = "\n".join(f"L{k}" for k in range(20_000))
    head = HEAD.format(maxid=20_000, labels=labels, line="U:%x[0,0]", feature="U:a")
    handmade.write_text(head + "1\n" * 20_000)
    memory.set_limit(memory.resident() + 10**9)
    try:
        with pytest.raises(ResourceError, match=r"every pair of labels needs about 6\.40 GB"):
            crfpp.to_model(crfpp.read(handmade), handmade)
    finally:
        memory.set_limit(None)
