"""Estimators: conventions of scikit-learn, forms of X and y, the model, early stopping."""

import doctest
import inspect
import io
import json
import pickle
from dataclasses import fields

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split

import mtlstruct
from mtlstruct import DependencyParser, Sentences, SequenceLabeler, StructuredClassifier, TemplateSet
from mtlstruct.errors import FormatError, IncompatibleError, ModelFileError, MtlError
from mtlstruct.estimators import base, sequence_labeler
from mtlstruct.evaluation.chunks import chunk_scores
from mtlstruct.formats import columns
from mtlstruct.samples import recipes as demo
from mtlstruct.structures.constraints import Constraints
from mtlstruct.training.train import Options, train

LINES = demo.split(demo.bundled())[0][:120]
WORDS = [list(line.tokens) for line in LINES]
Y = [list(line.labels) for line in LINES]


def features(words, t):
    word = words[t]
    found = {
        "bias": 1.0,
        "word": word.lower(),
        "suffix": word[-2:],
        "digit": word.isdigit(),
        "length": len(word),
    }
    found["is"] = [name for name, test in (("title", word.istitle()), ("alpha", word.isalpha())) if test]
    found["before"] = {"word": words[t - 1].lower()} if t else {"start": True}
    return found


X = [[features(words, t) for t in range(len(words))] for words in WORDS]
ROWS = [[(word, word[-2:]) for word in words] for words in WORDS]
TEMPLATES = ["U0:%x[0,0]", "U1:%x[-1,0]/%x[0,0]", "U2:%x[0,1]", "B"]
PARSED = [[("a", "a", "N", "N", "_"), ("b", "b", "V", "V", "_")]]
OTHER_ONE = type("One", (), {"__str__": lambda self: "1"})()
ESTIMATORS = [SequenceLabeler, StructuredClassifier, DependencyParser]


@pytest.fixture(scope="module")
def tagger():
    return SequenceLabeler(c=5.0).fit(X, Y)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_constructors_store_parameters_and_nothing_else(make):
    odd = object()
    estimator = make(c=odd, templates=odd)
    assert estimator.get_params()["c"] is odd
    assert set(vars(estimator)) == set(estimator.get_params())
    assert estimator.set_params(c=2.0) is estimator
    assert clone(estimator.set_params(templates=None)).get_params() == estimator.get_params()
    assert repr(make(c=3)) == f"{make.__name__}(c=3)"
    assert "<div" in make()._repr_html_()
    if hasattr(BaseEstimator, "__sklearn_tags__"):  # since scikit-learn 1.6
        assert make().__sklearn_tags__().target_tags.required
    assert is_classifier(make()) == (make is StructuredClassifier)
    with pytest.raises(NotFittedError):
        make().predict(X)
    known = {row.name: row.default for row in fields(Options) if row.name != "loss_weights"}
    assert {
        name: value for name, value in make().get_params().items() if name in known
    }.items() <= known.items()


def test_fit_sets_attributes_and_predictions_are_lists(tagger):
    assert tagger.fit(X, Y) is tagger
    assert tagger.classes_ == sorted({label for labels in Y for label in labels})
    assert tagger.gap_ <= 0.01
    assert tagger.n_iter_ >= 1
    assert tagger.validation_scores_ == []
    found = tagger.predict(X[:3])
    assert isinstance(found, list)
    assert [len(labels) for labels in found] == [len(sentence) for sentence in X[:3]]
    assert tagger.predict([]) == []
    assert tagger.predict([[], X[0], []]) == [[], found[0], []]
    assert pickle.loads(pickle.dumps(tagger)).predict(X) == tagger.predict(X)


def accuracy(estimator, X, y):
    pairs = zip(estimator.predict(X), y, strict=True)
    return np.mean([a == b for found, gold in pairs for a, b in zip(found, gold, strict=True)])


def test_scores_are_f1_of_chunks_or_accuracy(tagger):
    assert 0.9 < tagger.score(X, Y) <= 1.0
    assert tagger.score(X, Y) == pytest.approx(chunk_scores(Y, tagger.predict(X)).as_dict()["f1"] / 100)
    without_prefix = [[label.rpartition("-")[2] for label in labels] for labels in Y]
    some_with_prefix = [[label.removeprefix("I-").replace("B-", "I-") for label in labels] for labels in Y]
    for y in (without_prefix, some_with_prefix):  # the second as GROBID's
        other = SequenceLabeler(c=0.5, gap=0.1).fit(X[:60], y[:60])
        assert other.score(X[60:], y[60:]) == pytest.approx(accuracy(other, X[60:], y[60:]))


