"""Real values of arcs: a feature is a number times an indicator; trained, stored and explained like others."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.arcs import LINES, NAMES, all_arcs, corpora, corpus_of, naive_features, strings_of
from support.naive import Arc

from mtlstruct.errors import IncompatibleError, TemplateError
from mtlstruct.estimators import DependencyParser
from mtlstruct.explain.decomposition import explain
from mtlstruct.explain.top_features import top_features
from mtlstruct.features.arcs import encode_trees
from mtlstruct.features.pruning import prune
from mtlstruct.model import serialization
from mtlstruct.model.model import Model
from mtlstruct.structures.tree import arc_starts
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.functions import VALUE
from mtlstruct.training.arc_labels import check_labels
from mtlstruct.training.train import Options, train

VALUE_LINES = (
    "A:%value[m,lemma]",
    "A:%value[m,lemma]/%x[h,pos]",
    "A:%x[h,pos]/%value[h-1,lemma]/%x[m,pos]/%direction[h,m]",
    "A:%value[m+1,lemma]/%x[h,pos]/%x[b,pos]",
    "A:%x[l,pos]/%value[l+2,lemma]",
    "A:%value[r,lemma]/%x[b@1,pos]/%x[l,pos]/%distance[h,m]",
    "A:%value[m,lemma]/%position[b]",
)


def numbered(corpus, seed=0):
    """Return the corpus with a number or `_` as the lemma of each word."""
    rng = np.random.default_rng(seed)
    strings = ["_", "-0.5", "1", "2.25", "0"]
    column = replace(
        corpus.columns[1], ids=rng.integers(0, 5, corpus.tokens).astype(np.int32), strings=strings
    )
    return replace(corpus, columns=(corpus.columns[0], column, *corpus.columns[2:]))


def indicator(template):
    """Return the template without its number, and the term of that."""
    kept = [k for k, term in enumerate(template.terms) if term.function != VALUE]
    (value,) = [term for term in template.terms if term.function == VALUE] or [None]
    pieces = (template.pieces[0], *(template.pieces[k + 1] for k in kept))
    return replace(template, terms=tuple(template.terms[k] for k in kept), pieces=pieces), value


def number_of(corpus, term, h, m, i):
    """Return the number that a term reads on an arc, by its definition."""
    start, stop = corpus.ptr[i : i + 2].tolist()
    place = Arc(h, m, stop - start).place(term, 0)
    if place is None or not 1 <= place <= stop - start:
        return 0.0
    cell = corpus.columns[term.column].cells()[start + place - 1]
    return 0.0 if cell == "_" else float(cell)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    corpora(),
    corpora(2),
    st.lists(st.sampled_from(VALUE_LINES), min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from(LINES), max_size=2, unique=True),
    st.integers(0, 99),
)
def test_the_score_of_an_arc_is_the_sum_of_weight_times_value(corpus, other, values, lines, seed):
    corpus, other = numbered(corpus, seed), numbered(other, seed + 1)
    templates = TemplateSet.parse("\n".join([*values, *lines])).resolved(NAMES)
    _, index = encode_trees(corpus, templates, unit=False)
    pairs = [indicator(template) for template in templates]
    features = naive_features(corpus, [plain for plain, _ in pairs])
    assert index.sizes.tolist() == [len(f) * (j not in index.plan.duplicates) for j, f in enumerate(features)]
    rng = np.random.default_rng(seed)
    design = index.encode(other, ()).designs[0]
    weights = rng.normal(size=(design.layout.attributes + 1, 1)).astype(np.float32)
    weights[-1] = 0
    named = {}
    (scores,), _ = index.score(other, (), [weights])
    np.testing.assert_allclose(
        index.encode(other, ()).score([weights], np.ones(len(pairs)))[0], scores, atol=1e-5
    )
    for row, h, m, i, _ in all_arcs(other):
        entries = slice(design.ptr[row], design.ptr[row + 1])
        ids, found, total = design.ids[entries], design.values[entries], 0.0
        blocks = design.layout.attribute_blocks[ids]
        for j, (plain, value) in enumerate(pairs):
            if j in index.plan.duplicates:
                continue
            x = 1.0 if value is None else number_of(other, value, h, m, i)
            strings = set(strings_of(other, plain, h, m, i)) & features[j]
            mine = ids[blocks == j]
            assert len(mine) == len(strings)
            assert found[blocks == j].tolist() == [x] * len(strings)
            total += x * float(weights[mine, 0].sum())
            if len(strings) == 1:
                assert named.setdefault(int(mine[0]), strings) == strings
        assert scores[row, 0] == pytest.approx(total, abs=1e-4)
    # a pruned index that was stored scores alike
    used = [rng.random(b - a) < 0.7 for a, b in pairwise(index.layout.block_ptr.tolist())]
    weights = np.where(np.append(np.concatenate(used), True)[:, None], weights, np.float32(0))
    small, _ = prune(index, used)
    arrays = serialization.index_arrays(small)
    back = serialization.load_index(arrays, small.templates, {"A": "arc"}, "none")
    left = weights[np.append(np.concatenate(used), True)]
    (wanted,), (got,) = (some.score(other, (), [w])[0] for some, w in ((index, weights), (back, left)))
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def trees(seed=0, count=25):
    """Return sentences whose heads follow from numbers: the head is the word with the largest one."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(count):
        n = int(rng.integers(2, 6))
        score = np.round(rng.normal(size=n), 3)
        best = int(score.argmax()) + 1
        out.append(
            [[f"w{rng.integers(4)}", str(x), 0 if m == best else best] for m, x in enumerate(score, 1)]
        )
    return out


