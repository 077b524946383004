"""Training and prediction use the same features, for every task, stage, function and format.

Each case writes a file, trains on it, saves and loads the model, and reads the file again as `predict`
does. Features are compared as text: those of a site in training, without those pruned, are those of the
model. In training they are also those of the naive definition of a template.
"""

import io
import json
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from support.naive import Arc, expand_arc

from mtlstruct.corpus import ABSENT, Column
from mtlstruct.explain.top_features import NO_OBSERVATION, spelled
from mtlstruct.features.arcs.as_items import ArcItems
from mtlstruct.formats import columns, conll, segmented
from mtlstruct.formats import jsonl as dicts
from mtlstruct.formats.normalization import NORMALIZERS
from mtlstruct.formats.sentences import aligned
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet, boundary
from mtlstruct.templates.functions import FUNCTIONS, LIST, NUMBER, REGEX, VALUE, WAPITI
from mtlstruct.templates.terms import expand
from mtlstruct.training.arc_labels import train_labels
from mtlstruct.training.train import Options, encode, train

WORDS = (
    *("Ann", "ANN", "ann", "Anna", "ａｎｎ", "Ａnn", "An-1", "ßs", "SSS", "İi", "ﬁn", "fin", "x|y", "x"),
    *("1", "１", "12", "1,000", "3.14", "..", "…", "東京", "ﾊﾞ", "バ", "_B-1", "_B+1", "_Ｂ-1", "_ROOT", "_"),
)
"""Words that functions, normal forms and marks make equal."""

CHARACTERS = "aAａＡbB1１２2東京ハﾊ…._ßﬁ"
TAGS = ("N", "V", "Ｎ")
LISTS = {"names": ("ann", "ａｎｎ", "バ", "a", "東")}
ARGUMENTS = {NUMBER: "1", REGEX: '"[a-zß]+"', WAPITI: '"^[Aa1]\\l"', LIST: '"names"'}
CELLS = [name for name in FUNCTIONS if name != VALUE]


def call(name, place, column):
    """A function with its arguments, as a template writes it."""
    return f"%{name}[{','.join((place, column, *(ARGUMENTS[kind] for kind in FUNCTIONS[name].arguments)))}]"


def lines_of(kind, places, column, other):
    """Lines in which each function stands alone, beside the cell itself, and twice."""
    here, there = places
    yield f"{kind}x:%x[{here},{column}]"
    for name in CELLS:
        cell = call(name, here, column)
        yield f"{kind}{name}1:{cell}"
        yield f"{kind}{name}2:{cell}/%x[{there},{other}]"
        yield f"{kind}{name}3:{cell}/{call(name, there, column)}"


def templates_of(lines):
    return TemplateSet.parse("\n".join(lines), lists=LISTS)


TOKENS = [
    *lines_of("U", ("0", "-1"), "0", "1"),
    *lines_of("B", ("0", "1"), "0", "1"),
    *(f"U{name}4:{call(name, '@-1', '0')}/%x[1,0]" for name in CELLS),
    "Uvalue:%value[0,2]",
    "B",
]
ITEMS = [*lines_of("U", ("0", "0"), "0", "1"), "Uvalue:%value[0,2]"]
CUT = [*lines_of("U", ("0", "1"), "0", "0"), "B"]
KEYS = [*lines_of("U", ("0", "-1"), "word", "tag"), "Umany:%x[0,many]", "Unumber:%x[-1,number]", "B"]
KEYS_ALONE = [*lines_of("U", ("0", "0"), "word", "tag"), "Umany:%x[0,many]", "Unumber:%x[0,number]"]
ENDS = [
    *lines_of("A", ("m", "h"), "form", "pos"),
    *lines_of("Ar", ("l", "r+1"), "form", "pos"),
    *(f"A{name}4:{call(name, 'm-1', 'form')}/%direction[h,m]/%distance[h,m]" for name in CELLS),
    "A:%x[h,pos]/%x[m,pos]/%x[m,form]/%x[h,form]",
]
ARCS = [
    *ENDS,
    *(f"A{name}5:{call(name, 'b', 'form')}/%x[m,pos]" for name in CELLS),
    *(f"A{name}6:{call(name, 'b@1', 'form')}" for name in CELLS),
]


