"""Files of models and checkpoints: a digest over the whole file detects every change of a byte, cut and tail."""

import hashlib
import os
import zipfile

import numpy as np
import pytest
from support.naive import corpus

from mtlstruct._system import archive
from mtlstruct.errors import ModelFileError
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet
from mtlstruct.training import checkpoints
from mtlstruct.training.train import Options, train
from qa.fuzz import models


def write_model(path):
    data = corpus([[("a",), ("b",)], [("b",), ("a",)]], [["X", "Y"], ["Y", "X"]])
    train(data, TemplateSet.parse("U0:%x[0,0]\nB"), Options()).model.save(path)


def write_checkpoint(path):
    checkpoints.write(path, models.FACTS, {"said": ["one"]}, models.Running().state_dict())


KINDS = {
    "model": (write_model, Model.load),
    "checkpoint": (write_checkpoint, checkpoints.read),
}


@pytest.fixture(params=KINDS)
def case(request, tmp_path):
    """A file, its bytes, and the function that loads it."""
    write, load = KINDS[request.param]
    path = tmp_path / "file"
    write(path)
    return path, path.read_bytes(), load


def test_every_changed_byte_is_rejected(case):
    file, raw, load = case
    with open(file, "r+b", buffering=0) as out:
        for at, byte in enumerate(raw):
            for other in (byte ^ 1, byte ^ 0xFF):
                out.seek(at)
                out.write(bytes([other]))
                with pytest.raises(ModelFileError):
                    load(file)
            out.seek(at)
            out.write(bytes([byte]))
    load(file)


def test_every_cut_and_every_tail_is_rejected(case):
    file, raw, load = case
    for size in reversed(range(len(raw))):
        os.truncate(file, size)
        with pytest.raises(ModelFileError):
            load(file)
    tails = [bytes([byte]) for byte in range(256)]
    for tail in [*tails, bytes(64), bytes(100_000), b"\r\n", raw[-64:], raw[-81:], raw]:
        file.write_bytes(raw + tail)
        with pytest.raises(ModelFileError):
            load(file)


def test_the_digest_is_checked_before_the_file_is_parsed(case, monkeypatch):
    file, raw, load = case

    def never(*_):
        raise AssertionError("parsed")

    monkeypatch.setattr(zipfile, "ZipFile", never)
    for changed, problem in (
        (raw[:-70] + b"x" + raw[-69:], "expected a SHA-256 digest at its end"),
        (raw[:100] + b"x" + raw[101:], "does not match the SHA-256 digest at its end"),
    ):
        file.write_bytes(changed)
        with pytest.raises(ModelFileError, match=problem):
            load(file)


def test_the_file_is_a_zip_that_ends_with_its_digest(case, tmp_path):
    large = np.arange(700_000, dtype=np.int64)  # several chunks of the digest
    archive.write(tmp_path / "large", {"a": 1}, {"large": large})
    header, arrays = archive.read(tmp_path / "large")
    assert header == {"a": 1}
    assert np.array_equal(arrays["large"], large)
    for file in (case[0], tmp_path / "large"):
        raw = file.read_bytes()
        with zipfile.ZipFile(file) as members:
            assert members.testzip() is None
            assert members.comment == archive.SEAL + raw[-archive.DIGEST_SIZE :]
        assert raw[-64:].decode() == hashlib.sha256(raw[:-64]).hexdigest()
