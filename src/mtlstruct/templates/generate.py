"""Template sets: n-grams of cells in a window, sets made from the data, and presets.

A *view* is a column or a function of one, `0`, `shape[0]`, `prefix[0,3]` or, for several,
`prefix[0,1-5]`; views are treated alike. `generate` enumerates n-grams of increasing offsets within
a view, and across views. Rejected is what cannot be meant: an empty window, a view named twice,
more than MAX_TEMPLATES templates.

`automatic` makes a large set for data without templates, from what the columns hold. The first
column is the word. Of the others, constant ones are left out; closed ones (tags) are looked at in a
window, in n-grams and together with the word; numbers of many values are taken as values, and other
open ones (such as lower-case words and affixes) are looked at near the token.

Presets are files in `library`. The paper's: cws-tp1 and cws-tp2 for segmentation (table "Two set of
templates"; the table gives U08 the index 1 in TP2, a misprint for 9), ner-134 for named entities
and dependency, MSTParser's for trees. The rich ones know tasks, not languages: they look at
affixes, shapes, case, types of characters, words and tags in windows, and at conjunctions of these.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import chain, combinations, islice, pairwise, product
from typing import Literal

from mtlstruct.corpus import Column, Corpus
from mtlstruct.errors import MtlError
from mtlstruct.templates.arc_terms import stretched
from mtlstruct.templates.functions import FUNCTIONS, ArgumentError, check
from mtlstruct.templates.template_set import TemplateSet
from mtlstruct.templates.terms import MAX_COLUMN, MAX_ROW, Term, quoted

PAPER = ("cws-tp1", "cws-tp2", "ner-134", "dependency", "dependency-labels")
PRESETS = (*PAPER, "ner", "pos", "chunking", "segmentation")
"""Names of template sets: the paper's, then the rich ones."""

STRETCHED = ("dependency",)
"""Presets with a template for each place between two words, as many as wanted."""

MAX_TEMPLATES = 100_000
"""Largest number of templates: a window of ±255 alone has 22 million trigrams."""

MAX_ORDER = 8

MOST_TAGS = 200
"""The largest number of values of a column of tags."""

TAGS_PER_TOKEN = 0.1
"""The largest number of values of a column of tags, as a share of the tokens."""

ITEM_VIEWS = ("lower[0]", "shape[0]", "short[0]", "case[0]", "len[0]", "prefix[0,1-4]", "suffix[0,1-4]")
"""What is looked at of the first column of an item that stands alone."""

Kind = Literal["constant", "tags", "numbers", "open"]

Gram = tuple[Term, ...]

_VIEW = re.compile(r"([A-Za-z]+)\[([0-9]+)(?:,([0-9]+)(?:-([0-9]+))?)?\]|([0-9]+)")


def generate(
    window: tuple[int, int] = (-3, 3),
    columns: Sequence[int] = (0,),
    *,
    orders: Sequence[int] = (1,),
    trigrams: Sequence[int] = (),
    cross: bool = False,
    transitions: bool = True,
    functions: Sequence[str] = (),
    gap: int | None = None,
) -> TemplateSet:
    """Return n-gram templates, named U000, U001, …, and last `B`.

    window        first and last offset, both included
    columns       where n-grams look; an n-gram within a view has increasing offsets
    functions     further views to treat like columns, such as shape[0] or prefix[0,1-5]
    orders        orders of n-grams within every view
    trigrams      the columns with trigrams
    cross         bigrams of two different views at two different offsets
    gap           the largest step between neighbouring offsets of an n-gram: 1 for no skip-grams;
                  None for any
    transitions   whether to add `B`
    """
    _check(window, columns, trigrams, orders, gap)
    all_views = [Term(0, column) for column in columns] + views(functions)
    if len(set(all_views)) < len(all_views):
        raise MtlError(f"expected different views, got {' '.join(functions)} beside columns")
    offsets = range(window[0], window[1] + 1)
    short = (gram for n in (1, 2) if n in orders for v in all_views for gram in within(v, offsets, n, gap))
    pairs = combinations(all_views, 2) if cross else ()
    crossed = (gram for one, other in pairs for gram in _crossed(one, other, offsets, gap))
    chosen = [(Term(0, column), 3) for column in trigrams]
    chosen += [(view, n) for n in orders if n > 2 for view in all_views]
    longer = (gram for view, n in chosen for gram in within(view, offsets, n, gap))
    lines = _lines(chain(short, crossed, longer))
    return TemplateSet.parse("\n".join([*lines, *["B"] * transitions, ""]), path="generated templates")


