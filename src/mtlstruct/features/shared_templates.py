"""Shared templates (`--share-identical`): lines with the same text share attributes.

Each line has a chain of joins, which numbers the values that occur there. `widened` adds to each
line of a template the values of its other lines, since they may occur there in other text;
`joint_numbers` gives equal values of different lines equal numbers. A value is the tuple of a
line's cells, in the order of its terms.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.plan import Plan, step_of
from mtlstruct.features.vocabulary import ABSENT, Int32, PairTable, Vocabulary
from mtlstruct.templates import Template, TemplateSet

NodeTables = tuple[tuple[Vocabulary, ...], tuple[PairTable, ...]]
"""The values of nodes: strings of streams, and pairs of joins."""


def widened(templates: TemplateSet, plan: Plan, known: NodeTables) -> NodeTables:
    """Return vocabularies and tables in which the lines of a template know each other's values."""
    if all(len(template.members) == 1 for template in templates):
        return known
    growing = GrowingTables(plan, known)
    for j, template in enumerate(templates):
        if len(template.members) > 1:
            lines = list(zip(plan.lines_of(j), template.members, strict=True))
            values = {cells: None for line, text in lines for cells in _tuples(plan, line, text, known)}
            for line, text in lines:
                growing.learn(line, text, (cells for cells in values if _can_show(text, cells)))
    return growing.known()


def _can_show(text: Template, cells: tuple[str, ...]) -> bool:
    """Return whether a line can have these cells: terms that read the same cell must agree."""
    steps = [step_of(term) for term in text.terms]
    return len(set(zip(steps, cells, strict=True))) == len(set(steps))


def joint_numbers(template: Template, plan: Plan, lines: Sequence[int], known: NodeTables) -> list[Int32]:
    """Return for each line the number of each value of its node; equal cells have equal numbers."""
    numbers: dict[tuple[str, ...], int] = {}
    return [
        np.array(
            [numbers.setdefault(cells, len(numbers)) for cells in _tuples(plan, line, text, known)], np.int32
        )
        for line, text in zip(lines, template.members, strict=True)
    ]


def numbers_by_term(
    plan: Plan, line: int, text: Template, values: NDArray[np.integer], known: NodeTables
) -> list[tuple[int, NDArray[np.integer]]]:
    """Return for each term its stream, and the number of its cell in each of these values."""
    steps = {}
    for row, stream, node in reversed(plan.chain(line)):
        numbers = values
        if node >= len(plan.streams):
            table = known[1][node - len(plan.streams)]
            numbers, values = table.right()[values], table.left()[values]
        steps[row, plan.streams[stream]] = stream, numbers
    return [steps[step_of(term)] for term in text.terms]


def cells_by_term(
    plan: Plan, line: int, text: Template, values: NDArray[np.integer], known: NodeTables
) -> Iterator[tuple[str, ...]]:
    """Return the cells of some values of a line's node, in the order of its terms."""
    if not text.terms:
        return iter([()] * len(values))
    cells = []
    for stream, numbers in numbers_by_term(plan, line, text, values, known):
        distinct, at = np.unique(numbers, return_inverse=True)
        strings = [known[0][stream][n] for n in distinct.tolist()]
        cells.append([strings[k] for k in at.tolist()])
    return zip(*cells, strict=True)


def _tuples(plan: Plan, line: int, text: Template, known: NodeTables) -> Iterator[tuple[str, ...]]:
    return cells_by_term(plan, line, text, np.arange(size_of(plan, line, known)), known)


def size_of(plan: Plan, line: int, known: NodeTables) -> int:
    """Return the number of values of a line's node."""
    node = plan.uses[line].node
    if node == ABSENT:
        return 1
    streams = len(plan.streams)
    return len(known[0][node]) if node < streams else len(known[1][node - streams])


class GrowingTables:
    """Vocabularies and tables that grow; each becomes a dict when it is first needed."""

    def __init__(self, plan: Plan, known: NodeTables | None = None) -> None:
        empty = (
            (Vocabulary.of([]),) * len(plan.streams),
            (PairTable(np.zeros(0, np.int64)),) * len(plan.joins),
        )
        self.plan, self.old = plan, known or empty
        self.strings: dict[int, dict[str, int]] = {}
        self.pairs: dict[int, dict[int, int]] = {}

    def learn(self, line: int, text: Template, cells: Iterable[tuple[str, ...]]) -> list[int]:
        """Return the value of a line's node for each tuple of cells; new ones get numbers."""
        terms = [step_of(term) for term in text.terms]
        steps = [
            (terms.index((row, self.plan.streams[stream])), self._strings(stream), self._pairs(node))
            for row, stream, node in self.plan.chain(line)
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

    def known(self) -> NodeTables:
        """Return all vocabularies and tables."""
        vocabularies, tables = list(self.old[0]), list(self.old[1])
        for stream, strings in self.strings.items():
            vocabularies[stream] = Vocabulary.of(strings)
        for join, pairs in self.pairs.items():
            tables[join] = PairTable(np.fromiter(pairs, np.int64, len(pairs)))
        return tuple(vocabularies), tuple(tables)
