"""The interface of python-crfsuite: its features, its objective, its marginals, its errors."""

import math
import warnings
from collections import Counter
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from mtlstruct import SequenceLabeler, load
from mtlstruct.compat import pycrfsuite
from mtlstruct.compat.pycrfsuite import BaseTrainer, ItemSequence, Tagger, Trainer
from mtlstruct.interop import crfsuite

try:
    import pycrfsuite as peer
except ImportError:
    peer = None

pytestmark = pytest.mark.filterwarnings("ignore:.*is trained by MIRA")

X: list[list[Any]] = [
    [{"w": "a", "up": True, "p": 0.5}, {"w": "b", "up": False, "p": -1}, {"w": "a", "up": False}],
    [{"w": "c", "up": True, "in": ["x", "y"]}, {"w": "b", "next": {"w": "c"}, "up": False}],
    [["w:a", "x=1"], ["w:b"], {"w": b"d", "p": 2.0, "rare": 1}, {}],
    [{"w": "b", "up": False, "z": 0}, {"w": "a", "up": True, "p": 0.25}],
]
Y = [["A", "B", "A"], ["C", "B"], ["A", "B", "C", "A"], ["B", "A"]]
SETTINGS = [
    {"c1": 0.0, "c2": 0.1},
    {"c1": 0.05, "c2": 0.02},
    {"c1": 0.1, "c2": 0.0},
    {"c2": 0.1, "feature.possible_transitions": 1},
    {"c1": 0.02, "c2": 0.02, "feature.minfreq": 2},
    {"c2": 0.1, "feature.possible_states": 1},  # CRFsuite leaves out states with a negative sum
]


def trained(path, params, algorithm="lbfgs", **more):
    trainer = Trainer(algorithm, params | more, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    trainer.train(str(path / "model"))
    tagger = Tagger()
    tagger.open(str(path / "model"))
    return trainer, tagger


def attributes():
    return [ItemSequence(x).items() for x in X]


def frequencies():
    """Return the sums of values by which CRFsuite chooses features: of states, of transitions."""
    states: Counter[tuple[str, str]] = Counter()
    for items, labels in zip(attributes(), Y, strict=True):
        for item, label in zip(items, labels, strict=True):
            for name, value in item.items():
                states[name, label] += value
    return states, Counter(pair for labels in Y for pair in pairwise(labels))


def score(info, items, labels):
    nodes = [
        value * info.state_features.get((name, label), 0.0)
        for item, label in zip(items, labels, strict=True)
        for name, value in item.items()
    ]
    return math.fsum([*nodes, *(info.transitions.get(pair, 0.0) for pair in pairwise(labels))])


def objective(info, c1, c2):
    """Return Σ −log p + c1·‖w‖₁ + c2·‖w‖² by enumeration."""
    total = 0.0
    for items, labels in zip(attributes(), Y, strict=True):
        every = [score(info, items, path) for path in product("ABC", repeat=len(items))]
        total += math.log(math.fsum(map(math.exp, every))) - score(info, items, tuple(labels))
    w = np.array([*info.state_features.values(), *info.transitions.values()])
    return total + c1 * float(np.abs(w).sum()) + c2 * float(w @ w)


@pytest.mark.parametrize("params", SETTINGS)
def test_features_and_loss_are_those_of_crfsuite(params, tmp_path):
    trainer, tagger = trained(tmp_path, params, delta=1e-9)
    states, transitions = frequencies()
    least = params.get("feature.minfreq", 0)
    kept = {pair for pair, value in states.items() if value >= least}
    pairs = {pair for pair, count in transitions.items() if count >= least}
    if params.get("feature.possible_states"):
        kept = set(product({name for name, _ in states}, "ABC"))
    if params.get("feature.possible_transitions"):
        pairs = set(product("ABC", repeat=2))
    info, log = tagger.info(), trainer.logparser
    assert log.featgen_num_features == len(kept) + len(pairs)
    assert info.state_features.keys() <= kept
    assert info.transitions.keys() <= pairs
    expected = objective(info, params.get("c1", 0.0), params["c2"])
    assert log.last_iteration["loss"] == pytest.approx(expected, rel=1e-4)


def test_equal_attributes_may_have_zeros_at_other_labels(tmp_path):
    trainer = Trainer(verbose=False, params={"c1": 0.01, "c2": 0.01})
    trainer.append([{"a": 1, "b": 1}, {"b": False}], ["A", "B"])
    trainer.train(str(tmp_path / "model"))
    assert trainer.logparser.featgen_num_features == 4  # a-A, b-A, b-B, A-B


@pytest.mark.skipif(peer is None, reason="python-crfsuite is not installed: nothing to compare with")
@pytest.mark.parametrize("params", SETTINGS[:-1])
def test_optimum_is_that_of_python_crfsuite(params, tmp_path):
    _, ours = trained(tmp_path, params, delta=1e-9)
    trainer = peer.Trainer("lbfgs", params | {"delta": 1e-9, "epsilon": 1e-9}, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    trainer.train(str(tmp_path / "theirs"))
    theirs = peer.Tagger()
    theirs.open(str(tmp_path / "theirs"))
    c1, c2 = params.get("c1", 0.0), params["c2"]
    assert objective(ours.info(), c1, c2) == pytest.approx(objective(theirs.info(), c1, c2), rel=1e-4)
    for x in X:
        assert ours.tag(x) == theirs.tag(x)
        for label in "ABC" if c2 else "":  # without c2 several weights may be optimal
            assert ours.marginal(label, 0) == pytest.approx(theirs.marginal(label, 0), abs=5e-3)


@pytest.mark.skipif(peer is None, reason="python-crfsuite is not installed: nothing to compare with")
@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "pa", "arow"])
def test_parameters_are_those_of_python_crfsuite(algorithm):
    assert Trainer(algorithm).get_params() == peer.Trainer(algorithm).get_params()