def test_grid_search_and_cross_validation():
    grid = GridSearchCV(SequenceLabeler(gap=0.1), {"c": [0.01, 1.0], "method": ["mtl", "svm"]}, cv=2)
    grid.fit(X[:60], Y[:60])
    assert set(grid.best_params_) == {"c", "method"}
    assert len(grid.predict(X[60:])) == 60
    scores = cross_val_score(SequenceLabeler(gap=0.1), X[:60], Y[:60], cv=3)
    assert scores.shape == (3,)
    assert (scores > 0.3).all()


def test_save_and_load(tagger, tmp_path):
    tagger.save(tmp_path / "t.mtl")
    again = SequenceLabeler.load(tmp_path / "t.mtl")
    assert again.predict(X) == tagger.predict(X)
    assert again.score(X, Y) == tagger.score(X, Y)
    assert mtlstruct.load(tmp_path / "t.mtl").takes_dicts
    with pytest.raises(IncompatibleError, match="a model for sequence, expected one for dependency"):
        DependencyParser.load(tmp_path / "t.mtl")
    content = (tmp_path / "t.mtl").read_bytes()
    with open(tmp_path / "t.mtl", "rb") as file:
        for source in (content, file, io.BytesIO(content)):
            assert SequenceLabeler.load(source).predict(X[:3]) == tagger.predict(X[:3])
    with pytest.raises(ModelFileError, match="damaged"):
        mtlstruct.load(content[:-1] + b"?")


def test_the_model_is_that_of_train(tmp_path):
    data = tmp_path / "train.txt"
    data.write_text(
        "".join(
            "".join(f"{w} {s} {label}\n" for (w, s), label in zip(rows, labels, strict=True)) + "\n"
            for rows, labels in zip(ROWS, Y, strict=True)
        )
    )
    templates = TemplateSet.parse("\n".join(TEMPLATES))
    train(columns.read(data), templates, Options(), lambda record: False).model.save(tmp_path / "a.mtl")
    for number, (given, labels) in enumerate(
        ((ROWS, Y), (data, None), (str(data), None), (columns.read(data), None))
    ):
        SequenceLabeler(templates=TEMPLATES).fit(given, labels).save(tmp_path / f"{number}.mtl")
        assert (tmp_path / f"{number}.mtl").read_bytes() == (tmp_path / "a.mtl").read_bytes()
    (tmp_path / "t.tpl").write_text("\n".join(TEMPLATES))
    tagger = SequenceLabeler(templates=tmp_path / "t.tpl").fit(data)
    assert (
        tagger.predict(data)
        == tagger.predict(ROWS)
        == SequenceLabeler(templates=templates).fit(ROWS, Y).predict(ROWS)
    )
    assert tagger.score(data) == tagger.score(ROWS, Y)
    assert tagger.predict([[("Flour", "ur")]]) == tagger.predict([[["Flour", "ur"]]])


def test_the_table_of_weights(tagger):
    table = tagger.template_weights_
    assert [row["rank"] for row in table] == list(range(1, len(table) + 1))
    assert {"word", "suffix", "length", "is", "before:word", "before:start", "bias", "digit", "B"} == {
        row["name"] for row in table
    }
    assert list(table[0])[:2] == ["rank", "index"]
    assert {"text", "mu", "norm", "features", "relative"} <= table[0].keys()
    assert sum(row["mu"] for row in table) == pytest.approx(1)
    assert np.all(np.diff([row["mu"] for row in table]) <= 0)


def test_probabilities(tagger):
    found = tagger.predict_marginals([*X[:2], []])
    assert found[2] == []
    for labels, sentence in zip(tagger.predict(X[:2]), found, strict=False):
        for label, row in zip(labels, sentence, strict=True):
            assert sum(row.values()) == pytest.approx(1, abs=1e-5)
            assert set(row) == set(tagger.classes_)
            assert row[label] > 0


