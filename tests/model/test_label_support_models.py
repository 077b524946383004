"""Models of labels seen only: everywhere like the same model with its missing weights written out as zeros."""

from dataclasses import replace

import numpy as np
import pytest
from support.naive import random_corpus
from test_model import poke, rewritten, swap

from mtlstruct.errors import IncompatibleError, ModelFileError, MtlError
from mtlstruct.explain.decomposition import explain, shares
from mtlstruct.explain.top_features import top_features
from mtlstruct.interop import crfpp
from mtlstruct.model.model import Model
from mtlstruct.tasks import TASKS
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train
from mtlstruct.tuning import study as studies
from mtlstruct.tuning.runner import Runner

TEMPLATES = TemplateSet.parse(
    "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]/%x[2,0]\nU3:%x[2,1]\nU\nB\nB1:%x[0,1]"
)
DATA = random_corpus(np.random.default_rng(0), 40, 8, 12, labels=5)
TEXT = random_corpus(np.random.default_rng(1), 30, 9, 15, labels=5)


def trained(data=DATA, start=None, **options):
    return train(data, TEMPLATES, Options(label_support="seen", **options), init=start)


def written_out(model):
    """The same model with a weight for every label."""
    nodes = [model.block(n) for n in range(len(model.live)) if model.index.kinds[n] == "node"]
    zero = np.zeros((1, len(model.labels)), np.float32)
    weights = (np.concatenate([*nodes, zero]), *model.weights[1:])
    return replace(model, index=replace(model.index, support=None), weights=weights)


@pytest.fixture(scope="module")
def model():
    return trained().model


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "a.mtl"
    model.save(path)
    return path


def test_only_features_with_a_weight_are_kept(model):
    assert model.facts["label_support"] == "seen"
    assert model.index.support.features == np.count_nonzero(model.weights[0]) == len(model.weights[0]) - 1
    assert sum(model.features) == sum(np.count_nonzero(weights) for weights in model.weights)
    assert all(kept <= seen for kept, seen in zip(model.features, model.facts["seen"], strict=True))
    every = train(DATA, TEMPLATES, Options())
    few = trained()
    assert few.weights == sum(few.model.facts["seen"]) < every.weights == sum(every.model.facts["seen"])


def test_predictions_and_scores_are_those_of_the_model_written_out(model):
    other = written_out(model)
    ours, theirs = model.lattice(TEXT), other.lattice(TEXT)
    for a, b in zip(ours.parts, theirs.parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ours.best(), theirs.best())


def test_saving_and_loading_keeps_predictions_and_bytes(model, saved, tmp_path):
    back = Model.load(saved)
    np.testing.assert_array_equal(back.predict(TEXT), model.predict(TEXT))
    back.save(tmp_path / "b.mtl")
    assert (tmp_path / "b.mtl").read_bytes() == saved.read_bytes()