def test_without_penalties_weights_stay_finite(tmp_path):
    _, tagger = trained(tmp_path, {"c1": 0.0, "c2": 0.0})
    assert [tagger.tag(x) for x in X] == Y


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "pa", "ap", "arow"])
def test_every_algorithm_fits_the_data(algorithm, tmp_path):
    _, tagger = trained(tmp_path, {"c2": 0.01} if algorithm in ("lbfgs", "l2sgd") else {}, algorithm)
    assert [tagger.tag(x) for x in X] == Y


def test_probabilities_equal_enumeration(tmp_path):
    _, tagger = trained(tmp_path, {"c2": 0.1})
    for x, items in zip(X, attributes(), strict=True):
        paths = list(product("ABC", repeat=len(items)))
        weights = np.exp([score(tagger.info(), items, path) for path in paths])
        weights /= weights.sum()
        assert tagger.tag(x) == list(paths[int(weights.argmax())])
        assert tagger.probability(paths[3]) == pytest.approx(weights[3], rel=1e-4)
        for label in "ABC":
            share = sum(w for w, path in zip(weights, paths, strict=True) if path[1] == label)
            assert tagger.marginal(label, 1) == pytest.approx(share, abs=1e-5)
            assert tagger.marginals()[1][label] == tagger.marginal(label, 1)
    assert (tagger.tag([]), tagger.probability([]), tagger.marginals()) == ([], 1.0, [])


def test_items_have_the_names_of_python_crfsuite():
    assert ItemSequence(
        [{"a": {"b": ["x", "y"], "c": -0.1}, "t": False}, "uv", {"k": b"v"}][::2]
    ).items() == [
        {"a:b:x": 1.0, "a:b:y": 1.0, "a:c": -0.1, "t": 0.0},
        {"k:v": 1.0},
    ]
    assert (len(ItemSequence([[], {}])), repr(ItemSequence([[]]))) == (2, "<ItemSequence of size 1>")


def test_any_form_of_a_sequence_is_tagged_alike(tmp_path):
    _, tagger = trained(tmp_path, {"c2": 0.1})
    content = (tmp_path / "model").read_bytes()
    with Tagger().open_inmemory(content) as other:
        for x, items in zip(X, attributes(), strict=True):
            forms = (x, tuple(x), iter(x), ItemSequence(x), items)
            assert {tuple(tagger.tag(form)) for form in forms} == {tuple(other.tag(x))}
        assert other.tag([item.keys() for item in attributes()[2]]) == other.tag(attributes()[2])
        assert int(other.info().header["size"]) == len(content)
    other.close()


def test_more_than_a_thousand_keys(tmp_path):
    trainer = Trainer(verbose=False, params={"c1": 0.01, "c2": 0.01})
    for n in range(1500):
        trainer.append(
            [{f"k{n}": 1.0, "odd": str(n % 2)}, [f"s{n}=v", f"s{n}"]], ["A" if n % 2 else "B", "C"]
        )
    trainer.train(str(tmp_path / "model"))
    with Tagger().open(str(tmp_path / "model")) as tagger:
        assert tagger.tag([{"new": "key", "odd": "1"}, ["s7=v"]]) == ["A", "C"]


def test_held_out_sequences_are_scored_and_not_trained_on(tmp_path):
    class Events(Trainer):
        def __init__(self):
            self.seen: list[tuple[str, Any]] = []
            super().__init__(verbose=True)

        def on_iteration(self, log, info):
            self.seen.append((log, info))

    trainer = Events()
    for n, (x, y) in enumerate(zip(X, Y, strict=True)):
        trainer.append(x, y, n % 2)
    trainer.train(str(tmp_path / "model"), holdout=1)
    log = trainer.logparser
    assert [info for _, info in trainer.seen] == log.iterations
    assert trainer.seen[0][0].startswith("***** Iteration #1 *****\nLoss: ")
    assert sum(counts.ref for counts in log.last_iteration["scores"].values()) == 4
    with Tagger().open(str(tmp_path / "model")) as tagger:
        right = [label for n in (1, 3) for label in map(str.__eq__, tagger.tag(X[n]), Y[n])]
        assert log.last_iteration["item_accuracy_float"] == pytest.approx(np.mean(right))
        assert "in:x" not in tagger.info().attributes
    assert [event for event, *_ in log.events if event != "iteration"] == [
        "start", "featgen_end", "prepared", "optimization_end", "end"]  # fmt: skip