def test_n_best_and_probabilities_of_sequences(tagger):
    some = X[:5]
    ranked = tagger.predict_nbest([*some, []], 3)
    assert ranked.pop() == [([], 1.0)]
    assert [best[0][0] for best in ranked] == tagger.predict(some)
    for x, found in zip(some, ranked, strict=True):
        assert len({tuple(labels) for labels, _ in found}) == 3
        chances = tagger.sequence_probability([x] * 3, [labels for labels, _ in found])
        assert chances == pytest.approx([p for _, p in found])
        assert chances == sorted(chances, reverse=True)
    assert tagger.sequence_probability(some) == pytest.approx([found[0][1] for found in ranked])
    assert tagger.sequence_probability([some[0][:1], []], [["no label"], []]) == [0.0, 1.0]
    one = SequenceLabeler(c=5.0).fit(X, Y).predict_nbest([some[0][:1]], 99)[0]
    assert sum(p for _, p in one) == pytest.approx(1)  # all labels of one token


def test_constraints_hold_in_predict(tagger):
    free = tagger.predict(X)
    used = sorted({label for labels in free for label in labels})
    rules = Constraints.from_rules([f"*>{used[0]}"], tagger.model_.labels)
    bound = tagger.predict(X, constraints=rules)
    assert any(used[0] in labels[1:] for labels in free)
    assert not any(used[0] in labels[1:] for labels in bound)


def test_a_warm_start_begins_near_the_optimum_and_verbose_prints_passes(capsys):
    how = {"method": "crf-l2", "solver": "lbfgs", "c": 1.0, "gap": 1e-3}
    tagger = SequenceLabeler(**how, warm_start=True, verbose=True).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == tagger.n_iter_
    assert all(line.startswith(f"pass {n}: objective ") for n, line in enumerate(lines, 1))
    model, passes = tagger.model_, []
    see = lambda progress: passes.append(progress.record.objective)  # noqa: E731
    SequenceLabeler(**how).fit(X, Y, callback=see, init=model)
    given, cold = passes[0], float(lines[0].split()[3].rstrip(","))
    assert given < tagger.objective_ + 0.1 * (cold - tagger.objective_)
    passes.clear()
    assert tagger.fit(X, Y, callback=see)
    assert passes[0] == given


def test_groups_of_keys(tmp_path):
    by_name = SequenceLabeler(group_by=lambda key: key.partition(":")[0]).fit(X, Y)
    by_regex = SequenceLabeler(group_by="^[^:]+").fit(X, Y)
    assert "before" in {row["name"] for row in by_name.template_weights_}
    assert by_name.predict(X) == by_regex.predict(X)
    by_name.save(tmp_path / "g.mtl")  # the function does not go into the file: the groups of the keys do
    assert SequenceLabeler.load(tmp_path / "g.mtl").predict(X) == by_name.predict(X)
    assert by_name.predict([[{"unheard of": "x"}]]) == by_name.predict([[{}]])


def test_any_number_of_keys_where_groups_do_not_matter(tmp_path, run):
    words = [[{f"w={n % 700}": 1, f"n={n}": 1} for n in range(m, m + 5)] for m in range(0, 700, 5)]
    y = [
        ["A" if "=" in next(iter(token)) and len(next(iter(token))) % 2 else "B" for token in s]
        for s in words
    ]
    for method in ("svm", "crf"):
        found = SequenceLabeler(method=method).fit(words, y, words[:9], y[:9])
        grouped = SequenceLabeler(method=method, group_by=lambda key: "all").fit(words, y)
        assert found.predict(words) == grouped.predict(words) == found.predict(Sentences(words))
        assert found.predict(words[:2]) == found.predict(words)[:2]
    for method in ("mtl", "auto"):
        with pytest.raises(IncompatibleError, match="at most 1,000 keys, got more; give group_by"):
            SequenceLabeler(method=method).fit(words, y)
    lines = [
        json.dumps({"tokens": tokens, "labels": labels}) for tokens, labels in zip(words, y, strict=True)
    ]
    (tmp_path / "k.jsonl").write_text("\n".join(lines))
    arguments = ("train", tmp_path / "k.jsonl", tmp_path / "k.mtl", "-q", "--no-log")
    assert "give group_by" in run(*arguments).err
    assert run(*arguments, "--method", "svm", "--valid", tmp_path / "k.jsonl").code == 0
    assert SequenceLabeler.load(tmp_path / "k.mtl").score(words, y) > 0.99


