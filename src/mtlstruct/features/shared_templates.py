"""Readings of one template, made to agree: lines that expand alike have one set of attributes.

Each reading has a chain of joins of its own, which numbers the values that it has seen. `widened` teaches every
reading the values that the others have seen, since they may come its way in other text; `joint_numbers` gives equal
values of different readings equal numbers. A value is the tuple of a line's cells, in the order of its terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
    nodes = Nodes(plan, known)
    for j, template in enumerate(templates):
        readings = plan.readings(j)
        if len({_way(plan, r, line) for r, line in zip(readings, template.readings, strict=True)}) > 1:
            both = list(zip(readings, template.readings, strict=True))
            seen = {cells: None for r, line in both for cells in _tuples(plan, r, line, known)}
            for r, line in both:
                nodes.learn(r, line, (cells for cells in seen if _can_show(line, cells)))
    return nodes.known()


def _can_show(line: Template, cells: tuple[str, ...]) -> bool:
    """Decide whether a line can show these cells: a cell that is named twice reads the same twice."""
    steps = [step_of(term) for term in line.terms]
    return len(set(zip(steps, cells, strict=True))) == len(set(steps))


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


class Nodes:
    """Vocabularies and tables that grow; each is turned into a dict when it is first needed."""

    def __init__(self, plan: Plan, known: Known | None = None) -> None:
        nothing = (
            (Vocabulary.of([]),) * len(plan.streams),
            (PairTable(np.zeros(0, np.int64)),) * len(plan.joins),
        )
        self.plan, self.old = plan, known or nothing
        self.strings: dict[int, dict[str, int]] = {}
        self.pairs: dict[int, dict[int, int]] = {}

    def learn(self, r: int, line: Template, cells: Iterable[tuple[str, ...]]) -> list[int]:
        """Return the value of a reading's node for each tuple of cells; new strings and pairs get numbers."""
        terms = [step_of(term) for term in line.terms]
        steps = [
            (terms.index((row, self.plan.streams[stream])), self._strings(stream), self._pairs(node))
            for row, stream, node in self.plan.chain(r)
        ]
        values = []
        for found in cells:
            value = 0
            for term, strings, pairs in steps:
                number = strings.setdefault(found[term], len(strings))
                value = number if pairs is None else pairs.setdefault(value << 32 | number, len(pairs))
            values.append(value)
        return values

    def _strings(self, stream: int) -> dict[str, int]:
        if stream not in self.strings:
            self.strings[stream] = {text: n for n, text in enumerate(self.old[0][stream].strings())}
        return self.strings[stream]

    def _pairs(self, node: int) -> dict[int, int] | None:
        join = node - len(self.plan.streams)
        if join >= 0 and join not in self.pairs:
            self.pairs[join] = {pair: n for n, pair in enumerate(self.old[1][join].pairs.tolist())}
        return self.pairs.get(join)

    def known(self) -> Known:
        """Return all of them, grown or not."""
        vocabularies, tables = list(self.old[0]), list(self.old[1])
        for stream, strings in self.strings.items():
            vocabularies[stream] = Vocabulary.of(strings)
        for join, pairs in self.pairs.items():
            tables[join] = PairTable(np.fromiter(pairs, np.int64, len(pairs)))
        return tuple(vocabularies), tuple(tables)