@pytest.mark.parametrize("y", [[], ["A", "A"]])
def test_data_with_less_than_two_labels_give_a_model(y, tmp_path):
    trainer = BaseTrainer(verbose=False)
    trainer.append([{"a": 1}] * len(y), y)
    trainer.train(str(tmp_path / "model"))
    with Tagger().open(str(tmp_path / "model")) as tagger:
        assert tagger.tag([{"a": 1}] * len(y)) == y


def test_a_sequence_that_cannot_be_read_is_left_out(tmp_path):
    trainer = Trainer(verbose=False)
    for x, y in zip(X, Y, strict=True):
        with pytest.raises(ValueError, match=r"item 2: expected .* for 'bad'"):
            trainer.append([{"first": 1}, {"part": 1, "bad": None}], ["A", "B"])
        trainer.append(x, y)
    trainer.train(str(tmp_path / "broken"))
    trained(tmp_path, {})
    infos = []
    for name in ("broken", "model"):
        with Tagger().open(str(tmp_path / name)) as tagger:
            infos.append(tagger.info())
    assert infos[0].state_features == infos[1].state_features


def test_dump_has_all_weights(tmp_path, capsys):
    _, tagger = trained(tmp_path, {})
    tagger.dump(str(tmp_path / "dump"))
    tagger.dump()
    text, info = (tmp_path / "dump").read_text(), tagger.info()
    assert text == capsys.readouterr().out
    assert text.count("-->") == len(info.transitions) + len(info.state_features)
    assert f"w:a --> A: {info.state_features['w:a', 'A']:.6f}\n" in text


def test_models_of_estimators_can_be_opened(tmp_path):
    SequenceLabeler(method="crf-l2").fit(X, Y).save(tmp_path / "model")
    SequenceLabeler(["U:%x[0,0]"], columns=["w"]).fit([[["a"], ["b"]]], [["A", "B"]]).save(tmp_path / "rows")
    with Tagger().open(str(tmp_path / "model")) as tagger:
        assert [tagger.tag(x) for x in X] == Y
    with pytest.raises(ValueError, match="feature dicts"):
        Tagger().open(str(tmp_path / "rows"))


def test_models_of_crfsuite_can_be_opened(tmp_path):
    _, ours = trained(tmp_path, {"c2": 0.1})
    crfsuite.write(load(tmp_path / "model"), tmp_path / "m.crfsuite")
    theirs = [Tagger(), Tagger()]
    theirs[0].open(str(tmp_path / "m.crfsuite"))
    theirs[1].open_inmemory((tmp_path / "m.crfsuite").read_bytes())
    for x in X:
        for tagger in theirs:
            assert tagger.tag(x) == ours.tag(x)
            assert tagger.marginal("A", 0) == pytest.approx(ours.marginal("A", 0), abs=1e-6)


def test_wrong_use_is_a_value_error(tmp_path):
    (tmp_path / "text").write_text("no model")
    trainer, (_, tagger) = Trainer(verbose=False), trained(tmp_path, {})
    tagger.set(X[0])
    calls: list[Any] = [
        lambda: trainer.select("foo"),
        lambda: trainer.set("c", 1),
        lambda: trainer.set("c1", "much"),
        lambda: trainer.help("foo"),
        lambda: trainer.append([{"a": 1}], ["A", "B"]),
        lambda: trainer.append([{"a": 1}], [1]),
        lambda: trainer.append([{"a": float("nan")}], ["A"]),
        lambda: ItemSequence("text"),
        lambda: ItemSequence(["text"]),
        lambda: ItemSequence([[{"a": 1}]]),
        lambda: Tagger().labels(),
        lambda: Tagger().tag(X[0]),
        lambda: Tagger().open(str(tmp_path / "text")),
        lambda: Tagger().open_inmemory(b"lCRF"),
        lambda: tagger.marginal("D", 0),
        lambda: tagger.marginal("A", 3),
        lambda: tagger.probability(["A"]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"expected|could not convert|no model"):
            call()
    with pytest.raises(OSError, match="No such file"):
        Tagger().open(str(tmp_path / "missing"))
    with pytest.raises(RuntimeError, match="no model"):
        Tagger().info()


def test_replaced_algorithms_warn_once(monkeypatch):
    monkeypatch.setattr(pycrfsuite, "_warned", set())
    with pytest.warns(UserWarning, match="arow is trained by MIRA"):
        Trainer("arow")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Trainer("arow")
    assert Trainer("pa").help("c") != Trainer("pa").help("type")
