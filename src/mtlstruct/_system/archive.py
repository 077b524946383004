"""The container of models and checkpoints: one zip of `model.json` and plain arrays, memory-mapped.

Entries are stored uncompressed (so nothing can inflate), each array as a .npy whose data begin on a
64-byte boundary, names sorted, times fixed: equal content gives equal bytes. The zip comment ends the file
with the SHA-256 digest of all bytes before the digest. `read` checks it first: a file with a changed byte,
a cut or a tail is rejected before anything is parsed.

The digest detects damage, not forgery, so `read` trusts nothing behind it either: names, methods, sizes,
dtypes and shapes are checked before an array is mapped, entries must not overlap (so that no file costs
more than its own size), and names are keys that never become paths. No pickle, ever.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.atomic_write import replacing
from mtlstruct.errors import ModelFileError

ALIGNMENT = 64
HEADER = "model.json"
SEAL = b"mtlstruct sha256 "
"""Start of the zip comment. The hexadecimal digest of all bytes before it follows and ends the file."""

DIGEST_SIZE = 64
MOST_ENTRIES = 200_000
MOST_JSON = 256 << 20
DTYPES = {"|u1", "<i4", "<i8", "<f4", "<f8"}
_DESCRIBED = re.compile(
    rb"\{'descr': '([|<][uif][148])', 'fortran_order': False, 'shape': "
    rb"\(((?:[0-9]{1,15}(?:,|, |(?=\))))*)\)(?:, )?\} *\n?"
)
"""What numpy writes above an array, and nothing else: no expression is ever evaluated."""

_CHUNK = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LOCAL = struct.Struct("<4s5H3I2H")  # local file header of the zip format


def write(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes header and arrays to `path`, atomically."""
    text = json.dumps(header, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False)
    with replacing(path, "w+b") as out:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            archive.comment = SEAL + b"0" * DIGEST_SIZE
            _add(archive, out, HEADER, text.encode(), b"")
            for name in sorted(arrays):
                array = np.ascontiguousarray(arrays[name])
                body = array.data.cast("B") if array.size else b""
                _add(archive, out, f"{name}.npy", npy_header(array), body)
        _write_digest(out)


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the mapped arrays of a file that is whole; ModelFileError for anything else."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"PK\x03\x04":
                raise ModelFileError(f"{path}: not a model file: expected a zip archive")
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            _check_digest(path, memoryview(view))
            with zipfile.ZipFile(file) as archive:
                entries = _checked_entries(path, archive, len(view))
        return _read_entries(path, memoryview(view), entries)
    except ModelFileError:
        raise
    except FileNotFoundError:
        raise ModelFileError(f"{path}: no such model file") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path}: expected a model file, got a folder") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot read the model: {error.strerror or error}") from None
    except (zipfile.BadZipFile, ValueError, KeyError, struct.error, NotImplementedError, EOFError, RecursionError,
            OverflowError, TypeError, MemoryError) as error:  # fmt: skip
        raise ModelFileError(f"{path}: the model file is damaged: {error}") from None


def _write_digest(out: IO[bytes]) -> None:
    """Replaces the last bytes of a finished file by the digest of all bytes before them."""
    left = out.seek(0, os.SEEK_END) - DIGEST_SIZE
    out.seek(0)
    seen = hashlib.sha256()
    while left > 0 and (chunk := out.read(min(left, _CHUNK))):
        seen.update(chunk)
        left -= len(chunk)
    out.seek(-DIGEST_SIZE, os.SEEK_END)
    out.write(seen.hexdigest().encode())


def _check_digest(path: str | Path, view: memoryview) -> None:
    sealed, found = view[:-DIGEST_SIZE], view[-DIGEST_SIZE:]
    if sealed[-len(SEAL) :] != SEAL:
        raise ModelFileError(
            f"{path}: expected a SHA-256 digest at its end: the file is damaged, of an earlier version, "
            "or not from mtlstruct"
        )
    if hashlib.sha256(sealed).hexdigest().encode() != found:
        raise ModelFileError(f"{path}: the file is damaged: it does not match the SHA-256 digest at its end")