@pytest.mark.parametrize(("made", "X", "y", "problem"), [
    (SequenceLabeler(), ROWS, Y, "rows of cells need templates"),
    (SequenceLabeler("no/such/file.tpl"), ROWS, Y, "cannot read the template file"),
    (SequenceLabeler(["U:%x[0,9]"]), ROWS, Y, "names column 9"),
    (SequenceLabeler(["U:%x[0,pos]"], columns=("word", "suffix")), ROWS, Y, "names column pos, but"),
    (SequenceLabeler(), X, None, "^y: expected labels, got none"),
    (SequenceLabeler(), X, [labels[:-1] for labels in Y], "^y: sentence 1: expected"),
    (SequenceLabeler(), X, [["A"] * len(labels) for labels in Y], "one label only"),
    (StructuredClassifier(), [{"a": "b"}] * 2, [1, OTHER_ONE], "expected labels that differ as text"),
    (StructuredClassifier(), [], [], "^X: expected at least one item, got none"),
    (SequenceLabeler(), [[{}], [{}]], [["A"], ["B"]], "^X: expected feature dicts with at least one feature"),
    (SequenceLabeler(), None, Y, "^X: expected a list of sentences, got 'None'"),
    (SequenceLabeler(), 5, Y, "^X: expected a list of sentences, got '5'"),
    (SequenceLabeler(), X, 5, "^y: expected labels, got 5"),
    (DependencyParser(), PARSED, 5, "^y: expected heads, got 5"),
    (SequenceLabeler(), X, [None] * len(X), "^y: expected a list of labels for sentence 1, got None"),
    (DependencyParser(), PARSED, [None], "^y: expected a list of heads for sentence 1, got None"),
    *((made(), x, x, "^X: expected at least one token, got none")
      for made in (SequenceLabeler, DependencyParser) for x in ([], [[]], [[], []])),
])  # fmt: skip
def test_fit_rejects_bad_templates_and_data(made, X, y, problem):
    with pytest.raises(MtlError, match=problem):
        made.fit(X, y)


WRONG = {
    "templates": [5, [1], True],
    "method": ["magic", 3, None, []],
    "loss": ["magic", 3, []],
    "solver": ["magic", 3, []],
    "random_state": ["1", -1, 2.5, [], 10**30],
    "normalize": ["nfd", 3, None, []],
    "scaling": ["wild", 3, None, []],
    "label_support": ["few", 3, None, []],
    "transition_support": ["few", 3, None, []],
    "l1": ["1", 0, -1, float("nan"), float("inf"), True, [], {}],
    "l2": ["1", -1, float("nan"), float("inf"), True, [], {}],
    "loss_weights": [3, "B", [1], {"B": -1}, {"B": "x"}, {"B": float("nan")}],
    "group_by": ["(", 3, []],
    "columns": [3, "word", [1]],
    "structure": ["cube", 3, None, []],
    "scheme": ["x", 3, None, "bmes"],
} | dict.fromkeys(("c", "p", "gap", "epsilon", "eta"), ("1", -1, 0, float("nan"), float("inf"), True, [], {}))
COUNTS = ("max_iter", "min_count", "patience", "threads")
SWITCHES = ("context", "share_identical", "projective", "single_root", "labels", "warm_start")
WRONG["label_templates"] = WRONG["templates"]
WRONG |= dict.fromkeys(COUNTS, ("1", 0, -1, 2.5, float("nan"), True, [], 10**30))
WRONG |= dict.fromkeys(SWITCHES, ("yes", 1, None, [])) | {"verbose": ("yes", -1, 0.5, None, [])}


@pytest.mark.parametrize(
    ("estimator", "given", "outputs"),
    [
        (SequenceLabeler, X, Y),
        (StructuredClassifier, [{"w": "a"}, {"w": "b"}], ["A", "B"]),
        (DependencyParser, PARSED, [[2, 0]]),
    ],
)
def test_every_parameter_is_checked_and_named_as_in_python(estimator, given, outputs):
    for name in inspect.signature(estimator).parameters:
        for value in WRONG[name]:
            chosen = {"p": {"method": "pmtl"}, "l1": {"method": "crf"}, "l2": {"method": "crf"}}.get(name, {})
            with pytest.raises(MtlError) as caught:
                estimator(**chosen | {name: value}).fit(given, outputs)
            said = str(caught.value)
            assert name in said, (name, value, said)
            assert " -" not in f" {said}".replace("got -", ""), said


