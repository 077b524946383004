"""The estimator of sklearn-crfsuite."""

import os
import pickle

import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.validation import check_is_fitted

from mtlstruct.compat.pycrfsuite import Trainer
from mtlstruct.compat.sklearn_crfsuite import CRF, metrics, scorers
from mtlstruct.compat.sklearn_crfsuite.utils import flatten

X = [[{"w": "a", "up": True}, {"w": "b", "up": False}], [{"w": "b", "up": False}, {"w": "c", "n": 2.0}]] * 5
Y = [["A", "B"], ["B", "C"]] * 5


def test_attributes_before_and_after_training():
    crf = CRF(c1=0.01, c2=0.01)
    names = ("tagger_", "classes_", "size_", "num_attributes_", "attributes_", "state_features_",
             "transition_features_", "training_log_")  # fmt: skip
    assert all(getattr(crf, name) is None for name in names)
    crf.fit(X, Y)
    assert all(getattr(crf, name) is not None for name in names)
    assert crf.classes_ == ["A", "B", "C"]
    assert crf.num_attributes_ == len(crf.attributes_)
    assert {a for a, _ in crf.state_features_} <= {*crf.attributes_}
    assert crf.size_ == os.path.getsize(crf.modelfile.name or "")
    assert (crf.predict(X), crf.predict_single(X[0]), crf.score(X, Y)) == (Y, Y[0], 1.0)
    marginals = crf.predict_marginals(X)
    assert marginals[1] == crf.predict_marginals_single(X[1])
    assert all(sum(row.values()) == pytest.approx(1) for sentence in marginals for row in sentence)
    assert (
        metrics.sequence_accuracy_score(Y, [[max(r, key=r.__getitem__) for r in s] for s in marginals]) == 1
    )


def test_pickles_clones_and_files(tmp_path):
    crf = CRF("lbfgs", model_filename=str(tmp_path / "model")).fit(X, Y)
    assert CRF(model_filename=str(tmp_path / "model")).score(X, Y) == 1
    check_is_fitted(crf)
    for call in (check_is_fitted, lambda found: found.predict(X)):
        with pytest.raises(NotFittedError):
            call(clone(CRF().fit(X, Y)))
    for fitted in (crf, CRF(c2=0.1).fit(X, Y)):
        again = pickle.loads(pickle.dumps(fitted))
        assert again.predict_marginals(X) == fitted.predict_marginals(X)
    name = again.modelfile.name
    del again, fitted
    assert not os.path.exists(name)


def test_parameters_reach_the_trainer(capsys):
    made = []

    class Kept(Trainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    CRF("lbfgs", min_freq=1, all_possible_states=True, c1=0.5, trainer_cls=Kept).fit(X, Y)
    found = made[0].get_params()
    assert (found["feature.minfreq"], found["feature.possible_states"], found["c1"]) == (1.0, True, 0.5)
    assert CRF("l2sgd", calibration_eta=0.2)._trainer().get("calibration.eta") == 0.2
    with pytest.raises(ValueError, match="c1"):
        CRF("l2sgd", c1=1).fit(X, Y)
    crf = CRF(verbose=True, max_iterations=3).fit(X, Y, X, Y)
    assert len(crf.training_log_.iterations) == 3
    assert "Iter 3 " in capsys.readouterr().out
    for data in ((X, Y, X), (X, Y[:-1])):
        with pytest.raises(ValueError, match=r"both X_dev and y_dev|shorter"):
            CRF().fit(*data)


def test_scorers_work_in_a_grid():
    search = GridSearchCV(CRF(), {"c2": [0.1, 1000.0]}, scoring=scorers.sequence_accuracy, cv=2).fit(X, Y)
    assert search.best_params_ == {"c2": 0.1}
    y, found = [["a", "b"], ["b"]], [["a", "a"], ["b"]]
    assert flatten(y) == ["a", "b", "b"]
    assert metrics.flat_accuracy_score(y, found) == metrics.flat_f1_score(y, found, average="micro") == 2 / 3
    assert metrics.flat_fbeta_score(y, found, beta=1, average="macro") == pytest.approx(2 / 3)
    assert "macro avg" in metrics.flat_classification_report(y, found, labels=["a", "b"])
    assert metrics.sequence_accuracy_score([], []) == 0
