"""What must be computed for a template set: streams, joins of them that templates share, and how each line reads.

A stream is a column as one function sees it, a join numbers pairs of values, and the cells of a line, sorted by
position, are a chain of joins. A template that stands for several lines (TemplateSet.shared) has a *reading* for
each; elsewhere a template is a reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.templates import Template, TemplateSet, Term


@dataclass(frozen=True, order=True)
class Stream:
    """A column as one word function sees it.

    absolute: not 0 for the one cell at that place of the sentence (1 the first, -1 the last), seen from everywhere
    """

    column: int
    function: str
    arguments: tuple[str, ...]
    absolute: int = 0


Step = tuple[int, Stream]
"""What a term reads: a stream, so many rows away."""


@dataclass(frozen=True)
class Join:
    """Pairs of a value so far (`left`: a node) and the cell of `stream` that stands `gap` right of its first cell."""

    left: int
    stream: int
    gap: int


@dataclass(frozen=True)
class Use:
    """How a reading finds its value: at `anchor` from the site, from `node` (ABSENT: it looks at nothing)."""

    node: int
    anchor: int


@dataclass(frozen=True)
class Plan:
    """What must be computed for a template set. Nodes 0..len(streams)-1 are streams, the rest are joins in order.

    uses     for each reading
    owners   the template of each reading
    """

    streams: tuple[Stream, ...]
    joins: tuple[Join, ...]
    uses: tuple[Use, ...]
    owners: tuple[int, ...]
    before: int
    after: int

    @property
    def nodes(self) -> int:
        """How many streams and joins there are."""
        return len(self.streams) + len(self.joins)

    def signature(self, node: int) -> tuple[Any, ...]:
        """What a node computes, independent of how a plan numbers its nodes."""
        if node < len(self.streams):
            return (self.streams[node],)
        join = self.joins[node - len(self.streams)]
        return (*self.signature(join.left), join.gap, self.streams[join.stream])

    def readings(self, j: int) -> list[int]:
        """The readings of template j."""
        return self._readings.get(j, [])

    @cached_property
    def _readings(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for r, owner in enumerate(self.owners):
            found.setdefault(owner, []).append(r)
        return found

    @cached_property
    def in_waves(self) -> list[int]:
        """The joins, those of few cells first: each behind its left side, most far behind."""
        depths: list[int] = []
        for join in self.joins:
            left = join.left - len(self.streams)
            depths.append(1 if left < 0 else depths[left] + 1)
        return sorted(range(len(self.joins)), key=depths.__getitem__)

    def chain(self, r: int) -> list[tuple[int, int, int]]:
        """The steps from the first cell to the value of a reading: row, stream, and the node that is reached."""
        use, out = self.uses[r], []
        node = use.node
        if node == ABSENT:
            return []
        while node >= len(self.streams):
            join = self.joins[node - len(self.streams)]
            out.append((use.anchor + join.gap, join.stream, node))
            node = join.left
        out.append((use.anchor, node, node))
        return out[::-1]

    def marks(self, stream: Stream) -> list[int]:
        """The boundary marks that a stream may show, as distances from the edge."""
        if stream.absolute:
            return [k if stream.absolute > 0 else -k for k in range(1, abs(stream.absolute) + 1)]
        return [k for k in range(-self.before, self.after + 1) if k != 0]


def make_plan(templates: TemplateSet) -> Plan:
    """Finds the streams and joins that templates share."""
    readings = [(j, reading) for j, template in enumerate(templates) for reading in template.readings]
    streams: dict[Stream, int] = {}
    for _, reading in readings:
        for term in reading.terms:
            streams.setdefault(step_of(term)[1], len(streams))
    joins: dict[Join, int] = {}
    uses = [_use(reading, streams, joins) for _, reading in readings]
    before, after = templates.reach()
    return Plan(tuple(streams), tuple(joins), tuple(uses), tuple(j for j, _ in readings), before, after)


def step_of(term: Term) -> Step:
    """The step of a term. A cell at an absolute place looks the same from everywhere, so it stands in row 0."""
    stream = Stream(term.column, term.function, term.arguments, term.row if term.absolute else 0)
    return (0 if term.absolute else term.row), stream


def _use(template: Template, streams: dict[Stream, int], joins: dict[Join, int]) -> Use:
    # The order must not depend on how streams are numbered: a selection of the templates numbers them anew, and
    # needs the same joins.
    cells = sorted(map(step_of, template.terms))
    if not cells:
        return Use(ABSENT, 0)
    anchor, node = cells[0][0], streams[cells[0][1]]
    for row, stream in cells[1:]:
        gap = row - anchor
        node = len(streams) + joins.setdefault(Join(node, streams[stream], gap), len(joins))
    return Use(node, anchor)
