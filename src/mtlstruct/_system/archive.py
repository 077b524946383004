"""File format of models and checkpoints: a zip of `model.json` and plain arrays, memory-mapped.

Entries are stored uncompressed (so nothing can inflate), each array as a .npy whose data begin on a
64-byte boundary, names sorted, times fixed: equal content gives equal bytes. The zip comment ends
the file with the SHA-256 digest of all bytes before the digest. `read` checks it first: a file with
a changed byte, a cut or a tail is rejected before anything is parsed.

The digest detects damage, not forgery. `read` therefore also checks names, methods, sizes, dtypes
and shapes before it maps an array; entries must not overlap, so that no file costs more than its
own size; names are keys that never become paths. Nothing is pickled.
"""

import hashlib
import io
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
"""Start of the zip comment; the digest in hexadecimal follows."""

DIGEST_SIZE = 64
MAX_ENTRIES = 200_000
MAX_JSON_BYTES = 256 << 20
DTYPES = {"|b1", "|u1", "<u2", "<u4", "<i2", "<i4", "<i8", "<f4", "<f8"}
_NPY_HEADER = re.compile(
    rb"\{'descr': '([|<][buif][1248])', 'fortran_order': False, 'shape': "
    rb"\(((?:[0-9]{1,15}(?:,|, |(?=\))))*)\)(?:, )?\} *\n?"
)
"""The header that numpy writes above an array, and nothing else: no expression is evaluated."""

_CHUNK_BYTES = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LOCAL = struct.Struct("<4s5H3I2H")  # local file header of the zip format


def write(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write header and arrays to `path`, atomically."""
    text = json.dumps(header, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False)
    with replacing(path, "w+b") as out:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            archive.comment = SEAL + b"0" * DIGEST_SIZE
            _add(archive, out, HEADER, text.encode(), b"")
            for name in sorted(arrays):
                array = np.ascontiguousarray(arrays[name])
                body = array.data.cast("B") if array.size else b""
                _add(archive, out, f"{name}.npy", npy_header(array), body)
        left = out.seek(0, os.SEEK_END) - DIGEST_SIZE
        out.seek(0)
        seen = hashlib.sha256()
        while left > 0 and (chunk := out.read(min(left, _CHUNK_BYTES))):
            seen.update(chunk)
            left -= len(chunk)
        out.seek(-DIGEST_SIZE, os.SEEK_END)
        out.write(seen.hexdigest().encode())


def read(source: str | Path | bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a file or of its content; raise ModelFileError if damaged."""
    path = name_of(source)
    try:
        with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
            if (head := file.read(4)) != b"PK\x03\x04":
                hint = ", got a model of CRFsuite (mtlstruct import reads it)" if head == b"lCRF" else ""
                raise ModelFileError(f"{path}: not a model file: expected a zip archive{hint}")
            view: Any = source
            if not isinstance(source, bytes):
                view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            _check_digest(path, memoryview(view))
            with zipfile.ZipFile(file) as archive:
                entries = _checked_entries(archive, len(view))
        return _read_entries(memoryview(view), entries)
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


def name_of(source: str | Path | bytes) -> str:
    """Return what messages call a file or the content of one."""
    return "model in memory" if isinstance(source, bytes) else str(source)


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
    """Add a stored entry whose data start on a 64-byte boundary, by padding in the extra field."""
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = 0o644 << 16
    info.create_system = 3
    fixed = out.tell() + _LOCAL.size + len(info.filename.encode()) + 20  # 20: the zip64 extra field
    padding = -(fixed + 4) % ALIGNMENT
    info.extra = struct.pack("<HH", 0x4D54, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=True) as entry:
        entry.write(head)
        entry.write(body)


def npy_header(array: NDArray[Any]) -> bytes:
    """Return the .npy header of an array."""
    text = repr({"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}).encode("latin1")
    text += b" " * (-(len(text) + 11) % ALIGNMENT) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def _checked_entries(archive: zipfile.ZipFile, size: int) -> dict[str, tuple[int, int]]:
    """Return header offset and data size by name; raise an error for unexpected entries."""
    infos = archive.infolist()
    names = {info.filename.removesuffix(".npy") for info in infos}
    _require(len(names) == len(infos) <= MAX_ENTRIES, f"{len(infos)} entries, some of them repeated")
    _require(HEADER in names, f"it has no {HEADER}")
    for info in infos:
        stored = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
        _require(
            stored and not info.flag_bits & 1,
            f"entry {info.filename!r} is compressed or encrypted, expected stored",
        )
        inside = info.file_size <= size and 0 <= info.header_offset <= size - _LOCAL.size
        _require(inside, f"entry {info.filename!r} does not lie inside the file")
    return {info.filename: (info.header_offset, info.file_size) for info in infos}


def _read_entries(
    view: memoryview, entries: dict[str, tuple[int, int]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    header: Any = None
    arrays: dict[str, NDArray[Any]] = {}
    end = 0
    for name, (offset, size) in sorted(entries.items(), key=lambda item: item[1]):
        _require(offset >= end, f"entry {name!r} lies inside another entry, expected one after the other")
        signature, *_, name_length, extra_length = _LOCAL.unpack_from(view, offset)
        start = offset + _LOCAL.size + name_length + extra_length
        end = start + size
        data = view[start:end]
        whole = signature == b"PK\x03\x04" and len(data) == size
        _require(whole, f"entry {name!r} is not where the directory of the file says")
        if name == HEADER:
            _require(size <= MAX_JSON_BYTES, f"{HEADER} has {size} bytes, expected at most {MAX_JSON_BYTES}")
            header = _parse_json(bytes(data))
        else:
            arrays[name.removesuffix(".npy")] = _map_array(name, data)
    _require(isinstance(header, dict), f"{HEADER} holds {type(header).__name__}, expected an object")
    return header, arrays


def _parse_json(data: bytes) -> Any:
    """Return JSON in UTF-8; raise ValueError for NaN and lone surrogates."""
    text = data.decode()
    found = json.loads(text, parse_constant=_reject_constant)
    if "\\ud" in text.lower():  # perhaps the escape of a lone surrogate
        json.dumps(found, ensure_ascii=False).encode()
    return found


def _reject_constant(name: str) -> None:
    raise ValueError(f"{HEADER} holds {name}, expected numbers that are finite")


def _map_array(name: str, data: memoryview) -> NDArray[Any]:
    _require(bytes(data[:8]) == b"\x93NUMPY\x01\x00", f"entry {name!r} is not an array")
    (length,) = struct.unpack_from("<H", data, 8)
    described = _NPY_HEADER.fullmatch(bytes(data[10 : 10 + length]))
    if described is None or (dtype := described[1].decode()) not in DTYPES:
        raise ValueError(f"array {name!r} has an unexpected type or shape")
    shape = tuple(int(number) for number in described[2].split(b",") if number.strip())
    _require(len(shape) <= 3, f"array {name!r} has {len(shape)} dimensions, expected at most 3")
    body = data[10 + length :]
    fits = math.prod(shape) * np.dtype(dtype).itemsize == len(body)
    _require(fits, f"array {name!r} has {len(body)} bytes, which do not fit its shape")
    return np.frombuffer(body, dtype).reshape(shape)


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
