"""Stand-alone taggers: the labels and probabilities of `predict`, from two files and the standard library."""

import ast
import subprocess
import sys

import numpy as np
import pytest
from support.naive import random_corpus

from mtlstruct import SequenceLabeler, cli
from mtlstruct.corpus import Column, Corpus
from mtlstruct.errors import IncompatibleError, InfeasibleError, ModelFileError
from mtlstruct.interop import standalone, standalone_tagger
from mtlstruct.interop.standalone_tagger import Tagger
from mtlstruct.structures.constraints import Constraints
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

FUNCTIONS = r"""U0:%x[0,0]
U1:%suffix[-1,0,1]/%shape[2,0]
U2:%test[0,0,"^w[0-3]$"]/%match[1,1,"\d+"]
U3:%x[@1,0]/%x[@-2,1]
U4:%in[0,0,"some.txt"]
U
B
B1:%lower[0,1]
"""
SHARED = "U0:%x[-1,0]\nU0:%x[0,0]\nU0:%x[1,0]\nB\n"


def trained(text, lists=None, shared=False, **options):
    data = random_corpus(np.random.default_rng(0), 60, 9, 12)
    templates = TemplateSet.parse(text, lists=lists or {})
    templates = templates.shared() if shared else templates
    return train(data, templates, Options(**options)).model


def fresh(seed=5):
    return random_corpus(np.random.default_rng(seed), 50, 9, 14)


def rows_of(data):
    rows = list(zip(*(column.cells() for column in data.columns), strict=True))
    return [rows[span] for span in data.sentences()]


@pytest.fixture(scope="module", params=["functions", "shared", "nfkc", "svm"])
def model(request):
    kind = request.param
    if kind == "functions":
        return trained(FUNCTIONS, {"some.txt": ("w1", "w2")})
    if kind == "shared":
        return trained(SHARED, shared=True)
    return (
        trained("U0:%x[0,0]/%x[1,1]\nB\n", normalize="nfkc")
        if kind == "nfkc"
        else trained(SHARED, method="svm")
    )


@pytest.mark.parametrize("bits", [16, 32])
def test_labels_and_probabilities_are_those_of_the_model(model, bits):
    tagger, data = Tagger(standalone.weights_file(model, model.index, bits)), fresh()
    assert tagger.labels == model.labels
    want = [model.labels[y] for y in model.predict(data).tolist()]
    one_by_one = [label for rows in rows_of(data) for label in tagger.tag(rows)]
    batch = standalone.labels(tagger, data)
    assert one_by_one == batch  # with NumPy and without
    if bits == 32:
        assert batch == want
    found = [list(token.values()) for rows in rows_of(data) for token in tagger.marginals(rows)]
    expected = model.lattice(data).marginals(model.temperature).node
    np.testing.assert_allclose(found, expected, atol=1e-5 if bits == 32 else 1e-2)


def test_constraints_are_those_of_predict(model):
    tagger, data = Tagger(standalone.weights_file(model, model.index, 32)), fresh()
    first, second = model.labels[:2]
    rules = [f"{first}>{second}", f">{first}", f"{second}>"]
    given = np.full(data.tokens, -1, np.int32)
    given[::4] = 2
    pairs = Constraints.from_rules(rules, model.labels)
    want = model.predict(data, pairs)
    assert [y for found in tagger.tag_all(rows_of(data), forbid=rules) for y in found] == [
        model.labels[y] for y in want.tolist()
    ]
    both = model.lattice(data, pairs & Constraints.from_labels(given, len(model.labels)))
    want, node = both.best(), both.marginals(model.temperature).node
    for span, rows in zip(data.sentences(), rows_of(data), strict=True):
        labels = [None if y < 0 else model.labels[y] for y in given[span].tolist()]
        assert tagger.tag(rows, forbid=rules, given=labels) == [model.labels[y] for y in want[span].tolist()]
        found = tagger.marginals(rows, forbid=rules, given=labels)
        np.testing.assert_allclose([list(token.values()) for token in found], node[span], atol=1e-5)
    impossible = [f"{label}>*" for label in model.labels]
    for call in (tagger.tag, tagger.marginals):
        with pytest.raises(InfeasibleError):
            call(rows_of(data)[0] * 2, forbid=impossible)
    with pytest.raises(IncompatibleError, match="expected 1 entries in `given`, got 2"):
        tagger.tag(rows_of(data)[0][:1], given=[None, None])


