"""Wapiti's model: a hand-written one, Wapiti's own rules by enumeration, round trips, rejections."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support.naive import best_labels, corpus, random_corpus

from mtlstruct.errors import FormatError, IncompatibleError, TemplateError
from mtlstruct.interop import wapiti
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.functions import bound
from mtlstruct.training.train import Options, train

PATTERNS = """\
# words
u0:%x[ 0,0]   # the word
U1 prev=%x[-1,1]/%x[0,0]
*2:%x[+1,1]
b
"""
MODEL = """\
#mdl#2#9
#rdr#4/1/0
11:u0:%x[ 0,0],
24:u1 prev=%x[-1,1]/%x[0,0],
11:*2:%x[+1,1],
1:b,
#qrk#2
1:N,
3:Vé,
#qrk#6
7:u0:dogs,
6:u0:run,
16:u1 prev=_x-1/run,
4:*2:p,
1:b,
7:*2:_x+1,
0=0x1p+0
1=-0x1p-1
2=-0x1p-2
3=0x1p-2
5=0x1p+1
7=0x1.8p-2
9=0x1.8p-1
12=0x1p-1
15=-0x1p+0
"""
TEMPLATES = """U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]/%x[5,0]\nU3:%x[-5,1]
U4:%x[@2,0]\nU\nB\nB1:%x[0,1]
"""


def model_of(text, **options):
    data = random_corpus(np.random.default_rng(0), 40, 8, 12)
    return train(data, TemplateSet.parse(text), Options(**options)).model


@pytest.fixture(scope="module")
def model():
    return model_of(TEMPLATES)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "m.txt").write_text(MODEL)
    (tmp_path / "p.txt").write_text(PATTERNS)
    return tmp_path


def wapiti_best(found, data, patterns=None):
    """What Wapiti would predict, by its own rules: patterns put in, marks and all, and every labeling tried."""
    templates = TemplateSet.parse(patterns or "\n".join(found.patterns), dialect="wapiti")
    columns = [c.cells() for c in data.columns]

    def observation(template, at):
        letter, span = templates.lines[template.line - 1][0].lower(), spans[at]
        text, n, t = letter + template.pieces[0][1:], span.stop - span.start, at - span.start
        for term, piece in zip(template.terms, template.pieces[1:], strict=True):
            edge = term.row - 1 if term.row > 0 else n + term.row
            at = edge if term.absolute else t + term.row
            beyond = at if at < 0 else at - n + 1
            cell = f"_x{beyond:+d}" if abs(beyond) <= 4 else "_x-#" if at < 0 else "_x+#"
            if 0 <= at < n:
                cell = columns[term.column][span.start + at]
            text += bound(term.function, term.arguments, {})(cell) + piece
        return text

    spans = {t: span for span in data.sentences() for t in range(span.start, span.stop)}
    texts = [partial(observation, template) for template in templates]
    return best_labels(found, data, [(t.kind, text) for t, text in zip(templates, texts, strict=True)])


def imported(found, patterns=None):
    templates = TemplateSet.parse(patterns or "\n".join(found.patterns), dialect="wapiti")
    return wapiti.to_model(found, templates, "m.txt")


def test_a_model_file_has_its_labels_and_patterns(files):
    found = wapiti.read_model(files / "m.txt")
    assert found.labels == ("N", "Vé")
    assert found.patterns == ("u0:%x[ 0,0]", "u1 prev=%x[-1,1]/%x[0,0]", "*2:%x[+1,1]", "b")


def test_a_handmade_model_labels_as_worked_out_by_hand(files):
    model = imported(wapiti.read_model(files / "m.txt"))
    data = corpus([[("dogs", "x"), ("run", "p")], [("run", "x")], [("dogs", "x"), ("dogs", "x")]],
                  [["N", "Vé"], ["Vé"], ["N", "N"]])  # fmt: skip
    # dogs/N 1 + run/Vé .25 = 1.25, and N N: 1 − .25 + .5 = 1.25; *2:p speaks at the first token, for Vé alone:
    # Vé Vé: −.5 + .375 + .25 − 1. A tie goes to the first label. Alone, run is Vé: 2 + .25.
    assert [model.labels[y] for y in model.predict(data)] == ["N", "N", "Vé", "N", "N"]
    assert [t.text for t in model.templates] == [
        "U0:%x[0,0]", "U1 prev=%x[-1,1]/%x[0,0]", "U2:%x[1,1]", "B2:%x[1,1]", "B",
    ]  # fmt: skip
    assert model.features.tolist() == [4, 1, 1, 1, 2]


@pytest.mark.parametrize("patterns", [PATTERNS, PATTERNS + "u0:%x[-6,0]\nu0:%x[ 1,0]\n"])
def test_wapitis_rules_give_the_labels_of_the_import(files, patterns):
    """The second pattern file shares features between lines, and looks at where only one mark is left."""
    found = wapiti.read_model(files / "m.txt")
    rng = np.random.default_rng(3)
    marks = {"u0:_x-#": rng.normal(size=2), "u0:_x-4": rng.normal(size=2), "u0:_x+1": rng.normal(size=2)}
    if patterns != PATTERNS:
        found.weights.update({("U", text): weights for text, weights in marks.items()})
    for weights in found.weights.values():
        weights += rng.normal(size=len(weights))
    words = [("dogs", "p"), ("run", "x"), ("cats", "p")]
    sentences = [[words[k] for k in rng.integers(0, 3, n)] for n in (1, 2, 3, 4, 5, 6, 7, 7, 7)]
    data = corpus(sentences, [["N"] * len(s) for s in sentences])
    assert imported(found, patterns).predict(data).tolist() == wapiti_best(found, data, patterns)


def test_tests_and_matches_are_applied_to_marks_as_wapiti_does():
    patterns = 'u0:%t[-1,0,"\\d"]\nu1:%m[1,0,"^.?"]/%x[0,0]\nu2:%M[-1,0,"\\u"]\nb\n'
    rng = np.random.default_rng(1)
    texts = "u0:true u0:false u1:_/a u1:a/a u1:B/a u1:_/B1 u1:B/B1 u2: u2:b"
    weights = {("U", text): rng.normal(size=2) for text in texts.split()} | {("B", "b"): rng.normal(size=4)}
    found = wapiti.Observations(("N", "V"), 1, (), weights)
    words = ["a", "B1", "c7"]
    sentences = [[(words[k],) for k in rng.integers(0, 3, n)] for n in (1, 1, 2, 2, 3, 4, 5)]
    data = corpus(sentences, [["N"] * len(s) for s in sentences])
    assert imported(found, patterns).predict(data).tolist() == wapiti_best(found, data, patterns)
    told = wapiti.differences(TemplateSet.parse(patterns, dialect="wapiti"))
    assert len(told) == 3
    assert "%m" in told[1]
    assert "line 2" in told[1]


def test_a_round_trip_predicts_the_same_and_is_written_the_same(model, tmp_path):
    found = wapiti.observations(model)
    wapiti.write_model(found, tmp_path / "a.txt")
    back = imported(wapiti.read_model(tmp_path / "a.txt"))
    for seed in range(3):
        data = random_corpus(np.random.default_rng(seed + 50), 30, 9, 15)
        assert np.array_equal(back.predict(data), model.predict(data))
    wapiti.write_model(wapiti.observations(back), tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_bytes() == (tmp_path / "a.txt").read_bytes()


def test_wapitis_rules_give_the_labels_of_the_export(model):
    data = random_corpus(np.random.default_rng(77), 20, 7, 15)
    assert wapiti_best(wapiti.observations(model), data) == model.predict(data).tolist()


def test_templates_that_could_be_mistaken_are_rejected_or_renamed():
    model = model_of("U:%x[0,0]\nU:%x[-1,0]\nB\n", method="svm")
    with pytest.raises(IncompatibleError, match=r"Wapiti cannot tell .* from .*--rename"):
        wapiti.observations(model)
    found = wapiti.observations(model, rename=True)
    assert found.patterns == ("u0.:%x[0,0]", "u1.:%x[-1,0]", "b")
    data = random_corpus(np.random.default_rng(5), 20, 5)
    assert wapiti_best(found, data) == model.predict(data).tolist()
    model = model_of("U0:%x[0,0]\nU0:%x[0,0] \nB\nB\n", method="svm")  # equal lines: weights are added
    found = wapiti.observations(model)
    assert found.patterns == ("u0:%x[0,0]", "b")
    assert wapiti_best(found, data) == model.predict(data).tolist()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("U:%x[-6,0]", "rows reach too far"),
        ("U:%x[@7,0]", "rows reach too far"),
        ("U:%suffix[0,0,2]", "cannot express %suffix"),
        ('U:%t[1,0,"\\u"]', "outside the sentence"),
        ("U#:%x[0,0]", "'#' in a template"),
        ("U\t:%x[0,0]", "tabs"),
    ],
)
def test_templates_that_wapiti_lacks_are_rejected(line, problem):
    with pytest.raises(TemplateError, match=problem):
        wapiti.observations(model_of(line + "\nB\n", method="svm"))


def test_labels_and_cells_that_wapiti_would_mistake_are_rejected(model):
    data = corpus([[("_x-1",), ("b",)]], [["N", "V"]])
    odd = train(data, TemplateSet.parse("U:%x[0,0]"), Options()).model
    for found, problem in (
        (replace(model, labels=("#", "L1", "L2")), "label '#'"),
        (odd, "'_x-1'"),
        (model_of("U:%x[0,0]", normalize="nfkc"), "--normalize"),
    ):
        with pytest.raises(IncompatibleError, match=problem):
            wapiti.observations(found)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("#mdl#2#9", "#mdl#1#9", "Markov"),
        ("#mdl#2#9", "mdl", "line 1: expected a model of Wapiti"),
        ("#mdl#2#9", "#mdl#2#10", "expected a weight, got ''"),
        ("#rdr#4/1/0", "#rdr#0/0/0", "reads its features from the data"),
        ("11:u0:", "12:u0:", "line 3: expected a string"),
        ("7:u0:dogs", "x7:u0:dogs", "expected a string"),
        ("3:Vé", "2:Vé", "expected a string"),
        ("1:N", "3:Vé", "distinct labels"),
        ("6:u0:run", "6:x0:run", "begin with u, b or"),
        ("15=-0x1p+0", "99=-0x1p+0", "below 22, got 99"),
        ("15=-0x1p+0", "15=inf", "finite"),
        ("15=-0x1p+0", "15=0x", "finite"),
    ],
)
def test_a_damaged_file_is_rejected_in_a_sentence(tmp_path, old, new, problem):
    assert old in MODEL
    (tmp_path / "m.txt").write_text(MODEL.replace(old, new))
    with pytest.raises(FormatError, match=problem):
        wapiti.read_model(tmp_path / "m.txt")


def test_bytes_that_are_no_text_are_left_out_and_counted(tmp_path):
    (tmp_path / "m.txt").write_bytes(MODEL.encode().replace(b"6:u0:run", b"6:u0:r\xc3n"))
    found = wapiti.read_model(tmp_path / "m.txt")
    assert (sum(kind == "U" for kind, _ in found.weights), found.skipped) == (3, 1)
    (tmp_path / "m.txt").write_bytes(MODEL.encode().replace(b"1:N", b"1:\xc3"))
    with pytest.raises(FormatError, match="expected utf-8"):
        wapiti.read_model(tmp_path / "m.txt")


def test_patterns_of_another_model_are_rejected(files):
    with pytest.raises(FormatError, match="no pattern makes the observation 'u1 prev=_x-1/run'"):
        imported(wapiti.read_model(files / "m.txt"), "u0:%x[0,0]\n*2:%x[1,1]\nb\n")
