"""Encoding into files, part by part, of training data that do not fit into memory.

Each part is read to number its labels, to number its values, and to encode it. Numbers are those of
one machine, so the model is, byte for byte, that of training in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import disk_arrays, memory
from mtlstruct._system.digest import digest
from mtlstruct.corpus import Column, Corpus
from mtlstruct.distributed.index import build_index, merged_outline
from mtlstruct.distributed.pool import PerWorker, Pool
from mtlstruct.distributed.shard import LocalCounts, Shard
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import share_rows
from mtlstruct.formats import partition
from mtlstruct.formats.text import GZIP, Part
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design, padded_ids
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import EncodedDataset, encoding_bytes, resolved_templates, structure_of

Reader = Callable[[], Corpus]

PART_SHARE = 0.25
"""Share of the free memory that a part may take while it is encoded."""

SAMPLE_BYTES = 1 << 18
"""Bytes of a part that is read to learn how many bytes a token has."""


class PartPool(Pool):
    """Shards that are read for each call and then forgotten, one at a time."""

    def call(self, method: str, *arguments: Any, each: PerWorker | None = None) -> list[Any]:
        """Call a method of every shard k with `each[k]` and `arguments`; return the results."""
        tasks = enumerate(zip(self.workers, each or [()] * self.size, strict=True))
        return [_stored(getattr(Shard(k, read), method)(*first, *arguments)) for k, (read, first) in tasks]


def _stored(found: Any) -> Any:
    """Move the counts of a part into a file."""
    if not isinstance(found, LocalCounts):
        return found
    arrays = [*found.pairs, *found.counts]
    stored = np.split(disk_arrays.zeros(sum(map(len, arrays)), np.int64), np.cumsum([*map(len, arrays)])[:-1])
    for out, array in zip(stored, arrays, strict=True):
        out[:] = array
    joins = len(found.pairs)
    return replace(found, pairs=stored[:joins], counts=stored[joins:])


def readers_of(
    path: Path, read: Callable[[Path | Part], Corpus], templates: TemplateSet, *, at_blank_lines: bool
) -> list[Reader]:
    """Return readers of parts of a file or folder that are small enough to be encoded in memory.

    A gzip file cannot be read from the middle: with one, the parts are files.
    """
    files = partition.files_of(path)
    if any(Part(file, 0, len(GZIP)).read_bytes() == GZIP for file in files):
        return [partial(read, file) for file in files]
    size = sum(file.stat().st_size for file in files)

    def parts(count: int) -> list[list[Part]]:
        return partition.split(files, count, at_blank_lines=at_blank_lines)

    first = parts(1 + size // SAMPLE_BYTES)[0]
    tokens = partition.read(first, read).tokens * size // sum(part.stop - part.start for part in first)
    memory.ensure(1, "reading a part of the text")
    needed = encoding_bytes(tokens, templates) + 4 * size
    count = 1 + int(needed / (PART_SHARE * memory.available()))
    return [partial(partition.read, part, read) for part in parts(count)]


def encode_on_disk(
    readers: Sequence[Reader], templates: TemplateSet, options: Options
) -> tuple[Corpus, EncodedDataset]:
    """Return the corpus without its text, and the encoded data of all parts in mapped files."""
    began = time.perf_counter()
    outlines, digests = [], []
    for k, read in enumerate(readers):
        part = Shard(k, read)
        outlines.append(replace(part.outline(), outputs=part.corpus().outputs))
        digests.append(part.digest())
    corpus = merged_outline(outlines)
    same_data = Column(np.zeros(0, np.int32), [digest(digests)])  # in place of the text, for checkpoints
    corpus = replace(corpus, columns=(same_data, *corpus.columns[1:]))
    structure, pool = structure_of(corpus, options), PartPool(list(readers))
    lines = resolved_templates(templates, corpus, options)
    index, maps = build_index(
        pool, lines, structure, min_count=options.min_count, normalize=options.normalize
    )
    sites = [int(ptr[-1]) for ptr in structure.site_ptr(corpus.ptr)]
    stacks = [_Stack(count) for count in sites]
    bare = replace(index, vocabularies=(), tables=(), maps=())
    for k, (read, own) in enumerate(zip(readers, maps, strict=True)):
        encoded = Shard(k, read).encoded(bare, own, structure)
        for stack, design, rows in zip(stacks, encoded.designs, encoded.rows, strict=True):
            stack.add(design, rows)
    designs, rows_of = zip(*(stack.result() for stack in stacks), strict=True)
    found = Encoded(encoded.kinds, designs, rows_of, corpus.ptr, len(lines))
    return corpus, EncodedDataset(structure, found, index, time.perf_counter() - began, disposable=True)


class _Stack:
    """The designs of one kind of sites, part after part; those of shared rows stay in memory."""

    def __init__(self, sites: int) -> None:
        self.sites, self.at = sites, 0
        self.designs: list[Design] = []
        self.rows: list[NDArray[np.int32]] = []
        self.ids: NDArray[np.integer] | None = None

    def add(self, design: Design, rows: NDArray[np.int32] | None) -> None:
        """Append the rows of a part."""
        if rows is not None:
            self.rows.append(rows + np.int32(self.at))
            self.designs.append(design)
            self.at += design.rows
            return
        if self.ids is None:
            size = self.sites * len(design.blocks) + PREFETCH_DISTANCE
            self.ids = disk_arrays.zeros(size, design.ids.dtype)
            self.designs.append(replace(design, ids=design.ids[:0]))
        count = int(design.ptr[-1])
        self.ids[self.at : self.at + count] = design.ids[:count]
        self.at += count

    def result(self) -> tuple[Design, NDArray[np.int32] | None]:
        """Return the design of all parts, and the row of each site."""
        first = self.designs[0]
        slots, null = len(first.blocks), first.layout.attributes
        if self.ids is not None:
            self.ids[self.at :] = null
            return replace(first, ids=self.ids, ptr=_uniform_ptr(self.sites, slots)), None
        ids = np.concatenate([design.ids[: design.ptr[-1]] for design in self.designs])
        whole = replace(first, ids=padded_ids(ids, null), ptr=_uniform_ptr(self.at, slots))
        design, row = share_rows(whole)
        return design, row[np.concatenate(self.rows)]


def _uniform_ptr(rows: int, slots: int) -> NDArray[np.int64]:
    return np.arange(rows + 1, dtype=np.int64) * slots
