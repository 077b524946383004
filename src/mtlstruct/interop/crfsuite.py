"""The binary model of CRFsuite, which python-crfsuite, sklearn-crfsuite and the crfs crate run.

Little-endian; offsets of chunks count from the start of the file, those inside a CQDB from its own:

    lCRF  size "FOMC" 100 features labels attributes, offsets of the five chunks below
    FEAT  size number, then (type, source, target, float64 weight): type 0 is (attribute, label),
          type 1 (label, next label)
    CQDB  the labels, and another one of the attributes: strings and numbers, both ways
    LFRF  size number, then for each label where the features of its transitions are listed
    AFRF  size number, likewise for each attribute

A CQDB has a header, 256 hash tables (offset, slots), records (number, length, text, NUL), the slots
(hash, offset of the record), and the offset of the record of each number. Hashes are Bob Jenkins'
lookup3; slot (hash >> 8) mod slots of table hash mod 256, then the next free one.

Weights are divided by the temperature on export, so that probabilities are those of `predict`.

References
----------
Okazaki: CRFsuite: a fast implementation of conditional random fields, 2007.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.atomic_write import replacing
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.explain.records import cell_at
from mtlstruct.formats.feature_dicts import MAX_KEYS
from mtlstruct.formats.key_groups import NamedGroups, nested_names
from mtlstruct.formats.text import encode, load_bytes
from mtlstruct.interop.feature_text import (
    checked_attributes,
    ensure_weights,
    model_of,
    program_lines,
    weights_by_text,
)
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.terms import expand, quoted

HEADER = struct.Struct("<4sI4sI8I")
CHUNK = struct.Struct("<4sII")
DATABASE = struct.Struct("<4s5I")
TABLES = 256
BYTE_ORDER = 0x62445371
FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])

MAGIC = b"lCRF"
"""First bytes of a model of CRFsuite."""


class Contents(NamedTuple):
    """A model of CRFsuite; float64[attributes, L] and float64[L, L] (previous, current)."""

    labels: tuple[str, ...]
    attributes: tuple[str, ...]
    states: NDArray[np.float64]
    transitions: NDArray[np.float64]


# ---------------------------------------------------------------- to CRFsuite


def contents(model: Model, *, rename: bool = False) -> Contents:
    """Return a model as CRFsuite stores it: attributes of dicts, or lines with their cells."""
    index, L = checked_attributes("CRFsuite", model), len(model.labels)
    for template in index.templates:
        if template.kind == "B" and template.terms:
            raise model.templates.error(template, "CRFsuite has no features of two labels and a cell")
        if model.takes_dicts and template.kind == "U" and not template.terms:
            raise model.templates.error(template, "CRFsuite has no feature that every token has by itself")
    lines = program_lines(index.templates, rename=rename)
    found = weights_by_text("CRFsuite", model, lines, plain=model.takes_dicts)
    states = {text: row for (kind, text), row in found.items() if kind == "U"}
    transitions = sum((row for (kind, _), row in found.items() if kind == "B"), np.zeros(L * L))
    table = np.array(list(states.values())).reshape(-1, L) / model.temperature
    return Contents(model.labels, tuple(states), table, transitions.reshape(L, L) / model.temperature)


def attributes(model: Model, rows: Sequence[Sequence[str]], *, rename: bool = False) -> list[list[str]]:
    """Return the attributes of each token of a sentence of rows, as `export` names them."""
    lines, columns = program_lines(model.index.templates, rename=rename), list(zip(*rows, strict=True))

    def cell(t: int, row: int, column: int, absolute: bool = False) -> str:
        return cell_at(columns[column], t, row, absolute)

    members = [member for line in lines if line.kind == "U" for member in line.members]
    return [
        [expand(member, partial(cell, t), model.templates.lists) for member in members]
        for t in range(len(rows))
    ]


def write(model: Model, path: str | Path, *, rename: bool = False) -> Contents:
    """Write a model for CRFsuite, atomically."""
    found = contents(model, rename=rename)
    with replacing(path) as out:
        out.write(packed(found, path))
    return found


def packed(found: Contents, path: str | Path = "model") -> bytes:
    """Return the bytes of a model file."""
    used = np.flatnonzero(found.states.any(axis=1))
    attribute, label = np.nonzero(found.states[used])
    before, after = np.nonzero(found.transitions)
    features = np.zeros(len(attribute) + len(before), FEATURE)
    features["type"][len(attribute) :] = 1
    features["source"] = np.concatenate([attribute, before])
    features["target"] = np.concatenate([label, after])
    features["weight"] = np.concatenate(
        [found.states[used][attribute, label], found.transitions[before, after]]
    )
    L, numbers = len(found.labels), np.arange(len(features))
    names = [found.attributes[a] for a in used.tolist()]
    chunks = [_chunk(b"FEAT", len(features), features.tobytes())]
    chunks += [_database(strings, path) for strings in (found.labels, names)]
    sizes = [HEADER.size, *map(len, chunks)]
    owners = ((b"LFRF", before, numbers[len(attribute) :], L + 2), (b"AFRF", attribute, numbers, len(names)))
    for name, owner, own, count in owners:
        chunks.append(_references(name, owner, own[: len(owner)], count, sum(sizes)))
        sizes.append(len(chunks[-1]))
    offsets = np.cumsum(sizes)
    if offsets[-1] >= 2**32:
        raise IncompatibleError(
            f"CRFsuite's files have less than 4 GB, the model needs {offsets[-1]:,} bytes"
        )
    counts = (len(features), L, len(names))
    head = HEADER.pack(b"lCRF", int(offsets[-1]), b"FOMC", 100, *counts, *offsets[:5].tolist())
    return b"".join([head, *chunks])


def _chunk(name: bytes, number: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return CHUNK.pack(name, CHUNK.size + len(body), number) + body


def _references(name: bytes, owner: NDArray[Any], features: NDArray[Any], count: int, start: int) -> bytes:
    """Return the chunk of lists of features; `owner` is sorted."""
    sizes = np.bincount(owner, minlength=count)
    place = np.cumsum(sizes) - sizes
    lists = np.insert(features, place, sizes).astype("<u4")
    heads = start + CHUNK.size + 4 * (count + place + np.arange(count))
    return _chunk(name, count, heads.astype("<u4").tobytes() + lists.tobytes())


def _database(strings: Sequence[str], path: str | Path) -> bytes:
    """Return the CQDB of strings numbered from 0."""
    begin = DATABASE.size + 8 * TABLES
    records, offsets, tables = bytearray(), [], [[] for _ in range(TABLES)]  # type: ignore[var-annotated]
    for number, text in enumerate(strings):
        key = encode(text, path, "utf-8") + b"\0"
        offsets.append(begin + len(records))
        tables[(hashed := lookup3(key)) % TABLES].append((hashed, offsets[-1]))
        records += struct.pack("<II", number, len(key)) + key
    refs, slots = [], []
    at = begin + len(records)
    for entries in tables:
        n = 2 * len(entries)
        table = [(0, 0)] * n
        for hashed, offset in entries:
            k = (hashed >> 8) % n
            while table[k][1]:
                k = (k + 1) % n
            table[k] = hashed, offset
        refs.append((at if n else 0, n))
        slots += table
        at += 8 * n
    numbers = [np.array(some, "<u4").tobytes() for some in (refs, slots, offsets)]
    body = b"".join([numbers[0], records, *numbers[1:]])
    body += bytes(-len(body) % 4)
    size = DATABASE.size + len(body)
    return DATABASE.pack(b"CQDB", size, 0, BYTE_ORDER, len(offsets), at) + body


def lookup3(key: bytes) -> int:
    """Return Bob Jenkins' hashlittle of some bytes, with initial value 0."""
    mask = 0xFFFFFFFF
    a: int = (0xDEADBEEF + len(key)) & mask
    b = c = a
    blocks = max(0, (len(key) - 1) // 12)
    words = struct.unpack(f"<{3 * blocks + 3}I", key.ljust(12 * blocks + 12, b"\0"))

    def turned(x: int, k: int) -> int:
        return (x << k | x >> (32 - k)) & mask

    for n in range(blocks):
        a, b, c = (x + word & mask for x, word in zip((a, b, c), words[3 * n : 3 * n + 3], strict=True))
        for k in (4, 6, 8, 16, 19, 4):
            a = (a - c & mask) ^ turned(c, k)
            c = c + b & mask
            a, b, c = b, c, a
    if not key:
        return int(c)
    a, b, c = (x + word & mask for x, word in zip((a, b, c), words[-3:], strict=True))
    for k in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - turned(b, k) & mask
        a, b, c = b, c, a
    return int(b)


# ---------------------------------------------------------------- from CRFsuite


def read(source: str | Path | bytes) -> Contents:
    """Read a model from a file or from its content, and check that it is consistent."""
    path, data = ("model", source) if isinstance(source, bytes) else (source, load_bytes(source))
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise FormatError(path, None, "expected a model of CRFsuite, which begins with lCRF")
    try:
        return _parsed(data)
    except (struct.error, ValueError, IndexError) as error:
        raise FormatError(path, None, f"expected a consistent model of CRFsuite, got {error}") from None


def _parsed(data: bytes) -> Contents:
    head = HEADER.unpack_from(data)
    off_features, off_labels, off_attributes = head[7:10]
    labels, names = (tuple(_strings(data, offset)) for offset in (off_labels, off_attributes))
    if head[2] != b"FOMC" or not labels:
        raise ValueError("a model of another type than first-order chains, or without labels")
    L = len(labels)
    ensure_weights((len(names) + L) * L)
    name, _, count = CHUNK.unpack_from(data, off_features)
    if name != b"FEAT":
        raise ValueError("no features at their offset")
    features = np.frombuffer(data, FEATURE, count, off_features + CHUNK.size)
    weight = features["weight"]
    if not (np.abs(weight) < np.finfo(np.float32).max).all():
        raise ValueError("weights that are not finite numbers")
    states, transitions = np.zeros((len(names), L)), np.zeros((L, L))
    for kind, table in ((0, states), (1, transitions)):
        own = features[features["type"] == kind]
        table[own["source"], own["target"]] = own["weight"]
    if (features["type"] > 1).any():
        raise ValueError("features that are neither states nor transitions")
    return Contents(labels, names, states, transitions)


def _strings(data: bytes, start: int) -> Iterator[str]:
    """Yield the strings of the CQDB at an offset, by number."""
    name, size, _, order, count, back = DATABASE.unpack_from(data, start)
    if name != b"CQDB" or order != BYTE_ORDER or start + size > len(data):
        raise ValueError("no database of strings at its offset")
    own = data[start : start + size]
    seen, used = set(), 0
    for number, offset in enumerate(struct.unpack_from(f"<{count}I", own, back)):
        found, length = struct.unpack_from("<II", own, offset)
        used += length  # records that overlap would take more memory than the file
        text = own[offset + 8 : offset + 8 + length - 1].decode() if used <= len(own) else ""
        if found != number or not 1 <= length <= len(own) or used > len(own) or text in seen:
            raise ValueError(f"a string that is not in its place, or twice: {text[:40]!r}")
        seen.add(text)
        yield text


def to_model(found: Contents) -> Model:
    """Return a model of feature dicts that predicts as CRFsuite does."""
    nested: list[str] | None = nested_names(found.attributes)
    by_group: dict[str, list[int]] = {}
    for attribute, text in enumerate(found.attributes):
        by_group.setdefault(NamedGroups(nested).get(text), []).append(attribute)
    if len(by_group) > MAX_KEYS or not by_group:
        nested, by_group = None, {NamedGroups(None).get(""): list(range(len(found.attributes)))}
    lines = [f"U{n:03}:%x[0,{quoted(name)}]" for n, name in enumerate(by_group)]
    templates = TemplateSet.parse("\n".join([*lines, "B"])).resolved(tuple(by_group))
    cells = [[(found.attributes[a],) for a in own] for own in by_group.values()]
    weights = [found.states[own].astype(np.float32) for own in by_group.values()]
    facts = {"dicts": True, "names": list(by_group), "nested": nested}
    order = sorted(range(len(found.labels)), key=lambda y: found.labels[y].encode())
    pairs = found.transitions[np.ix_(order, order)].reshape(1, -1).astype(np.float32)
    return model_of(
        "CRFsuite",
        templates,
        tuple(found.labels[y] for y in order),
        [*cells, [()]],
        [*(block[:, order] for block in weights), pairs],
        len(by_group),
        **facts,
    )