HOSTILE = {
    "label out of range": poke("support/labels", 0, 99),
    "label below 0": poke("support/labels", 0, -1),
    "labels that do not rise": swap("support/labels", lambda labels: labels[::-1].copy()),
    "labels of another type": swap("support/labels", lambda labels: labels.astype(np.int64)),
    "a start beyond the end": poke("support/ptr", 1, 10**9),
    "a start below 0": poke("support/ptr", 0, -1),
    "a null attribute with labels": poke("support/ptr", -2, 0),
    "too few starts": swap("support/ptr", lambda ptr: ptr[1:]),
    "a table of all labels": swap("weights/0", lambda weights: np.repeat(weights, 5, axis=1)),
    "not said": lambda header, arrays: header["facts"].pop("label_support"),
    "not there": lambda header, arrays: arrays.pop("support/ptr"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_support_that_contradicts_itself_is_rejected(name, saved, tmp_path):
    with pytest.raises(ModelFileError, match=r"bad\.mtl"):
        Model.load(rewritten(saved, tmp_path / "bad.mtl", HOSTILE[name]))


def test_explanations_are_those_of_the_model_written_out(model):
    other = written_out(model)
    for a, b in zip(explain(model, TEXT), explain(other, TEXT), strict=True):
        np.testing.assert_array_equal(a.rivals, b.rivals)
        np.testing.assert_allclose(a.values, b.values, atol=1e-6)
        np.testing.assert_allclose(a.margin, b.margin, atol=1e-6)
    np.testing.assert_allclose(shares(model, [TEXT]), shares(other, [TEXT]))
    for j in range(len(model.templates)):
        assert top_features(model, j, 3) == top_features(other, j, 3)


def test_exports_write_zeros_for_missing_labels(model, tmp_path):
    crfpp.write(model, tmp_path / "a.txt")
    crfpp.write(written_out(model), tmp_path / "b.txt")
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "b.txt").read_bytes()
    back = crfpp.to_model(crfpp.read(tmp_path / "a.txt"), tmp_path / "a.txt")
    np.testing.assert_array_equal(back.predict(TEXT), model.predict(TEXT))


@pytest.mark.parametrize("method", ["mtl", "svm", "pmtl", "group-lasso", "crf-l2", "crf-l1", "irw-crf"])
def test_every_batch_method_trains_and_warm_starts(method, model):
    training = trained(method=method, c=0.3, start=model, p=1.5 if method == "pmtl" else None)
    assert training.model.index.support.features <= training.weights
    assert training.fit.dual <= training.fit.objective
    np.testing.assert_array_equal(training.model.predict(TEXT), written_out(training.model).predict(TEXT))


@pytest.mark.parametrize("min_count", [1, 2])
def test_a_fold_has_the_labels_that_its_own_sentences_show(min_count):
    options = Options(label_support="seen", min_count=min_count)
    some = studies.Study(DATA, TEMPLATES, (options,), tuple(studies.folds(len(DATA), 3, seed=1)), None)
    trial = some.trials[0]
    result = Runner.encode(some, TASKS["sequence"]).run_trial(trial)
    alone = trained(DATA.take(trial.split.train), min_count=min_count).fit
    assert result["objective"] == pytest.approx(alone.objective, rel=1e-3)
    assert result["dual"] == pytest.approx(alone.dual, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "mira"}, "not for mira and online-mkl"),
        ({"method": "online-mkl"}, "not for mira and online-mkl"),
        ({"task": "dependency"}, "is for the tasks sequence, segmentation, multiclass"),
    ],
)
def test_unsupported_methods_are_rejected(options, sentence):
    with pytest.raises(IncompatibleError, match=sentence):
        Options(label_support="seen", **options).checked()
    with pytest.raises(MtlError, match="must be one of all, seen, got 'few'"):
        Options(label_support="few").checked()


@pytest.mark.parametrize("method", ["mtl", "crf-l2", "crf-l1", "crf"])
def test_pairs_of_labels_that_were_not_seen_have_no_weight(method, model):
    """The bare B has the pairs of the corpus, B1 those of the tokens with its value."""
    training = trained(method=method, c=2.0, gap=1e-2, transition_support="seen", start=model)
    found, L = training.model, len(DATA.labels)
    values = DATA.columns[1]
    names = [values.strings[i] for i in values.ids]
    seen = {"": set()}
    for span in DATA.sentences():
        for t in range(span.start + 1, span.stop):
            pair = int(DATA.outputs[t - 1] * L + DATA.outputs[t])
            seen[""].add(pair)
            seen.setdefault(names[t], set()).add(pair)
    assert found.facts["seen"][-2:] == [len(seen[""]), sum(map(len, seen.values())) - len(seen[""])]
    block = found.block(found.live.index(5))
    assert set(np.flatnonzero(block[0])) <= seen[""]
    every = trained(method=method, c=2.0, gap=1e-2)
    assert training.fit.converged
    assert training.weights < every.weights
    assert every.fit.dual <= training.fit.objective
