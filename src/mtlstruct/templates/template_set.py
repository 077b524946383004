"""Template files: text <-> TemplateSet, in any dialect.

Position in the set, not the name, identifies a template: real files repeat names. Invalid lines
raise a TemplateError with the line and usually the character.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

from mtlstruct.errors import MtlError, TemplateError
from mtlstruct.templates.dialects import DIALECTS, dropped_by_crfpp, read_line
from mtlstruct.templates.functions import FUNCTIONS, LIST, Lists
from mtlstruct.templates.terms import (
    NO_COLUMN,
    Line,
    Template,
    Term,
    numbered,
    quoted,
    read_text,
    split_lines,
)

MAX_LIST_ENTRIES = 1_000_000
"""Lists are part of the model file."""


@dataclass(frozen=True)
class TemplateSet(Sequence[Template]):
    """Templates in order, immutable; position = template number = block of the weights.

    Parameters
    ----------
    templates : tuple of Template
    path : str, default "templates"
        The name of their file in messages.
    source : str, default ""
        The text they were parsed from. `line` of each template is a line number in it.
    lists : mapping of str to tuple of str, default empty
        The entries of every list that `%in` names.
    notes : tuple of str, default ()
        Warnings about lines that were skipped.
    dialect : str, default "mtlstruct"
        The dialect of `source`, one of `DIALECTS`.
    """

    templates: tuple[Template, ...]
    path: str = field(default="templates", compare=False)
    source: str = field(default="", compare=False, repr=False)
    lists: Mapping[str, Lists] = field(default_factory=dict, compare=False, repr=False)
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    dialect: str = field(default="mtlstruct", compare=False, repr=False)

    @classmethod
    def parse(
        cls,
        text: str,
        path: str | Path = "templates",
        *,
        dialect: str = "mtlstruct",
        lists: Mapping[str, Lists] | None = None,
        folder: str | Path | None = None,
    ) -> TemplateSet:
        """Parse template lines.

        Parameters
        ----------
        text : str
        path : str or Path, default "templates"
            The name of the text in messages.
        dialect : str, default "mtlstruct"
            One of `DIALECTS`.
        lists : mapping of str to tuple of str, optional
            Entries of lists that are known.
        folder : str or Path, optional
            Where other lists are read from; None reads no file.

        Returns
        -------
        TemplateSet

        Raises
        ------
        TemplateError
            With line and character, if a line is not in the language, or there is no template.
        """
        check_dialect(dialect)
        lines = numbered(text, path)
        skipped = [line for line in lines if dialect == "crfpp" and dropped_by_crfpp(line)]
        kept = [line for line in lines if line not in skipped]
        templates = tuple(t for line in kept for t in read_line(line, dialect))
        if not templates:
            raise TemplateError("expected at least one template line, got none", path=path)
        notes = tuple(str(line.error("CRF++ drops this line, and so do we")) for line in skipped)
        found = cls(templates, str(path), text, {}, notes, dialect)
        return replace(found, lists=_lists(found, lists or {}, folder))

    @classmethod
    def read(cls, path: str | Path, *, dialect: str = "mtlstruct") -> TemplateSet:
        """Read a template file and the lists it names.

        Parameters
        ----------
        path : str or Path
            A UTF-8 file; lists are looked for in its folder.
        dialect : str, default "mtlstruct"
            One of `DIALECTS`.

        Returns
        -------
        TemplateSet
        """
        text = read_text(path, "template file")
        return cls.parse(text, path, dialect=dialect, folder=Path(path).parent)

    def text(self) -> str:
        """Return the templates in our own dialect, one per line.

        Returns
        -------
        str
        """
        return "".join(f"{member.text}\n" for member in self._members())

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines of the source without line ends: template t is lines[t.line - 1]."""
        return tuple(split_lines(self.source))

    def select(self, indices: Iterable[int]) -> TemplateSet:
        """Return some of the templates.

        Parameters
        ----------
        indices : iterable of int
            Template numbers, in the order wanted.

        Returns
        -------
        TemplateSet
        """
        return replace(self, templates=tuple(self.templates[index] for index in indices))

    def shared(self) -> TemplateSet:
        """Make one template of lines that can expand to the same text, at the first of them.

        Lines with the same literal text expand alike where their cells agree. CRF++, which
        identifies a feature by its text, has one set of parameters for them.

        Returns
        -------
        TemplateSet
        """
        groups: dict[tuple[str, ...], list[Template]] = {}
        for member in self._members():
            groups.setdefault(member.pieces, []).append(replace(member, others=()))
        merged = (replace(first, others=tuple(others)) for first, *others in groups.values())
        return replace(self, templates=tuple(merged))

    def columns(self) -> frozenset[int]:
        """Return the numbers of the data columns that templates read.

        Returns
        -------
        frozenset of int
        """
        return frozenset(term.column for _, term in self._terms() if term.column != NO_COLUMN)

    def reach(self) -> tuple[int, int]:
        """Return how many rows before and after the current position templates read.

        Returns
        -------
        tuple of int
        """
        rows = [0, *(term.row for _, term in self._terms() if not term.absolute)]
        return -min(rows), max(rows)

    def resolved(self, names: Sequence[str]) -> TemplateSet:
        """Return the templates with column names replaced by numbers.

        Parameters
        ----------
        names : sequence of str
            The names of the columns of the data.

        Returns
        -------
        TemplateSet

        Raises
        ------
        TemplateError
            If a template names another column.
        """
        self._check(None, names)
        numbers = {"": NO_COLUMN} | column_numbers(names)
        found = []
        for template in self.templates:
            named_terms = ((term, numbers[canonical(term.name)]) for term in template.terms)
            terms = (replace(term, column=k) if term.name else term for term, k in named_terms)
            found.append(replace(template, terms=tuple(terms)))
        return replace(self, templates=tuple(found))

    def check_columns(self, count: int) -> None:
        """Raise on templates that read a missing column.

        Parameters
        ----------
        count : int
            The number of observation columns of the data.

        Raises
        ------
        TemplateError
        """
        self._check(count, None)

    def _check(self, count: int | None, names: Sequence[str] | None) -> None:
        for member, problem in column_problems(self._members(), count, names):
            raise self.error(member, f"template {problem}")

    def error(self, template: Template, problem: str) -> TemplateError:
        """Return an error about one of the templates, with its file and line.

        Parameters
        ----------
        template : Template
        problem : str
            What was expected, and what is there.

        Returns
        -------
        TemplateError
        """
        return Line(template.text, template.line, self.path).error(problem)

    def __len__(self) -> int:
        return len(self.templates)

    def __iter__(self) -> Iterator[Template]:
        return iter(self.templates)

    @overload
    def __getitem__(self, index: int) -> Template: ...
    @overload
    def __getitem__(self, index: slice) -> TemplateSet: ...
    def __getitem__(self, index: int | slice) -> Template | TemplateSet:
        if isinstance(index, slice):
            return replace(self, templates=self.templates[index])
        return self.templates[index]

    def _members(self) -> Iterator[Template]:
        return (member for template in self.templates for member in template.members)

    def _terms(self) -> Iterator[tuple[Template, Term]]:
        return ((member, term) for member in self._members() for term in member.terms)


