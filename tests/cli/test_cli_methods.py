"""Every method of the table on the command line, for labels, classes and trees; and training from a model."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
from support.commands import Output, write_files
from support.trees import ARC_TEMPLATES, SENTENCES, conll

from mtlstruct.model.model import Model
from mtlstruct.objective.oracle import Oracle
from mtlstruct.training import train

RIVALS = ("crf-l2", "crf-l1", "irw-crf", "online-mkl")
LINES = [
    "Ana/B-PER vive/O en/O Lima/B-LOC",
    "Paz/B-PER Ana/I-PER come/O",
    "en/O La/B-LOC Paz/I-LOC vive/O Ana/B-PER",
    "Lima/B-LOC come/O en/O La/B-LOC Paz/I-LOC",
]
TASKS = {
    "sequence": ("w.tpl", "train.txt"),
    "multiclass": ("u.tpl", "items.txt"),
    "dependency": ("arcs.tpl", "train.conll"),
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with data of each task."""
    columns = "\n".join("".join(f"{cell.replace('/', ' ')}\n" for cell in line.split()) for line in LINES)
    files = {
        "train.txt": columns + "\n",
        "items.txt": columns.replace("\n\n", "\n"),
        "w.tpl": "U0:%x[0,0]\nU1:%x[-1,0]\nB\n",
        "u.tpl": "U0:%x[0,0]\nU1:%prefix[0,0,1]\n",
        "train.conll": conll(SENTENCES),
        "arcs.tpl": ARC_TEMPLATES,
    }
    monkeypatch.chdir(write_files(tmp_path, files))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", RIVALS)
def test_each_method_learns_each_structure(method: str, task: str, output: Output) -> None:
    files = TASKS[task]
    found = json.loads(
        output("train", *files, "m.mtl", "--task", task, "--method", method, "-c", "10", "--json", "-q")
    )
    assert 0 <= found["dual"] <= found["objective"]
    key = {"sequence": "f1", "multiclass": "accuracy", "dependency": "uas"}[task]
    score = json.loads(output("evaluate m.mtl", files[1], "--json"))[key]
    assert score > (70 if task == "dependency" else 85)
    facts = Model.load("m.mtl").facts
    assert facts.get("temperature") == (None if method == "online-mkl" else 1.0)
    table = json.loads(output("weights m.mtl --json"))
    total = sum(row["mu"] for row in table)
    assert total == pytest.approx(1 if method in ("irw-crf", "online-mkl") else len(table))


def test_probabilities_of_a_likelihood_need_no_held_out_data(output: Output) -> None:
    output("train w.tpl train.txt m.mtl --method crf-l2 -q")
    printed = output("predict m.mtl train.txt --scores").splitlines()
    assert printed[0].startswith("# 0.")
    assert printed[1].startswith("Ana\tB-PER\tB-PER/0.")


def test_a_run_from_a_model_begins_where_it_ended(output: Output) -> None:
    first = json.loads(output("train w.tpl train.txt a.mtl --method crf-l2 --json -q --gap 0.001"))
    for c, most in (("1", 1), ("1.1", 2)):
        again = json.loads(
            output(
                *("train", "w.tpl", "train.txt", "b.mtl", "--method", "crf-l2", "-c", c),
                *("--from", "a.mtl", "--json", "-q", "--gap", "0.001"),
            )
        )
        assert again["passes"] <= most <= first["passes"]
        assert again["gap"] <= 0.001
    assert json.loads(Path("b.mtl.log.jsonl").read_text().splitlines()[0])["files"]["from"] == "a.mtl"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("w.tpl", "train.txt", "b.mtl", "--from", "none.mtl"), "none.mtl: no such model file"),
        (("w.tpl", "train.txt", "b.mtl", "--from", "a.mtl", "--log", "a.mtl"), "a.mtl"),
        (("u.tpl", "items.txt", "b.mtl", "--task", "multiclass", "--from", "a.mtl"), "is for sequence"),
        (("arcs.tpl", "train.conll", "b.mtl", "--task", "dependency", "--from", "a.mtl"), "trees"),
        (("v.tpl", "train.txt", "b.mtl", "--from", "a.mtl"), "no feature in common"),
        (
            ("w.tpl", "train.txt", "b.mtl", "--loss", "hinge", "--eta", "1e-3"),
            "--eta is for the log loss",
        ),
        (
            ("w.tpl", "train.txt", "b.mtl", "--loss-weights", "O=2"),
            "--loss-weights is for --loss hinge and --loss softmax-margin",
        ),
        (
            ("w.tpl", "train.txt", "b.mtl", "--method", "crf-l2", "--loss-weights", "O=2"),
            "--loss-weights is for --loss hinge and --loss softmax-margin",
        ),
    ],
)
def test_bad_starting_models_and_options_are_rejected(
    arguments: tuple[str, ...], said: str, output: Output
) -> None:
    output("train w.tpl train.txt a.mtl -q")
    Path("v.tpl").write_text("U9:%x[1,0]\n")
    assert said in output("train", *arguments, "-q", code=2)
    assert not Path("b.mtl").exists()


def test_passes_are_bounded_for_online_methods_too(output: Output) -> None:
    found = json.loads(
        output(
            *("train", "w.tpl", "train.txt", "m.mtl", "--method", "online-mkl"),
            *("--max-iter", "3", "--json", "-q"),
        )
    )
    assert found["passes"] == 3


@pytest.mark.parametrize("task", TASKS)
def test_encoded_data_are_freed_before_the_model_is_built(
    task: str, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the model would come on top of the encoded data and the dual: a fifth of all memory."""
    oracles: list[weakref.ref[Oracle]] = []
    alive: list[bool] = []
    oracle_of, build_model = train.oracle_of, train.build_model

    def noted(*args: Any) -> Oracle:
        found = oracle_of(*args)
        oracles.append(weakref.ref(found))
        return found

    def built(*args: Any) -> Model:
        gc.collect()
        alive.extend(oracle() is not None for oracle in oracles)
        return build_model(*args)

    monkeypatch.setattr(train, "oracle_of", noted)
    monkeypatch.setattr(train, "build_model", built)
    output("train", *TASKS[task], "m.mtl", "--task", task)
    assert alive == [False]