@dataclass(frozen=True)
class Case:
    """How the file of a format is written, read for training, and read again in batches for prediction."""

    task: str
    lines: list[str]
    write: object
    read: object
    again: object


def sentences(rng, words, most=6):
    return [[str(word) for word in rng.choice(words, rng.integers(1, most))] for _ in range(12)]


def write_columns(rng):
    rows = (
        "\n".join(f"{w} {rng.choice(TAGS)} {rng.integers(3)} {rng.choice(list('KLM'))}" for w in s)
        for s in sentences(rng, WORDS)
    )
    return "\n\n".join(rows) + "\n"


def write_items(rng):
    return write_columns(rng).replace("\n\n", "\n")


def write_dicts(rng):
    """Tokens may lack a key, have several values of one, and numbers."""
    lines = []
    for words in sentences(rng, WORDS):
        tokens = [
            {"word": w}
            | ({"tag": str(rng.choice(TAGS))} if rng.random() < 0.7 else {})
            | {"many": [str(x) for x in rng.choice(WORDS, rng.integers(3), replace=False)]}
            | ({"number": float(rng.integers(1, 9)) / 4} if rng.random() < 0.5 else {})
            for w in words
        ]
        lines.append(json.dumps({"tokens": tokens, "labels": [str(rng.choice(list("KLM"))) for _ in tokens]}))
    return "\n".join(lines) + "\n"


def write_segmented(rng):
    return "".join(
        "  ".join("".join(rng.choice(list(CHARACTERS), rng.integers(1, 4))) for _ in s) + "\n"
        for s in sentences(rng, WORDS)
    )


def write_trees(rng, universal):
    lines = []
    for words in sentences(rng, WORDS):
        lines += ["# text", "1-2\tab" + "\t_" * 8] if universal and len(words) > 1 else []
        order = rng.permutation(len(words)) + 1
        for m, word in enumerate(words, 1):
            at = int(np.flatnonzero(order == m)[0])
            head = 0 if at == 0 else order[rng.integers(at)]
            tag = rng.choice(TAGS)
            lines.append(f"{m}\t{word}\t_\t{tag}\t{tag}\tx|y\t{head}\t{rng.choice(list('KLM'))}\t_\t_")
        lines.append("")
    return "\n".join(lines) + "\n"


def cases():
    def stream(read, **options):
        return lambda model, file: read(file, source="again", batch_tokens=5, **options)

    def rows(read):
        return lambda model, file: read(file, source="again", batch_tokens=5, columns=model.columns)

    def keys(alone):
        def again(model, file):
            found = dicts.stream(
                file, source="again", batch_tokens=5, alone=alone, names=model.names, groups=model.groups
            )
            return (aligned(corpus, model.names) for corpus in found)

        return again

    cut, trees = stream(segmented.stream, raw=False), stream(conll.stream)
    return {
        "sequence-columns": Case("sequence", TOKENS, write_columns, columns.read, rows(columns.stream)),
        "sequence-dicts": Case("sequence", KEYS, write_dicts, dicts.read, keys(False)),
        "segmentation": Case("segmentation", CUT, write_segmented, segmented.read, cut),
        "multiclass-columns": Case(
            "multiclass",
            ITEMS,
            write_items,
            partial(columns.read, alone=True),
            rows(partial(columns.stream, alone=True)),
        ),
        "multiclass-dicts": Case(
            "multiclass", KEYS_ALONE, write_dicts, lambda path: dicts.read(path, alone=True), keys(True)
        ),
        "conll-x": Case("dependency", ARCS, lambda rng: write_trees(rng, False), conll.read, trees),
        "conll-u": Case("dependency", ARCS, lambda rng: write_trees(rng, True), conll.read, trees),
    }


