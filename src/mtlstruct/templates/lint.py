"""Lint of template files: findings with line, problem and advice.

An error is a line that training rejects; a warning is a likely mistake that training accepts.
Findings about data need only counts (Facts), which the encoder gives, so that this module knows no
encoder.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlstruct.errors import MtlError, shortened
from mtlstruct.templates.dialects import dropped_by_crfpp, read_line
from mtlstruct.templates.functions import VALUE
from mtlstruct.templates.template_set import (
    TemplateSet,
    check_dialect,
    column_problems,
    list_names,
    read_list,
)
from mtlstruct.templates.terms import Line, Template, numbered

ERROR, WARNING = "error", "warning"
COMMENT = "make it a comment with #"
LEAVE_OUT = "leave one of them out"

MAX_SINGLETON_SHARE = 0.5
"""A template memorises if the values at more than this share of its places occur nowhere else."""


@dataclass(frozen=True)
class LintFinding:
    """A problem in a template file, and what to do about it."""

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
    """Counts of a template on data: places, values, values that occur once, longest sentence."""

    places: int
    values: int
    singletons: int
    longest: int


def check(
    text: str,
    path: str | Path = "templates",
    *,
    dialect: str = "mtlstruct",
    folder: str | Path | None = None,
    columns: int | None = None,
    names: Sequence[str] = (),
    linked: bool = False,
) -> list[LintFinding]:
    """Return findings about the text.

    columns   number of observation columns, if known
    linked    whether the labels of neighbouring tokens depend on each other
    """
    check_dialect(dialect)
    templates, found = readable(text, path, dialect=dialect, folder=folder)
    if not templates and not found:
        found = [LintFinding(1, ERROR, "empty", "", "there is no template line", "write at least one")]
    found += _about_pairs(templates)
    if linked and {template.kind for template in templates} == {"U"}:
        problem = "there is no B line, so each label is predicted independently of its neighbours"
        advice = "add the line B (in Wapiti: b or *)"
        found.append(_about(templates[-1], "transitions", problem, advice))
    if columns is not None:
        advice = "correct it (the last column of the data is the label), or add the column to the data"
        missing = column_problems(templates, columns, names)
        found += [_about(template, "column", problem, advice, ERROR) for template, problem in missing]
    return sorted(found, key=lambda finding: finding.line)


def readable(
    text: str, path: str | Path, *, dialect: str, folder: str | Path | None = None
) -> tuple[list[Template], list[LintFinding]]:
    """Return the templates of all valid lines, and an error for each other line."""
    templates: list[Template] = []
    found: list[LintFinding] = []
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
            column, problem = getattr(error, "column", None), getattr(error, "problem", str(error))
            problem = problem if column is None else f"at character {column} {problem}"
            found.append(_found(line, ERROR, "syntax", problem, f"correct it or {COMMENT}"))
        else:
            templates += read
    return templates, found


def check_data(templates: TemplateSet, facts: Sequence[Facts]) -> list[LintFinding]:
    """Return findings about templates on data; facts[j] is about template j."""
    return [found for pair in zip(templates, facts, strict=True) for found in _on_data(*pair)]


def _found(line: Line, severity: str, code: str, problem: str, advice: str) -> LintFinding:
    return LintFinding(line.number, severity, code, shortened(line.text, 100), problem, advice)


# ---------------------------------------------------------------- rules about the text


def _about(template: Template, code: str, problem: str, advice: str, severity: str = WARNING) -> LintFinding:
    return LintFinding(template.line, severity, code, shortened(template.text, 100), problem, advice)


def _again(
    templates: Sequence[Template], key: Callable[[Template], Any]
) -> Iterator[tuple[Template, Template]]:
    """Yield templates with the key of an earlier template, after the first that has it."""
    first: dict[Any, Template] = {}
    for template in templates:
        earlier = first.setdefault(key(template), template)
        if earlier is not template:
            yield earlier, template


def _about_pairs(templates: Sequence[Template]) -> Iterator[LintFinding]:
    """Yield findings about two templates each, by rule."""
    for old, new in _again(templates, lambda t: (t.kind, t.terms)):
        yield _about(new, "duplicate", f"looks at the same cells as line {old.line}", LEAVE_OUT)
    for old, new in _again(templates, lambda t: (t.kind, tuple(sorted(t.terms)))):
        if old.terms != new.terms:
            yield _about(
                new, "permuted", f"looks at the cells of line {old.line} in another order", LEAVE_OUT
            )
    for old, new in _again([t for t in templates if len(t.name) > 1], lambda t: t.name):
        if old.pieces != new.pieces:
            yield _about(
                new, "name", f"has the identifier {new.name} of line {old.line}", "give each its own"
            )
    for old, new in _again([t for t in templates if t.terms], lambda t: t.pieces):
        if old.terms != new.terms:
            problem = f"expands like line {old.line} where the cells agree, so CRF++ would merge the two"
            own = "give each line its own identifier, such as U01:"
            yield _about(new, "merged", problem, f"{own}, or train with --share-identical if that is meant")


# ---------------------------------------------------------------- rules about data


def _on_data(template: Template, fact: Facts) -> Iterator[LintFinding]:
    if not template.terms:
        return
    if fact.values == 0:
        yield _about(template, "never", "never fires on the data", "leave it out")
    elif template.kind != "A" and all(
        abs(term.row) >= fact.longest + term.absolute for term in template.terms
    ):
        problem = f"sees only boundary marks: the longest sentence has {fact.longest} tokens"
        yield _about(template, "outside", problem, "look nearer, or leave it out")
    elif fact.values == 1 and all(term.function != VALUE for term in template.terms):
        yield _about(template, "constant", "always has the same value in these data", "remove it")
    elif fact.singletons > MAX_SINGLETON_SHARE * fact.places:
        problem = f"mostly memorises: at {fact.singletons:,} of {fact.places:,} places its value occurs nowhere else"
        yield _about(template, "memorises", problem, "look at fewer cells, or through a function")
