"""Templates for data without any: a large set, made from what the columns hold.

The first column is the word. Of the others, constant ones are left out; closed ones (tags) are
looked at in a window, in n-grams and together with the word; numbers of many values are taken as
values, and other open ones (such as lower-case words and affixes) are looked at near the token. The
larger set is affordable because training drops templates that are of no use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from mtlstruct.corpus import Column, Corpus
from mtlstruct.templates.generate import views, within
from mtlstruct.templates.presets import preset
from mtlstruct.templates.template_set import TemplateSet
from mtlstruct.templates.terms import Term

MOST_TAGS = 200
"""The largest number of values of a column of tags."""

TAGS_PER_TOKEN = 0.1
"""The largest number of values of a column of tags, as a share of the tokens."""

ITEM_VIEWS = ("lower[0]", "shape[0]", "short[0]", "case[0]", "len[0]", "prefix[0,1-4]", "suffix[0,1-4]")
"""What is looked at of the first column of an item that stands alone."""

Kind = Literal["constant", "tags", "numbers", "open"]


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
