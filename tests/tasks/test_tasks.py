"""One object per task: what commands, server and report ask of it; no other code tests the name of a task."""

import io
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from support.commands import TRAIN, WORDS
from support.trees import SENTENCES, conll

import mtlstruct
from mtlstruct.errors import IncompatibleError
from mtlstruct.structures import structures_of
from mtlstruct.tasks import TASKS, FileOptions, OutputOptions, Source, task_of
from mtlstruct.training.options import Task as Name

ROOT = Path(mtlstruct.__file__).parent
NAME_TEST = re.compile(r"task (==|!=|in|not in)")
FILES = {
    "sequence": ("U0:%x[0,0]\nB\n", TRAIN),
    "segmentation": ("U0:%x[0,0]\nB\n", WORDS),
    "multiclass": ("U0:%x[0,0]\n", "a x\nb y\nc x\nd y\n"),
    "dependency": ("A0:%x[h,form]/%x[m,form]\nA1:%x[h,pos]/%x[m,pos]\n", conll(SENTENCES)),
}
EVERY = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


def test_at_most_eight_tests_of_the_task_name_are_outside_tasks():
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (*ROOT.rglob("*.py"), *ROOT.rglob("*.js"))
        if path.relative_to(ROOT).parts[0] != "tasks"
        for line in path.read_text("utf-8").splitlines()
        if NAME_TEST.search(line)
    ]
    assert len(found) <= 8, "\n".join(found)


def test_every_task_of_the_command_line_has_an_object():
    assert list(TASKS) == sorted(TASKS, key=get_args(Name).index)
    assert set(TASKS) == set(get_args(Name)) == set(FILES)
    assert all(task.name == name and structures_of(name) for name, task in TASKS.items())


def test_a_structure_of_the_users_is_read_and_scored_as_a_sequence(tmp_path):
    path = tmp_path / "data"
    path.write_text(TRAIN)
    task = task_of("own")
    corpus = task.read(path)
    assert corpus.labels == TASKS["sequence"].read(path).labels
    assert task.score(corpus, corpus.outputs, corpus.labels).as_dict()["f1"] == 100
    with pytest.raises(IncompatibleError, match="the task is own"):
        task.vocabulary(path, "utf-8")


@EVERY
def test_a_file_scored_against_itself_is_perfect(task, tmp_path):
    path = tmp_path / "data"
    path.write_text(FILES[task.name][1])
    corpus = task.read(path)
    found = task.score(corpus, corpus.outputs, corpus.labels)
    same = task.score_files(path, path, None, FileOptions())
    assert found.as_dict()[task.minimum] == same.as_dict()[task.minimum] == 100
    assert task.chosen_score([{"scores": found.as_dict()}]) == task.scores[0]


@EVERY
def test_a_folder_is_one_corpus_except_for_trees(task, tmp_path):
    text = FILES[task.name][1]
    for name in "ab":
        (tmp_path / name).write_text(text)
    if not task.divisible:
        with pytest.raises(IncompatibleError, match="trees are not read from folders"):
            task.read(tmp_path)
        return
    one, both = task.read(tmp_path / "a"), task.read(tmp_path, FileOptions())
    assert both.tokens == 2 * one.tokens
    assert np.array_equal(both.outputs, np.tile(one.outputs, 2))


@EVERY
def test_the_stream_of_a_labelled_file_is_written_back_with_its_labels(task, tmp_path, run):
    """On its own training data a model of a large c writes the file again, in batches of a few tokens."""
    templates, text = FILES[task.name]
    (tmp_path / "t.tpl").write_text(templates)
    (tmp_path / "data").write_text(text)
    model = tmp_path / "m.mtl"
    arguments = ("--task", task.name, "-q", "--no-log", "-c", 100)
    assert run("train", tmp_path / "t.tpl", tmp_path / "data", model, *arguments).code == 0
    loaded = mtlstruct.load(model)
    assert (loaded.alone, loaded.trees, loaded.characters) == (
        task.name == "multiclass",
        task.name == "dependency",
        task.name == "segmentation",
    )
    outputs = []
    for size in (5, 20_000):
        source = Source(io.BytesIO(text.encode()), "data")
        batches = list(task.stream(loaded, source, OutputOptions(size=size)))
        outputs.append("".join(task.format(loaded, batch, None, OutputOptions()) for batch in batches))
    assert outputs[0] == outputs[1] == run("predict", model, tmp_path / "data").out
    found = task.score_model(loaded, gold := task.read(tmp_path / "data"), loaded.predict(gold))
    assert found.as_dict()[task.minimum] > 90
