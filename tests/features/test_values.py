"""Real values and several entries per token: encoded as by naive loops, trained to a certified optimum."""

import numpy as np
import pytest
from support.duals import check_certificate, keep_books, make_oracle, silent
from support.naive import block_of, entries
from support.naive import corpus as cells_corpus

from mtlstruct.corpus import Column, Corpus, label_outputs
from mtlstruct.errors import IncompatibleError, TemplateError
from mtlstruct.explain.decomposition import shares
from mtlstruct.features.encoded import subset
from mtlstruct.features.index import encode_training
from mtlstruct.formats.sentences import from_dicts
from mtlstruct.model.model import Model
from mtlstruct.objective.regularizers import L2, BlockL1Squared, PBlock
from mtlstruct.solvers import Coordinate, CuttingPlane, Stop
from mtlstruct.structures import MulticlassStructure, SequenceStructure
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.terms import quoted
from mtlstruct.training.train import Options, train


def sentences(seed=0, count=12, longest=5, labels=3, several=True):
    """Dicts with words, numbers, vectors and, if wanted, lists; labels depend on all of them a little."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        n = int(rng.integers(1, longest + 1))
        word, number = rng.integers(0, 5, n), rng.normal(size=n)
        vector = rng.normal(size=(n, 3))
        X.append([])
        for t in range(n):
            token = {"w": f"w{word[t]}", "n": float(number[t]) * 10, "v": vector[t] * 0.1}
            if t:
                token["before"] = f"w{word[t - 1]}"
            if several and rng.random() < 0.7:
                token["in"] = [f"l{k}" for k in rng.choice(4, int(rng.integers(1, 4)), replace=False)]
            X[-1].append(token)
        truth = word + (number > 0) + (vector[:, 0] > 0.5)
        y.append([f"L{int(a) % labels}" for a in truth])
    return X, y


def templates_of(data, transitions=True):
    lines = [f'U{k}:%x[0,"{name}"]' for k, name in enumerate(data.names)]
    return TemplateSet.parse("\n".join(lines + ["B"] * transitions))


def oracle_of(several, structure=SequenceStructure, seed=0, **sizes):
    X, y = sentences(seed, several=several, **sizes)
    if structure is MulticlassStructure:
        X, y = [[token] for s in X for token in s], [[label] for s in y for label in s]
    data = from_dicts(X, y).corpus
    return make_oracle(data, templates_of(data, structure is not MulticlassStructure), structure)


def expected_rows(data, templates, factors):
    """For each token {(template, string): value}, by loops."""
    out = []
    for i in range(len(data)):
        for t in range(data.ptr[i], data.ptr[i + 1]):
            row = {}
            for j, template in enumerate(templates):
                if not template.terms:
                    continue
                (term,) = template.terms
                at = t + term.row
                if not data.ptr[i] <= at < data.ptr[i + 1]:
                    continue
                column = data.columns[term.column]
                if column.ptr is None:
                    found = [(column.ids[at], 1.0)] if column.ids[at] >= 0 else []
                else:
                    span = slice(column.ptr[at], column.ptr[at + 1])
                    values = np.ones(len(column.ids)) if column.values is None else column.values
                    found = zip(column.ids[span], values[span], strict=True)
                for k, x in found:
                    row[j, column.strings[k]] = float(x) * factors[j]
            out.append(row)
    return out


def rows_back(encoded, index):
    """The same from A."""
    design, names = encoded.designs[0], {}
    for r, j in enumerate(index.plan.template_of):
        node = index.plan.uses[r].node
        if node < 0:
            continue
        first = design.layout.block_ptr[design.layout.templates.tolist().index(j)]
        for value, attribute in enumerate(index.maps[r][:-1]):
            if attribute >= 0:
                names[first + attribute] = (j, index.vocabularies[node][value])
    rows = [[] for _ in range(design.rows)]
    for row, k, a, x in entries(design):
        assert block_of(design, row, k) == names[a][0]
        rows[row].append((a, x))
    assert all(np.diff([a for a, _ in row]).min(initial=0) >= 0 for row in rows)
    return [{names[a]: x for a, x in row if x != 0} for row in rows]


@pytest.mark.jitless
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_rows_hold_what_the_dicts_say(several, unit):
    data = from_dicts(*sentences(1, several=several)).corpus
    templates = templates_of(data).resolved(data.names)
    sites = SequenceStructure(3).sites(data.ptr)
    encoded, index = encode_training(data, templates, sites, unit=unit)
    factors = index.factors if unit else np.ones(len(templates))
    assert encoded.designs[0].ragged == several
    got, wanted = rows_back(encoded, index), expected_rows(data, templates, factors)
    got += rows_back(index.encode(data, sites), index)
    wanted += expected_rows(data, templates, np.ones(len(templates)))
    for a, b in zip(got, wanted, strict=True):
        assert a == pytest.approx(b, rel=1e-5)


DICTS = from_dicts([[{"n": 1.5}, {"n": 2.5, "m": "a"}], [{"n": 3.5}]]).corpus
CELLS = cells_corpus([[("a", "0.5", "1,2"), ("b", "_", "3,4")]], [["A", "B"]])


@pytest.mark.parametrize(
    ("data", "lines", "expected"),
    [
        (
            DICTS,
            'U0:%x[-1,"n"]\nU1:%x[1,"n"]\nU2:%x[0,"m"]',
            [{(1, "n"): 2.5}, {(0, "n"): 1.5, (2, "m:a"): 1.0}, {}],
        ),
        (
            CELLS,
            "U0:%x[0,0]\nU1:%value[0,1]\nU2:%value[-1,2]",
            [{(0, "a"): 1.0, (1, "0"): 0.5}, {(0, "b"): 1.0, (2, "0"): 1.0, (2, "1"): 2.0}],
        ),
    ],
    ids=["dicts", "cells"],
)
def test_rows_away_from_the_token(data, lines, expected):
    templates = TemplateSet.parse(lines).resolved(data.names)
    encoded, index = encode_training(data, templates, SequenceStructure(2).sites(data.ptr), unit=False)
    assert rows_back(encoded, index) == expected


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("x", r"column 1, read by %value: expected a number, got 'x' in sentence 2"),
        ("1,2", "expected 1 numbers as in the first cell, got 2 in sentence 2"),
        ("inf", "expected a number, got 'inf'"),
    ],
)
def test_cells_that_are_no_numbers(cell, problem):
    data = cells_corpus([[("a", "1")], [("b", cell)]], [["A"], ["B"]])
    with pytest.raises(IncompatibleError, match=problem):
        encode_training(data, TemplateSet.parse("U:%value[0,1]"), SequenceStructure(2).sites(data.ptr))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        *((line, r"expected %value\[row,column\] alone in a U line")
          for line in ("B:%value[0,0]", "U:%value[0,0]/%x[0,0]", "U:%value[@1,0]")),
        *((line, "holds several entries or numbers per token")
          for line in ('U:%x[0,"n"]/%x[0,"m"]', 'B:%x[0,"n"]', 'U:%lower[0,"n"]', 'U:%x[@1,"n"]')),
        ('U:%x[0,"n"]\nU:%x[1,"n"]', "cannot be shared"),
    ],
)  # fmt: skip
def test_a_value_stands_alone(line, problem):
    data = from_dicts([[{"n": 1.5, "m": "a"}, {"n": 2.0}]], [["A", "B"]]).corpus
    with pytest.raises(TemplateError, match=problem):
        train(data, TemplateSet.parse(line), Options(share_identical=True))


@pytest.mark.parametrize(
    "name", ["w", "a b", 'q"uote', "word[-3:]", "+1:postag", "ñ\\n", "tab\there", "50%", "#"]
)
def test_any_key_can_be_named(name):
    data = from_dicts([[{name: "x"}]]).corpus
    line = f"U:%x[0,{quoted(name)}]"
    templates = TemplateSet.parse(line)
    assert templates.text() == line + "\n"
    (term,) = templates.resolved(data.names)[0].terms
    assert term.column == 0
    assert term.text() == line[2:]


def test_quoted_names_are_met_to_the_letter():
    templates = TemplateSet.parse('U:%x[0,"Word"]\nU:%x[0,word]\nU:%x[0,"word"]').resolved(
        ("form", "word", "Word")
    )
    assert [t.terms[0].column for t in templates] == [2, 0, 1]
    with pytest.raises(TemplateError, match='names column "form2"'):
        TemplateSet.parse('U:%x[0,"form2"]').resolved(("form",))


@pytest.mark.jitless
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("structure", [SequenceStructure, MulticlassStructure])
def test_duals_maintain_weights_and_norms(structure, several):
    oracle = oracle_of(several, structure, 3, count=20)
    assert oracle.encoded.designs[0].slots_aligned != several
    keep_books(oracle, 1.0)


SOLVERS = {
    "coordinate": Coordinate(Stop(gap=2e-3, max_passes=400)),
    "line-search": CuttingPlane(Stop(gap=2e-3, max_passes=400), line_search=True),
}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("regularizer", [BlockL1Squared(), L2(), PBlock(1.5)], ids=lambda r: type(r).__name__)
def test_solvers_meet_at_the_certified_optimum(regularizer, several):
    oracle = oracle_of(several, seed=4, count=9, longest=4)
    fits = [solver.fit(oracle, regularizer, 0.5, silent) for solver in SOLVERS.values()]
    for fit in fits:
        check_certificate(fit, oracle, regularizer, 0.5)
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=5e-3)


def test_slots_that_mix_attributes_are_not_compared_slot_by_slot():
    def design(ids, strings):
        labels = label_outputs(Column(np.int32([0, 1]), ["A", "B"]))
        data = Corpus(
            (Column(np.int32(ids), strings, np.int64([0, 2, 4])),), np.int64([0, 2]), *labels, ("k",)
        )
        sites = MulticlassStructure(2).sites(data.ptr)
        return encode_training(data, TemplateSet.parse('U:%x[0,"k"]'), sites)[0].designs[0]

    both = design([0, 1, 1, 0], ["a", "b"])
    assert not both.ragged
    assert both.slots_aligned  # sorted, they are apart after all
    assert not design([0, 1, 1, 2], ["a", "b", "c"]).slots_aligned


def trained(X, y, **options):
    data = from_dicts(X, y).corpus
    return train(data, templates_of(data), Options(gap=1e-3, c=0.3, **options)), data


def test_with_unit_scaling_the_unit_of_measurement_does_not_matter():
    X, y = sentences(5, 40)
    larger = [[token | {"v": token["v"] * 1024} for token in sentence] for sentence in X]  # exact
    (first, data), (second, _) = trained(X, y), trained(larger, y)
    np.testing.assert_array_equal(first.model.mu, second.model.mu)
    assert first.fit.objective == second.fit.objective
    got = second.model.predict(from_dicts(larger, names=data.names).corpus)
    np.testing.assert_array_equal(first.model.predict(data), got)
    v = data.names.index("v")
    # without it, small units make a template too dear, and large ones make it cheap
    small, large = (trained(some, y, scaling="none")[0].model for some in (X, larger))
    assert small.mu[v] == 0 < large.mu[v]
    assert shares(large, [data])[v] > 0


def test_the_factor_is_that_of_a_mean_square_of_one():
    data = from_dicts([[{"v": np.array([3.0, 4.0])}, {"v": np.array([0.0, 1.0])}, {}]]).corpus
    _, index = encode_training(data, templates_of(data), SequenceStructure(2).sites(data.ptr))
    assert index.factors.tolist() == pytest.approx([1 / np.sqrt((25 + 1) / 2), 1])


def test_a_model_with_values_is_saved_and_predicts_the_same(tmp_path):
    training, data = trained(*sentences(6, 30))
    training.model.save(tmp_path / "m.mtl")
    loaded = Model.load(tmp_path / "m.mtl")
    np.testing.assert_array_equal(loaded.predict(data), training.model.predict(data))
    assert loaded.facts["factors"].keys() <= {str(j) for j in range(len(training.model.templates))}
    # the weights have taken the factors in: part scores of raw values are those of the training's
    structure = SequenceStructure(3)
    encoded, _ = encode_training(data, templates_of(data), structure.sites(data.ptr))
    fit = training.fit
    theirs = encoded.score(fit.weights, fit.scale, structure.widths())[0]
    ours, _ = loaded.index.score(data, structure.sites(data.ptr), loaded.weights)
    np.testing.assert_allclose(ours[0], theirs, atol=1e-4)


def test_subsets_have_values():
    data = from_dicts(*sentences(7, 10)).corpus
    structure = SequenceStructure(3)
    encoded, index = encode_training(data, templates_of(data), structure.sites(data.ptr), unit=False)
    some = np.array([1, 4, 5])
    part, alone = subset(encoded, some, structure.sites(data.ptr)), data.take(some)
    assert rows_back(part, index) == rows_back(index.encode(alone, structure.sites(alone.ptr)), index)
