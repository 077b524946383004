"""Data, templates and models that the tests of the command line share."""

import shutil

import pytest
from support.classes import CLASS_TEMPLATES, CLASS_TRAIN
from support.commands import TEMPLATES, TRAIN, WORDS, write_files
from support.trees import ARC_TEMPLATES, LABELLED_TREES, SENTENCES, conll

from mtlstruct import cli

FILES = {
    "a.tpl": TEMPLATES,
    "train.txt": TRAIN,
    "valid.txt": "en P O\nLima N B-LOC\nvive V O\nAna N B-PER\nSol N I-PER\n\nRio N B-LOC\ncanta V O\n",
    "c.tpl": "U0:%x[-1,0]\nU1:%x[0,0]\nU2:%x[1,0]\nU3:%x[0,0]/%x[1,0]\nB\n",
    "words.txt": WORDS,
    "k.tpl": CLASS_TEMPLATES,
    "items.txt": CLASS_TRAIN,
    "arcs.tpl": ARC_TEMPLATES,
    "heads.conll": conll(SENTENCES),
    "blind.conll": conll(SENTENCES, heads=False),
    "trees.conll": LABELLED_TREES,
}
MODELS = {
    "m.mtl": ("a.tpl train.txt", ""),
    "s.mtl": ("c.tpl words.txt", "--task segmentation -c 10"),
    "k.mtl": ("k.tpl items.txt", "--task multiclass -c 10"),
    "t.mtl": ("arcs.tpl heads.conll", "--task dependency -c 10"),
    "l.mtl": ("arcs.tpl trees.conll", "--task dependency --labels -c 10"),
}


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with the data, and a model of each task trained on them."""
    folder = write_files(tmp_path_factory.mktemp("made"), FILES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for model, (files, options) in MODELS.items():
            assert cli.run(["train", *files.split(), model, "-q", *options.split()]) == 0
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A copy of that folder, which is the current one."""
    folder = shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(folder)
    return folder
