"""Grids: trials equal separate trainings, share one encoding, and are stored and compared."""

from dataclasses import replace

import numpy as np
import pytest
from support.naive import random_corpus

from mtlstruct._system.folder_lock import locked
from mtlstruct.errors import MtlError
from mtlstruct.tasks import TASKS
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train
from mtlstruct.tuning import study as studies
from mtlstruct.tuning.runner import Runner
from mtlstruct.tuning.study import Store, combinations, key_of

TEMPLATES = TemplateSet.parse("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[1,1]\nU3:%x[0,1]\nB\nB1:%x[0,1]")
DATA = random_corpus(np.random.default_rng(3), sentences=40)
VALID = random_corpus(np.random.default_rng(4), sentences=15)


DEFAULT = Options()


def study(settings=(DEFAULT,), splits=(studies.VALID,), valid=VALID):
    return studies.Study(DATA, TEMPLATES, tuple(settings), tuple(splits), valid)


def trial_result(some_study, trial):
    return Runner.encode(some_study, TASKS["sequence"]).run_trial(trial)


@pytest.mark.parametrize("min_count", [1, 2, 3])
@pytest.mark.parametrize("method", ["mtl", "svm"])
def test_a_trial_equals_a_separate_training_and_evaluation(method, min_count):
    options = Options(method=method, min_count=min_count, gap=1e-3)
    valid, folds = study([options]), study([options], studies.folds(len(DATA), 3, seed=1), None)
    for some, trial in [(valid, valid.trials[0]), *((folds, trial) for trial in folds.trials)]:
        result = trial_result(some, trial)
        data = DATA if some is valid else DATA.take(trial.split.train)
        gold = VALID if some is valid else DATA.take(trial.split.test)
        training = train(data, TEMPLATES, options)
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
        fit = train(DATA.take(trial.split.train), templates, options).fit
        assert result["converged"]
        assert fit.converged
        assert max(result["dual"], fit.dual) <= min(result["objective"], fit.objective) * (1 + 1e-6)


def test_each_sentence_is_in_the_test_part_of_one_fold():
    splits = studies.folds(23, 5, seed=7)
    assert sorted(np.concatenate([split.test for split in splits]).tolist()) == list(range(23))
    for k, split in enumerate(splits, 1):
        assert sorted([*split.train.tolist(), *split.test.tolist()]) == list(range(23))
        assert np.all(np.diff(split.train) > 0)
        assert len(split.test) in (4, 5)
        assert split.name == f"fold {k} of 5"
    assert splits[0].test.tolist() == studies.folds(23, 5, seed=7)[0].test.tolist()
    assert splits[0].test.tolist() != studies.folds(23, 5, seed=8)[0].test.tolist()


def test_splits_with_an_empty_part_are_rejected():
    split = studies.held_out(10, 0.2, seed=0)
    assert (len(split.train), len(split.test), split.name) == (8, 2, "held out")
    for count in (0, 1, 11):
        with pytest.raises(MtlError, match="--folds must be between 2 and the number of sentences, 10"):
            studies.folds(10, count, 0)
    for share in (0.0, 0.01, 1.0, 2.0, -1.0):
        with pytest.raises(MtlError, match="a held-out part must leave sentences on both sides"):
            studies.held_out(10, share, 0)


def test_combinations_over_any_fields_without_equivalent_settings():
    axes = {"method": ["mtl", "svm", "pmtl"], "p": [1.0, 1.5], "c": [0.1, 1.0], "seed": [5]}
    found = combinations(Options(), axes)
    expected = [("mtl", None), ("svm", None), ("pmtl", 1.5)]
    assert [(o.method, o.p, o.c, o.seed) for o in found] == [(*m, c, 5) for m in expected for c in (0.1, 1.0)]
    assert [o.p for m in ("pmtl", "mixed") for o in combinations(Options(method=m), {})] == [4 / 3, 2.0]


def test_invalid_settings_are_rejected_before_any_work():
    with pytest.raises(MtlError, match="-c must be a number from"):
        study([Options(), Options(c=-1.0)])
    with pytest.raises(MtlError, match="must agree on task"):
        study([Options(), Options(min_count=2)])


def test_data_templates_options_and_split_change_the_key():
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
    given = [
        study([Options(c=2, seed=3, **more)]).trials[0].facts["options"]
        for more in ({"loss": "hinge"}, {}, {"loss": "log"}, {"method": "crf-l2"})
    ]
    log = {"method": "mtl", "loss": "log", "p": None, "c": 2, "seed": 3}
    assert given == [log | {"loss": "hinge"}, log, log, log | {"method": "crf-l2"}]


def test_a_store_ignores_incomplete_lines(tmp_path):
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
    with locked(folder), pytest.raises(MtlError, match="another run uses this folder"), locked(folder):
        pass
    with locked(folder):
        pass