CASES = cases()
LABELLED = [name for name, case in CASES.items() if case.task != "dependency"]
TREES = [name for name, case in CASES.items() if case.task == "dependency"]
NORMAL = pytest.mark.parametrize("normalize", NORMALIZERS)


class Features:
    """The attributes of an index as text, each by its line and what it stands for; no two are equal."""

    def __init__(self, index):
        sizes = index.sizes.tolist()
        lines = [template.text for template in index.templates]
        found = [[(lines[j], text) for text in spelled(index, j, np.arange(n))] for j, n in enumerate(sizes)]
        kinds = dict.fromkeys(index.kinds)
        self.names = {
            kind: [name for j, some in enumerate(found) if index.kinds[j] == kind for name in some]
            for kind in kinds
        }
        self.all = {name for some in self.names.values() for name in some}
        assert len(self.all) == sum(sizes)

    def fired(self, encoded, factors=None):
        """For each kind and site, the features that fire with their values, which training multiplied by factors."""
        found = []
        for kind, design, row_of in zip(encoded.kinds, encoded.designs, encoded.rows, strict=True):
            names, ids, ptr = self.names.get(kind, []), design.ids.tolist(), design.ptr.tolist()
            values = design.values if len(design.values) else np.ones(ptr[-1], np.float32)
            if len(design.values) and factors is not None:
                owner = np.repeat(design.layout.templates, np.diff(design.layout.block_ptr))
                values = values / np.append(factors[owner], 1.0)[design.ids[: ptr[-1]]]
            values = values.round(4).tolist()
            rows = [
                {names[ids[k]]: values[k] for k in range(start, stop) if ids[k] != design.layout.null_row}
                for start, stop in pairwise(ptr)
            ]
            found.append(rows if row_of is None else [rows[k] for k in row_of.tolist()])
        return found


def assert_same(index, encoded, model, batches):
    """What fires in training, less what was pruned, fires when the model reads the data again."""
    trained = Features(index).fired(encoded, getattr(index, "factors", None))
    kept = Features(model.index)
    parts = [kept.fired(model.index.encode(b, model.structure.sites(b.ptr))) for b in batches]
    assert len(parts) > 1
    for k, rows in enumerate(trained):
        expected = [{name: value for name, value in row.items() if name in kept.all} for row in rows]
        assert [row for part in parts for row in part[k]] == expected
        assert any(expected)


def assert_defined(index, encoded, expected):
    """What fires in training is the text that the definition of each template gives: expected(template, site)."""
    rows = Features(index).fired(encoded)[0]
    for site, row in enumerate(rows):
        assert row == {
            (template.text, expected(template, site) or NO_OBSERVATION): 1.0 for template in index.templates
        }


def normal_cells(corpus, normalize):
    """Return the cells of each column in normal form, and the sentence of each token."""
    cells = [[NORMALIZERS[normalize](cell) for cell in column.cells()] for column in corpus.columns]
    return cells, [span for span in corpus.sentences() for _ in range(span.start, span.stop)]


def prepared(case, tmp_path, seed=0):
    """The corpus of a file, and what opens the file again."""
    content = case.write(np.random.default_rng(seed))
    path = tmp_path / "data"
    path.write_text(content, encoding="utf-8")
    return case.read(path), lambda model: [
        b for b in case.again(model, io.BytesIO(content.encode())) if len(b)
    ]


def loaded(model, tmp_path):
    model.save(tmp_path / "model.mtl")
    return Model.load(tmp_path / "model.mtl")


@NORMAL
@pytest.mark.parametrize(
    ("name", "support"),
    [
        *((name, support) for name in LABELLED for support in ("all", "seen")),
        *((name, "all") for name in TREES),
    ],
)
def test_prediction_uses_the_features_of_training(name, support, normalize, tmp_path):
    case = CASES[name]
    corpus, batches = prepared(case, tmp_path)
    templates = templates_of(case.lines)
    options = Options(task=case.task, normalize=normalize, label_support=support, max_iter=3)
    material = encode(corpus, templates, options)
    model = loaded(train(corpus, templates, options, dataset=material).model, tmp_path)
    assert_same(material.index, material.encoded, model, batches(model))