@pytest.mark.parametrize(
    ("name", "value", "loss"),
    [
        ("line_search", True, None),
        ("labels", True, None),
        ("eta", 0.1, "hinge"),
        ("loss_weights", (("O", 2.0),), None),
    ],
)
def test_options_that_do_not_fit_are_named_as_their_reader_knows_them(name, value, loss):
    options = Options(**{name: value}, loss=loss)
    with pytest.raises(IncompatibleError, match=f"^--{name.replace('_', '-')} is for"):
        options.checked()
    with pytest.raises(IncompatibleError, match=f"^{name} is for [^-]"):
        options.checked(lambda name: name)


def test_numbers_of_numpy_and_iterators_are_accepted(tmp_path):
    tagger = SequenceLabeler(
        c=np.float64(1), max_iter=np.int64(2), min_count=np.int32(1), random_state=None, verbose=0
    )
    tagger.fit(iter(X), iter(Y)).save(tmp_path / "m.mtl")  # an iterator is enough
    assert mtlstruct.load(tmp_path / "m.mtl").labels


def test_templates_name_the_columns_of_dicts():
    named = [[{"word": w, "suffix": s} for w, s in rows] for rows in ROWS]
    lines = ["U0:%x[0,word]", "U1:%x[-1,word]/%x[0,word]", 'U2:%x[0,"suffix"]', "B"]
    by_dict = SequenceLabeler(templates=lines).fit(named, Y)
    by_row = SequenceLabeler(templates=lines, columns=("word", "suffix")).fit(ROWS, Y)
    assert by_dict.predict(named) == by_row.predict(ROWS) == by_row.predict(named)
    with pytest.raises(FormatError, match="sentence 1, token 1: expected a cell for 'suffix', got none"):
        by_dict.predict([[{"word": "x"}]])


def test_a_grid_on_sentences_encodes_once(monkeypatch):
    calls = []
    encode = base.encode
    monkeypatch.setattr(base, "encode", lambda *given: calls.append(1) or encode(*given))
    whole = Sentences(X)
    grid = GridSearchCV(SequenceLabeler(gap=0.05), {"c": [0.1, 1.0]}, cv=3, refit=False)
    shared = grid.fit(whole, Y).cv_results_["mean_test_score"]
    assert len(calls) == 1
    plain = GridSearchCV(SequenceLabeler(gap=0.05), {"c": [0.1, 1.0]}, cv=3, refit=False).fit(X, Y)
    np.testing.assert_allclose(shared, plain.cv_results_["mean_test_score"], atol=0.03)


def test_parts_of_sentences():
    whole = Sentences(X)
    assert len(whole) == len(X)
    assert len(whole[3]) == len(X[3])
    assert [len(s) for s in whole[-2:]] == [len(s) for s in X[-2:]]
    assert repr(whole).startswith(f"<{len(X)} sentences")
    tagger = SequenceLabeler(min_count=2, gap=1e-3)
    halves = [next(KFold(2).split(X))[k] for k in (0, 1)]
    part = tagger.fit([whole[i] for i in halves[0]], [Y[i] for i in halves[0]])
    ours = part.predict([whole[i] for i in halves[1]])
    alone = clone(tagger).fit([X[i] for i in halves[0]], [Y[i] for i in halves[0]])
    theirs = alone.predict([X[i] for i in halves[1]])
    assert part.predict([X[i] for i in halves[1]]) == ours
    assert np.mean(np.concatenate(ours) == np.concatenate(theirs)) > 0.98
    assert part.objective_ == pytest.approx(alone.objective_, rel=2e-3)


def test_parts_in_any_order_and_with_empty_sentences():
    whole = Sentences([[], *X[:40], []])
    y = [[], *Y[:40], []]
    X_train, X_test, y_train, y_test = train_test_split(whole, y, random_state=1)
    tagger = SequenceLabeler().fit(X_train, y_train)
    assert [len(p) for p in tagger.predict(X_test)] == [len(labels) for labels in y_test]
    again = SequenceLabeler().fit(whole, y)
    assert again.predict(whole) == [[], *again.predict(X[:40]), []]
    with pytest.raises(IncompatibleError, match="expected sentences of one Sentences"):
        tagger.predict([whole[1], X[0]])


