"""Trials of a grid equal trainings done one by one, on one encoding, and none is done twice."""

from dataclasses import replace

import numpy as np
import pytest
from naive import random_corpus

from mtlstruct._system.folder_lock import locked
from mtlstruct.errors import MtlError
from mtlstruct.tasks import TASKS
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, encode, train
from mtlstruct.tuning import runner as tuning
from mtlstruct.tuning import study as studies
from mtlstruct.tuning.result_store import Store, combinations, key_of

TEMPLATES = TemplateSet.parse("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[1,1]\nU3:%x[0,1]\nB\nB1:%x[0,1]")
DATA = random_corpus(np.random.default_rng(3), sentences=40)
VALID = random_corpus(np.random.default_rng(4), sentences=15)


def silent(record):
    return False


DEFAULT = Options()


def study(settings=(DEFAULT,), splits=(studies.VALID,), valid=VALID):
    return studies.Study(DATA, TEMPLATES, tuple(settings), tuple(splits), valid)


def trial_result(some_study, trial):
    material = encode(some_study.corpus, some_study.templates, trial.options)
    return tuning.run_trial(some_study, material, TASKS["sequence"], trial)


@pytest.mark.parametrize("method", ["mtl", "svm"])
def test_a_trial_on_validation_data_is_train_and_evaluate(method):
    options = Options(method=method, c=0.3)
    some = study([options])
    result = trial_result(some, some.trials[0])
    training = train(DATA, TEMPLATES, options, silent)
    expected = TASKS["sequence"].score(VALID, training.model.predict(VALID), training.model.labels)
    assert result["scores"] == expected.as_dict()
    for name in ("objective", "dual", "gap", "passes", "converged"):
        assert result[name] == getattr(training.fit, name)
    assert result["mu"] == training.fit.mu.tolist()