@NORMAL
@pytest.mark.parametrize("shared", [False, True])
def test_labels_are_learned_from_features_as_templates_define_them(shared, normalize, tmp_path):
    corpus, _ = prepared(CASES["sequence-columns"], tmp_path)
    templates = templates_of(line for line in TOKENS if "%value" not in line and line[0] == "U")
    material = encode(corpus, templates, Options(normalize=normalize, share_identical=shared))
    cells, span_of = normal_cells(corpus, normalize)

    def expected(template, token):
        span = span_of[token]
        n = span.stop - span.start

        def cell(row, column, absolute=False):
            at = (row - 1 if row > 0 else n + row) if absolute else token - span.start + row
            if at < 0:
                return boundary(at)
            return boundary(at - n + 1) if at >= n else cells[column][span.start + at]

        return expand(template, cell, LISTS).partition(":")[2]

    assert_defined(material.index, material.encoded, expected)


@pytest.fixture
def parser(tmp_path):
    """A labelled parser, its training data, and the stage of labels as training encoded it."""

    def made(name, normalize):
        corpus, batches = prepared(CASES[name], tmp_path)
        options = Options(task="dependency", normalize=normalize, max_iter=3)
        ends = templates_of(ENDS).resolved(corpus.names)
        relations = conll.relations(corpus)
        trees = train(corpus, templates_of(["A:%x[h,pos]/%x[m,pos]"]), options).model
        labels = train_labels(corpus, relations, ends, options).model
        arcs = ArcItems(ends, normalize)
        items = replace(arcs.corpus(corpus, corpus.outputs), outputs=np.zeros(corpus.tokens, np.int32))
        items = replace(items, labels=labels.labels)
        material = encode(items, arcs.templates, Options(task="multiclass"))
        return corpus, material, loaded(replace(trees, relations=labels), tmp_path), batches

    return made


@NORMAL
@pytest.mark.parametrize("name", TREES)
def test_labels_of_arcs_are_predicted_from_the_features_they_were_learned_from(name, normalize, parser):
    corpus, material, model, batches = parser(name, normalize)
    found, at = [], 0
    for batch in batches(model):
        found.append(model.arcs(batch, corpus.outputs[at : at + batch.tokens]))
        at += batch.tokens
    assert_same(material.index, material.encoded, model.relations, found)


@NORMAL
def test_labels_of_arcs_are_learned_from_features_as_templates_define_them(normalize, parser):
    corpus, material, _, _ = parser("conll-x", normalize)
    cells, span_of = normal_cells(corpus, normalize)
    arcs = {template.text: template for template in templates_of(ENDS).resolved(corpus.names)}

    def expected(template, token):
        span = span_of[token]
        arc = Arc(int(corpus.outputs[token]), token - span.start + 1, span.stop - span.start)
        found = expand_arc(
            arcs[template.text], arc, lambda place, column: cells[column][span.start + place - 1], LISTS
        )
        return found[0].partition(":")[2]

    assert_defined(material.index, material.encoded, expected)


def test_a_column_with_a_string_twice_is_rejected():
    with pytest.raises(ValueError, match="expected distinct strings in a column, got 3 of which 2 are"):
        Column(np.array([0, 1, 2], np.int32), ["a", "b", "a"])


def test_equal_strings_of_a_merged_column_have_one_id():
    merged = Column.merged(np.array([2, ABSENT, 0, 1], np.int32), ["a", "b", "a"])
    assert merged.ids.tolist() == [0, ABSENT, 0, 1]
    assert merged.strings == ["a", "b"]
    assert merged.cells() == ["a", "", "a", "b"]