def test_a_callback_sees_each_pass_and_may_stop():
    seen = []
    tagger = SequenceLabeler(gap=1e-6).fit(
        X, Y, callback=lambda progress: seen.append(progress) or len(seen) == 2
    )
    assert tagger.n_iter_ == 2
    assert [progress.record.passes for progress in seen] == [1, 2]
    assert seen[0].score is None
    assert 0 < seen[0].seconds <= seen[1].seconds
    assert not tagger.model_.facts["converged"]
    assert tagger.gap_ >= 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "hinge"},
        {"method": "svm"},
        {"solver": "cutting-plane"},
        {"method": "mira", "gap": None},
        {"method": "crf-l2", "c": 0.3},
        {"method": "online-mkl", "gap": None},
    ],
)
def test_early_stopping_keeps_the_best_pass(options):
    X_val, y_val, scores = X[90:], Y[90:], []
    tagger = SequenceLabeler(**({"gap": 1e-4} | options), max_iter=12, patience=2)
    tagger.fit(X[:90], Y[:90], X_val, y_val, callback=lambda progress: scores.append(progress.score))
    assert tagger.validation_scores_ == scores
    assert tagger.score(X_val, y_val) == pytest.approx(max(scores), abs=0.02)
    best = int(np.argmax(scores))
    assert len(scores) <= 12
    assert len(scores) == best + 3 or len(scores) in (10, 12) or tagger.model_.facts["converged"]
    assert tagger.model_.facts["dual"] <= tagger.model_.facts["objective"] * (1 + 1e-9)
    assert (tagger.model_.temperature != 1.0) == (tagger.model_.facts["loss"] == "hinge")


def test_validation_data_need_the_same_columns():
    tagger = SequenceLabeler(max_iter=2).fit(X[:90], Y[:90], [[{"new": 1.0, "word": "flour"}]], [["O"]])
    assert len(tagger.validation_scores_) == tagger.n_iter_


def test_classes_of_any_kind():
    items = [{"word": w.lower(), "length": len(w)} for words in WORDS for w in words]
    classes = [int(w.isdigit()) + 2 * w.isalpha() for words in WORDS for w in words]
    model = StructuredClassifier(c=1.0).fit(items, classes)
    assert model.predict(items).dtype.kind == "i"
    right = np.mean(model.predict(items) == classes)
    assert model.score(items, classes) == pytest.approx(right)
    assert right > 0.95
    proba = model.predict_proba(items[:5])
    assert proba.shape == (5, len(model.classes_))
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert model.predict([]).shape == (0,)


def test_a_matrix_is_one_group(tmp_path):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(200, 4))
    classes = np.where(numbers[:, 0] + numbers[:, 1] > 0, "up", "down")
    model = StructuredClassifier(c=1.0).fit(numbers, classes)
    assert model.score(numbers, classes) > 0.95
    assert [row["name"] for row in model.template_weights_] == ["x"]
    scores = cross_val_score(StructuredClassifier(gap=0.05), numbers * 1000, classes, cv=3)
    assert scores.mean() > 0.9
    model.save(tmp_path / "m.mtl")
    assert (StructuredClassifier.load(tmp_path / "m.mtl").predict(numbers) == model.predict(numbers)).all()


class Frame:
    """What is used of a data frame; iterating over it gives the names of its columns."""

    def __init__(self, numbers):
        self.numbers, self.shape = numbers, numbers.shape

    def to_numpy(self):
        return self.numbers


def test_classes_are_sorted_by_value_and_matrices_have_one_width(tmp_path):
    numbers = np.repeat(np.eye(3), 4, axis=0)
    classes = np.repeat([2, 11, 20], 4)  # as text 11 comes first
    model = StructuredClassifier(c=10.0).fit(Frame(numbers), classes)
    assert (model.classes_ == [2, 11, 20]).all()
    assert (model.classes_[model.predict_proba(numbers).argmax(axis=1)] == classes).all()
    assert (model.predict(Frame(numbers)) == classes).all()
    assert cross_val_score(model, numbers, classes, cv=2, scoring="roc_auc_ovr").min() == 1
    assert model.n_features_in_ == 3
    for call in (model.predict, model.predict_proba, lambda X: model.score(X, classes)):
        with pytest.raises(ValueError, match="X: expected a matrix of 3 columns, got 2"):
            call(numbers[:, :2])
    with pytest.warns(DataConversionWarning):
        assert (model.fit(numbers, classes[:, None]).classes_ == [2, 11, 20]).all()
    model.save(tmp_path / "m.mtl")
    again = StructuredClassifier.load(tmp_path / "m.mtl")
    assert again.classes_.tolist() == ["11", "2", "20"]
    assert (again.classes_[again.predict_proba(numbers).argmax(axis=1)] == again.predict(numbers)).all()


