"""CRFsuite's binary model: a twin of its tagger in Python, round trips, damaged files, python-crfsuite."""

import json
import struct
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from support.naive import all_labelings, random_corpus

from mtlstruct import SequenceLabeler
from mtlstruct.errors import FormatError, IncompatibleError, MtlError, TemplateError
from mtlstruct.formats.key_groups import NamedGroups, nested_names
from mtlstruct.interop import crfsuite
from mtlstruct.model.model import Model
from mtlstruct.serve import requests
from mtlstruct.serve.app import respond
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

WORDS = ("Ann", "Ben", "Oslo", "Rome", "in", "and", "ö")


def sentences(count=40, seed=0):
    """Return feature dicts of all kinds, and labels."""
    rng = np.random.default_rng(seed)
    X = []
    for _ in range(count):
        words = rng.choice(WORDS, rng.integers(1, 5)).tolist()
        tokens = [{"word": w, "title": w.istitle(), "length": len(w) / 3, "in": [w[0], "all"]} for w in words]
        for before, after in pairwise(tokens):
            before["next"] = {key: after[key] for key in ("word", "title")}
        X.append(tokens)
    return X, [[str(rng.integers(3)) + "ABC"[len(token["word"]) % 3] for token in tokens] for tokens in X]


@pytest.fixture(scope="module")
def model():
    return SequenceLabeler(method="crf-l2").fit(*sentences()).model_


def lookup(data, at, text):
    """Return the number of a text in the CQDB at an offset, by its hash tables; None if it is not there."""
    key = text.encode() + b"\0"
    hashed = crfsuite.lookup3(key)
    table, slots = struct.unpack_from("<II", data, at + 24 + 8 * (hashed % 256))
    k = (hashed >> 8) % slots if slots else 0
    while slots:
        found, offset = struct.unpack_from("<II", data, at + table + 8 * k)
        if not offset:
            return None
        number, length = struct.unpack_from("<II", data, at + offset)
        if (found, data[at + offset + 8 : at + offset + 8 + length]) == (hashed, key):
            return number
        k = (k + 1) % slots
    return None


def references(data, chunk, number):
    """Return the features that a label or an attribute refers to, as (target, weight)."""
    (at,) = struct.unpack_from("<I", data, chunk + 12 + 4 * number)
    (count,) = struct.unpack_from("<I", data, at)
    start = struct.unpack_from("<I", data, 28)[0] + 12
    numbers = struct.unpack_from(f"<{count}I", data, at + 4)
    return [struct.unpack_from("<Id", data, start + 20 * n + 8) for n in numbers]


def flat(key, value):
    """Yield attributes and values of a key, as python-crfsuite does."""
    if isinstance(value, dict):
        for inner, deeper in value.items():
            yield from flat(f"{key}:{inner}", deeper)
    elif isinstance(value, list):
        yield from ((f"{key}:{entry}", 1.0) for entry in value)
    else:
        yield (f"{key}:{value}", 1.0) if isinstance(value, str) else (key, float(value))


def scores_in(data, tokens):
    """Return node and edge scores as CRFsuite computes them from the bytes of a model."""
    L = struct.unpack_from("<I", data, 20)[0]
    _, _, attributes, of_labels, of_attributes = struct.unpack_from("<5I", data, 28)
    nodes, edges = np.zeros((len(tokens), L)), np.zeros((L, L))
    for label in range(L):
        for target, weight in references(data, of_labels, label):
            edges[label, target] += weight
    for row, token in zip(nodes, tokens, strict=True):
        for text, value in (pair for key, given in token.items() for pair in flat(key, given)):
            number = lookup(data, attributes, text)
            for target, weight in () if number is None else references(data, of_attributes, number):
                row[target] += weight * value
    return nodes, edges


def test_a_tagger_that_reads_the_bytes_finds_the_same_labels_and_probabilities(model, tmp_path):
    crfsuite.write(model, tmp_path / "m.crfsuite")
    data = (tmp_path / "m.crfsuite").read_bytes()
    assert struct.unpack_from("<I", data, 4)[0] == len(data)
    X, _ = sentences(12, seed=1)
    for tokens, best, probabilities in zip(X, model.predict(X), model.predict_marginals(X), strict=True):
        nodes, edges = scores_in(data, tokens)
        paths = np.array(list(all_labelings(len(tokens), len(model.labels))))
        total = nodes[np.arange(len(tokens)), paths].sum(axis=1) + edges[paths[:, :-1], paths[:, 1:]].sum(
            axis=1
        )
        assert [model.labels[y] for y in paths[total.argmax()]] == best
        weight = np.exp(total - total.max())
        for t, token in enumerate(probabilities):
            node = np.bincount(paths[:, t], weight, minlength=len(model.labels)) / weight.sum()
            np.testing.assert_allclose(list(token.values()), node, atol=1e-6)


def test_what_is_written_can_be_read_and_predicts_the_same(model, tmp_path):
    crfsuite.write(model, tmp_path / "m.crfsuite")
    again = crfsuite.to_model(crfsuite.read(tmp_path / "m.crfsuite"))
    again.save(tmp_path / "again.mtl")
    again = Model.load(tmp_path / "again.mtl")
    assert again.names == ("word", "length", "in", "next:word", "next:title", "title")
    X, _ = sentences(30, seed=2)
    assert (
        again.predict(X) == again.predict(X + X)[:30] == model.predict(X)
    )  # one by one, and through a corpus
    assert crfsuite.packed(crfsuite.contents(again)) == crfsuite.packed(
        crfsuite.read(tmp_path / "m.crfsuite")
    )


