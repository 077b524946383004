"""Readings of one template, made to agree: lines that expand alike have one set of attributes.

Each reading has a chain of joins of its own, which numbers the values that it has seen. `widened` teaches every
reading the values that the others have seen, since they may come its way in other text; `joint_numbers` gives equal
values of different readings equal numbers. A value is the tuple of a line's cells, in the order of its terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.plan import Plan, step_of
from mtlstruct.features.vocabulary import ABSENT, PairTable, Vocabulary
from mtlstruct.templates import Template, TemplateSet

Int32 = NDArray[np.int32]
Known = tuple[tuple[Vocabulary, ...], tuple[PairTable, ...]]
"""What the values of nodes stand for: strings, and pairs of values."""


def widened(templates: TemplateSet, plan: Plan, known: Known) -> Known:
    """Vocabularies and tables with all that a reading must know because another one does; numbers stay."""
    nodes = _Nodes(plan, known)
    for j, template in enumerate(templates):
        readings = plan.readings(j)
        if len({_way(plan, r, line) for r, line in zip(readings, template.readings, strict=True)}) > 1:
            both = list(zip(readings, template.readings, strict=True))
            seen = {cells: None for r, line in both for cells in _tuples(plan, r, line, known)}
            for r, line in both:
                nodes.learn(r, line, list(seen))
    return nodes.known()


def joint_numbers(template: Template, plan: Plan, readings: Sequence[int], known: Known) -> list[Int32]:
    """For each reading of a template the number of each value of its node; equal cells have equal numbers."""
    values = [np.arange(size_of(plan, r, known), dtype=np.int32) for r in readings]
    both = list(zip(readings, template.readings, strict=True))
    if len({_way(plan, r, line) for r, line in both}) == 1:
        return values
    numbers: dict[tuple[str, ...], int] = {}
    return [
        np.array(
            [numbers.setdefault(cells, len(numbers)) for cells in _tuples(plan, r, line, known)], np.int32
        )
        for r, line in both
    ]


def unravelled(plan: Plan, r: int, values: NDArray[np.integer], known: Known) -> list[list[str]]:
    """For each step of a reading's chain the string that it shows for each of these values of its node."""
    vocabularies, tables = known
    out = []
    for _, stream, node in reversed(plan.chain(r)):
        numbers = values
        if node >= len(plan.streams):
            table = tables[node - len(plan.streams)]
            numbers, values = table.right()[values], table.left()[values]
        distinct, at = np.unique(numbers, return_inverse=True)
        strings = [vocabularies[stream][n] for n in distinct.tolist()]
        out.append([strings[k] for k in at.tolist()])
    return out[::-1]


def cells_by_term(
    plan: Plan, r: int, line: Template, values: NDArray[np.integer], known: Known
) -> Iterator[tuple[str, ...]]:
    """The cells of some values of a reading's node, in the order of its terms."""
    if not line.terms:
        return iter([()] * len(values))
    steps = unravelled(plan, r, values, known)
    return zip(*(steps[k] for k in _places(plan, r, line)), strict=True)


def _tuples(plan: Plan, r: int, line: Template, known: Known) -> Iterator[tuple[str, ...]]:
    return cells_by_term(plan, r, line, np.arange(size_of(plan, r, known)), known)


def size_of(plan: Plan, r: int, known: Known) -> int:
    """How many values the node of a reading has."""
    node = plan.uses[r].node
    if node == ABSENT:
        return 1
    streams = len(plan.streams)
    return len(known[0][node]) if node < streams else len(known[1][node - streams])


def _places(plan: Plan, r: int, line: Template) -> list[int]:
    """For each term of a line the step of its chain that reads it."""
    steps = [(row, plan.streams[stream]) for row, stream, _ in plan.chain(r)]
    return [steps.index(step_of(term)) for term in line.terms]


def _way(plan: Plan, r: int, line: Template) -> tuple[int, ...]:
    """What two readings have in common if equal values of theirs are equal tuples of cells."""
    return (plan.uses[r].node, *_places(plan, r, line))


class _Nodes:
    """Vocabularies and tables that grow; each is turned into a dict when it is first asked for."""

    def __init__(self, plan: Plan, known: Known) -> None:
        self.plan, self.old = plan, known
        self.strings: dict[int, dict[str, int]] = {}
        self.pairs: dict[int, dict[int, int]] = {}

    def learn(self, r: int, line: Template, seen: Sequence[tuple[str, ...]]) -> None:
        """Gives a value of the reading's node to each tuple of cells that it could show."""
        chain = self.plan.chain(r)
        terms = [step_of(term) for term in line.terms]
        order = [terms.index((row, self.plan.streams[stream])) for row, stream, _ in chain]
        first = [terms.index(step) for step in terms]  # a cell that is named twice must read the same twice
        for cells in seen:
            if all(cells[k] == cell for k, cell in zip(first, cells, strict=True)):
                self._walk(chain, [cells[k] for k in order])

    def _walk(self, chain: Sequence[tuple[int, int, int]], cells: Sequence[str]) -> None:
        value = 0
        for (_, stream, node), cell in zip(chain, cells, strict=True):
            strings = self._strings(stream)
            number = strings.setdefault(cell, len(strings))
            if node == stream:
                value = number
            else:
                pairs = self._pairs(node - len(self.plan.streams))
                value = pairs.setdefault(value << 32 | number, len(pairs))

    def _strings(self, stream: int) -> dict[str, int]:
        if stream not in self.strings:
            self.strings[stream] = {text: n for n, text in enumerate(self.old[0][stream].strings())}
        return self.strings[stream]

    def _pairs(self, join: int) -> dict[int, int]:
        if join not in self.pairs:
            self.pairs[join] = {pair: n for n, pair in enumerate(self.old[1][join].pairs.tolist())}
        return self.pairs[join]

    def known(self) -> Known:
        """All of them, grown or not."""
        vocabularies, tables = list(self.old[0]), list(self.old[1])
        for stream, strings in self.strings.items():
            vocabularies[stream] = Vocabulary.of(strings)
        for join, pairs in self.pairs.items():
            tables[join] = PairTable(np.fromiter(pairs, np.int64, len(pairs)))
        return tuple(vocabularies), tuple(tables)
