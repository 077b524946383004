"""`load(path).predict(X)` takes every X that the estimator takes, and gives the same predictions."""

import json
import subprocess
import sys
from itertools import chain

import numpy as np
import pytest

from mtlstruct import DependencyParser, Sentences, SequenceLabeler, StructuredClassifier, TemplateSet, load
from mtlstruct.errors import IncompatibleError
from mtlstruct.formats import columns, segmented
from mtlstruct.structures.constraints import Constraints
from mtlstruct.training.train import Options, train

WORDS = [["Ann", "Lee", "sleeps"], ["dogs", "bark"], ["Bo", "sees", "Ann"], ["Lee", "barks"]]
Y = [["B", "I", "O"], ["O", "O"], ["B", "O", "B"], ["B", "O"]]
DICTS = [[{"word": w, "title": w.istitle(), "length": len(w)} for w in words] for words in WORDS]
ROWS = [[(w, w[-1]) for w in words] for words in WORDS]
NAMED = [[{"word": w, "end": w[-1]} for w in words] for words in WORDS]
LINES = ["U0:%x[0,0]", "U1:%x[0,1]", "B"]
BY_NAME = ["U0:%x[0,word]", "U1:%x[0,end]", "B"]
ITEMS = [token for sentence in DICTS for token in sentence]
CELLS = [row for sentence in ROWS for row in sentence]
CLASSES = [label for labels in Y for label in labels]
NUMBERS = np.random.default_rng(0).normal(size=(len(CLASSES), 3))
HEADS = [[3, 1, 0], [2, 0], [2, 0, 2], [2, 0]]
TREES = [[(w, "_", w[0], w[0], "_") for w in words] for words in WORDS]
TREES_BY_NAME = [[{"form": w, "pos": w[0]} for w in words] for words in WORDS]
ARCS = ["A0:%x[h,form]/%x[m,form]", "A1:%x[h,pos]/%x[m,pos]"]
SEGMENTED = "今天  天气  好\n我们  今天  去  北京\n天  好\n"


def json_lines(path):
    path.write_text("".join(json.dumps(sentence) + "\n" for sentence in DICTS))
    return path


def json_items(path):
    path.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    return path


def column_file(path, labels=Y):
    sentences = zip(ROWS, labels, strict=True)
    rows = [["\t".join((*row, y)) for row, y in zip(x, y, strict=True)] for x, y in sentences]
    path.write_text("\n\n".join("\n".join(sentence) for sentence in rows) + "\n")
    return path


def unlabelled_file(path):
    return column_file(path, [[""] * len(labels) for labels in Y])


def conll_file(path):
    lines = []
    for words, heads in zip(WORDS, HEADS, strict=True):
        tokens = enumerate(zip(words, heads, strict=True), 1)
        lines += [f"{n}\t{w}\t_\t{w[0]}\t{w[0]}\t_\t{head}\tdep\t_\t_" for n, (w, head) in tokens] + [""]
    path.write_text("\n".join(lines) + "\n")
    return path


CASES = {
    "feature dicts": (SequenceLabeler(), DICTS, Y, [json_lines]),
    "groups of keys": (SequenceLabeler(group_by=r"^[wt]"), DICTS, Y, [json_lines]),
    "rows": (SequenceLabeler(templates=LINES), ROWS, Y, [column_file, unlabelled_file]),
    "named columns": (SequenceLabeler(templates=BY_NAME), NAMED, Y, []),
    "rows of named columns": (SequenceLabeler(templates=BY_NAME, columns=("word", "end")), ROWS, Y, []),
    "items": (StructuredClassifier(), ITEMS, CLASSES, [json_items]),
    "rows of items": (StructuredClassifier(templates=LINES[:2]), CELLS, CLASSES, [column_file]),
    "a matrix": (StructuredClassifier(), NUMBERS, CLASSES, []),
    "trees": (DependencyParser(), TREES, HEADS, [conll_file]),
    "projective trees": (DependencyParser(projective=True), TREES, HEADS, [conll_file]),
    "trees of named columns": (DependencyParser(templates=ARCS), TREES_BY_NAME, HEADS, []),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request, tmp_path_factory):
    """An estimator, its model as loaded from a file, and every kind of X."""
    estimator, X, y, files = CASES[request.param]
    folder = tmp_path_factory.mktemp("load")
    estimator.fit(X, y)
    estimator.save(folder / "m.mtl")
    kinds = {"whole": X, "nothing": X[:0]}
    if isinstance(X, list):
        kinds["generator"] = X
    if not estimator._alone:
        kinds["empty sentences"] = [[], X[0], []]
    if not isinstance(estimator, DependencyParser):
        named = getattr(estimator, "columns", None)
        options = {"columns": named or (None if estimator.templates is None else True)}
        whole = Sentences(X, group_by=estimator.group_by, alone=estimator._alone, **options)
        kinds |= {"Sentences": whole, "parts": [whole[2], whole[0]], "Corpus": whole.corpus}
    for write in files:
        path = write(folder / write.__name__)
        kinds |= {f"{write.__name__} as Path": path, f"{write.__name__} as str": str(path)}
    return estimator, load(folder / "m.mtl"), kinds, folder / "m.mtl"


