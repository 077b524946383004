"""What the kernels of visits are given besides data: room to work in, and edges as they see them.

Python makes the arrays: each way to make one in a kernel is something more to compile. What goes together goes as one
argument.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct.linear.weight_layout import padded


class Edges(NamedTuple):
    """What kernels know of edges: the row of each token, −1 where a sentence begins, and the Design of the rows."""

    row: NDArray[np.int32]
    ids: NDArray[Any]
    ptr: NDArray[np.int64]
    blocks: NDArray[np.int32]
    slotwise: bool
    null: int
    V: NDArray[np.float64]


class Room(NamedTuple):
    """Where kernels work; sequence_visit.py says on what. It is theirs from one span to the next."""

    K: NDArray[np.float32]
    place: NDArray[np.int64]
    mine: NDArray[np.float32]
    tr: NDArray[np.float32]
    most: NDArray[np.float32]
    edge_delta: NDArray[np.float64]
    edge_K: NDArray[np.float32]
    touched: NDArray[np.int64]
    moved: NDArray[np.int64]
    er: NDArray[np.int64]
    local: NDArray[np.int64]
    high: NDArray[np.int64]
    low: NDArray[np.int64]
    back: NDArray[np.int32]
    now: NDArray[np.float32]
    best: NDArray[np.float32]
    arg: NDArray[np.int32]


def make_room(longest: int, labels: int, slots: int, rounds: int, edge_rows: int, every_label: bool) -> Room:
    """For spans of so many tokens at most."""
    wide = padded(labels)
    rows = 1 if edge_rows == 1 else longest + 1  # with the bare transition alone there is one edge row
    seats = 1 if every_label else 2 * rounds  # a round moves a token from one label to another
    changes = 2 * longest + 4

    def zeros(*shape: int, kind: Any = np.float32) -> NDArray[Any]:
        return np.zeros(shape, kind)

    return Room(
        K=zeros(longest * seats, longest),
        place=zeros(longest, 1 if every_label else wide, kind=np.int64),
        mine=zeros(slots),
        tr=zeros(rows, labels, wide),
        most=zeros(rows, labels),
        edge_delta=zeros(rows, labels * labels, kind=np.float64),
        edge_K=zeros(rows, rows),
        touched=zeros(rounds * changes, 2, kind=np.int64),
        moved=zeros(changes, 3, kind=np.int64),
        er=zeros(longest + 1, kind=np.int64),
        local=zeros(longest + 1, kind=np.int64),
        high=zeros(longest, kind=np.int64),
        low=zeros(longest, kind=np.int64),
        back=zeros(longest, wide, kind=np.int32),
        now=zeros(wide),
        best=zeros(wide),
        arg=zeros(wide, kind=np.int32),
    )
