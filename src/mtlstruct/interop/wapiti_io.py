"""The model file of Wapiti.

It is text, lengths counted in bytes:

    #mdl#2#weights         2: a CRF; then the number of weights at the end
    #rdr#patterns/the last column that they use/0
    12:u00:%x[-1,0],       a pattern as a netstring: length, colon, text, comma
    #qrk#labels            then each label as a netstring
    #qrk#observations      then each observation as a netstring
    17=0x1.8p-1            index and value of weights other than 0; a u observation has one
                           weight per label, a b observation one per pair, a * observation both
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.atomic_write import replacing
from mtlstruct.errors import FormatError
from mtlstruct.formats.text import encode, load_bytes
from mtlstruct.interop.attribute_cells import ensure_weights
from mtlstruct.interop.wapiti import Observations

CRF = 2
_MEMM = 1


# ---------------------------------------------------------------- writing


def write_model(found: Observations, path: str | Path, last: int, encoding: str = "utf-8") -> None:
    """Write a model that `wapiti label -m` loads, atomically; `last`: the last column used."""
    texts = {**found.unigrams, **found.bigrams}
    theta = np.concatenate(list(texts.values()))
    kept = np.flatnonzero(theta).tolist()
    with replacing(path) as out:
        out.write(f"#mdl#{CRF}#{len(kept)}\n#rdr#{len(found.patterns)}/{last}/0\n".encode())
        out.writelines(_netstring(encode(text, path, encoding)) for text in found.patterns)
        for strings in (found.labels, texts):
            out.write(f"#qrk#{len(strings)}\n".encode())
            out.writelines(_netstring(encode(text, path, encoding)) for text in strings)
        for number in kept:
            out.write(f"{number}={float(theta[number]).hex()}\n".encode())


def _netstring(raw: bytes) -> bytes:
    return b"%d:%b,\n" % (len(raw), raw)


# ---------------------------------------------------------------- reading


def read_model(path: str | Path, encoding: str = "utf-8") -> Observations:
    """Read a model file and check that it is consistent."""
    file = _File(path, load_bytes(path))
    active = _header(file)
    patterns = [file.string() for _ in range(_patterns(file))]
    labels = [file.string() for _ in range(file.count(rb"#qrk#(\d+)", "the number of labels"))]
    raw = [file.string() for _ in range(file.count(rb"#qrk#(\d+)", "the number of observations"))]
    if not labels or len(set(labels)) < len(labels):
        raise file.error("expected distinct labels")
    unigrams, bigrams = _weights_of(file, active, raw, len(labels))
    known = {text: _text(text, encoding) for text in {**unigrams, **bigrams}}
    return Observations(
        tuple(_label(label, encoding, path, None) for label in labels),
        tuple(_label(pattern, encoding, path, None) for pattern in patterns),
        {text: w for raw, w in unigrams.items() if (text := known[raw]) is not None},
        {text: w for raw, w in bigrams.items() if (text := known[raw]) is not None},
        sum(text is None for text in known.values()),
    )


def _header(file: _File) -> int:
    """Return the number of weights."""
    found = file.line(rb"#mdl#(?:(\d{1,3})#)?(\d{1,18})", "a model of Wapiti")
    if found[1] is not None and int(found[1]) == _MEMM:
        problem = "expected a model without normalisation at each token, got a maximum entropy Markov model"
        raise file.error(problem)
    return int(found[2])


def _patterns(file: _File) -> int:
    found = file.line(rb"#rdr#(\d{1,9})/\d{1,9}(?:/(\d))?", "the number of patterns")
    if int(found[1]) == 0:
        raise file.error("expected patterns, got a model that reads its features from the data")
    return int(found[1])


def _weights_of(
    file: _File, active: int, texts: list[bytes], L: int
) -> tuple[dict[bytes, NDArray[np.float64]], dict[bytes, NDArray[np.float64]]]:
    """Return the weights of observations that have any, of labels and of pairs."""
    unigrams: dict[bytes, NDArray[np.float64]] = {}
    bigrams: dict[bytes, NDArray[np.float64]] = {}
    kinds = {b"u": L, b"b": L * L, b"*": L + L * L}
    odd = next((text for text in texts if text[:1] not in kinds), None)
    if odd is not None:
        raise file.error(f"expected observations that begin with u, b or *, got {odd[:60]!r}")
    pairs = sum(text[:1] != b"u" for text in texts)
    ensure_weights(min(active, len(texts)) * L + min(active, pairs) * L * L)
    ends = np.cumsum([kinds[text[:1]] for text in texts], dtype=np.int64)
    for _ in range(active):
        found = file.line(rb"(\d{1,18})=(\S{1,60})", "a weight")
        number = int(found[1])
        owner = int(np.searchsorted(ends, number, side="right"))
        if owner == len(texts):
            raise file.error(f"expected the number of a weight below {int(ends[-1])}, got {number}")
        text = texts[owner]
        part = number - int(ends[owner]) + kinds[text[:1]]
        if text[:1] == b"b":
            part += L
        table, part, size = (unigrams, part, L) if part < L else (bigrams, part - L, L * L)
        table.setdefault(text, np.zeros(size))[part] = _weight(found[2].decode("latin-1"), file.path, None)
    return unigrams, bigrams


class _File:
    """A reader of lines and netstrings."""

    def __init__(self, path: str | Path, data: bytes) -> None:
        self.path, self.data, self.at = path, data, 0

    def line(self, pattern: bytes, what: str) -> re.Match[bytes]:
        end = self.data.find(b"\n", self.at)
        end = len(self.data) if end < 0 else end
        found = re.fullmatch(pattern, self.data[self.at : end].rstrip(b"\r"))
        if found is None:
            got = self.data[self.at : end][:60].decode("utf-8", "replace")
            raise self.error(f"expected {what}, got {got!r}")
        self.at = end + 1
        return found

    def count(self, pattern: bytes, what: str) -> int:
        return int(self.line(pattern, what)[1][:18])

    def string(self) -> bytes:
        colon = self.data.find(b":", self.at, self.at + 12)
        length = self.data[self.at : max(colon, self.at)]
        end = colon + 1 + int(length) if length.isdigit() else -1
        if not 0 <= end < len(self.data) or self.data[end : end + 1] != b",":
            raise self.error("expected a string with its length before it and a comma behind")
        text = self.data[colon + 1 : end]
        self.at = end + 2
        return text

    def error(self, problem: str) -> FormatError:
        return FormatError(self.path, self.data.count(b"\n", 0, self.at) + 1, problem)


def _text(raw: bytes, encoding: str) -> str | None:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None


def _label(raw: bytes, encoding: str, path: str | Path, line: int | None) -> str:
    text = _text(raw, encoding)
    if text is None:
        raise FormatError(path, line, f"expected {encoding} text, got {raw[:60]!r}")
    return text


def _weight(text: str, path: str | Path, line: int | None) -> float:
    try:
        value = float.fromhex(text) if "x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        value = np.inf
    if not abs(value) < float(np.finfo(np.float32).max):  # a plain number: numpy would warn of large ones
        raise FormatError(path, line, f"expected a finite number as a weight, got {text[:60]!r}")
    return value
