"""Every place that shows probabilities says so where the model is an uncalibrated margin model."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.trees import SENTENCES, conll

from mtlstruct import SequenceLabeler, StructuredClassifier, UncalibratedWarning, cli, load
from mtlstruct.samples.recipes import bundled, column_file
from mtlstruct.serve.app import respond
from mtlstruct.serve.requests import Limits, RequestReader

X = [[("Ann", "n"), ("sleeps", "s")], [("Bo", "o"), ("sees", "s"), ("Ann", "n")], [("dogs", "s")]]
Y = [["N", "O"], ["N", "O", "N"], ["O"]]
LINES = ["U0:%x[0,0]", "U1:%x[0,1]", "B"]
ITEMS, CLASSES = [row for x in X for row in x], [label for y in Y for label in y]
TASKS = {
    "sequence": ("U0:%x[0,0]\nB\n", column_file(bundled()[:12], seed=1)),
    "segmentation": ("U0:%x[0,0]\nB\n", "ab c def\nab c\nc c ab\nabdef c\n"),
    "multiclass": ("U0:%x[0,0]\n", "a x\nb y\nc x\nd y\n"),
    "dependency": ("A0:%x[h,form]/%x[m,form]\nA1:%x[h,pos]/%x[m,pos]\n", conll(SENTENCES)),
}
SAID = re.compile(
    r"mtlstruct: warning: \S*m\.mtl is not calibrated[,:] [^\n]*mtlstruct calibrate \S*m\.mtl HELDOUT"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("uncalibrated")


@pytest.fixture(scope="module")
def estimators(folder):
    """A tagger and a classifier, and both as they are loaded from files."""
    tagger = SequenceLabeler(templates=LINES, loss="hinge").fit(X, Y)
    classifier = StructuredClassifier(templates=LINES[:2], loss="hinge").fit(ITEMS, CLASSES)
    tagger.save(folder / "t.mtl")
    classifier.save(folder / "c.mtl")
    return tagger, classifier, load(folder / "t.mtl"), load(folder / "c.mtl")


def test_python_warns_and_names_the_line_of_the_caller(estimators):
    tagger, classifier, model, classes = estimators
    corpus = model._data(X).corpus
    for show in (
        lambda: tagger.predict_marginals(X),
        lambda: classifier.predict_proba(ITEMS),
        lambda: model.predict_marginals(X),
        lambda: classes.predict_marginals(ITEMS),
        lambda: classes.predict_proba(ITEMS),
        lambda: model.marginals(corpus),
    ):
        with pytest.warns(UncalibratedWarning, match="not calibrated") as said:
            show()
        assert [warning.filename for warning in said] == [__file__]


@pytest.mark.parametrize(
    ("options", "validation"),
    [({}, {}), ({"method": "crf-l2"}, {}), ({"loss": "hinge"}, {"X_val": X, "y_val": Y})],
    ids=["log loss", "crf-l2", "held-out data"],
)
def test_no_warning_where_probabilities_are_right(options, validation):
    tagger = SequenceLabeler(templates=LINES, **options).fit(X, Y, **validation)
    assert tagger.model_.calibrated
    tagger.predict_marginals(X)


@pytest.mark.filterwarnings("ignore::mtlstruct.UncalibratedWarning")
def test_a_loaded_model_gives_the_probabilities_of_the_estimator(estimators):
    tagger, classifier, model, classes = estimators
    assert model.predict_marginals(iter(X)) == tagger.predict_marginals(X)
    assert (classes.predict_proba(ITEMS) == classifier.predict_proba(ITEMS)).all()
    assert model.predict_marginals([[], []]) == [[], []]


@pytest.fixture(params=list(TASKS))
def place(request, tmp_path, monkeypatch, folder):
    """A folder with an uncalibrated model, a calibrated one, and data, which is the current one."""
    templates, data = TASKS[request.param]
    made = folder / f"{request.param}.mtl"
    (tmp_path / "t.tpl").write_text(templates)
    (tmp_path / "data").write_text(data)
    if not made.exists():
        files = [str(path) for path in (tmp_path / "t.tpl", tmp_path / "data", made)]
        assert cli.run(["train", *files, "--task", request.param, "--loss", "hinge", "-q", "--no-log"]) == 0
    model = load(made)
    model.save(tmp_path / "m.mtl")
    replace(model, facts=model.facts | {"temperature": 0.5}).save(tmp_path / "calibrated.mtl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_predict_warns_once_of_uncalibrated_probabilities(place, run):
    options = [["--scores"]]
    if load("m.mtl").task != "dependency":
        options += [["--nbest", 2], ["--nbest", 2, "--scores"]]
        options += [["--scores", "all"]] if load("m.mtl").task != "segmentation" else []
    for wanted in options:
        assert len(SAID.findall(run("predict m.mtl data", *wanted).ok().err)) == 1
        assert not SAID.search(run("predict calibrated.mtl data", *wanted).ok().err)
    assert not SAID.search(run("predict m.mtl data").ok().err)


def test_evaluate_warns_of_uncalibrated_probabilities(place, run):
    for name, state in (("m.mtl", False), ("calibrated.mtl", True)):
        text, as_json = run("evaluate", name, "data").ok(), run("evaluate", name, "data", "--json").ok()
        said = "" if state else "not calibrated, "
        assert f"probabilities: {said}calibration error " in text.out
        assert as_json.json["calibrated"] is state
        for got in (text, as_json):
            assert got.err == "" if state else len(SAID.findall(got.err)) == 1


def test_report_warns_of_uncalibrated_probabilities(place, run):
    for name, state in (("m.mtl", "false"), ("calibrated.mtl", "true")):
        err = run("report", name, f"{name}.html", "--data", "data").ok().err
        assert len(SAID.findall(err)) == (state == "false")
        assert f'"calibrated":{state}' in (place / f"{name}.html").read_text().replace(": ", ":")
    assert not SAID.search(run("report m.mtl n.html").ok().err)  # no data, no probabilities


def test_serve_warns_of_uncalibrated_probabilities(place, capsys, monkeypatch):
    pytest.importorskip("starlette")
    server = SimpleNamespace(run=lambda sockets: None)
    monkeypatch.setattr("mtlstruct.serve.server.make_server", lambda app: server)
    for name, state in (("m.mtl", False), ("calibrated.mtl", True)):
        capsys.readouterr()
        assert cli.run(["serve", name, "--port", "0"]) == 0
        assert len(SAID.findall(capsys.readouterr().err)) == 1 - state
        model = load(name)
        words = {"text": "a"} if model.characters else {"rows": [[["a"] * model.columns]]}
        reader = RequestReader(model, Limits())
        asked, plain = (respond(model, reader.read(words | {"probabilities": p})) for p in (True, False))
        assert asked["calibrated"] is state
        assert "probability" in asked["sentences"][0]["tokens"][0]
        assert "calibrated" not in plain
