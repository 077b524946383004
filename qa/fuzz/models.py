"""Models to be damaged: one small model of each sort, and edits of its header and its arrays made from bytes."""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
import zlib
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import archive
from mtlstruct._system.stateful import Stateful
from mtlstruct.corpus import Corpus
from mtlstruct.formats import columns, conll, segmented
from mtlstruct.formats import jsonl as dicts
from mtlstruct.training import checkpoints
from qa.fuzz import seeds
from qa.fuzz.inputs import Taking

Arrays = dict[str, NDArray[Any]]

ARC_TEMPLATES = (
    "A0:%x[h,FORM]/%x[m,FORM]\nA1:%x[h,POSTAG]/%x[m,POSTAG]/%direction[h,m]\n"
    "A4:%x[h,POSTAG]/%x[b,POSTAG]/%x[m,POSTAG]\n"
)
TREES = "".join(
    "".join(f"{n}\t{w}\t_\t{t}\t{t}\t_\t{h}\t{r}\t_\t_\n" for n, (w, t, h, r) in enumerate(tokens, 1)) + "\n"
    for tokens in (
        [("the", "D", 2, "det"), ("cat", "N", 3, "subj"), ("sleeps", "V", 0, "root")],
        [("dogs", "N", 2, "subj"), ("see", "V", 0, "root"), ("a", "D", 4, "det"), ("man", "N", 2, "obj")],
        [("run", "V", 0, "root"), ("home", "A", 1, "adv")],
    )
)
SORTS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "sequence": (
        "sequence",
        "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%lower[0,1]\nB\nB1:%x[0,1]\n",
        seeds.COLUMNS + "\nLima N B-LOC\ncanta V O\nen P O\nQuito N B-LOC\n",
        (),
    ),
    "segmentation": ("segmentation", "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB\n", seeds.SEGMENTED, ()),
    "multiclass": ("multiclass", "U0:%x[0,0]\nU1:%suffix[0,0,1]\n", seeds.ITEMS + "alto A\nbajo A\n", ()),
    "trees": ("dependency", ARC_TEMPLATES, TREES, ()),
    "relations": ("dependency", ARC_TEMPLATES, TREES, ("--labels",)),
}
"""Task, templates, training data and options of each sort of model."""

VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2, 7, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    "", "a", "\ud800", "\0", "dependency", "sequence", "multiclass", "U0:%x[0,0]\nB", "A0:%x[h,0]", "nfkc",
    [], [0], [0, 0], [[]], [[0, 1]], ["a"], ["a", "b"], {}, {"a": 1}, {"a": []}, [["\ud800"]], "x" * 5000,
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 3, 8, 255, 2**31 - 1, -(2**31), 2**32, 2**62, -(2**63), 0.5, 1e38, -1e38, 1e300,
           float("nan"), float("inf"))  # fmt: skip
DTYPES = ("|b1", "|u1", "<i2", "<i4", "<i8", "<f4", "<f8")


@cache
def bases() -> dict[str, bytes]:
    """A model file of each sort."""
    from mtlstruct import cli

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (task, templates, data, options) in SORTS.items():
            tpl, txt, mtl = (Path(folder) / f"{name}.{end}" for end in ("tpl", "txt", "mtl"))
            tpl.write_text(templates, encoding="utf-8")
            txt.write_text(data, encoding="utf-8")
            wanted = ["train", str(tpl), str(txt), str(mtl), "--task", task, "-c", "10", "-q", "--no-log"]
            if cli.run([*wanted, "--threads", "1", *options]):
                raise SystemExit(f"could not train the model of {name}")
            found[name] = mtl.read_bytes()
    return found


FACTS = {"data": "0" * 64, "options": {"c": 1.0, "method": "mtl"}}
"""What the run of checkpoint() depends on."""


class Running(Stateful):
    """A run whose state has one of each kind of value that a checkpoint holds."""

    state_fields = ("passes", "bound", "weights", "rows", "names", "random")

    def __init__(self) -> None:
        self.passes, self.bound = 3, float("inf")
        self.weights, self.rows = np.zeros((40, 3)), np.arange(12, dtype=np.int32)
        self.names, self.random = ["a", "b"], np.random.default_rng(1)


@cache
def checkpoint() -> bytes:
    """The checkpoint of a run."""
    with tempfile.NamedTemporaryFile() as file:
        checkpoints.write(Path(file.name), FACTS, {"said": ["one"]}, Running().state_dict())
        return Path(file.name).read_bytes()


@cache
def parts_of(raw: bytes) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(raw)
        file.flush()
        return archive.read(file.name)


def sealed(raw: bytes) -> bytes:
    """Make the digest at the end of a changed file right, so that loading goes on to its content."""
    content = raw[: -archive.DIGEST_SIZE]
    if not content.endswith(archive.SEAL):
        content = raw + archive.SEAL
    return content + hashlib.sha256(content).hexdigest().encode()


def scratched(raw: bytes, take: Taking) -> bytes:
    """A file cut short, or with a few other bytes."""
    out = bytearray(raw)
    if take.byte() % 8 == 0:
        del out[take.number(2) % len(out) :]
    for _ in range(take.byte() % 8):
        at = take.number(2) % max(1, len(out))
        at = at if take.byte() % 2 else max(0, len(out) - 1 - at)  # the directory is at the end
        out[at : at + 1] = take.some(1)
    return bytes(out)