def test_labels_in_arrays_are_plain_objects_in_predictions():
    found = SequenceLabeler(gap=0.1).fit(X[:9], [np.array(labels) for labels in Y[:9]]).predict(X[:9])
    assert {type(label) for labels in found for label in labels} == {str}


def test_public_names_are_listed_before_they_are_imported():
    assert set(mtlstruct.__all__) <= set(dir(mtlstruct))


SENTENCES = [
    ([("the", "D"), ("cat", "N"), ("sees", "V"), ("a", "D"), ("dog", "N")], [2, 3, 0, 5, 3]),
    ([("dogs", "N"), ("sleep", "V")], [2, 0]),
    ([("a", "D"), ("dog", "N"), ("sleeps", "V")], [2, 3, 0]),
    ([("cats", "N"), ("see", "V"), ("the", "D"), ("dog", "N")], [2, 0, 4, 2]),
]
TREES = [[{"form": w, "pos": p} for w, p in words] for words, _ in SENTENCES]
HEADS = [heads for _, heads in SENTENCES]
ARCS = [
    "A0:%x[h,pos]/%x[m,pos]/%direction[h,m]",
    "A1:%x[h,form]/%x[m,form]",
    "A2:%x[h,pos]/%x[m,pos]/%distance[h,m]",
]


def test_trees_have_labels(tmp_path):
    relations = [[f"{'root' if not head else 'left' if head > t else 'right'}" for t, head in enumerate(heads, 1)]
                 for heads in HEADS]  # fmt: skip
    pairs = [list(zip(heads, names, strict=True)) for heads, names in zip(HEADS, relations, strict=True)]
    labels = ["A0:%x[m,form]/%direction[h,m]", "A1:%x[h,form]"]
    parser = DependencyParser(templates=ARCS, labels=True, label_templates=labels).fit(TREES, pairs)
    assert parser.predict(TREES) == pairs
    parser.save(tmp_path / "p.mtl")
    loaded = DependencyParser.load(tmp_path / "p.mtl")
    assert loaded.predict(TREES) == pairs
    assert loaded.score(TREES, pairs) == loaded.score(TREES, HEADS) == 1
    with pytest.raises(FormatError, match=r"expected pairs \(head, relation\)"):
        parser.fit(TREES, HEADS)


def test_trees_from_files_and_the_preset(tmp_path):
    lines = []
    for words, heads in SENTENCES:
        for number, ((form, pos), head) in enumerate(zip(words, heads, strict=True), 1):
            lines.append(f"{number}\t{form}\t_\t{pos}\t{pos}\t_\t{head}\tdep\t_\t_")
        lines.append("")
    path = tmp_path / "train.conll"
    path.write_text("\n".join(lines) + "\n")
    parser = DependencyParser(projective=True).fit(path)
    assert parser.predict(path) == HEADS
    assert parser.score(path) == 1.0
    rows = [[(form, "_", pos, pos, "_") for form, pos in words] for words, _ in SENTENCES]
    assert DependencyParser(projective=True).fit(rows, HEADS).predict(rows) == parser.predict(rows) == HEADS


@pytest.mark.parametrize(
    ("heads", "problem"),
    [
        (HEADS[:3], "expected heads for 4 sentences, got 3"),
        ([[2, 3, 0, 5], *HEADS[1:]], "sentence 1: expected 5 heads, got 4"),
        ([[2, 3, 0, 5, 9], *HEADS[1:]], "sentence 1, token 5: expected a head from 0 to 5"),
        ([[2, 1, 0, 5, 3], *HEADS[1:]], "expected a tree, got a cycle of heads"),
        (None, "y: expected heads, got none"),
    ],
)
def test_heads_must_be_trees(heads, problem):
    with pytest.raises(FormatError, match=problem):
        DependencyParser(templates=ARCS).fit(TREES, heads)
    with pytest.raises(FormatError, match="expected one token with head 0"):
        DependencyParser(templates=ARCS, single_root=True).fit(TREES[1:2], [[0, 0]])


def test_the_example_of_the_class():
    assert doctest.testmod(sequence_labeler).failed == 0