def test_feature_dicts_have_the_conventions_of_the_model():
    rng = np.random.default_rng(0)
    X = [[token(rng) for _ in range(rng.integers(1, 7))] for _ in range(60)]
    y = [[str(rng.integers(3)) for _ in sentence] for sentence in X]
    for group_by in (None, "^[a-z]+", "*"):
        model = SequenceLabeler(group_by=None if group_by == "*" else group_by).fit(X, y).model_
        if group_by == "*":  # all other keys
            model.facts["groups"] = {"word": "word", "*": "next:word"}
            X = [[{"word": "w1", "next": {"word": "w2"}, "other": 0.5}, {"in": ["l1", "all"]}]]
        tagger = Tagger(standalone.weights_file(model, model.index, 32))
        assert list(tagger.tag_all(X)) == list(map(tagger.tag, X)) == model.predict(X)
        want = [p for sentence in model.predict_marginals(X) for token in sentence for p in token.values()]
        found = [p for sentence in X for token in tagger.marginals(sentence) for p in token.values()]
        np.testing.assert_allclose(found, want, atol=1e-5)


def token(rng):
    word = f"w{rng.integers(6)}"
    return {
        "word": word,
        "title": bool(rng.integers(2)),
        "size": float(rng.normal()),
        "in": [f"l{rng.integers(3)}", "all"],
        "next": {"word": f"w{rng.integers(6)}", "last": {"one": True}},
        "vector": np.array([0.5, -1.0, float(rng.normal())]),
    } if rng.integers(4) else [f"word={word}", "bias"]  # fmt: skip


