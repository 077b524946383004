"""Dual state of any structure that can decode: pairwise Frank–Wolfe over outputs.

The dual variables of a sentence are a distribution over its outputs, of which those with mass are
kept, gold among them. A step decodes the most violated output and moves mass to it from the kept
output that scores lowest, by exact line search. Passes over the working set choose among the kept
outputs and do not decode.

References
----------
Lacoste-Julien et al.: Block-coordinate Frank–Wolfe optimization for structural SVMs, ICML 2013.
Osokin et al.: Minding the gaps for block Frank–Wolfe optimization of structured SVMs, ICML 2016.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import State, Stateful
from mtlstruct.linear.row_updates import add_scaled_rows, score_rows
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.structures.base import Batch, Triplets

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Output(NamedTuple):
    """An output, its loss, and its parts less those of gold, with rows numbered by site."""

    labels: NDArray[np.int32]
    loss: float
    difference: tuple[Triplets, ...]

    def value(self, parts: Any) -> float:
        """Its loss, and its score less that of gold."""
        pairs = zip(self.difference, parts, strict=True)
        return self.loss + sum(float(t.count @ part[t.row, t.part]) for t, part in pairs)


class CachedDual(Stateful):
    """Outputs with mass of all sentences as a dual state of the coordinate solver.

    outputs, mass   of each sentence: its outputs, gold first, and their mass
    room            weights that are zero between steps
    Spans are (start, stop, sentence, search): whole sentences, with or without decoding.
    """

    shares_singletons: ClassVar[bool] = False
    smooth_losses: ClassVar[tuple[str, ...]] = ()

    def __init__(self, oracle: Oracle, V: Weights, N: Floats) -> None:
        self.oracle, self.V, self.N = oracle, V, N
        ptr = oracle.encoded.ptr
        sites = oracle.structure.sites(ptr)
        self.site_ptr = [ptr if s.tokens is None else np.searchsorted(s.tokens, ptr) for s in sites]
        self.outputs = [[self._output(i, oracle.gold[ptr[i] : ptr[i + 1]])] for i in range(len(ptr) - 1)]
        self.mass = [np.ones(1) for _ in self.outputs]
        self.room = [np.zeros_like(v) for v in V]

    def state_dict(self) -> State:
        """Return the state: labels and mass of all outputs end to end."""
        labels = [output.labels for outputs in self.outputs for output in outputs]
        sizes = np.array([len(outputs) for outputs in self.outputs], np.int64)
        return {"sizes": sizes, "labels": np.concatenate(labels), "mass": np.concatenate(self.mass)}

    def load_state_dict(self, state: State) -> None:
        """Restore the state of a checkpoint."""
        sizes = state["sizes"]
        self.mass = [part.copy() for part in np.split(state["mass"], np.cumsum(sizes)[:-1])]
        tokens = sizes * np.diff(self.oracle.encoded.ptr)
        tables = np.split(state["labels"], np.cumsum(tokens)[:-1])
        self.outputs = [
            [self._output(i, labels) for labels in np.split(table, size)]
            for i, (table, size) in enumerate(zip(tables, sizes.tolist(), strict=True))
        ]

    @staticmethod
    def memory(oracle: Oracle) -> int:
        """Bytes to expect; how many outputs will have mass is not known before."""
        return int(oracle.tokens) * 1000

    def spans(self, sentences: Ints, shift: int) -> Ints:
        """Whole sentences, to be decoded."""
        ptr = self.oracle.encoded.ptr
        return np.stack([ptr[sentences], ptr[sentences + 1], sentences, np.ones_like(sentences)], axis=1)

    def active(self) -> Ints:
        """Sentences with mass off gold, not to be decoded."""
        loose = np.array([len(mass) > 1 for mass in self.mass], bool)
        spans = self.spans(np.flatnonzero(loose), 0)
        spans[:, 3] = 0
        return spans

    def update(
        self, spans: Ints, mu: Floats, c: float, rounds: int, tolerance: float, enough: float = 0.0
    ) -> tuple[Floats, float]:
        """Update sentences in turn, each until its gap is below tolerance or `enough` of before."""
        gaps, change = np.zeros(len(spans)), 0.0
        for k, (i, search) in enumerate(spans[:, 2:].tolist()):
            for _ in range(rounds):
                least = max(tolerance, enough * gaps[k])
                gap, loss = self._step(i, bool(search), mu, c, least)
                gaps[k] = max(gap, gaps[k])
                change += loss
                if gap < least:
                    break
        return gaps, change

    def _step(self, i: int, search: bool, mu: Floats, c: float, least: float) -> tuple[float, float]:
        """Take a pairwise step unless the gap is below `least`. Return gap and change of loss."""
        p, rows, change = self.oracle, self._rows(i), 0.0
        kinds = zip(p.encoded.designs, self.V, rows, p.structure.widths(), strict=True)
        parts = tuple(score_rows(design, V, row, width, -mu) for design, V, row, width in kinds)
        if search:
            self._search(i, parts)
        outputs, mass = self.outputs[i], self.mass[i]
        value = np.array([output.value(parts) for output in outputs])
        best, worst = int(value.argmax()), int(np.where(mass > 0, value, np.inf).argmin())
        gap = max(0.0, float(value[best] - mass @ value))
        if gap >= least:
            squares = np.zeros_like(self.N)
            sides = ((outputs[best], 1.0), (outputs[worst], -1.0))
            self._add(sides, rows, 1.0, self.room, squares)
            curve = c * float(mu @ squares)
            self._add(sides, rows, -1.0, self.room, squares)
            rise = float(value[best] - value[worst])
            theta = float(mass[worst]) if curve * mass[worst] <= rise else rise / curve
            self._add(sides, rows, c * theta, self.V, self.N)
            mass[best] += theta
            mass[worst] = max(0.0, mass[worst] - theta)
            change = theta * (outputs[best].loss - outputs[worst].loss)
        kept = [k for k in range(len(mass)) if k == 0 or mass[k] > 0]
        self.outputs[i], self.mass[i] = [outputs[k] for k in kept], mass[kept]
        return gap, change

    def _search(self, i: int, parts: Any) -> None:
        """Decode a sentence; the output joins those that are kept, without mass as yet."""
        p, (start, stop) = self.oracle, self.oracle.encoded.ptr[i : i + 2]
        gold, labels = p.gold[start:stop], np.zeros(stop - start, np.int32)
        rows = tuple(np.arange(len(part), dtype=np.int32) for part in parts)
        batch = Batch(parts, rows, np.array([0, stop - start]))
        p.structure.decode(batch, (0, 1), labels, np.zeros(1), gold=gold, cost=p.cost)
        if not any(np.array_equal(labels, output.labels) for output in self.outputs[i]):
            self.outputs[i].append(self._output(i, labels))
            self.mass[i] = np.append(self.mass[i], 0.0)

    def _output(self, i: int, labels: NDArray[np.int32]) -> Output:
        p, (start, stop) = self.oracle, self.oracle.encoded.ptr[i : i + 2]
        gold, own = p.gold[start:stop], np.array([0, stop - start])
        rows = tuple(np.arange(ptr[i + 1] - ptr[i], dtype=np.int32) for ptr in self.site_ptr)
        loss = float(p.structure.losses(labels, gold, p.cost, own)[0])
        return Output(labels, loss, p.structure.indicator(labels, gold, rows, own))

    def _rows(self, i: int) -> list[Ints]:
        """The row of each site of a sentence, for each kind."""
        sites = (np.arange(ptr[i], ptr[i + 1]) for ptr in self.site_ptr)
        rows = zip(sites, self.oracle.encoded.rows, strict=True)
        return [site if row is None else row[site].astype(np.int64) for site, row in rows]

    def _add(self, sides: Any, rows: list[Ints], size: float, V: list[Any], N: Floats) -> None:
        """V += size·(signed sum of the features of outputs), and N follows."""
        for output, sign in sides:
            amount = np.full(len(N), size * sign)
            kinds = zip(self.oracle.encoded.designs, output.difference, rows, V, strict=True)
            for design, t, row, v in kinds:
                add_scaled_rows(design, row[t.row], t.part, t.count, amount, v, N)

    def repair(self) -> None:
        """Make the mass of each sentence sum to one."""
        for mass in self.mass:
            mass /= mass.sum()

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """Part counts of (dual − gold), for each kind float32[rows, width]."""
        p = self.oracle
        shapes = zip(p.encoded.designs, p.structure.widths(), strict=True)
        tables = tuple(np.zeros((design.rows, width), np.float64) for design, width in shapes)
        for i, (outputs, mass) in enumerate(zip(self.outputs, self.mass, strict=True)):
            rows = self._rows(i)
            for output, share in zip(outputs[1:], mass[1:].tolist(), strict=True):
                for table, t, row in zip(tables, output.difference, rows, strict=True):
                    np.add.at(table, (row[t.row], t.part), share * t.count)
        return tuple(table.astype(np.float32) for table in tables)

    def loss(self, counts: NDArray[Any]) -> float:
        """The expected loss; the mass says it more exactly than the counts."""
        pairs = zip(self.outputs, self.mass, strict=True)
        return float(sum(float(mass @ [output.loss for output in outputs]) for outputs, mass in pairs))
