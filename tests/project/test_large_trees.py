"""Trees that are long or many: sentences of 1,000 tokens, limits of memory."""

import re
from dataclasses import replace

import numpy as np
import pytest
from support.arcs import corpus_of
from support.naive import is_projective, is_tree
from support.trees import ARC_TEMPLATES, SENTENCES, conll

from mtlstruct import cli
from mtlstruct._system import memory
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
    return train(corpus, ARCS, Options(task="dependency")).model


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
    training = train(corpus, ARCS, Options(task="dependency", max_iter=2))
    assert training.fit.objective >= training.fit.dual > 0


def test_a_limit_of_memory():
    memory.trim()
    try:
        memory.set_limit(memory.resident() + 10_000_000)
        assert memory.available() <= 10_000_000
        with pytest.raises(ResourceError, match="only"):
            memory.ensure(20_000_000, "this")
    finally:
        memory.set_limit(None)
    with pytest.raises(MtlError, match="above 0"):
        memory.set_limit(0)


def test_training_stops_with_an_estimate_if_arcs_do_not_fit(tmp_path, capsys):
    (tmp_path / "train.conll").write_text(conll(SENTENCES))
    (tmp_path / "arcs.tpl").write_text(ARC_TEMPLATES)
    files = [str(tmp_path / name) for name in ("arcs.tpl", "train.conll", "model.mtl")]
    try:
        assert cli.run(["train", *files, "--task", "dependency", "--memory", "-1"]) == 2
        assert "--memory must be a number from" in capsys.readouterr().err
        assert cli.run(["train", *files, "--task", "dependency", "--memory", "0.00001"]) == 2
        assert re.search(r"encoding \d+ arcs needs about .* of memory, but only", capsys.readouterr().err)
    finally:
        memory.set_limit(None)


def test_predicting_stops_with_an_estimate_if_arcs_do_not_fit(model, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(ResourceError, match="scoring 10,100 arcs"):
        model.predict(corpus_of([words(100)]))
