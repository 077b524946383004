"""Files of models and checkpoints: a digest over the whole file detects every change of a byte, cut and tail."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naive import corpus

from fuzz import models
from mtlstruct._system import archive
from mtlstruct.errors import ModelFileError
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet
from mtlstruct.training import checkpoints
from mtlstruct.training.train import Options, train


def write_model(path: Path) -> None:
    data = corpus([[("a",), ("b",)], [("b",), ("a",)]], [["X", "Y"], ["Y", "X"]])
    train(data, TemplateSet.parse("U0:%x[0,0]\nB"), Options(), lambda record: False).model.save(path)


def write_checkpoint(path: Path) -> None:
    checkpoints.write(path, models.FACTS, {"said": ["one"]}, models.Running().pack())


WRITERS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "model": (write_model, Model.load),
    "checkpoint": (write_checkpoint, checkpoints.read),
}


@pytest.fixture(params=WRITERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(kind: str, tmp_path: Path) -> Path:
    path = tmp_path / "file"
    WRITERS[kind][0](path)
    return path


def test_every_change_of_a_byte_is_rejected(kind: str, file: Path) -> None:
    raw, load = file.read_bytes(), WRITERS[kind][1]
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


def test_every_cut_is_rejected(kind: str, file: Path) -> None:
    load = WRITERS[kind][1]
    for size in reversed(range(len(file.read_bytes()))):
        with open(file, "r+b") as out:
            out.truncate(size)
        with pytest.raises(ModelFileError):
            load(file)


def test_every_tail_is_rejected(kind: str, file: Path) -> None:
    raw, load = file.read_bytes(), WRITERS[kind][1]
    tails = [bytes([byte]) for byte in range(256)]
    tails += [bytes(64), bytes(100_000), b"\r\n", raw[-64:], raw[-81:], raw]
    for tail in tails:
        file.write_bytes(raw + tail)
        with pytest.raises(ModelFileError):
            load(file)


def test_the_digest_is_checked_before_the_file_is_parsed(
    kind: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("parsed")

    raw = file.read_bytes()
    file.write_bytes(raw[:-70] + b"x" + raw[-69:])
    monkeypatch.setattr(zipfile, "ZipFile", never)
    with pytest.raises(ModelFileError, match="expected a SHA-256 digest at its end"):
        WRITERS[kind][1](file)
    file.write_bytes(raw[:100] + b"x" + raw[101:])
    with pytest.raises(ModelFileError, match="does not match the SHA-256 digest at its end"):
        WRITERS[kind][1](file)


def test_a_sealed_file_is_parsed(kind: str, file: Path) -> None:
    """The helper of the hostile tests gets changes past the digest, and leaves a right file as it is."""
    raw = file.read_bytes()
    assert models.sealed(raw) == raw
    for changed in (raw[:-200], raw.replace(b"model.json", b"model.jsom"), raw.replace(b"<f8", b"<f9")):
        file.write_bytes(models.sealed(changed))
        with pytest.raises(ModelFileError) as caught:
            WRITERS[kind][1](file)
        assert "SHA-256" not in str(caught.value)


def test_the_file_is_a_zip_that_ends_with_its_digest(file: Path) -> None:
    raw = file.read_bytes()
    with zipfile.ZipFile(file) as members:
        assert members.testzip() is None
        assert members.comment == archive.SEAL + raw[-archive.DIGEST_SIZE :]
    assert raw[-64:].decode() == hashlib.sha256(raw[:-64]).hexdigest()


def test_the_digest_of_a_file_of_many_chunks_is_right(tmp_path: Path) -> None:
    large = np.arange(700_000, dtype=np.int64)
    archive.write(tmp_path / "large", {"a": 1}, {"large": large})
    header, arrays = archive.read(tmp_path / "large")
    assert header == {"a": 1}
    assert np.array_equal(arrays["large"], large)