def test_the_best_mean_of_complete_settings_wins_and_the_first_of_equals(tmp_path):
    some, store = (
        study([Options(c=c) for c in (0.1, 1.0, 10.0)], studies.folds(40, 2, 0), None),
        Store(tmp_path),
    )
    trials = sorted(some.trials, key=lambda trial: trial.options.c)
    for trial, f1 in zip(trials[:5], (50.0, 60.0, 40.0, 80.0, 99.0), strict=True):
        store.save(trial.facts, {"scores": {"f1": f1, "accuracy": 90.0}, "gap": 0.01})
    found = studies.findings(some, store)
    assert [(f.mean("f1"), f.complete) for f in found] == [(55, True), (60, True), (99, False)]
    assert found[0].deviation("f1") == pytest.approx(50**0.5)
    assert found[0].mean("gap") == 0.01
    assert studies.best(found, "f1").options.c == 1.0
    with pytest.raises(MtlError, match="no setting has all its trials"):
        studies.best(found[2:], "f1")
    store.save(trials[5].facts, {"scores": {"f1": 21.0}, "gap": 0.01})  # a mean of 60, too
    assert studies.best(studies.findings(some, store), "f1").options.c == 1.0


def test_the_data_are_encoded_once(tmp_path, monkeypatch):
    import mtlstruct.training.train

    calls = []
    real = mtlstruct.training.train.encode_training
    monkeypatch.setattr(
        mtlstruct.training.train, "encode_training", lambda *a, **k: calls.append(1) or real(*a, **k)
    )
    some = study([Options(c=c) for c in (0.1, 1.0)], studies.folds(len(DATA), 2, 0), None)
    ready = Runner.encode(some, TASKS["sequence"])
    results = list(ready.run(some.trials, Store(tmp_path), jobs=2))
    again = train(DATA, TEMPLATES, Options(), dataset=ready.material)
    assert len(calls) == 1
    assert [outcome.failure for outcome in results] == [None] * 4
    alone = train(DATA, TEMPLATES, Options())
    again.model.save(tmp_path / "a.mtl")
    alone.model.save(tmp_path / "b.mtl")
    assert (tmp_path / "a.mtl").read_bytes() == (tmp_path / "b.mtl").read_bytes()


def test_fewer_jobs_where_memory_is_short(monkeypatch):
    some = study()
    ready = Runner.encode(some, TASKS["sequence"])
    needed = ready.memory(some.trials)
    for free, expected in ((100 * needed, 8), (3 * needed, 3), (needed, 1)):
        monkeypatch.setattr("mtlstruct._system.memory.available", lambda free=free: free)
        assert ready.fitting(8, some.trials) == expected
    monkeypatch.setattr("mtlstruct._system.memory.available", lambda: needed - 1)
    with pytest.raises(MtlError, match="a trial needs about"):
        ready.fitting(8, some.trials)
    monkeypatch.undo()
    folds = study(splits=studies.folds(40, 2, 0), valid=None)
    assert Runner.encode(folds, TASKS["sequence"]).memory(folds.trials) > needed


GRID = study([Options(c=c) for c in (0.1, 1.0, 10.0)])


class Scorer:
    """Scores sequences, or raises an error."""

    def __init__(self, error):
        self.error, self.known_words = error, TASKS["sequence"].known_words

    def score(self, *arguments):
        if self.error:
            raise self.error
        return TASKS["sequence"].score(*arguments)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MtlError("a.txt, line 3: expected 2"), "a.txt, line 3: expected 2"),
        (MemoryError(), "there is not enough memory for it"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_a_trial_that_fails_is_an_outcome_with_its_reason(tmp_path, error, reason, jobs):
    found = list(Runner.encode(GRID, Scorer(error)).run(GRID.trials, Store(tmp_path), jobs=jobs))
    assert [outcome.failure for outcome in found] == [reason] * 3
    assert list(Store(tmp_path)) == []


def test_no_trial_begins_or_ends_after_the_time_is_up(tmp_path):
    ready, begun = Runner.encode(GRID, TASKS["sequence"]), []
    trials = (begun.append(trial) or trial for trial in GRID.trials)
    ran = ready.run(trials, Store(tmp_path), jobs=1, go_on=lambda: len(begun) < 2)
    assert [outcome.trial.options.c for outcome in ran] == [10.0]
    assert len(begun) == 2


def test_other_texts_are_scored_too():
    other = random_corpus(np.random.default_rng(5), sentences=15)
    some = replace(study(), also={"other": other})
    result = trial_result(some, some.trials[0])
    plain = study()
    assert result["scores"] == trial_result(plain, plain.trials[0])["scores"]
    assert result["also"].keys() == {"other"}
    assert result["also"]["other"] != result["scores"]
    assert some.trials[0].key != plain.trials[0].key