@pytest.mark.parametrize("min_count", [1, 2, 3])
@pytest.mark.parametrize("method", ["mtl", "svm"])
def test_a_fold_equals_a_separate_training_on_its_sentences(method, min_count):
    options = Options(method=method, min_count=min_count, gap=1e-3)
    some = study([options], studies.folds(len(DATA), 3, seed=1), None)
    for trial in some.trials:
        result = trial_result(some, trial)
        training = train(DATA.take(trial.split.train), TEMPLATES, options, silent)
        gold = DATA.take(trial.split.test)
        expected = TASKS["sequence"].score(gold, training.model.predict(gold), training.model.labels)
        assert result["scores"] == expected.as_dict()
        assert result["objective"] == pytest.approx(training.fit.objective, rel=1e-9)
        assert result["mu"] == pytest.approx(training.fit.mu.tolist(), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("min_count", [1, 2])
def test_a_fold_with_shared_lines_has_the_optimum_of_a_separate_training(min_count):
    """Shared lines are summed in the order of attribute numbers, so ties may fall otherwise; the bounds agree."""
    options = Options(min_count=min_count, gap=1e-4, share_identical=True)
    templates = TemplateSet.parse("U:%x[0,0]\nU:%x[-1,0]\nU1:%x[0,1]\nB")
    some = studies.Study(DATA, templates, (options,), tuple(studies.folds(len(DATA), 3, seed=1)))
    for trial in some.trials:
        result = trial_result(some, trial)
        fit = train(DATA.take(trial.split.train), templates, options, silent).fit
        assert result["converged"]
        assert fit.converged
        assert max(result["dual"], fit.dual) <= min(result["objective"], fit.objective) * (1 + 1e-6)


def test_folds_hold_every_sentence_out_once():
    splits = studies.folds(23, 5, seed=7)
    assert sorted(np.concatenate([split.test for split in splits]).tolist()) == list(range(23))
    for split in splits:
        assert sorted([*split.train.tolist(), *split.test.tolist()]) == list(range(23))
        assert np.all(np.diff(split.train) > 0)
        assert len(split.test) in (4, 5)
    assert [split.name for split in splits] == [f"fold {k} of 5" for k in range(1, 6)]
    assert splits[0].test.tolist() == studies.folds(23, 5, seed=7)[0].test.tolist()
    assert splits[0].test.tolist() != studies.folds(23, 5, seed=8)[0].test.tolist()


def test_a_share_is_held_out():
    split = studies.held_out(10, 0.2, seed=0)
    assert (len(split.train), len(split.test), split.name) == (8, 2, "held out")


@pytest.mark.parametrize("count", [0, 1, 11])
def test_folds_that_cannot_be_made(count):
    with pytest.raises(MtlError, match="--folds must be between 2 and the number of sentences, 10"):
        studies.folds(10, count, 0)


@pytest.mark.parametrize("share", [0.0, 0.01, 1.0, 2.0, -1.0])
def test_shares_that_leave_nothing(share):
    with pytest.raises(MtlError, match="--hold-out must leave sentences on both sides"):
        studies.held_out(10, share, 0)


# Settings ---------------------------------------------------------------------------------------------------


def test_combinations_over_any_fields():
    found = combinations(Options(), {"method": ["mtl", "svm"], "c": [0.1, 1.0], "seed": [5]})
    assert [(o.method, o.c, o.seed) for o in found] == [
        ("mtl", 0.1, 5), ("mtl", 1.0, 5), ("svm", 0.1, 5), ("svm", 1.0, 5),
    ]  # fmt: skip
    with pytest.raises(MtlError, match="no option 'colour' to vary"):
        combinations(Options(), {"colour": [1]})


def test_settings_that_say_the_same_are_one():
    axes = {"method": ["mtl", "svm", "pmtl"], "p": [1.0, 1.5], "c": [0.1, 1.0]}
    found = studies.settled(combinations(Options(), axes))
    assert [(o.method, o.p, o.c) for o in found] == [
        ("mtl", None, 0.1), ("mtl", None, 1.0), ("svm", None, 0.1), ("svm", None, 1.0),
        ("pmtl", 1.5, 0.1), ("pmtl", 1.5, 1.0),
    ]  # fmt: skip
    assert [o.p for o in studies.settled([Options(method="pmtl"), Options(method="mixed", p=3.0)])] == [
        4 / 3,
        3.0,
    ]


def test_bad_settings_are_refused_before_any_work():
    with pytest.raises(MtlError, match="-c must be a positive number"):
        study([Options(), Options(c=-1.0)])
    with pytest.raises(MtlError, match="must agree on task"):
        study([Options(), Options(min_count=2)])


# Results ----------------------------------------------------------------------------------------------------


def test_everything_that_matters_is_in_the_key():
    def templates(text):
        return studies.Study(DATA, TemplateSet.parse(text).shared(), (DEFAULT,), (studies.VALID,), VALID)

    found = [
        study(),
        study([replace(DEFAULT, c=2.0)]),
        study([replace(DEFAULT, seed=1)]),
        study(valid=DATA),
        study(splits=[*studies.folds(40, 2, 0), studies.folds(40, 2, 1)[0], studies.held_out(40, 0.5, 0)]),
        studies.Study(VALID, TEMPLATES, (DEFAULT,), (studies.VALID,), VALID),
        studies.Study(DATA, TEMPLATES[:3], (DEFAULT,), (studies.VALID,), VALID),
        templates("U:%x[0,0]\nU:%x[1,0]"),
        templates("U:%x[0,0]\nU:%x[2,0]"),
    ]
    keys = {trial.key for some in found for trial in some.trials}
    assert len(keys) == 12
    assert study().trials[0].key in keys


def test_a_corpus_is_known_by_its_content():
    assert DATA.digest() == random_corpus(np.random.default_rng(3), sentences=40).digest()
    other = DATA.outputs.copy()
    other[5] = (other[5] + 1) % 3
    assert DATA.digest() != replace(DATA, outputs=other).digest()
    assert DATA.digest() != replace(DATA, labels=("x", "y", "z")).digest()


def test_a_store_keeps_results_and_ignores_lines_that_are_not_complete(tmp_path):
    facts, other = {"b": 1, "a": [0.1, "ä"]}, {"b": 2}
    store = Store(tmp_path)
    assert store.load(key_of(facts)) is None
    store.save(facts, {"f1": 70.5})
    whole = store.path.read_bytes()
    for broken in (b"", whole[:-20], b"[]\n", b'{"key": "x"}\n', b"\xff\n"):
        store.path.write_bytes(whole + broken)
        again = Store(tmp_path)
        assert again.load(key_of({"a": (0.1, "ä"), "b": 1})) == {"f1": 70.5}
        assert again.load(key_of(other)) is None
        again.save(other, {"f1": 80})
        assert list(Store(tmp_path)) == list(again) == [(facts, {"f1": 70.5}), (other, {"f1": 80})]
    store.path.write_bytes(whole[:-20])
    assert list(Store(tmp_path)) == []
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


def test_one_run_at_a_time_in_a_folder(tmp_path):
    folder = tmp_path / "new" / "folder"
    with locked(folder), pytest.raises(MtlError, match="another run is at work"), locked(folder):
        pass
    with locked(folder):
        pass


# Choosing ---------------------------------------------------------------------------------------------------


def kept(tmp_path, some, scores):
    """Store scores by setting and split."""
    store = Store(tmp_path)
    trials = sorted(some.trials, key=lambda trial: trial.options.c)
    for trial, found in zip(trials, scores, strict=True):
        if found is not None:
            store.save(trial.facts, {"scores": found, "gap": 0.01})
    return store


def test_the_best_mean_wins_and_the_first_of_equals(tmp_path):
    some = study([Options(c=c) for c in (0.1, 1.0, 10.0)], studies.folds(40, 2, 0), None)
    figures = [50, 60, 40, 80, 70, 50]
    found = studies.findings(
        some, kept(tmp_path, some, [{"f1": float(f), "accuracy": 90.0} for f in figures])
    )
    assert TASKS["sequence"].chosen_score([r for f in found for r in f.results]) == "f1"
    assert [(f.mean("f1"), f.complete) for f in found] == [(55, True), (60, True), (60, True)]
    assert found[0].deviation("f1") == pytest.approx(50**0.5)
    assert found[0].mean("gap") == 0.01
    assert studies.best(found, "f1").options.c == 1.0


def test_settings_with_trials_missing_are_not_compared(tmp_path):
    some = study([Options(c=c) for c in (0.1, 1.0)], studies.folds(40, 2, 0), None)
    found = studies.findings(some, kept(tmp_path, some, [{"f1": 50.0}, {"f1": 50.0}, {"f1": 99.0}, None]))
    assert [f.complete for f in found] == [True, False]
    assert studies.best(found, "f1").options.c == 0.1
    with pytest.raises(MtlError, match="no setting has all its trials"):
        studies.best(found[1:], "f1")


def test_labels_that_are_no_chunks_are_compared_by_accuracy(tmp_path):
    some = study([Options(c=c) for c in (0.1, 1.0)])
    found = studies.findings(
        some, kept(tmp_path, some, [{"f1": 0.0, "accuracy": 90.0}, {"f1": 0.0, "accuracy": 91.0}])
    )
    assert TASKS["sequence"].chosen_score([r for f in found for r in f.results]) == "accuracy"
    assert studies.best(found, "accuracy").options.c == 1.0
    assert TASKS["multiclass"].chosen_score([{"scores": {"f1": 80.0, "accuracy": 90.0}}]) == "accuracy"


# One encoding -----------------------------------------------------------------------------------------------


def test_the_data_are_encoded_once_and_mapped(tmp_path, monkeypatch):
    import mtlstruct.training.train

    calls = []
    real = mtlstruct.training.train.encode_training
    monkeypatch.setattr(
        mtlstruct.training.train, "encode_training", lambda *a, **k: calls.append(1) or real(*a, **k)
    )
    some = study([Options(c=c) for c in (0.1, 1.0)], studies.folds(len(DATA), 2, 0), None)
    (tmp_path / ".mtlstruct-shared-old").mkdir()
    with tuning.runner(some, tmp_path) as ready:
        assert len(list(tmp_path.glob(".mtlstruct-shared-*"))) == 1
        ids = ready.material.encoded.designs[0].ids
        assert isinstance(ids, np.memmap)
        assert ids.flags.writeable  # as ordinary arrays are: else every kernel would be compiled once more
        results = list(ready.run(some.trials, Store(tmp_path), TASKS["sequence"], jobs=1, threads=1))
        again = train(DATA, TEMPLATES, Options(), silent, dataset=ready.material)
    assert len(calls) == 1
    assert len(results) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "results.jsonl"]
    alone = train(DATA, TEMPLATES, Options(), silent)
    again.model.save(tmp_path / "a.mtl")
    alone.model.save(tmp_path / "b.mtl")
    assert (tmp_path / "a.mtl").read_bytes() == (tmp_path / "b.mtl").read_bytes()


