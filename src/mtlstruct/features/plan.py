"""Plan of feature extraction: the streams and joins of a template set.

A stream is a column seen through one function of cells. A join numbers pairs: a value so far, and
the cell of a stream a fixed distance to the right of its first cell. The cells of a line, sorted by
position, are a chain of joins; lines that have cells at the same distances share joins. A template
has one line, or several if identical lines are shared (TemplateSet.shared); lines are numbered
through all templates.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.templates import Template, TemplateSet, Term


@dataclass(frozen=True, order=True)
class Stream:
    """A column seen through one function of cells.

    absolute   0, or the position of one cell of the sentence (1 the first, -1 the last) that every
               token sees
    """

    column: int
    function: str
    arguments: tuple[str, ...]
    absolute: int = 0


Step = tuple[int, Stream]
"""A term: a row offset and a stream."""


@dataclass(frozen=True)
class Join:
    """Pairs of a value of node `left` and a cell of `stream`, `gap` right of its first cell."""

    left: int
    stream: int
    gap: int


@dataclass(frozen=True)
class Use:
    """The value of a line: that of `node` (ABSENT: no cells), `anchor` rows from the site."""

    node: int
    anchor: int


@dataclass(frozen=True)
class Plan:
    """Streams and joins of a template set; nodes are the streams, then the joins.

    uses             the value of each line
    template_of      the template of each line
    before, after    the largest row offsets
    """

    streams: tuple[Stream, ...]
    joins: tuple[Join, ...]
    uses: tuple[Use, ...]
    template_of: tuple[int, ...]
    before: int
    after: int

    @property
    def nodes(self) -> int:
        """Number of streams and joins."""
        return len(self.streams) + len(self.joins)

    def signature(self, node: int) -> tuple[Any, ...]:
        """Return what a node computes, independent of how a plan numbers its nodes."""
        if node < len(self.streams):
            return (self.streams[node],)
        join = self.joins[node - len(self.streams)]
        return (*self.signature(join.left), join.gap, self.streams[join.stream])

    def lines_of(self, j: int) -> list[int]:
        """Return the lines of template j."""
        return self._lines_of.get(j, [])

    @cached_property
    def _lines_of(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for line, j in enumerate(self.template_of):
            found.setdefault(j, []).append(line)
        return found

    @cached_property
    def levels(self) -> list[list[int]]:
        """The joins of two cells, of three, and so on: each comes after its left side."""
        levels: list[list[int]] = []
        depths = [0] * len(self.streams)
        for number, join in enumerate(self.joins):
            depths.append(depths[join.left] + 1)
            levels += [[] for _ in range(depths[-1] - len(levels))]
            levels[depths[-1] - 1].append(number)
        return levels

    def chain(self, line: int) -> list[tuple[int, int, int]]:
        """Return the steps from the first cell of a line to its value: row, stream, node."""
        use, out = self.uses[line], []
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
        """Return the boundary marks of a stream, as distances from the edge of the sentence."""
        if stream.absolute:
            return [k if stream.absolute > 0 else -k for k in range(1, abs(stream.absolute) + 1)]
        return [k for k in range(-self.before, self.after + 1) if k != 0]


def make_plan(templates: TemplateSet) -> Plan:
    """Return the plan of a template set with resolved columns."""
    lines = [(j, line) for j, template in enumerate(templates) for line in template.members]
    streams: dict[Stream, int] = {}
    for _, line in lines:
        for term in line.terms:
            streams.setdefault(step_of(term)[1], len(streams))
    joins: dict[Join, int] = {}
    uses = [_use(line, streams, joins) for _, line in lines]
    before, after = templates.reach()
    return Plan(tuple(streams), tuple(joins), tuple(uses), tuple(j for j, _ in lines), before, after)


def step_of(term: Term) -> Step:
    """Return the step of a term; a cell at an absolute position is in row 0."""
    stream = Stream(term.column, term.function, term.arguments, term.row if term.absolute else 0)
    return (0 if term.absolute else term.row), stream


def _use(template: Template, streams: dict[Stream, int], joins: dict[Join, int]) -> Use:
    # the order must not depend on the numbers of streams, which change in a selection of templates
    cells = sorted(map(step_of, template.terms))
    if not cells:
        return Use(ABSENT, 0)
    anchor, node = cells[0][0], streams[cells[0][1]]
    for row, stream in cells[1:]:
        gap = row - anchor
        node = len(streams) + joins.setdefault(Join(node, streams[stream], gap), len(joins))
    return Use(node, anchor)