def fresh(kind, X):
    """A generator is consumed by the first who reads it."""
    return (entry for entry in X) if kind == "generator" else X


def test_a_loaded_model_predicts_what_the_estimator_predicts(case):
    estimator, model, kinds, path = case
    again = type(estimator).load(path)
    assert (again.gap_, again.n_iter_) == (estimator.gap_, estimator.n_iter_)
    for kind, X in kinds.items():
        expected = estimator.predict(fresh(kind, X))
        found = model.predict(fresh(kind, X))
        if kind == "Corpus":  # numbers for numbers
            flat = expected if estimator._alone else [label for labels in expected for label in labels]
            assert found.dtype == np.int32
            assert [model.labels[i] for i in found] == list(flat)
            continue
        assert type(found) is type(expected), kind
        assert np.array_equal(found, expected) if estimator._alone else found == expected, kind
        assert len(again.predict(fresh(kind, X))) == len(found), kind


@pytest.fixture
def stored(tmp_path):
    """Save an estimator, or a model, and load it as a model."""

    def load_again(estimator):
        estimator.save(tmp_path / "m.mtl")
        return load(tmp_path / "m.mtl")

    return load_again


def test_labels_of_a_loaded_model_are_strings(stored):
    estimator = StructuredClassifier().fit(ITEMS, [int(label == "O") for label in CLASSES])
    assert stored(estimator).predict(ITEMS).tolist() == [str(label) for label in estimator.predict(ITEMS)]


def test_segmentation_takes_strings_rows_and_files(stored, tmp_path):
    text = tmp_path / "words.txt"
    text.write_text(SEGMENTED, encoding="utf-8")
    data = segmented.read(text)
    templates = TemplateSet.parse("U0:%x[0,0]\nU1:%x[0,0]/%x[1,0]\nB\n")
    model = stored(train(data, templates, Options(task="segmentation")).model)
    estimator = SequenceLabeler.load(tmp_path / "m.mtl")
    lines = SEGMENTED.splitlines()
    rows = [[(c,) for c in line if c != " "] for line in lines]
    expected = model.predict(rows)
    for X in (lines, [line.replace(" ", "\u3000") for line in lines], text, str(text)):
        assert model.predict(X) == estimator.predict(X) == expected
    assert model.predict([lines[0], "", lines[1]]) == [expected[0], [], expected[1]]
    assert [*chain(*expected)] == [model.labels[i] for i in model.predict(data).tolist()]
    assert segmented.cut("今天天气好", expected[0]) == ["今天", "天气", "好"]
    assert estimator.score(text) == 1.0


def test_constraints_hold_for_any_input(stored):
    y = [[{"B": "B-X", "I": "I-X"}.get(label, "O") for label in labels] for labels in Y]
    model = stored(SequenceLabeler(templates=LINES[:2]).fit(ROWS, y))
    lonely = [[("Lee", "e"), ("Lee", "e")]]
    limits = Constraints.valid_chunks(model.labels)
    found = model.predict(lonely, limits)
    corpus = Sentences(lonely, columns=True).corpus
    assert found == [[model.labels[i] for i in model.predict(corpus, limits)]]
    assert found[0][0] != "I-X"


def test_columns_that_are_missing_are_an_error(stored, tmp_path):
    model = stored(SequenceLabeler(templates=LINES).fit(ROWS, Y))
    (tmp_path / "one.txt").write_text("Ann\n")
    for X in ([[("Ann",)]], tmp_path / "one.txt", columns.read(tmp_path / "one.txt", labelled=False)):
        with pytest.raises(IncompatibleError, match="trained on 2 observation columns, the input has 1"):
            model.predict(X)


def test_predicting_after_load_needs_numpy_and_numba_only(tmp_path):
    SequenceLabeler().fit(DICTS, Y).save(tmp_path / "m.mtl")
    code = (
        "import sys; "
        "sys.modules.update(dict.fromkeys(['scipy', 'sklearn', 'typer', 'click', 'rich'])); "  # cannot be imported
        f"import mtlstruct; mtlstruct.load({str(tmp_path / 'm.mtl')!r}).predict([[{{'word': 'Ann'}}]]); "
        "bad = [m for m in sys.modules if m.startswith(('mtlstruct.solvers', 'mtlstruct.training'))]; "
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