def data_of(sentences, lemma=lambda cell: cell):
    data = corpus_of([[(form, "N", "_", head) for form, _, head in one] for one in sentences])
    cells = [lemma(cell) for one in sentences for _, cell, _ in one]
    strings = list(dict.fromkeys(cells))
    ids = np.array([strings.index(cell) for cell in cells], np.int32)
    return replace(
        data, columns=(data.columns[0], replace(data.columns[1], ids=ids, strings=strings), *data.columns[2:])
    )


LEARNED = """A0:%x[m,form]/%x[h,form]
A1:%value[h,lemma]/%direction[h,m]
A2:%value[m,lemma]/%x[h,form]
A3:%distance[h,m]
"""


def trained(data, text=LEARNED, **options):
    return train(data, TemplateSet.parse(text), Options(task="dependency", gap=1e-3, c=0.3, **options))


@pytest.mark.parametrize("how", [{"method": "svm"}, {"method": "mira"}, {"method": "online-mkl"}], ids=str)
def test_methods_learn_from_numbers(how):
    data, new = data_of(trees()), data_of(trees(1))
    assert np.mean(trained(data, **how).model.predict(new) == new.outputs) > 0.8


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("solvers", [("coordinate", "cutting-plane"), ("coordinate", "lbfgs")], ids=str)
def test_solvers_agree_on_numbers(solvers, projective):
    data, new = data_of(trees()), data_of(trees(1))
    loss = "log" if "lbfgs" in solvers else "hinge"
    runs = [trained(data, loss=loss, solver=solver, projective=projective) for solver in solvers]
    assert max(run.fit.dual for run in runs) <= min(run.fit.objective for run in runs) * (1 + 1e-6)
    assert runs[0].fit.objective == pytest.approx(runs[1].fit.objective, rel=5e-3)
    for run in runs:
        assert np.mean(run.model.predict(new) == new.outputs) > 0.8


def test_with_unit_scaling_the_unit_of_measurement_does_not_matter(tmp_path):
    data = data_of(trees())
    larger = data_of(trees(), lambda cell: str(float(cell) * 1024))
    first, second = trained(data), trained(larger)
    assert first.fit.objective == second.fit.objective
    assert second.model.facts["factors"].keys() == {"1", "2"}
    np.testing.assert_array_equal(first.model.predict(data), second.model.predict(larger))
    assert trained(larger, scaling="none").fit.objective != second.fit.objective
    second.model.save(tmp_path / "m.mtl")
    loaded = Model.load(tmp_path / "m.mtl")
    np.testing.assert_array_equal(loaded.predict(larger), second.model.predict(larger))
    structure, (encoded, _) = loaded.structure, encode_trees(larger, TemplateSet.parse(LEARNED))
    (theirs,) = encoded.score(second.fit.weights, second.fit.scale, structure.widths())
    (ours,), _ = loaded.index.score(larger, structure.sites(larger.ptr), loaded.weights)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_numbers_are_explained_and_spelled():
    data = data_of(trees())
    model = trained(data).model
    (scores,), _ = model.index.score(data, model.structure.sites(data.ptr), model.weights)
    for found, first in zip(explain(model, data), arc_starts(data.ptr), strict=False):
        n = len(found.chosen)
        arcs = scores[first : first + n * (n + 1), 0].reshape(n, n + 1)
        known, at = found.rivals >= 0, np.arange(n)
        wanted = arcs[at, found.chosen] - arcs[at, found.rivals]
        np.testing.assert_allclose(found.values.sum(axis=1)[known], wanted[known], atol=1e-4)
    texts = [feature.text for feature in top_features(model, 1, 5)]
    assert sorted(texts) == ["%value[h,lemma]/left", "%value[h,lemma]/right"]


@pytest.mark.parametrize("line", ["A:%value[m,0]/%value[h,0]", "A:%value[b,0]", "A:%value[b@1,0]/%x[h,1]"])
def test_a_line_has_one_number_from_an_end_of_the_arc(line):
    with pytest.raises(TemplateError, match="expected one %value in an A line, counted from h, m, l or r"):
        TemplateSet.parse(line)


def test_columns_of_several_numbers_and_labels_of_arcs_raise_errors():
    templates = TemplateSet.parse("A:%value[m,lemma]")
    data = data_of(trees(), lambda cell: "1,2")
    with pytest.raises(
        IncompatibleError, match="column 1, read by %value: expected one number per word of a tree, got 2"
    ):
        encode_trees(data, templates)
    with pytest.raises(IncompatibleError, match="expected a number, got 'x' in sentence 1"):
        encode_trees(data_of(trees(), lambda cell: "x"), templates)
    with pytest.raises(TemplateError, match="labels of arcs take no real values"):
        check_labels(data, data.columns[0], templates)


def test_rows_and_dicts_from_python_hold_numbers():
    X = [[{"form": form, "score": float(cell)} for form, cell, _ in one] for one in trees()]
    y = [[head for *_, head in one] for one in trees()]
    lines = ["A0:%x[m,form]/%x[h,form]", "A1:%value[h,score]/%direction[h,m]"]
    parser = DependencyParser(lines, gap=1e-3, c=0.3).fit(X, y)
    assert parser.score(X, y) > 0.9
    rows = [[(token["form"], np.array([token["score"]])) for token in one] for one in X]
    vectors = DependencyParser(lines, gap=1e-3, c=0.3, columns=("form", "score")).fit(rows, y)
    assert vectors.predict(rows) == parser.predict(X)
    with pytest.raises(TemplateError, match="score holds numbers: expected %value"):
        DependencyParser(["A:%x[h,score]"], columns=("form", "score")).fit(rows, y)
    pairs = [[(form, np.ones(2)) for form, _ in one] for one in rows]
    with pytest.raises(IncompatibleError, match="expected one number per word of a tree, got 2"):
        DependencyParser(lines, columns=("form", "score")).fit(pairs, y)