def _add(archive: zipfile.ZipFile, out: IO[bytes], name: str, head: bytes, body: Any) -> None:
    """One stored entry whose data start on a boundary: the zip's extra field takes up the slack."""
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = 0o644 << 16
    info.create_system = 3
    fixed = out.tell() + _LOCAL.size + len(info.filename.encode()) + 20  # 20: the zip64 extra field
    slack = -(fixed + 4) % ALIGNMENT
    info.extra = struct.pack("<HH", 0x4D54, slack) + bytes(slack)
    with archive.open(info, "w", force_zip64=True) as entry:
        entry.write(head)
        entry.write(body)


def npy_header(array: NDArray[Any]) -> bytes:
    """What stands above the data of an array in its entry."""
    described = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    text = repr(described).encode("latin1")
    text += b" " * (-(len(text) + 11) % ALIGNMENT) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def _checked_entries(path: str | Path, archive: zipfile.ZipFile, size: int) -> dict[str, tuple[int, int]]:
    """name -> (where the local header stands, data size) of entries that are what they should be."""
    infos = archive.infolist()
    names = [info.filename for info in infos]
    if len(infos) > MOST_ENTRIES or len({name.removesuffix(".npy") for name in names}) != len(names):
        raise ModelFileError(
            f"{path}: the model file is damaged: {len(infos)} entries, some of them repeated"
        )
    if HEADER not in names:
        raise ModelFileError(f"{path}: not a model file: it has no {HEADER}")
    for info in infos:
        if (
            info.compress_type != zipfile.ZIP_STORED
            or info.file_size != info.compress_size
            or info.flag_bits & 1
        ):
            raise ModelFileError(
                f"{path}: entry {info.filename!r} is compressed or encrypted, expected stored"
            )
        if info.file_size > size or info.header_offset < 0 or info.header_offset + _LOCAL.size > size:
            raise ModelFileError(f"{path}: entry {info.filename!r} does not lie inside the file")
    return {info.filename: (info.header_offset, info.file_size) for info in infos}


def _read_entries(
    path: str | Path, view: memoryview, entries: dict[str, tuple[int, int]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    header: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}
    taken = 0
    for name, (offset, size) in sorted(entries.items(), key=lambda item: item[1]):
        if offset < taken:
            raise ModelFileError(
                f"{path}: entry {name!r} lies inside another entry, expected one after the other"
            )
        signature, *_, name_length, extra_length = _LOCAL.unpack_from(view, offset)
        start = offset + _LOCAL.size + name_length + extra_length
        taken = start + size
        data = view[start:taken]
        if signature != b"PK\x03\x04" or len(data) != size:
            raise ModelFileError(f"{path}: entry {name!r} is not where the directory of the file says")
        if name == HEADER:
            if size > MOST_JSON:
                raise ModelFileError(f"{path}: {HEADER} has {size} bytes, expected at most {MOST_JSON}")
            header = _parsed(path, bytes(data))
        else:
            arrays[name.removesuffix(".npy")] = _map_array(path, name, data)
    if not isinstance(header, dict):
        raise ModelFileError(f"{path}: {HEADER} holds {type(header).__name__}, expected an object")
    return header, arrays


def _parsed(path: str | Path, data: bytes) -> Any:
    """JSON in UTF-8 without NaN and without halves of characters, which no file of ours has."""
    text = data.decode()
    found = json.loads(text, parse_constant=_no_constant)
    if "\\ud" in text.lower():  # an escape, or a backslash that stands before these letters
        json.dumps(found, ensure_ascii=False).encode()
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{HEADER} holds {name}, expected numbers that are finite")


def _map_array(path: str | Path, name: str, data: memoryview) -> NDArray[Any]:
    if bytes(data[:8]) != b"\x93NUMPY\x01\x00":
        raise ModelFileError(f"{path}: entry {name!r} is not an array")
    (length,) = struct.unpack_from("<H", data, 8)
    described = _DESCRIBED.fullmatch(bytes(data[10 : 10 + length]))
    if described is None or (dtype := described[1].decode()) not in DTYPES:
        raise ModelFileError(f"{path}: array {name!r} has an unexpected type or shape")
    shape = tuple(int(number) for number in described[2].split(b",") if number.strip())
    if len(shape) > 3:
        raise ModelFileError(f"{path}: array {name!r} has {len(shape)} dimensions, expected at most 3")
    body = data[10 + length :]
    count = math.prod(shape)
    if count * np.dtype(dtype).itemsize != len(body):
        raise ModelFileError(f"{path}: array {name!r} has {len(body)} bytes, its shape says otherwise")
    return np.frombuffer(body, dtype).reshape(shape)
