"""Training on data in files: the bytes of training in memory, and the limit of memory."""

import gzip
import mmap
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.commands import TRAIN

from mtlstruct._system import disk_arrays, memory
from mtlstruct.corpus import joined
from mtlstruct.distributed.on_disk import encode_on_disk, readers_of
from mtlstruct.distributed.train import train_local_shards
from mtlstruct.errors import ResourceError
from mtlstruct.formats import columns, partition
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import train

LINES = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]\nU3:%suffix[0,0,1]\nB\nB1:%x[0,0]\n"


@pytest.fixture
def on_disk(tmp_path, monkeypatch):
    """Every array is in a file, which pages leave at once."""
    monkeypatch.setattr(disk_arrays, "MIN_BYTES", 1)
    monkeypatch.setattr(disk_arrays, "RELEASE_SHARE", 0.0)
    monkeypatch.setattr(disk_arrays, "CHECK_SECONDS", 1e-4)
    with disk_arrays.arrays_on_disk(tmp_path):
        yield


@pytest.fixture
def parts(tmp_path):
    """Return readers of three parts of two files."""
    (tmp_path / "data").mkdir()
    sentences = TRAIN.strip().split("\n\n") * 3
    for name, some in (("a", sentences[:5]), ("b", sentences[5:])):
        (tmp_path / "data" / name).write_text("\n\n".join(some) + "\n")
    found = partition.split(partition.files_of(tmp_path / "data"), 3, at_blank_lines=True)
    return [partial(partition.read, part, columns.read) for part in found]


@pytest.mark.parametrize(
    "given",
    [
        {}, {"loss": "hinge"}, {"min_count": 2}, {"scheme": "bioes"}, {"label_support": "seen"},
        {"transition_support": "seen"}, {"method": "crf-l2"}, {"solver": "lbfgs"}, {"share_identical": True},
        {"method": "mira"}, {"method": "svm", "solver": "cutting-plane"}, {"shards": 2},
    ],
)  # fmt: skip
def test_data_on_disk_give_the_bytes_of_data_in_memory(parts, given, tmp_path, on_disk):
    templates, options = TemplateSet.parse(LINES + "U3:%suffix[1,0,1]\n"), Options(**given)
    templates = templates.shared() if options.share_identical else templates
    corpus, dataset = encode_on_disk(parts, templates, options)
    fit = train if options.shards == 1 else train_local_shards
    fit(corpus, templates, options, dataset=dataset).model.save(tmp_path / "disk.mtl")
    fit(joined([read() for read in parts]), templates, options).model.save(tmp_path / "memory.mtl")
    assert (tmp_path / "disk.mtl").read_bytes() == (tmp_path / "memory.mtl").read_bytes()


def test_arrays_keep_their_values_when_their_pages_are_released(on_disk):
    table = disk_arrays.zeros((1000, 30), np.float32)
    assert not table.any()
    for k in range(100):
        table += k
        for mapped in disk_arrays._maps:
            mapped.madvise(mmap.MADV_DONTNEED)
    assert (table == 4950).all()


def test_a_full_disk_is_one_message(on_disk):
    with pytest.raises(ResourceError, match="in a temporary file cannot be had: "):
        disk_arrays.zeros(1 << 55, np.uint8)


def test_parts_are_smaller_where_less_memory_is_free(tmp_path, monkeypatch):
    path, templates = tmp_path / "train.txt", TemplateSet.parse(LINES)
    path.write_text(TRAIN.strip() + "\n")
    counts = []
    for free in (1 << 30, 1 << 11):
        monkeypatch.setattr(memory, "available", lambda free=free: free)
        counts.append(len(readers_of(path, columns.read, templates, at_blank_lines=True)))
    assert counts[0] == 1 < counts[1]
    (tmp_path / "other.txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    packed = readers_of(tmp_path, columns.read, templates, at_blank_lines=True)
    assert [len(read()) for read in packed] == [4, 4]


def test_train_goes_to_disk_where_memory_does_not_suffice(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text(TRAIN.strip() + "\n")
    Path("ner.tpl").write_text(LINES)
    call = ["train", "ner.tpl", "train.txt"]
    assert run(*call, "memory.mtl", "-q").code == 0
    asked = []

    def ensure(needed, what):
        asked.append(what)
        if len(asked) == 1:
            raise ResourceError(f"{what} needs more")

    monkeypatch.setattr(memory, "ensure", ensure)
    done = run(*call, "disk.mtl", "--memory", (memory.resident() + 5e8) / 1e9)
    assert done.code == 0
    assert "encoding 16 tokens needs more: encoding in files beside the model" in done.err
    assert Path("disk.mtl").read_bytes() == Path("memory.mtl").read_bytes()
    assert all(path.suffix for path in tmp_path.iterdir())  # no file of arrays is left