def views(texts: Sequence[str]) -> list[Term]:
    """Return the views that these texts name, as terms in row 0."""
    return [view for text in texts for view in _view(text)]


def within(view: Term, offsets: Sequence[int], size: int, gap: int | None = None) -> Iterator[Gram]:
    """Yield one view at `size` increasing offsets."""
    for rows in combinations(offsets, size):
        if gap is None or all(b - a <= gap for a, b in pairwise(rows)):
            yield tuple(replace(view, row=row) for row in rows)


def _crossed(one: Term, other: Term, offsets: Sequence[int], gap: int | None) -> Iterator[Gram]:
    """Yield two views at two different offsets."""
    for row, second in product(offsets, repeat=2):
        if row != second and (gap is None or abs(row - second) <= gap):
            yield replace(one, row=row), replace(other, row=second)


def _lines(grams: Iterable[Gram]) -> list[str]:
    """Return numbered templates, each set of cells once."""
    found = list(islice(grams, MAX_TEMPLATES + 1))
    if len(found) > MAX_TEMPLATES:
        raise MtlError(f"expected at most {MAX_TEMPLATES} templates, got more: take a smaller window")
    distinct = list({frozenset(gram): gram for gram in reversed(found)}.values())[::-1]
    width = max(3, len(str(len(distinct) - 1)))
    bodies = ("/".join(term.text() for term in gram) for gram in distinct)
    return [f"U{number:0{width}}:{body}" for number, body in enumerate(bodies)]


def _view(text: str) -> list[Term]:
    found = _VIEW.fullmatch(text)
    if found is None:
        raise MtlError(f"expected a view such as 0, shape[0], prefix[0,3] or prefix[0,1-5], got {text!r}")
    column, name = int((found[5] or found[2])[:10]), found[1]
    if column > MAX_COLUMN:
        raise MtlError(f"expected a column up to {MAX_COLUMN}, got {text!r}")
    if name is None:
        return [Term(0, column)]
    if name not in FUNCTIONS:
        raise MtlError(f"unknown function in {text!r}: expected one of {', '.join(FUNCTIONS)}")
    numbers: list[tuple[str, ...]] = [()]
    if found[3] is not None:
        low, high = int(found[3][:4]), int((found[4] or found[3])[:4])
        numbers = [(str(n),) for n in range(low, high + 1)] or [("0",)]
    try:
        for some in numbers:
            check(name, some)
    except ArgumentError as error:
        raise MtlError(f"{text!r}: {error}") from None
    return [Term(0, column, name, some) for some in numbers]


def _check(
    window: tuple[int, int],
    columns: Sequence[int],
    trigrams: Sequence[int],
    orders: Sequence[int],
    gap: int | None,
) -> None:
    first, last = window
    if not -MAX_ROW <= first <= last <= MAX_ROW:
        raise MtlError(
            f"expected a window first:last with first <= last, both within ±{MAX_ROW}, got {first}:{last}"
        )
    for option, named in (("columns", columns), ("trigrams", trigrams)):
        if len(set(named)) < len(named) or min(named, default=0) < 0:
            got = ",".join(map(str, named))
            raise MtlError(f"expected different column numbers from 0 for {option}, got {got}")
    if any(not 1 <= n <= MAX_ORDER for n in orders):
        got = ",".join(map(str, orders))
        raise MtlError(f"expected numbers from 1 to {MAX_ORDER} for n-grams, got {got}")
    if gap is not None and gap < 1:
        raise MtlError(f"expected a gap of at least 1, got {gap}")


