"""Engines on the command line: what is refused at once, and data in folders. tests/test_ray.py starts ray_pool."""

from pathlib import Path

import pytest
from support.commands import TRAIN

from mtlstruct.cli import training_run
from mtlstruct.distributed import ray_pool
from mtlstruct.errors import MtlError


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:port"])
def test_an_address_where_nobody_answers_is_refused_at_once(address, monkeypatch):
    monkeypatch.setattr(ray_pool, "import_module", lambda name: None)  # Ray is not asked
    with pytest.raises(MtlError, match=f"cannot reach the Ray cluster at {address}: "):
        ray_pool.connect(2, address, None)


def test_missing_ray_is_one_sentence(place, run, monkeypatch):
    monkeypatch.setattr(training_run, "find_spec", lambda name: None)
    ran = run("train a.tpl train.txt n.mtl --engine ray")
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