def test_attributes_of_rows_are_lines_with_their_cells(tmp_path):
    corpus = random_corpus(np.random.default_rng(0), 40, 8, 12)
    templates = TemplateSet.parse("U0:%x[0,0]/%x[-1,1]\nU1:%shape[2,0]\nU2:%x[@1,1]\nU\nB\n")
    model = train(corpus, templates, Options()).model
    rows = list(zip(*(column.cells() for column in corpus.columns), strict=True))
    dicts = crfsuite.to_model(crfsuite.contents(model))
    X = [crfsuite.attributes(model, rows[span]) for span in corpus.sentences()]
    assert X[0][0][:2] == [f"U0:{rows[0][0]}/_B-1", f"U1:{model.index._functions[2](rows[2][0])}"]
    assert [y for found in dicts.predict(X) for y in found] == [
        model.labels[y] for y in model.predict(corpus)
    ]


def test_names_of_attributes_are_groups():
    nested = nested_names(["word:Oslo", "next:word:is", "next:end", "end", "length:d:4", "w[0]=x", "bias"])
    assert nested == ["next"]
    keys = {"word": "word", "next:word": "next:word", "length": "length", "w[0]=x:y": "w[0]", "bias": "bias"}
    assert {key: NamedGroups(nested).get(key) for key in keys} == keys
    assert NamedGroups(None).get("word") == "attributes"
    many = crfsuite.Contents(
        ("a", "b"), tuple(f"w{n}" for n in range(1500)), np.ones((1500, 2)), np.ones((2, 2))
    )
    assert crfsuite.to_model(many).names == ("attributes",)


def test_damaged_files_are_one_sentence(model, tmp_path, run):
    good, bad = crfsuite.packed(crfsuite.contents(model)), tmp_path / "bad.crfsuite"
    rng = np.random.default_rng(0)
    cut = [good[:n] for n in (0, 3, 47, 48, 60, len(good) // 2, len(good) - 1)]
    damaged = [
        good[:at] + bytes([good[at] ^ int(rng.integers(1, 256))]) + good[at + 1 :]
        for at in [*range(48), *rng.integers(48, len(good), 300).tolist()]
    ]
    for data in [*cut, *damaged]:  # either a model that predicts, or this error
        bad.write_bytes(data)
        with suppress(FormatError):
            crfsuite.to_model(crfsuite.read(bad)).predict(sentences(2)[0])
    bad.write_bytes(good[:100])
    run("import", bad, tmp_path / "m.mtl").rejected("expected a consistent model of CRFsuite")
    bad.write_bytes(b"other")
    run("import", bad, tmp_path / "m.mtl").rejected("expected a text model of CRF++", "got text")


def test_commands_work_with_an_imported_model(model, tmp_path, run):
    X, y = sentences(5, seed=3)
    lines = [json.dumps({"tokens": tokens, "labels": labels}) for tokens, labels in zip(X, y, strict=True)]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    model.save(tmp_path / "a.mtl")
    run("export --format crfsuite", tmp_path / "a.mtl", tmp_path / "m").ok()
    run("import", tmp_path / "m", tmp_path / "b.mtl").ok()
    both = [run("predict", tmp_path / f"{name}.mtl", tmp_path / "x.jsonl").ok().out for name in "ab"]
    assert both[0] == both[1] != ""
    for command in ("weights", "evaluate", "explain"):
        run(command, tmp_path / "b.mtl", *([tmp_path / "x.jsonl"] * (command != "weights"))).ok()
    imported = Model.load(tmp_path / "b.mtl")
    reader = requests.RequestReader(imported, requests.Limits())
    found = respond(imported, reader.read({"dicts": X, "explain": 1, "probabilities": True}))
    answers = [[token["label"] for token in sentence["tokens"]] for sentence in found["sentences"]]
    assert answers == imported.predict(X)
    with pytest.raises(MtlError, match="dicts, line 1: expected a list of tokens"):
        reader.read({"dicts": [1]})
    run("report", tmp_path / "b.mtl", tmp_path / "r.html", "--data", tmp_path / "x.jsonl").ok()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("U0:%x[0,0]\nB:%x[0,1]", "no features of two labels and a cell"),
        ("U0:%x[0,0]\nU0:%x[1,0]", "--rename"),
    ],
)
def test_what_cannot_be_exported(lines, problem):
    data = random_corpus(np.random.default_rng(0), 40, 8, 12)
    model = train(data, TemplateSet.parse(lines), Options()).model
    with pytest.raises((TemplateError, IncompatibleError), match=problem):
        crfsuite.contents(model)


def test_python_crfsuite_gives_the_same_tags_and_marginals(model, tmp_path):
    pycrfsuite = pytest.importorskip(
        "pycrfsuite", reason="python-crfsuite is not installed: NOT compared with it"
    )
    crfsuite.write(model, tmp_path / "m.crfsuite")
    X, y = sentences(30, seed=4)
    trainer = pycrfsuite.Trainer(verbose=False)
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(tokens), labels)
    trainer.train(str(tmp_path / "theirs.crfsuite"))
    theirs = crfsuite.to_model(crfsuite.read(tmp_path / "theirs.crfsuite"))
    for name, ours in (("m", model), ("theirs", theirs)):
        tagger = pycrfsuite.Tagger()
        tagger.open(str(tmp_path / f"{name}.crfsuite"))
        for tokens, found, best in zip(X, ours.predict_marginals(X), ours.predict(X), strict=True):
            assert tagger.tag(pycrfsuite.ItemSequence(tokens)) == best
            for t, token in enumerate(found):
                for label, p in token.items():
                    assert tagger.marginal(label, t) == pytest.approx(p, abs=1e-6)
        tagger.close()
