"""One copy of large data for several processes: arrays in files that each process maps, the rest sent along.

A value is taken apart into its arrays, which are written to a folder, and the graph that held them, which stays
in memory and travels to the worker processes as part of what they are started with. Only processes of this
run open it: nothing that lies on a disk is ever unpickled. Arrays are mapped copy-on-write: they are not written
to, so all processes share the pages, yet kernels compiled for ordinary arrays serve them.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.atomic_write import cannot_write

LEAST = 1 << 14
"""Arrays of fewer bytes travel with the graph: a mapping costs whole pages."""


@dataclass(frozen=True)
class Shared:
    """A value in two halves: the folder of its arrays, and the graph that holds them."""

    folder: Path
    graph: bytes

    def open(self) -> Any:
        """The value; its large arrays are mapped."""
        return _Joiner(io.BytesIO(self.graph), self.folder).load()


def share(value: Any, folder: Path) -> Shared:
    """Writes the large arrays of a value into a folder that is there."""
    graph = io.BytesIO()
    try:
        _Splitter(graph, folder).dump(value)
    except OSError as error:
        raise cannot_write(folder, error) from None
    return Shared(folder, graph.getvalue())


class _Splitter(pickle.Pickler):
    """Writes arrays to files, each once, and leaves their names in the graph."""

    def __init__(self, out: io.BytesIO, folder: Path) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self.folder = folder
        self.seen: dict[int, tuple[str, NDArray[Any]]] = {}  # holds the array, so that its id stays its own

    def persistent_id(self, item: Any) -> str | None:
        """The name of the file of an array; None for what stays in the graph."""
        if not isinstance(item, np.ndarray) or item.nbytes < LEAST or item.dtype.hasobject:
            return None
        if id(item) not in self.seen:
            name = f"{len(self.seen)}.npy"
            np.save(self.folder / name, item, allow_pickle=False)
            self.seen[id(item)] = name, item
        return self.seen[id(item)][0]


class _Joiner(pickle.Unpickler):
    """Maps the arrays that a graph names."""

    def __init__(self, graph: io.BytesIO, folder: Path) -> None:
        super().__init__(graph)
        self.folder = folder
        self.seen: dict[str, NDArray[Any]] = {}

    def persistent_load(self, name: str) -> NDArray[Any]:
        """The array of that name, an ordinary one to whoever gets it."""
        if name not in self.seen:
            mapped = np.load(self.folder / name, mmap_mode="c", allow_pickle=False)
            self.seen[name] = mapped.view(np.ndarray)
        return self.seen[name]