def check_dialect(dialect: str) -> None:
    """Raise an error for a dialect that is not known."""
    if dialect not in DIALECTS:
        raise MtlError(f"unknown dialect {dialect!r}: expected one of {', '.join(DIALECTS)}")


def read_list(path: str | Path) -> Lists:
    """Return the distinct entries of a list file: UTF-8, one per line, stripped."""
    lines = (line.strip() for line in split_lines(read_text(path, "list file")))
    entries = tuple(dict.fromkeys(line for line in lines if line))
    if (got := len(entries)) > MAX_LIST_ENTRIES:
        raise MtlError(f"{path}: expected at most {MAX_LIST_ENTRIES:,} entries in a list, got {got:,}")
    return entries


def _lists(templates: TemplateSet, known: Mapping[str, Lists], folder: str | Path | None) -> dict[str, Lists]:
    """Return the lists that the templates name, by name."""
    found: dict[str, Lists] = {}
    for template, name in [(one, name) for one in templates for name in list_names(one)]:
        if folder is None and name not in known:
            problem = f"expected the list {name!r} to be given, since no file is read here"
            raise templates.error(template, problem)
        try:
            if name not in found:
                found[name] = known[name] if name in known else read_list(Path(folder or "") / name)
        except MtlError as error:
            raise templates.error(template, str(error)) from error
    return dict(sorted(found.items()))


def list_names(template: Template) -> list[str]:
    """Return the lists that the terms of a template name."""
    terms = [term for term in template.terms if term.function and term.sees]
    pairs = (zip(FUNCTIONS[term.function].arguments, term.arguments, strict=True) for term in terms)
    return [given for pair in pairs for kind, given in pair if kind == LIST]


COLUMNS = {"word": "form", "cpostag": "cpos", "upos": "cpos", "postag": "pos", "xpos": "pos"}
"""Other names of columns: those of CoNLL-X and CoNLL-U, and ours."""


def canonical(name: str) -> str:
    """Return one name for all names of a column; a name in quotes is literal."""
    return name if name.startswith('"') else COLUMNS.get(name.lower(), name.lower())


def column_numbers(names: Sequence[str]) -> dict[str, int]:
    """Return the number of each column by its canonical name, and by its name in quotes."""
    backwards = list(enumerate(names))[::-1]  # of several that mean the same the first is meant
    numbers = {canonical(name): number for number, name in backwards}
    return numbers | {quoted(name): number for number, name in backwards}


def column_problems(
    templates: Iterable[Template], count: int | None, names: Sequence[str] | None
) -> Iterator[tuple[Template, str]]:
    """Yield terms beyond `count` columns, or with none of the `names`, where these are known."""
    known = column_numbers(names or ())
    for template in templates:
        for term in template.terms:
            if count is not None and term.column >= count:
                yield template, f"names column {term.column}, but the data has {columns_of(count)}"
            elif names is not None and term.name and canonical(term.name) not in known:
                yield template, f"names column {term.name}, but {named(names)}"


def named(names: Sequence[str]) -> str:
    """Return the names of columns, for messages."""
    if names:
        return f"the data has the columns {', '.join(names)}"
    return "the columns of the data have no names (CoNLL trees have them: --task dependency)"


def columns_of(count: int) -> str:
    """Return the number of observation columns, for messages."""
    if not count:
        return "no observation columns"
    return "1 observation column (0)" if count == 1 else f"{count} observation columns (0..{count - 1})"
