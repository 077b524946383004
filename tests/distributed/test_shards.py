"""Training in shards: the index, oracle and optimum of all data, and the same bits run after run."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
from support.naive import corpus, pieces_of, random_corpus, random_items, tree_oracle
from test_checkpoints import Ending, Enough, bits

from mtlstruct._system import threads
from mtlstruct.distributed.index import build_index, merged_outline
from mtlstruct.distributed.pool import Pool, tree_reduce
from mtlstruct.distributed.shard import Shard
from mtlstruct.distributed.train import sharded_oracle, split, train_local_shards
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.duplicate_columns import merged_by
from mtlstruct.features.index import encode_training
from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import L2, BlockL1Squared, PBlock
from mtlstruct.solvers import LBFGS, CuttingPlane, Stop
from mtlstruct.structures import STRUCTURES
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

TEMPLATES = TemplateSet.parse(
    "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]/%x[2,0]\nU3:%suffix[0,0,1]\nU4:%x[@1,0]\nB\nB1:%x[0,1]\n"
)


def pool_of(pieces):
    return Pool([Shard(k, lambda piece=piece: piece) for k, piece in enumerate(pieces)])


def oracle_of(pool, data, templates=TEMPLATES, min_count=1):
    """The oracle over the workers of a pool, and the index."""
    structure = STRUCTURES["sequence"](len(data.labels))
    index, maps = build_index(pool, templates, structure, min_count=min_count, normalize="none")
    return sharded_oracle(pool, index, maps, structure, pool.call("outline"), cost_of(data)), index


def oracles(data, count):
    """One over shards, and the plain one."""
    sharded, _ = oracle_of(pool_of(pieces_of(data, count)), data)
    encoded, _ = encode_training(data, TEMPLATES, sharded.structure.sites(data.ptr))
    return sharded, Oracle(sharded.structure, encoded, data.outputs, cost_of(data))


def cost_of(data):
    return 1 - np.eye(len(data.labels), dtype=np.float32)


def test_pieces_have_all_sentences_in_order_and_none_is_empty():
    data = random_corpus(np.random.default_rng(1))
    orders = set(itertools.permutations([40, 1, 1, 1]))  # one long sentence
    long = [corpus([[("w",)] * n for n in order], [["A"] * n for n in order]) for order in orders]
    for whole, count in [*((data, count) for count in (1, 2, 5, 12)), *((some, 3) for some in long)]:
        pieces = pieces_of(whole, count)
        assert len(pieces) == count
        assert all(len(piece) > 0 for piece in pieces)
        lengths = np.concatenate([np.diff(piece.ptr) for piece in pieces])
        assert lengths.tolist() == np.diff(whole.ptr).tolist()
        assert np.concatenate([piece.outputs for piece in pieces]).tolist() == whole.outputs.tolist()


def rows_and_labels(data):
    """Return the rows and the labels of each sentence."""
    rows = list(zip(*(column.cells() for column in data.columns), strict=True))
    labels = [data.labels[y] for y in data.outputs]
    return [rows[s] for s in data.sentences()], [labels[s] for s in data.sentences()]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("min_count", [1, 2])
@pytest.mark.parametrize("shared", [False, True])
def test_the_index_of_shards_is_that_of_all_data(count, min_count, shared):
    rows, labels = rows_and_labels(random_corpus(np.random.default_rng(count)))
    rows += [[("_B+1", "p0"), ("_B-1", "p1")], [("w1", "_B+2")], *([(f"w{a}", "p1")] for a in "xyz")]
    data = corpus(rows, [*labels, ["L0", "L1"], ["L2"], *[["L0"]] * 3])
    templates = TemplateSet.parse(TEMPLATES.text() + "U1:%x[0,0]/%x[1,0]\n" * shared)
    templates = templates.shared() if shared else templates
    pool = pool_of([corpus(*rows_and_labels(piece)) for piece in pieces_of(data, count)])
    assert merged_outline(pool.call("outline")).labels == data.labels
    sharded, found = oracle_of(pool, data, templates, min_count)
    structure = sharded.structure
    encoded, index = encode_training(data, templates, structure.sites(data.ptr), min_count=min_count)
    assert [v.strings() for v in found.vocabularies] == [v.strings() for v in index.vocabularies]
    for one, other in zip(found.tables, index.tables, strict=True):
        assert one.pairs.tolist() == other.pairs.tolist()
        assert one.slots.tolist() == other.slots.tolist()
    assert [m.tolist() for m in found.maps] == [m.tolist() for m in index.maps]
    assert found.sizes.tolist() == index.sizes.tolist()
    assert found.kinds == index.kinds
    mine = [shard._oracle(view) for shard, view in zip(pool.workers, sharded.views, strict=True)]
    node = [one.encoded.designs[0] for one in mine]
    ids = np.concatenate([design.ids[: design.ptr[-1]] for design in node])
    assert ids.tolist() == encoded.designs[0].ids[: encoded.designs[0].ptr[-1]].tolist()
    for bare, design in zip(sharded.encoded.designs, encoded.designs, strict=True):
        assert bare.layout.block_ptr.tolist() == design.layout.block_ptr.tolist()
        assert bare.layout.templates.tolist() == design.layout.templates.tolist()
    assert np.concatenate([one.gold for one in mine]).tolist() == data.outputs.tolist()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_oracle_equals_that_of_all_data(count):
    sharded, plain = oracles(random_corpus(np.random.default_rng(3)), count)
    rng = np.random.default_rng(0)
    weights = plain.zeros()
    for u in weights:
        u[:-1] = rng.normal(size=u[:-1].shape)
    weights[0][:, plain.structure.labels :] = 0
    scale = rng.random(plain.templates)
    parts, mine = sharded.score(weights, scale), plain.score(weights, scale)
    for s in (1.0, 0.3):
        a, b = sharded.hinge(parts, s), plain.hinge(mine, s)
        assert (a.total, a.slope, a.loss) == pytest.approx((b.total, b.slope, b.loss))
        assert a.outputs.tolist() == b.outputs.tolist()
    found, expected = sharded.likelihood(parts), plain.likelihood(mine)
    for name in ("total", "slope", "variance", "entropy"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name))
    out, other = sharded.zeros(), plain.zeros()
    sharded.count(found.counts, out)
    plain.count(expected.counts, other)
    for x, y in zip(out, other, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)
    mixed = sharded.hinge(sharded.mix(0.25, parts, 0.5, parts))
    assert mixed.total == pytest.approx(plain.hinge(plain.mix(0.25, mine, 0.5, mine)).total)
    assert [len(f) for f in sharded.merged.fired] == [len(f) for f in plain.merged.fired]
    assert [sorted(f) for f in sharded.merged.fired] == [sorted(f) for f in plain.merged.fired]


def plain_oracle(name):
    """Return an oracle of trees, of labels seen, of pairs of labels seen, or of real values."""
    rng, data = np.random.default_rng(4), random_corpus(np.random.default_rng(4), sentences=20)
    if name.endswith("tree"):
        return tree_oracle(rng, STRUCTURES[name](0))
    found, labels = oracles(data, 1)[1], len(data.labels)
    encoded = found.encoded.supported(data.outputs, labels) if name in ("labels", "pairs") else found.encoded
    if name == "pairs":
        encoded = encoded.with_seen_pairs(found.structure.sites(data.ptr)[1].tokens, data.outputs, labels)
    if name == "values":
        first, *rest = encoded.designs
        values = rng.choice([0.5, 1, 2], first.ptr[-1]).astype(np.float32)
        encoded = replace(encoded, designs=(replace(first, values=values), *rest))
    return replace(found, encoded=encoded)


@pytest.mark.parametrize("name", ["tree", "projective-tree", "labels", "pairs", "values"])
@pytest.mark.parametrize("count", [1, 3])
def test_shards_of_encoded_data_of_every_kind(name, count):
    plain = plain_oracle(name)
    sharded, rng = split(plain, count), np.random.default_rng(0)
    assert [len(f) for f in sharded.merged.fired] == [len(f) for f in plain.merged.fired]
    for one, other in (
        (sharded, plain),
        (sharded.small(), replace(plain, encoded=merged_like(sharded, plain))),
    ):
        weights = other.zeros()
        for u in weights:
            u[:-1] = rng.normal(size=u[:-1].shape)
        parts, mine = (some.score(weights, np.ones(plain.templates)) for some in (one, other))
        a, b = one.hinge(parts), other.hinge(mine)
        assert (a.total, a.outputs.tolist()) == (pytest.approx(b.total, rel=1e-5), b.outputs.tolist())
        found, expected = one.likelihood(parts), other.likelihood(mine)
        assert found.total == pytest.approx(expected.total, rel=1e-5)
        out, theirs = one.zeros(), other.zeros()
        one.count(found.counts, out)
        other.count(expected.counts, theirs)
        for x, y in zip(out, theirs, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-4)
    assert one.part_shapes()[0] == plain.part_shapes()[0]


def merged_like(sharded, plain):
    """Return the data merged by the groups of the shards, whose hashes order equal columns anew."""
    return merged_by(plain.encoded, sharded._groups)


def test_sums_are_taken_in_a_tree():
    seen = []
    assert tree_reduce(lambda a, b: seen.append(a + b) or a + b, "abcde") == "abcde"
    assert seen == ["ab", "cd", "abcd", "abcde"]


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(
    ("method", "solver", "c"),
    [
        ("mtl", None, 4.0), ("svm", None, 0.3), ("pmtl", None, 1.0), ("mixed", None, 1.0),
        ("mtl", "cutting-plane", 0.3),
        ("crf-l2", None, 0.5), ("crf-l1", None, 0.5), ("irw-crf", None, 0.5),
    ],
)  # fmt: skip
def test_shards_bracket_the_same_optimum(method, solver, c, count):
    data = random_corpus(np.random.default_rng(5), sentences=30)
    options = {"method": method, "solver": solver, "c": c}
    if method in ("crf-l1", "irw-crf"):
        options["eta"] = 1e-4
    one = train(data, TEMPLATES, Options(**options)).fit
    several = train_local_shards(data, TEMPLATES, Options(**options, shards=count)).fit
    if method == "irw-crf":  # another mu, another problem
        assert several.objective == pytest.approx(one.objective, rel=0.02)
        return
    assert several.objective >= several.dual
    assert several.dual <= one.objective * (1 + 1e-6)
    assert one.dual <= several.objective * (1 + 1e-6)
    assert several.converged == one.converged
    assert several.objective == pytest.approx(one.objective, rel=0.021 if one.converged else 0.05)


@pytest.mark.parametrize("more", [{"label_support": "seen"}, {"label_support": "seen", "loss": "hinge"}])
def test_labels_seen_only_are_learned_in_shards(more):
    data = random_corpus(np.random.default_rng(5), sentences=30)
    one = train(data, TEMPLATES, Options(c=1.0, **more))
    several = train_local_shards(data, TEMPLATES, Options(c=1.0, shards=3, **more))
    assert several.fit.converged
    assert several.weights == one.weights
    assert several.fit.objective == pytest.approx(one.fit.objective, rel=0.021)


def test_classes_are_learned_in_shards():
    data = random_items(np.random.default_rng(0), items=60)
    templates = TemplateSet.parse("U0:%x[0,0]\nU1:%x[0,1]\n")
    options = [Options(task="multiclass", shards=k) for k in (1, 3)]
    fits = [train_local_shards(data, templates, some).fit for some in options]
    assert all(fit.converged for fit in fits)
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=0.02)


@pytest.mark.parametrize("method", ["mtl", "pmtl", "crf-l2"])
def test_passes_do_not_depend_on_the_number_of_shards(method):
    data = random_corpus(np.random.default_rng(6), sentences=200, longest=12, words=30)
    options = Options(method=method, loss="log", c=20.0, gap=1e-3)
    fits = [train_local_shards(data, TEMPLATES, replace(options, shards=k)).fit for k in (1, 2, 4)]
    assert all(fit.converged for fit in fits)
    passes = [fit.passes for fit in fits]
    assert max(passes) <= 1.1 * min(passes)


@pytest.mark.parametrize(
    ("method", "solver"), [("mtl", None), ("mtl", "cutting-plane"), ("svm", None), ("crf-l2", None)]
)
def test_the_number_of_threads_does_not_change_the_bits(tmp_path, method, solver):
    data = random_corpus(np.random.default_rng(6), sentences=40)
    before, files = threads.get_threads(), []
    try:
        for count in (1, 3, 3):
            threads.set_threads(count)
            options = Options(method=method, solver=solver, shards=3, c=0.5)
            train_local_shards(data, TEMPLATES, options).model.save(tmp_path / "model.mtl")
            files.append((tmp_path / "model.mtl").read_bytes())
    finally:
        threads.set_threads(before)
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize(
    "given",
    [
        {"method": "mtl", "solver": "cutting-plane"}, {"method": "svm", "solver": "cutting-plane"},
        {"method": "pmtl", "solver": "cutting-plane", "line_search": True},
        {"method": "crf-l2", "solver": "lbfgs"}, {"method": "crf-l1", "eta": 1e-3},
    ],
)  # fmt: skip
def test_one_shard_gives_the_bits_of_no_shard(given, tmp_path):
    data = random_corpus(np.random.default_rng(6), sentences=40)
    options = Options(**given, c=0.5)
    train(data, TEMPLATES, options).model.save(tmp_path / "plain.mtl")
    train_local_shards(data, TEMPLATES, options).model.save(tmp_path / "shard.mtl")
    assert (tmp_path / "plain.mtl").read_bytes() == (tmp_path / "shard.mtl").read_bytes()


def test_a_callback_that_reads_the_weights_changes_nothing():
    data = random_corpus(np.random.default_rng(6), sentences=40)
    seen = []
    looked = train_local_shards(
        data, TEMPLATES, Options(shards=2), lambda record: bool(seen.append(record.now().objective))
    )
    assert all(objective > 0 for objective in seen)
    assert bits(looked.fit) == bits(train_local_shards(data, TEMPLATES, Options(shards=2)).fit)


RUNS = {
    "cutting planes": (CuttingPlane(Stop(gap=1e-3, max_passes=8), patience=3), BlockL1Squared(), 1.0, 3),
    "line search": (CuttingPlane(Stop(gap=1e-3, max_passes=6), line_search=True), PBlock(1.5), 1.0, 2),
    "crf": (LBFGS(Stop(gap=1e-7, max_passes=6)), L2(), 1.0, 2),
    "learned": (LBFGS(Stop(gap=1e-7, max_passes=8)), BlockL1Squared(), 1.0, 2),
}


def fit_of(name, pool=Pool, checkpointer=None):
    solver, penalty, c, count = RUNS[name]
    data = random_corpus(np.random.default_rng(6), 40)
    workers = pool_of(pieces_of(data, count)).workers
    return solver.fit(oracle_of(pool(workers), data)[0], penalty, c, checkpointer=checkpointer)


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_in_shards_gives_the_same_bits(name, tmp_path):
    whole_run = Ending(tmp_path / "whole", -1)
    alone = bits(fit_of(name, checkpointer=whole_run))
    for at in {1, whole_run.places // 2, whole_run.places}:
        with pytest.raises(Enough):
            fit_of(name, checkpointer=Ending(tmp_path / f"{at}", at))
        assert bits(fit_of(name, checkpointer=Ending(tmp_path / f"{at}", -1))) == alone


def test_a_training_is_resumed_with_the_same_number_of_shards_only(tmp_path):
    data = random_corpus(np.random.default_rng(6), 40)

    def fit(shards, stop_at):
        checkpointer = Ending(tmp_path / "state", stop_at, facts=None)
        return train_local_shards(data, TEMPLATES, Options(shards=shards), checkpointer=checkpointer).fit

    with pytest.raises(Enough):
        fit(2, 4)
    with pytest.raises(IncompatibleError, match="shards was 2, is 3"):
        fit(3, -1)
    assert bits(fit(2, -1)) == bits(train_local_shards(data, TEMPLATES, Options(shards=2)).fit)


class FrailPool(Pool):
    """Pool that replaces a worker before every third call; stored values are copies, as with Ray."""

    calls = 0

    def _put(self, key, value):
        return super()._put(key, pickle.loads(pickle.dumps(value)))

    def call(self, method, *arguments, each=None):
        self.calls += 1
        if self.calls % 3 == 0:
            lost = self.calls % self.size
            self.workers[lost] = Shard(lost, self.workers[lost].read)
        return super().call(method, *arguments, each=each)


@pytest.mark.parametrize("name", RUNS)
def test_lost_workers_do_not_change_the_bits(name):
    assert bits(fit_of(name, FrailPool)) == bits(fit_of(name))


def test_workers_cache_results_of_live_stored_values_only():
    sharded, plain = oracles(random_corpus(np.random.default_rng(3)), 1)
    (shard,) = sharded.pool.workers
    one = np.ones(plain.templates)
    parts = sharded.score(plain.zeros(), one)
    sharded.likelihood(parts)
    assert {name for name, *_ in shard._cache} == {"oracle", "parts", "likelihood"}
    parts = sharded.score(plain.zeros(), one)
    sharded.hinge(parts)
    assert sorted(name for name, *_ in shard._cache) == ["oracle", "parts"]


def test_more_shards_than_sentences():
    data = corpus([[("a",)], [("b",)]], [["A"], ["B"]])
    fit = train_local_shards(data, TemplateSet.parse("U0:%x[0,0]\n"), Options(shards=9)).fit
    assert fit.converged
