"""Features of arcs against strings in dicts: what fires where, what is counted, what is left out."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.arcs import LINES, NAMES, SITE, all_arcs, corpora, corpus_of, naive_features, strings_of
from support.duals import on_threads

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, ModelFileError, TemplateError
from mtlstruct.features.arcs import encode_trees
from mtlstruct.features.pruning import prune
from mtlstruct.model import serialization
from mtlstruct.templates import TemplateSet, preset


def some_templates(fewest=1):
    lines = st.lists(st.sampled_from(LINES), min_size=fewest, max_size=6)
    return lines.map(lambda some: TemplateSet.parse("\n".join(some)).resolved(NAMES))


def check_rows(encoded, index, corpus, templates, features):
    """Every arc's ids are its strings, one for one, but for duplicates of templates."""
    design = encoded.designs[0]
    names = {}
    n = np.diff(corpus.ptr)
    assert design.rows == int((n * (n + 1)).sum())
    seen = 0
    for row, h, m, i, _ in all_arcs(corpus):
        ids = design.ids[design.ptr[row] : design.ptr[row + 1]].tolist()
        assert len(set(ids)) == len(ids)
        blocks = np.searchsorted(design.layout.block_ptr, ids, side="right") - 1
        by_block = {}
        for id_, block in zip(ids, blocks.tolist(), strict=True):
            by_block.setdefault(int(block), []).append(id_)
        for j, template in enumerate(templates):
            wanted = (
                set()
                if j in index.plan.duplicates
                else set(strings_of(corpus, template, h, m, i)) & features[j]
            )
            got = by_block.get(j, [])
            assert len(got) == len(wanted), (template.text, h, m)
            if len(got) == 1:
                (string,) = wanted
                assert names.setdefault(got[0], (j, string)) == (j, string)
        seen += len(ids)
    assert seen == design.ptr[-1]
    assert len({*names.values()}) == len(names)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(corpora(), corpora(2), some_templates(), st.integers(1, 2), st.integers(0, 99))
def test_rows_counts_and_scores_are_those_of_strings_in_dicts(corpus, other, templates, min_count, seed):
    encoded, index = encode_trees(corpus, templates, min_count=min_count)
    features = naive_features(corpus, templates, min_count=min_count)
    assert index.sizes.tolist() == [len(f) * (j not in index.plan.duplicates) for j, f in enumerate(features)]
    check_rows(encoded, index, corpus, templates, features)
    encoded = index.encode(other, ())
    check_rows(encoded, index, other, templates, features)
    design = encoded.designs[0]
    weights = np.random.default_rng(seed).normal(size=(design.layout.attributes + 1, 1)).astype(np.float32)
    (scores,), rows = index.score(other, (), [weights])
    assert rows == (None,)
    for row in range(design.rows):
        ids = design.ids[design.ptr[row] : design.ptr[row + 1]]
        assert scores[row, 0] == pytest.approx(float(weights[ids, 0].sum()), abs=1e-4)


def test_any_number_of_threads_gives_the_same_bits():
    rng = np.random.default_rng(0)
    sentences = [
        [
            (str(rng.integers(30)), f"P{rng.integers(6)}", "x|y", int((m + rng.integers(1, n + 1)) % (n + 1)))
            for m in range(1, n + 1)
        ]
        for n in rng.integers(1, 25, 60).tolist()
    ]
    corpus = corpus_of(sentences)

    def arrays():
        encoded, index = encode_trees(corpus, preset("dependency", 5))
        design = encoded.designs[0]
        return design.ids, design.ptr, index.table, design.layout.block_ptr

    for one, other in zip(*on_threads((1, 3), arrays), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("U:%x[0,0]", "expected templates of the kind A for trees, got U"),
        ("A:%x[h,9]", "names column 9"),
        ("A:%x[h,colour]", "names column colour, but the data has the columns FORM, LEMMA"),
    ],
)
def test_templates_that_do_not_fit_the_data_are_refused(text, problem):
    corpus = corpus_of([[("a", "N", "_", 0)]])
    with pytest.raises(TemplateError, match=problem):
        encode_trees(corpus, TemplateSet.parse(text))
    with pytest.raises(IncompatibleError, match="heads"):
        encode_trees(Corpus(corpus.columns, corpus.ptr, names=NAMES), TemplateSet.parse("A:%x[h,pos]"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(corpora(), corpora(2), some_templates(), st.integers(0, 99))
def test_a_smaller_index_scores_alike_and_comes_back_from_its_arrays(corpus, other, templates, seed):
    _, index = encode_trees(corpus, templates)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(int(index.sizes.sum()) + 1, 1)).astype(np.float32)
    weights[rng.random(len(weights)) < rng.choice([0.3, 0.9])] = 0
    weights[-1] = 0
    ptr = index.layout.block_ptr
    used = [weights[a:b, 0] != 0 for a, b in pairwise(ptr.tolist())]
    for j in np.flatnonzero(rng.random(len(templates)) < 0.3):
        used[j][:] = False
        weights[ptr[j] : ptr[j + 1]] = 0
    small, live = prune(index, used)
    assert live == [j for j, mask in enumerate(used) if mask.any()]
    left = weights[np.append(np.concatenate(used), True)]
    back = serialization.load_index(serialization.index_arrays(small), small.templates, {"A": "arc"}, "none")
    for text in (corpus, other):
        (wanted,), _ = index.score(text, (), [weights])
        for one in (small, back):
            (scores,), _ = one.score(text, (), [left])
            np.testing.assert_allclose(scores, wanted, atol=1e-4)


def _stored_index():
    corpus = corpus_of([[("a", "N", "_", 2), ("b", "V", "x|y", 0), ("c", "N", "_", 2), ("d", "A", "x", 3)]])
    templates = TemplateSet.parse("A:%x[h,pos]/%x[m,pos]" + SITE + "\nA:%x[l,pos]/%x[b@1,pos]\n")
    _, index = encode_trees(corpus, templates.resolved(NAMES))
    return index.templates, serialization.index_arrays(index)


def set_first_record(table, value):
    table[np.flatnonzero(table[:, 0] >= 0)[0], 1] = value


DAMAGES = {
    "an attribute beyond its template": lambda a: set_first_record(a["arcs/table"], 1 << 40 | 1),
    "classes that there are not": lambda a: set_first_record(a["arcs/table"], 1 << 15),
    "no free row": lambda a: a["arcs/table"][:, 0].__setitem__(slice(None), 7),
    "a key below all": lambda a: a["arcs/table"][:, 0].__setitem__(0, -5),
    "tables out of place": lambda a: a["arcs/first"].__setitem__(-1, 3),
    "a table of an odd size": lambda a: a["arcs/first"].__setitem__(1, 5),
    "a narrow table": lambda a: a.update({"arcs/table": a["arcs/table"][:, :1].copy()}),
    "a table of another type": lambda a: a.update({"arcs/table": a["arcs/table"].astype(np.float64)}),
    "a size below 0": lambda a: a["index/sizes"].__setitem__(0, -1),
    "too few sizes of words": lambda a: a.update({"words/sizes": a["words/sizes"][:-1].copy()}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_arrays_are_refused(damage):
    templates, found = _stored_index()
    found = {name: array.copy() for name, array in found.items()}
    serialization.load_index(found, templates, {"A": "arc"}, "none")
    DAMAGES[damage](found)
    with pytest.raises(ModelFileError):
        serialization.load_index(found, templates, {"A": "arc"}, "none")
