"""What is wrong or odd in a template file: all lines at once, each finding with its line and what to do.

An error is what training would refuse; a warning is what it would take though it was hardly meant. Findings about
data need only counts (Facts), which the encoder gives, so that this module knows no encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mtlstruct.errors import MtlError
from mtlstruct.templates.dialects import dropped_by_crfpp, read_line
from mtlstruct.templates.lines import Line, clipped, numbered
from mtlstruct.templates.template_set import (
    TemplateSet,
    canonical,
    check_dialect,
    column_numbers,
    columns_of,
    list_names,
    named,
    read_list,
)
from mtlstruct.templates.terms import Template

ERROR, WARNING = "error", "warning"
COMMENT = "make it a comment with #"

CROWDED = 0.9
"""A template with more values than this share of its places hardly generalises."""


@dataclass(frozen=True)
class Finding:
    """One thing to look at."""

    line: int
    severity: str
    code: str
    text: str
    problem: str
    advice: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.severity}: {self.problem}: {self.advice} ({self.text})"


@dataclass(frozen=True)
class Facts:
    """What the data say of a template: its places, its distinct values there, the longest sentence."""

    places: int
    values: int
    longest: int


def check(
    text: str,
    path: str | Path = "templates",
    *,
    dialect: str = "mtlstruct",
    folder: str | Path | None = None,
    columns: int | None = None,
    names: Sequence[str] = (),
) -> list[Finding]:
    """Findings about the text alone, by line. columns: how many observation columns the data have, if known."""
    check_dialect(dialect)
    templates, found = readable(text, path, dialect=dialect, folder=folder)
    if not templates and not found:
        found = [Finding(1, ERROR, "empty", "", "there is no template line", "write at least one")]
    found += _about_pairs(templates)
    if columns is not None:
        found += _missing_columns(templates, columns, names)
    return sorted(found, key=lambda finding: finding.line)


def readable(
    text: str, path: str | Path, *, dialect: str, folder: str | Path | None = None
) -> tuple[list[Template], list[Finding]]:
    """The templates of all lines that can be read, and an error for each that cannot."""
    templates: list[Template] = []
    found: list[Finding] = []
    for line in numbered(text, path):
        if dialect == "crfpp" and dropped_by_crfpp(line):
            found.append(_found(line, WARNING, "dropped", "CRF++ drops this line", COMMENT))
            continue
        try:
            read = read_line(line, dialect)
            if folder is not None:
                for name in (name for template in read for name in list_names(template)):
                    read_list(Path(folder) / name)
        except MtlError as error:
            found.append(_found(line, ERROR, "syntax", _clause(error), f"correct it or {COMMENT}"))
        else:
            templates += read
    return templates, found


def check_data(templates: TemplateSet, facts: Sequence[Facts]) -> list[Finding]:
    """Findings about templates on data, facts[j] about template j."""
    return [found for pair in zip(templates, facts, strict=True) for found in _on_data(*pair)]


def as_dict(finding: Finding) -> dict[str, Any]:
    """A finding for JSON."""
    return asdict(finding)


def _found(line: Line, severity: str, code: str, problem: str, advice: str) -> Finding:
    return Finding(line.number, severity, code, clipped(line.text), problem, advice)


def _clause(error: MtlError) -> str:
    """The error without the place and the line, which a finding has itself."""
    column = getattr(error, "column", None)
    problem = getattr(error, "problem", str(error))
    return problem if column is None else f"at character {column} {problem}"


# ---------------------------------------------------------------- rules about the text


def _about(template: Template, code: str, problem: str, advice: str, severity: str = WARNING) -> Finding:
    return Finding(template.line, severity, code, clipped(template.text), problem, advice)


def _again(
    templates: Sequence[Template], key: Callable[[Template], Any]
) -> Iterator[tuple[Template, Template]]:
    """Templates whose key an earlier template has, each with the first that has it."""
    first: dict[Any, Template] = {}
    for template in templates:
        earlier = first.setdefault(key(template), template)
        if earlier is not template:
            yield earlier, template


def _about_pairs(templates: Sequence[Template]) -> Iterator[Finding]:
    """Yield findings about two templates each, by rule."""
    for old, new in _again(templates, lambda t: (t.kind, t.terms)):
        problem = f"looks at the same cells as line {old.line}"
        yield _about(new, "duplicate", problem, "leave one of them out")
    for old, new in _again(templates, lambda t: (t.kind, tuple(sorted(t.terms)))):
        if old.terms != new.terms:
            problem = f"looks at the cells of line {old.line} in another order"
            yield _about(new, "permuted", problem, "leave one of them out")
    for old, new in _again([t for t in templates if len(t.name) > 1], lambda t: t.name):
        if old.pieces != new.pieces:
            problem = f"has the identifier {new.name} of line {old.line}"
            yield _about(new, "name", problem, "give each line its own")
    for old, new in _again([t for t in templates if t.terms], lambda t: t.pieces):
        if old.terms != new.terms:
            problem = f"expands like line {old.line} where the cells agree, so CRF++ would merge the two"
            own = "give each line its own identifier, such as U01:"
            yield _about(new, "merged", problem, f"{own}, or train with --share-identical if that is meant")


# ---------------------------------------------------------------- rules about data


def _missing_columns(templates: Sequence[Template], count: int, names: Sequence[str]) -> Iterator[Finding]:
    """Yield an error for each term whose column the data lack."""
    known = column_numbers(names)
    for template in templates:
        for term in template.terms:
            if term.column >= count:
                problem = f"names column {term.column}, but the data has {columns_of(count)}"
                advice = "correct the column (the last one of the data is the label) or add it to the data"
            elif term.name and canonical(term.name) not in known:
                problem = f"names column {term.name}, but {named(names)}"
                advice = "correct the name, or give the column's number"
            else:
                continue
            yield _about(template, "column", problem, advice, ERROR)


def _on_data(template: Template, fact: Facts) -> Iterator[Finding]:
    if not template.terms:
        return
    if fact.values == 0:
        yield _about(template, "never", "never fires on the data", "leave it out")
    elif template.kind != "A" and all(
        abs(term.row) >= fact.longest + term.absolute for term in template.terms
    ):
        problem = f"sees only boundary marks: the longest sentence has {fact.longest} tokens"
        yield _about(template, "outside", problem, "look nearer, or leave it out")
    elif fact.values == 1:
        yield _about(template, "constant", "has one and the same value all over the data", "leave it out")
    elif fact.values > CROWDED * fact.places:
        problem = f"has {fact.values:,} values at {fact.places:,} places, so hardly one occurs twice"
        yield _about(template, "crowded", problem, "look at fewer cells, or through a function")