def test_numbers_in_cells():
    rng = np.random.default_rng(0)
    cells = [f"{a:.2f},{b:.2f}" for a, b in rng.normal(size=(40, 2))]
    outputs = np.array([int(cell.startswith("-")) for cell in cells], np.int32)
    data = Corpus((Column(np.arange(40, dtype=np.int32), cells),), np.arange(0, 41, 4), outputs, ("a", "b"))
    model = train(data, TemplateSet.parse("U0:%value[0,0]\nU1:%value[-1,0]\nB\n"), Options()).model
    tagger = Tagger(standalone.weights_file(model, model.index, 32))
    assert standalone.labels(tagger, data) == [model.labels[y] for y in model.predict(data).tolist()]
    with pytest.raises(IncompatibleError, match="expected numbers in a cell, got 'x'"):
        tagger.tag([["x"]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two exported taggers, their models and data, in a folder of their own."""
    place = tmp_path_factory.mktemp("standalone")
    text = "".join(f"{' '.join(row)} {'AB'[k % 2]}\n" + "\n" * (k % 3 == 2)
                   for k, row in enumerate(row for rows in rows_of(fresh()) for row in rows))  # fmt: skip
    (place / "data.txt").write_text(text)
    (place / "data.tpl").write_text('U0:%x[0,0]\nU1:%shape[-1,1]\nU2:%test[0,0,"1$"]\nB\n')
    (place / "seg.txt").write_text("ab  c\nabc  ab\n\nc  ab  abc\n" * 4)
    (place / "seg.tpl").write_text("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB\n")
    for name, task in (("data", "sequence"), ("seg", "segmentation")):
        model, source = place / f"{name}.mtl", place / f"{name}.txt"
        train_ = ["train", place / f"{name}.tpl", source, model, "-q", "--no-log", "--task", task]
        for command in (train_, ["export", model, place / name, "--format", "standalone", "--data", source]):
            assert cli.run([*map(str, command)]) == 0
    return place


@pytest.mark.parametrize("numpy", [True, False])
@pytest.mark.parametrize("name", ["data", "seg"])
def test_the_command_writes_what_predict_writes(folder, name, numpy, tmp_path, run):
    want = tmp_path / "want"
    run("predict", folder / f"{name}.mtl", folder / f"{name}.txt", "-o", want).ok()
    program = [sys.executable, "-S" if not numpy else "-s", str(folder / name / "tagger.py")]
    done = subprocess.run([*program, str(folder / f"{name}.txt")], capture_output=True, check=True)
    assert done.stdout == want.read_bytes()
    with (folder / f"{name}.txt").open("rb") as stdin:
        assert subprocess.run(program, stdin=stdin, capture_output=True, check=True).stdout == done.stdout


def test_scores_are_those_of_predict(folder, tmp_path, run):
    source, want = str(folder / "data.txt"), tmp_path / "want"
    run("predict", folder / "data.mtl", source, "-o", want, "--scores").ok()
    program = [sys.executable, str(folder / "data" / "tagger.py"), source, "--scores"]
    found = subprocess.run(program, capture_output=True, check=True, text=True).stdout
    for ours, theirs in zip(found.splitlines(), want.read_text().splitlines(), strict=True):
        (start, end), (other, last) = (
            line.replace("# ", "#/").rpartition("/")[::2] for line in (ours, theirs)
        )
        assert start == other
        assert not end or abs(float(end) - float(last)) < 1e-3


def test_bad_input_is_one_sentence(folder, tmp_path, capsys):
    good = (folder / "data" / "tagger.bin").read_bytes()
    bad = tmp_path / "bad.bin"
    rng = np.random.default_rng(0)
    for position in [0, 5, 20, *rng.integers(32, len(good), 20).tolist()]:
        bad.write_bytes(good[:position] + bytes([good[position] ^ 0x55]) + good[position + 1 :])
        with pytest.raises(ModelFileError):
            Tagger.load(bad)
    for text in (b"", good[:31], b"other"):
        bad.write_bytes(text)
        assert standalone_tagger.main(["--weights", str(bad)]) == 2
        assert "expected the weights file of a stand-alone tagger" in capsys.readouterr().err
    for head in ({"arrays": []}, {"arrays": [["B", 9]]}, {}, []):  # a right checksum of wrong contents
        with pytest.raises(ModelFileError, match="cannot be read"):
            Tagger(standalone_tagger.packed(head, [b"123"]))
    weights = ["--weights", str(folder / "data" / "tagger.bin")]
    (tmp_path / "short.txt").write_text("a b\n\na\n")
    assert standalone_tagger.main([*weights, str(tmp_path / "short.txt")]) == 2
    assert "short.txt, line 3: expected 2 columns, got 1" in capsys.readouterr().err
    assert standalone_tagger.main([*weights, str(tmp_path / "none.txt")]) == 2
    tagger = Tagger.load(folder / "data" / "tagger.bin")
    with pytest.raises(IncompatibleError, match="expected a sentence of rows of 2 cells, got text"):
        tagger.tag("some text")
    with pytest.raises(IncompatibleError, match="token 1: expected 2 cells, got 1"):
        tagger.tag([["a"]])
    assert Tagger.load(folder / "seg" / "tagger.bin").segment("ab c") in (["ab", "c"], ["abc"])


def test_the_program_is_one_namespace_for_python_3_9(folder):
    text = (folder / "data" / "tagger.py").read_text("utf-8")
    tree = ast.parse(text, feature_version=(3, 9))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert len(names) == len(set(names))
    modules = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    modules |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {m.partition(".")[0] for m in modules} - {"numpy"} <= sys.stdlib_module_names
    assert "strict=" not in text


def test_what_cannot_be_exported(folder, tmp_path, run):
    export = ["export", folder / "data.mtl", tmp_path]
    run(*export, "--data", folder / "data.txt").rejected("expected --data together with --format standalone")
    (tmp_path / "tagger.py").write_text("print('mine')\n")
    run(*export, "--format", "standalone").rejected("--force")