def automatic(corpus: Corpus, task: str, *, chunks: bool) -> TemplateSet:
    """Return templates for labelled data; `chunks`: whether labels mark chunks, as of names."""
    if task in ("segmentation", "dependency"):
        return preset(task)
    kinds = [kind_of(column) for column in corpus.columns]
    alone = task == "multiclass"
    tags = [number for number, kind in enumerate(kinds) if kind == "tags" and (number or alone)]
    edges: list[str] = []
    if alone:
        bodies = [f"%x[0,{number}]" for number, kind in enumerate(kinds) if kind in ("tags", "open")]
        bodies += [view.text() for view in (views(ITEM_VIEWS) if kinds[0] != "numbers" else [])]
    else:
        name = "ner" if chunks else "pos"
        bodies = [*_of_preset(name, tags[:1]), *_of_tags(tags[1:] if chunks else tags)]
        edges = [*_of_preset(name, tags[:1], "B"), *(f"%x[0,{number}]" for number in tags[1:])]
        others = [number for number, kind in enumerate(kinds) if kind == "open" and number]
        bodies += [f"%x[{row},{number}]" for number in others for row in (-1, 0, 1)]
        bodies += [f"%x[0,{number}]/%x[1,{number}]" for number in others]
    bodies += [f"%value[0,{number}]" for number, kind in enumerate(kinds) if kind == "numbers"]
    lines = [f"U{n:03}:{body}" for n, body in enumerate(dict.fromkeys(bodies))]
    lines += [f"B{n:03}:{body}" for n, body in enumerate(dict.fromkeys(edges))] + ["B"] * (not alone)
    return TemplateSet.parse("".join(f"{line}\n" for line in lines), path="generated templates")


def of_keys(names: Iterable[str], *, transitions: bool) -> TemplateSet:
    """Return one template per column, the default for feature dicts, and `B` with `transitions`."""
    lines = [f"U{number:03}:%x[0,{quoted(name)}]" for number, name in enumerate(names)]
    return TemplateSet.parse("\n".join(lines + ["B"] * transitions))


def kind_of(column: Column) -> Kind:
    """Return what a column holds."""
    distinct = len(column.strings)
    if distinct <= 1:
        return "constant"
    if distinct <= min(MOST_TAGS, max(2, TAGS_PER_TOKEN * len(column))):
        return "tags"
    return "numbers" if all(map(_is_number, column.strings)) else "open"


def _is_number(cell: str) -> bool:
    return cell.removeprefix("-").replace(".", "", 1).isdecimal()


def _of_preset(name: str, tags: Sequence[int], letter: str = "U") -> Iterator[str]:
    """Yield the templates of a preset, with a column of tags, if any, in place of column 1."""
    for template in preset(name):
        columns = {term.column for term in template.terms}
        if template.kind == letter and columns and (tags or 1 not in columns):
            terms = (replace(term, column=tags[0]) if term.column == 1 else term for term in template.terms)
            yield "/".join(term.text() for term in terms)


def _of_tags(tags: Sequence[int]) -> Iterator[str]:
    """Yield n-grams of tags, and tags with the word."""
    for view in (Term(0, number) for number in tags):
        for size in (1, 2, 3):
            for gram in within(view, range(-2, 3), size, gap=1):
                yield "/".join(term.text() for term in gram)
        yield f"{view.text()}/%x[0,0]"


def preset(name: str, reach: int | None = None) -> TemplateSet:
    """Return a preset. reach: words between two others, for presets in STRETCHED."""
    if name not in PRESETS:
        raise MtlError(f"unknown preset {name!r}: expected one of {', '.join(PRESETS)}")
    text = (files("mtlstruct.templates") / "library" / f"{name}.tpl").read_text("utf-8")
    if reach is not None:
        if name not in STRETCHED:
            raise MtlError(f"the preset {name} has no reach: expected one of {', '.join(STRETCHED)}")
        if not 1 <= reach <= MAX_ROW:
            raise MtlError(f"expected a reach from 1 to {MAX_ROW}, got {reach}")
        text = "\n".join(_renumbered(stretched(text.split("\n"), reach)))
    return TemplateSet.parse(text, path=f"the preset {name}")


def of_columns(templates: TemplateSet, columns: Sequence[int]) -> str:
    """Return the lines of templates that look at these columns only, with the comments."""
    other = {t.text for t in templates if any(term.column not in columns for term in t.terms)}
    kept = [line for line in templates.source.splitlines() if line not in other]
    pairs = zip(kept, [*kept[1:], "#"], strict=True)  # no heading without a line
    return "".join(
        f"{line}\n" for line, after in pairs if not (line.startswith("#") and after.startswith("#"))
    )


def _renumbered(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines of A templates named A000, A001, … in order."""
    count = sum(line.startswith("A") for line in lines)
    numbers = iter(range(count))
    width = max(3, len(str(count - 1)))
    for line in lines:
        rest = line.partition(":")[2]
        yield f"A{next(numbers):0{width}}:{rest}" if line.startswith("A") else line
