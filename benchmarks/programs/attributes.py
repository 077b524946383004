"""Column cells -> attribute strings, the way a user of python-crfsuite makes them, as fast as Python joins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from mtlstruct.corpus import Corpus
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.functions import bound
from mtlstruct.templates.terms import Template, Term, boundary, expand

Cells = list[list[str]]
"""The columns of one sentence."""


def sentences(corpus: Corpus) -> Iterator[Cells]:
    """The columns of each sentence as text."""
    columns = [column.cells() for column in corpus.columns]
    for span in corpus.sentences():
        yield [column[span] for column in columns]


class Attributes:
    """The U templates of a set, ready to be expanded sentence by sentence."""

    def __init__(self, templates: TemplateSet) -> None:
        self.templates = [template for template in templates if template.kind == "U"]
        self.functions: dict[tuple[str, tuple[str, ...]], Callable[[str], str]] = {}
        before, after = templates.reach()
        self.before = [boundary(-k) for k in range(before, 0, -1)]
        self.after = [boundary(k) for k in range(1, after + 1)]

    def of(self, cells: Cells) -> list[tuple[str, ...]]:
        """A tuple of strings for each position."""
        padded = [[*self.before, *column, *self.after] for column in cells]
        length = len(cells[0])
        return list(zip(*(self._expanded(t, padded, length) for t in self.templates), strict=True))

    def check(self, cells: Cells) -> None:
        """Refuses to go on if the fast strings are not those of the templates' definition."""
        for position, found in enumerate(self.of(cells)):
            if found != tuple(expand(template, self._reader(cells, position)) for template in self.templates):
                raise AssertionError(f"attributes differ at position {position}")

    def _expanded(self, template: Template, padded: Cells, length: int) -> list[str]:
        starts = [len(self.before) + term.row for term in template.terms]
        looked_at = [padded[t.column][s : s + length] for t, s in zip(template.terms, starts, strict=True)]
        for n, term in enumerate(template.terms):
            if term.function:
                looked_at[n] = [self._function(term)(cell) for cell in looked_at[n]]
        first, *rest = template.pieces
        if len(rest) == 1:
            return [first + a + rest[0] for a in looked_at[0]]
        if len(rest) == 2:
            middle, last = rest
            return [f"{first}{a}{middle}{b}{last}" for a, b in zip(*looked_at, strict=True)]
        form = "{}".join(piece.replace("{", "{{").replace("}", "}}") for piece in template.pieces)
        return [form.format(*values) for values in zip(*looked_at, strict=True)]

    def _function(self, term: Term) -> Callable[[str], str]:
        """The function of a term, which remembers what it made of a cell."""
        key = (term.function, term.arguments)
        if key not in self.functions:
            self.functions[key] = cache(bound(*key, {}))
        return self.functions[key]

    def _reader(self, cells: Cells, position: int) -> Callable[[int, int], str]:
        def cell(row: int, column: int) -> str:
            at, length = position + row, len(cells[column])
            if at < 0:
                return boundary(at)
            return cells[column][at] if at < length else boundary(at - length + 1)

        return cell
