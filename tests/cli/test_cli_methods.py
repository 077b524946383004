"""Every method of the table on the command line, training from a model, engines, and `bench`."""

import gc
import json
import weakref
from pathlib import Path

import pytest
from support.commands import TRAIN

from mtlstruct.cli import engine
from mtlstruct.cli.commands import bench
from mtlstruct.distributed import ray_pool
from mtlstruct.errors import MtlError
from mtlstruct.model.model import Model
from mtlstruct.objective.oracle import Oracle
from mtlstruct.training import train

RIVALS = ("crf-l2", "crf-l1", "irw-crf", "online-mkl")
TASKS = {"sequence": "a.tpl train.txt", "multiclass": "k.tpl items.txt", "dependency": "arcs.tpl heads.conll"}
pytestmark = pytest.mark.usefixtures("place")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", RIVALS)
def test_each_method_learns_each_structure(method, task, output):
    found = json.loads(output(f"train {TASKS[task]} m.mtl --task {task} --method {method} -c 10 --json -q"))
    assert 0 <= found["dual"] <= found["objective"]
    key = {"sequence": "f1", "multiclass": "accuracy", "dependency": "uas"}[task]
    score = json.loads(output("evaluate m.mtl", TASKS[task].split()[1], "--json"))[key]
    assert score > (70 if task == "dependency" else 85)
    facts = Model.load("m.mtl").facts
    assert facts.get("temperature") == (None if method == "online-mkl" else 1.0)
    table = json.loads(output("weights m.mtl --json"))
    total = sum(row["mu"] for row in table)
    assert total == pytest.approx(1 if method in ("irw-crf", "online-mkl") else len(table))


def test_a_run_from_a_model_begins_where_it_ended(output):
    first = json.loads(output("train a.tpl train.txt a.mtl --method crf-l2 --json -q --gap 0.001"))
    for c, most in (("1", 1), ("1.1", 2)):
        options = f"--method crf-l2 -c {c} --from a.mtl --json -q --gap 0.001"
        again = json.loads(output(f"train a.tpl train.txt b.mtl {options}"))
        assert again["passes"] <= most <= first["passes"]
        assert again["gap"] <= 0.001
    assert json.loads(Path("b.mtl.log.jsonl").read_text().splitlines()[0])["files"]["from"] == "a.mtl"


@pytest.mark.parametrize("task", TASKS)
def test_encoded_data_are_freed_before_the_model_is_built(task, output, monkeypatch):
    """Or the model would come on top of the encoded data and the dual: a fifth of all memory."""
    oracles: list[weakref.ref[Oracle]] = []
    alive: list[bool] = []
    oracle_of, build_model = train.oracle_of, train.build_model

    def noted(*args):
        found = oracle_of(*args)
        oracles.append(weakref.ref(found))
        return found

    def built(*args):
        gc.collect()
        alive.extend(oracle() is not None for oracle in oracles)
        return build_model(*args)

    monkeypatch.setattr(train, "oracle_of", noted)
    monkeypatch.setattr(train, "build_model", built)
    output(f"train {TASKS[task]} m.mtl --task {task}")
    assert alive == [False]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:port"])
def test_an_address_where_nobody_answers_is_refused_at_once(address, monkeypatch):
    monkeypatch.setattr(ray_pool, "import_module", lambda name: None)  # Ray is not asked
    with pytest.raises(MtlError, match=f"cannot reach the Ray cluster at {address}: "):
        ray_pool.connect(2, address, None)


@pytest.mark.parametrize(
    "command",
    [
        "train a.tpl train.txt n.mtl", "train a.tpl train.txt n.mtl --method auto", "tune a.tpl train.txt",
        "predict m.mtl train.txt", "evaluate m.mtl train.txt",
    ],
)  # fmt: skip
def test_missing_ray_is_one_sentence(place, run, monkeypatch, command):
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    ran = run(f"{command} --engine ray")
    ran.rejected("--engine ray needs the package ray: pip install 'mtlstruct[ray]'\n")


@pytest.mark.parametrize("shards", [1, 2])
def test_a_folder_gives_the_model_of_its_files_in_one(place, run, shards):
    sentences = TRAIN.strip().split("\n\n")
    Path("data").mkdir()
    for name, some in (("b", sentences[2:]), ("a", sentences[:2])):
        Path("data", name).write_text("\n\n".join(some) + "\n")
    for data, model in (("train.txt", "one.mtl"), ("data", "two.mtl")):
        run("train a.tpl", data, model, "-q", "--shards", shards).ok()
    assert Path("one.mtl").read_bytes() == Path("two.mtl").read_bytes()


def test_bench_measures_every_step(run, monkeypatch):
    monkeypatch.setattr(bench, "COPIES", 1)
    monkeypatch.setattr(bench, "REPEAT", 1)
    found = run("bench --json").json
    assert list(found) == ["threads", "encode", "pass", "train", "predict", "memory"]
    assert all(0 < entry["value"] < float("inf") for entry in found.values())
    lines = run("bench").ok().out.splitlines()
    assert [line.split()[0] for line in lines] == list(found)
    assert "sentences" in lines[0]
