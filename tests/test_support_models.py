"""Models of labels seen only: everywhere like the same model with its missing weights written out as zeros."""

from dataclasses import replace

import numpy as np
import pytest
from commands import TRAIN
from naive import random_corpus

from mtlstruct._system import archive, threads
from mtlstruct.errors import IncompatibleError, ModelFileError, MtlError
from mtlstruct.explain.sequences import explain, shares
from mtlstruct.explain.top_features import top_features
from mtlstruct.interop import crfpp, wapiti
from mtlstruct.model.model import Model
from mtlstruct.tasks import TASKS
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, encode, train
from mtlstruct.tuning import runner as tuning
from mtlstruct.tuning import study as studies

TEMPLATES = TemplateSet.parse(
    "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]/%x[2,0]\nU3:%x[2,1]\nU\nB\nB1:%x[0,1]"
)
DATA = random_corpus(np.random.default_rng(0), 40, 8, 12, labels=5)
TEXT = random_corpus(np.random.default_rng(1), 30, 9, 15, labels=5)


def trained(data=DATA, start=None, **options):
    return train(data, TEMPLATES, Options(label_support="seen", **options), lambda record: False, init=start)


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
    every = train(DATA, TEMPLATES, Options(), lambda record: False)
    few = trained()
    assert few.weights == sum(few.model.facts["seen"]) < every.weights == sum(every.model.facts["seen"])


def test_predictions_and_scores_are_those_of_the_model_written_out(model):
    other = written_out(model)
    ours, theirs = model.lattice(TEXT), other.lattice(TEXT)
    for a, b in zip(ours.parts, theirs.parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ours.best(), theirs.best())


def test_a_file_holds_all_and_is_written_the_same_again(model, saved, tmp_path):
    back = Model.load(saved)
    np.testing.assert_array_equal(back.predict(TEXT), model.predict(TEXT))
    back.save(tmp_path / "b.mtl")
    assert (tmp_path / "b.mtl").read_bytes() == saved.read_bytes()


def test_the_same_bytes_on_any_number_of_threads(saved, tmp_path):
    before = threads.get_threads()
    try:
        for count in (1, 3):
            threads.set_threads(count)
            trained().model.save(tmp_path / f"{count}.mtl")
            assert (tmp_path / f"{count}.mtl").read_bytes() == saved.read_bytes()
    finally:
        threads.set_threads(before)


def set_array(name, change):
    def apply(header, arrays):
        arrays[name] = change(arrays[name])

    return apply


def poked(index, value):
    def change(array):
        array.reshape(-1)[index] = value
        return array

    return change


def falling(labels):
    return labels[::-1].copy()


HOSTILE = {
    "label out of range": set_array("support/labels", poked(0, 99)),
    "label below 0": set_array("support/labels", poked(0, -1)),
    "labels that do not rise": set_array("support/labels", falling),
    "labels of another type": set_array("support/labels", lambda labels: labels.astype(np.int64)),
    "a start beyond the end": set_array("support/ptr", poked(1, 10**9)),
    "a start below 0": set_array("support/ptr", poked(0, -1)),
    "a null attribute with labels": set_array("support/ptr", poked(-2, 0)),
    "too few starts": set_array("support/ptr", lambda ptr: ptr[1:]),
    "a table of all labels": set_array("weights/0", lambda weights: np.repeat(weights, 5, axis=1)),
    "not said": lambda header, arrays: header["facts"].pop("label_support"),
    "not there": lambda header, arrays: arrays.pop("support/ptr"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_support_that_makes_no_sense_is_refused(name, saved, tmp_path):
    header, arrays = archive.read(saved)
    arrays = {key: np.array(array) for key, array in arrays.items()}
    HOSTILE[name](header, arrays)
    archive.write(tmp_path / "bad.mtl", header, arrays)
    with pytest.raises(ModelFileError, match=r"bad\.mtl"):
        Model.load(tmp_path / "bad.mtl")


def test_explanations_are_those_of_the_model_written_out(model):
    other = written_out(model)
    for a, b in zip(explain(model, TEXT), explain(other, TEXT), strict=True):
        np.testing.assert_array_equal(a.rivals, b.rivals)
        np.testing.assert_allclose(a.values, b.values, atol=1e-6)
        np.testing.assert_allclose(a.margin, b.margin, atol=1e-6)
    np.testing.assert_allclose(shares(model, [TEXT]), shares(other, [TEXT]))
    for j in range(len(model.templates)):
        assert top_features(model, j, 3) == top_features(other, j, 3)


def test_exports_write_zeros_where_a_program_wants_them(model, tmp_path):
    crfpp.write(model, tmp_path / "a.txt")
    crfpp.write(written_out(model), tmp_path / "b.txt")
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "b.txt").read_bytes()
    back = crfpp.to_model(crfpp.read(tmp_path / "a.txt"), tmp_path / "a.txt")
    np.testing.assert_array_equal(back.predict(TEXT), model.predict(TEXT))
    ours, theirs = wapiti.observations(model), wapiti.observations(written_out(model))
    for found, expected in ((ours.unigrams, theirs.unigrams), (ours.bigrams, theirs.bigrams)):
        assert list(found) == list(expected)
        assert all(np.array_equal(found[text], expected[text]) for text in found)


@pytest.mark.parametrize("method", ["mtl", "svm", "pmtl", "group-lasso", "crf-l2", "crf-l1", "irw-crf"])
def test_every_method_that_sees_all_sentences_can_do_it_and_begin_from_it(method, model):
    training = trained(method=method, c=0.3, start=model, p=1.5 if method == "pmtl" else None)
    assert training.model.index.support.features <= training.weights
    assert training.fit.dual <= training.fit.objective
    np.testing.assert_array_equal(training.model.predict(TEXT), written_out(training.model).predict(TEXT))


@pytest.mark.parametrize("min_count", [1, 2])
def test_a_fold_has_the_labels_that_its_own_sentences_show(min_count):
    options = Options(label_support="seen", min_count=min_count)
    some = studies.Study(DATA, TEMPLATES, (options,), tuple(studies.folds(len(DATA), 3, seed=1)), None)
    trial = some.trials[0]
    material = encode(DATA, TEMPLATES, options)
    result = tuning.run_trial(some, material, TASKS["sequence"], trial)
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
def test_what_cannot_do_it_says_so(options, sentence):
    with pytest.raises(IncompatibleError, match=sentence):
        Options(label_support="seen", **options).checked()
    with pytest.raises(MtlError, match="must be one of all, seen, got 'few'"):
        Options(label_support="few").checked()


def test_the_command_takes_it_and_counts_features(run, tmp_path):
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "t.tpl").write_text("U0:%x[0,0]\nU1:%x[0,1]\nB\n")
    names = [str(tmp_path / name) for name in ("t.tpl", "train.txt", "m.mtl")]
    every = run("train", *names, "--json").json
    few = run("train", *names, "--label-support", "seen", "--json").json
    # 10 words of one label each; N has three labels, V and P one each; 16 pairs of labels stay as they are
    assert every["attributes"] == few["attributes"] == 13
    assert (every["features"], few["features"]) == (13 * 4 + 16, 10 + 3 + 1 + 1 + 16)
    assert run("predict", names[2], names[1]).out.count("B-LOC") > 0
