"""Trees that are long or many: sentences of 1,000 tokens, arcs that are kept in a file, limits of memory."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from naive import is_projective, is_tree
from test_arcs import corpus_of
from test_cli_trees import SENTENCES, TEMPLATES, conll

from mtlstruct import cli
from mtlstruct._system import memory
from mtlstruct._system.shared_arrays import Growing
from mtlstruct.errors import MtlError, ResourceError
from mtlstruct.structures import STRUCTURES
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

ARCS = TemplateSet.parse(
    "A0:%x[h,pos]/%x[m,pos]/%direction[h,m]/%distance[h,m]\nA1:%x[h,pos]/%x[b,pos]/%x[m,pos]"
)


def words(count, seed=0):
    """A sentence in which each word hangs on the next of a higher tag, in a chain to the root."""
    random = np.random.default_rng(seed)
    tags = random.integers(0, 3, count)
    rows = []
    for m, tag in enumerate(tags.tolist()):
        later = np.flatnonzero(tags[m + 1 :] > tag)
        head = m + 2 + int(later[0]) if len(later) else 0 if m == count - 1 else count
        rows.append((f"w{tag}", f"T{tag}", "_", head))
    return rows


@pytest.fixture(scope="module")
def model():
    corpus = corpus_of([words(12, seed) for seed in range(30)])
    return train(corpus, ARCS, Options(task="dependency"), lambda record: False).model


@pytest.mark.parametrize("name", ["tree", "single-root-projective-tree"])
def test_a_sentence_of_1000_tokens_is_parsed(model, name):
    corpus = corpus_of([words(1000)])
    heads = replace(model, structure=STRUCTURES[name](0)).predict(corpus).tolist()
    assert is_tree(heads)
    if name != "tree":
        assert is_projective(heads)
        assert heads.count(0) == 1


def test_a_sentence_of_1000_tokens_is_learned_from():
    corpus = corpus_of([words(1000), words(5)])
    training = train(corpus, ARCS, Options(task="dependency", max_iter=2), lambda record: False)
    assert training.fit.objective >= training.fit.dual > 0


# ---------------------------------------------------------------- memory


def test_vectors_grow_in_memory_and_in_files_alike(tmp_path):
    for folder in (None, tmp_path):
        found = Growing(np.int32, folder)
        for piece in ([1, 2, 3], [], [4]):
            found.extend(np.array(piece, np.int32))
        found.finish()
        found.array[0] = 7
        assert found.array.tolist() == [7, 2, 3, 4]
        found.cut(2)
        assert found.array.tolist() == [7, 2]
        assert os.listdir(tmp_path) == []
    empty = Growing(np.int32, tmp_path)
    empty.finish()
    assert len(empty.array) == 0


@pytest.fixture
def little(monkeypatch):
    """As if there were so little memory that arcs do not fit, though the rest does."""
    monkeypatch.setattr("mtlstruct.training.train.IN_MEMORY", 1e-9)


@pytest.mark.parametrize("method", ["mtl", "mira"])
def test_models_do_not_depend_on_where_arcs_are_kept(tmp_path, monkeypatch, method):
    corpus = corpus_of([words(9, seed) for seed in range(20)])
    files = []
    for share in (1.0, 1e-12):
        monkeypatch.setattr("mtlstruct.training.train.IN_MEMORY", share)
        kept = []
        options = Options(task="dependency", method=method)
        training = train(corpus, ARCS, options, on_encoded=lambda ready, kept=kept: kept.append(ready.folder))
        training.model.save(tmp_path / "model.mtl")
        files.append((tmp_path / "model.mtl").read_bytes())
        assert (kept == [None]) == (share == 1.0)
    assert files[0] == files[1]


def test_a_limit_of_memory(monkeypatch):
    try:
        memory.set_limit(memory.resident() + 10_000_000)
        assert memory.available() <= 10_000_000
        with pytest.raises(ResourceError, match="only"):
            memory.ensure(20_000_000, "this")
    finally:
        memory.set_limit(None)
    with pytest.raises(MtlError, match="above 0"):
        memory.set_limit(0)
    with pytest.raises(ResourceError, match="TMPDIR"):
        memory.ensure_disk(1 << 60, "this")


def test_the_command_line_says_where_arcs_are(tmp_path, capsys, little):
    (tmp_path / "train.conll").write_text(conll(SENTENCES))
    (tmp_path / "arcs.tpl").write_text(TEMPLATES)
    files = [str(tmp_path / name) for name in ("arcs.tpl", "train.conll", "model.mtl")]
    try:
        assert cli.run(["train", *files, "--task", "dependency", "--memory", "8"]) == 0
        assert "arcs are kept in a file in " in capsys.readouterr().err
        assert cli.run(["train", *files, "--task", "dependency", "--memory", "-1"]) == 2
        assert "--memory must be a positive number" in capsys.readouterr().err
        assert cli.run(["train", *files, "--task", "dependency", "--memory", "0.00001"]) == 2
        assert "memory" in capsys.readouterr().err
    finally:
        memory.set_limit(None)