def test_fewer_processes_where_memory_is_short(tmp_path, monkeypatch):
    with tuning.runner(study(), tmp_path) as ready:
        needed = ready.memory
        for free, expected in ((100 * needed, 8), (3 * needed, 3), (needed, 1)):
            monkeypatch.setattr("mtlstruct._system.memory.available", lambda free=free: free)
            assert ready.fitting(8) == expected
        monkeypatch.setattr("mtlstruct._system.memory.available", lambda: needed - 1)
        with pytest.raises(MtlError, match="a trial needs about"):
            ready.fitting(8)
    with tuning.runner(study(splits=studies.folds(40, 2, 0), valid=None), tmp_path) as ready:
        assert ready.memory > needed


def test_facts_name_the_options_that_are_not_as_usual():
    trial = study([Options(c=2, seed=3)]).trials[0]
    assert trial.facts["options"] == {"method": "mtl", "p": None, "c": 2, "seed": 3}


def test_other_texts_are_scored_too_and_choose_nothing():
    other = random_corpus(np.random.default_rng(5), sentences=15)
    some = replace(study(), also={"other": other})
    result = trial_result(some, some.trials[0])
    plain = study()
    assert result["scores"] == trial_result(plain, plain.trials[0])["scores"]
    assert result["also"].keys() == {"other"}
    assert result["also"]["other"] != result["scores"]
    assert some.trials[0].key != plain.trials[0].key