def damaged(take: Taking) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of one of the bases, with a few edits."""
    return edited(*parts_of(bases()[take.one_of(list(SORTS))]), take)


def edited(header: dict[str, Any], arrays: Arrays, take: Taking) -> tuple[dict[str, Any], Arrays]:
    """A header and arrays with a few edits."""
    header, arrays = json.loads(json.dumps(header)), dict(arrays)
    for _ in range(1 + take.byte() % 4):
        if take.byte() % 2:
            _edit_header(header, take)
        else:
            _edit_array(arrays, take)
    return header, arrays


def _edit_header(header: dict[str, Any], take: Taking) -> None:
    """Another value, or none, somewhere inside."""
    inside: Any = header
    while True:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        if not keys:
            return
        key = take.one_of(keys)
        deeper = isinstance(inside[key], dict | list) and take.byte() % 3
        if not deeper:
            break
        inside = inside[key]
    match take.byte() % 8:
        case 0:
            del inside[key]
        case 1 if isinstance(inside[key], str):
            text = bytearray(inside[key].encode("utf-8", "surrogatepass"))
            if text:
                text[take.number(2) % len(text)] = take.byte()
            inside[key] = text.decode(errors="surrogateescape")
        case 2 if isinstance(inside, dict):
            inside[str(take.one_of(VALUES))] = deepcopy(inside[key])  # never inside itself
        case 3 if isinstance(inside[key], int):
            inside[key] += take.byte() - 128
        case 4 if key == "relations" and isinstance(inside[key], dict):
            for _ in range(take.byte()):
                inside[key] = {**inside[key], "relations": dict(inside[key])}
        case _:
            inside[key] = deepcopy(take.one_of(VALUES))  # which a later edit may change


def _edit_array(arrays: Arrays, take: Taking) -> None:
    """Other numbers, another type or shape, another array."""
    if not arrays:
        return
    name = take.one_of(sorted(arrays))
    array = arrays[name]
    match take.byte() % 10:
        case 0:
            del arrays[name]
        case 1:
            arrays[name] = arrays[take.one_of(sorted(arrays))]
        case 2:
            arrays[name] = array[: take.byte()]
        case 3:
            arrays[name] = np.concatenate([array, array[: take.byte()]]) if array.ndim else array
        case 4:
            with np.errstate(all="ignore"):
                arrays[name] = array.astype(take.one_of(DTYPES))
        case 5:
            arrays[name] = array.reshape(-1) if take.byte() % 2 else array[None]
        case 6:
            arrays[f"{name}{take.byte()}"] = array
        case _:
            arrays[name] = _poked(array, take)


def _poked(array: NDArray[Any], take: Taking) -> NDArray[Any]:
    out = np.array(array)
    flat = out.reshape(-1)
    for _ in range(1 + take.byte() % 3):
        if not len(flat):
            break
        at = take.number(2) % len(flat)
        if take.byte() % 2:
            with np.errstate(all="ignore"):
                flat[at] = flat[take.number(2) % len(flat)]
        else:
            number = np.float64(take.one_of(NUMBERS))
            with np.errstate(all="ignore"):
                flat[at] = number.astype(out.dtype)
    return out


def zipped(header: dict[str, Any], arrays: Arrays) -> bytes:
    """What `archive.write` would write, NaN and half characters in the header included.

    By hand, since `zipfile` takes longer to write a model than all the rest takes to load it and to label with it.
    """
    entries = [(archive.HEADER, json.dumps(header).encode())]
    entries += [
        (f"{name}.npy", archive.npy_header(array) + array.tobytes()) for name, array in arrays.items()
    ]
    files, directory = bytearray(), bytearray()
    for name, data in entries:
        raw = name.encode("utf-8", "surrogatepass")
        common = (20, 0x800, 0, 0, 0x21, zlib.crc32(data), len(data), len(data), len(raw), 0)
        directory += struct.pack("<4sH5H3I2H3H2I", b"PK\1\2", 20, *common, 0, 0, 0, 0, len(files)) + raw
        files += struct.pack("<4s5H3I2H", b"PK\3\4", *common) + raw + data
    count = len(entries)
    comment = len(archive.SEAL) + archive.DIGEST_SIZE
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), len(files), comment)
    return sealed(bytes(files + directory + end))


@cache
def probes() -> dict[str, Corpus]:
    """A little text for the models of each task: known words, unknown ones, and a sentence of one token."""
    with tempfile.TemporaryDirectory() as folder:

        def written(text: str) -> Path:
            path = Path(folder) / "probe"
            path.write_text(text, encoding="utf-8")
            return path

        return {
            "sequence": columns.read(written("Ana N O\nxyz Q O\n\nen P O\n")),
            "segmentation": segmented.read(written("今天好x\n北\n")),
            "multiclass": columns.read(written("casa N\nzz A\n"), alone=True),
            "dependency": conll.read(written(TREES)),
            "dicts": dicts.read(written(seeds.DICTS), labelled=False),
        }
