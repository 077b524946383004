"""Template sets by name: the paper's, and rich piles to throw at a task and let the learner choose from.

The paper's: those for segmentation (table "Two set of templates"), the 134 for named entities (section "Named
Entity Recognition") and MSTParser's for trees (section "Dependency Parsing"; a file, library/dependency.tpl). The
rich ones know tasks, not languages: they look at affixes, shapes, case, types of characters, words and parts of
speech in windows, and at conjunctions of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import chain, product

from mtlstruct.errors import MtlError
from mtlstruct.templates.arc_terms import stretched
from mtlstruct.templates.generate import Gram, Section, generate, numbered, views, within
from mtlstruct.templates.template_set import TemplateSet
from mtlstruct.templates.terms import MAX_ROW, Term


def preset(name: str, reach: int | None = None) -> TemplateSet:
    """A template set by name, one of PRESETS. reach: words between two others to look at (those of STRETCHED)."""
    if name not in PRESETS:
        raise MtlError(f"unknown preset {name!r}: expected one of {', '.join(PRESETS)}")
    if reach is None:
        return PRESETS[name]()
    if name not in STRETCHED:
        raise MtlError(f"the preset {name} has no reach: expected one of {', '.join(STRETCHED)}")
    if not 1 <= reach <= MAX_ROW:
        raise MtlError(f"expected a reach from 1 to {MAX_ROW}, got {reach}")
    lines = stretched(PRESETS[name]().lines, reach)
    return TemplateSet.parse("\n".join(_renumbered(lines)), path=f"the preset {name}")


def _renumbered(lines: Sequence[str]) -> Iterator[str]:
    """Lines of A templates named A000, A001, … in order."""
    count = sum(line.startswith("A") for line in lines)
    numbers = iter(range(count))
    width = max(3, len(str(count - 1)))
    for line in lines:
        rest = line.partition(":")[2]
        yield f"A{next(numbers):0{width}}:{rest}" if line.startswith("A") else line


def _library(name: str) -> TemplateSet:
    """A set that is kept as a file."""
    text = (files("mtlstruct.templates") / "library" / f"{name}.tpl").read_text("utf-8")
    return TemplateSet.parse(text, path=f"the preset {name}")


# ---------------------------------------------------------------- the paper's sets

# Offsets in the order of the table's Index, TP1 before the bigrams that only TP2 has. The table gives U08 the
# index 1 in TP2, a misprint for 9.
_TP1 = (
    *((-2,), (-1,), (0,), (1,), (2,)),
    *((-2, -1, 0), (-1, 0, 1), (0, 1, 2)),
    *((-1, 0), (0, 1)),
)
_TP2 = (
    *_TP1,
    *((-2, -1), (1, 2), (-2, 0), (-1, 1), (0, 2), (-2, 1), (-1, 2)),
)


def _table(table: Sequence[tuple[int, ...]]) -> TemplateSet:
    return numbered([("", [tuple(Term(row, 0) for row in rows) for rows in table])], digits=2)


def _ner_134() -> TemplateSet:
    """Column 0 the word, column 1 its part of speech: 14 unigrams, 42 + 42 bigrams, 35 trigrams, `B`."""
    return generate((-3, 3), (0, 1), bigrams=True, cross=True, trigrams=(1,))


# ---------------------------------------------------------------- rich sets: words in column 0, tags in column 1

_NEAR = (-1, 0, 1)
_WIDE = (-2, -1, 0, 1, 2)
_WIDEST = (-3, -2, -1, 0, 1, 2, 3)


def _each(
    names: str, rows: Sequence[int], sizes: Sequence[int] = (1,), gap: int | None = None
) -> Iterator[Gram]:
    """n-grams within each of the views."""
    for view, size in product(views(names.split()), sizes):
        yield from within(view, rows, size, gap)


def _with(left: str, right: str, pairs: Sequence[tuple[int, int]]) -> Iterator[Gram]:
    """Every view of the left with every view of the right, at these pairs of offsets."""
    for one, other in product(views(left.split()), views(right.split())):
        for row, beside in pairs:
            yield replace(one, row=row), replace(other, row=beside)


def _at(names: str, places: Sequence[int]) -> Iterator[Gram]:
    """Views at places counted from the edges of the sentence."""
    for view, place in product(views(names.split()), places):
        yield (replace(view, row=place, absolute=True),)


_SAME = ((-1, -1), (0, 0), (1, 1))
_SIDES = ((-1, 0), (0, -1), (0, 1), (1, 0))
_ROUND = (*_SAME, *_SIDES)
_HERE = ((0, 0), (0, -1), (0, 1))


def _word_sections(*, pairs: bool = True) -> list[Section]:
    """What any task on words can use: words, affixes, forms."""
    together = chain(_each("0 lower[0]", _WIDE, (2,), 2), _each("lower[0]", _WIDE, (3,), 1))
    return [
        ("words", _each("0", _WIDEST)),
        ("words in lower case, and without digits and signs", _each("lower[0] root[0]", _WIDE)),
        *([("pairs and triples of words", together)] if pairs else []),
        ("prefixes and suffixes", _each("prefix[0,1-5] suffix[0,1-5]", _NEAR)),
        ("form: shape, case, types of characters", _each("shape[0] short[0] case[0] type[0]", _WIDE)),
        ("length, digits, punctuation", _each("len[0] digits[0] punct[0]", _NEAR)),
    ]


def _form_sections() -> list[Section]:
    return [
        (
            "n-grams of forms",
            chain(_each("short[0]", _WIDE, (2, 3), 1), _each("case[0]", _WIDEST, (2, 3, 4, 5), 1)),
        ),
        ("words and forms", _with("lower[0]", "case[0] short[0]", _ROUND)),
        ("affixes and forms", _with("lprefix[0,3] lsuffix[0,2-4]", "case[0]", _HERE)),
    ]


def _tag_sections() -> list[Section]:
    return [
        ("tags", _each("1", _WIDEST, (1, 2), 3)),
        ("triples and longer runs of tags", chain(_each("1", _WIDE, (3,)), _each("1", _WIDEST, (4, 5), 1))),
        ("words and tags", _with("lower[0]", "1", (*_ROUND, (-1, 1), (1, -1)))),
        ("affixes and tags", _with("lprefix[0,3] lsuffix[0,3]", "1", _HERE)),
        ("forms and tags", _with("case[0] short[0]", "1", _ROUND)),
    ]


def _ner() -> TemplateSet:
    """Names: the word in column 0, its part of speech in column 1.

    A template that sees something else at almost every token can learn a corpus by heart, and then gets the weight
    that others should have. So words come alone or with forms, not with each other, and tags in short runs.
    """
    around = chain(
        _framed("lower[0]", "case[0]", _WIDEST, (3, 4)),
        [_gram("case[0]", "lower[0]", "case[0]"), _gram("1", "case[0]", "1")],
        _with("short[0]", "lower[0]", ((0, -2), (0, 2), (-1, 1), (1, -1))),
    )
    beside = chain(
        _with("case[0]", "lprefix[0,3-4] lsuffix[0,2-4]", ((0, -1), (0, 1))),
        _cased("lprefix[0,3-4] lsuffix[0,2-4]", (-1, 1)),
    )
    signs = chain(
        _with("case[0] lower[0]", "punct[0]", ((0, -1),)), [_gram("punct[0]", "case[0]", "punct[0]")]
    )
    sections = [
        *_word_sections(pairs=False),
        *_form_sections(),
        ("tags", chain(_each("1", _WIDEST), _each("1", _WIDE, (3,), 1))),
        ("affixes and tags", _with("lprefix[0,3] lsuffix[0,3]", "1", _HERE)),
        ("forms and tags", _with("case[0] short[0]", "1", _ROUND)),
        ("words at the end of a run of forms", around),
        ("affixes of the neighbours", beside),
        ("signs before and behind", signs),
        ("edges of the sentence", _at("case[0] 1", (1, 2, -1, -2))),
    ]
    edges = [
        (
            "transitions that look",
            chain(
                _each("case[0] 1 short[0]", _NEAR),
                _each("case[0] 1", _NEAR, (2,), 1),
                _each("lprefix[0,2] lsuffix[0,2]", (-1, 0)),
            ),
        )
    ]
    return numbered(sections, edges)


def _framed(word: str, form: str, rows: Sequence[int], sizes: Sequence[int]) -> Iterator[Gram]:
    """Runs of a form around the token, with the word that stands at one end of the run in place of its form."""
    (end,), (inner,) = views([word]), views([form])
    for size in sizes:
        for run in (rows[k : k + size] for k in range(len(rows) - size + 1)):
            for at in (0, size - 1):
                if 0 in run and run[at] != 0:
                    yield tuple(replace(end if k == at else inner, row=row) for k, row in enumerate(run))


def _gram(left: str, here: str, right: str) -> Gram:
    """Three views at the token and on both sides of it."""
    return tuple(replace(view, row=row) for view, row in zip(views([left, here, right]), _NEAR, strict=True))


def _cased(affixes: str, rows: Sequence[int]) -> Iterator[Gram]:
    """The case here, and the case and an affix of a neighbour."""
    (case,) = views(["case[0]"])
    for row, affix in product(rows, views(affixes.split())):
        yield replace(case, row=0), replace(case, row=row), replace(affix, row=row)


def _pos() -> TemplateSet:
    """Parts of speech: the word in column 0."""
    endings = _with("lsuffix[0,2-3]", "lsuffix[0,2-3] lower[0]", ((-1, 0), (0, -1), (0, 1), (1, 0)))
    sections = [*_word_sections(), *_form_sections(), ("endings and neighbours", endings)]
    return numbered(sections, [("transitions that look", _each("lsuffix[0,2] case[0]", (0,)))])


def _chunking() -> TemplateSet:
    """Chunks: the word in column 0, its part of speech in column 1."""
    sections = [*_word_sections(), *_tag_sections()]
    return numbered(sections, [("transitions that look", _each("1", (-1, 0), (1, 2)))])


def _segmentation() -> TemplateSet:
    """Words in text without blanks: the character in column 0."""
    sections = [
        ("characters", _each("0", _WIDEST, (1, 2), 3)),
        ("triples and longer runs", chain(_each("0", _WIDE, (3,)), _each("0", _WIDEST, (4, 5), 1))),
        (
            "types of characters",
            chain(_each("type[0]", _WIDEST, (1, 2, 3), 2), _each("type[0]", _WIDEST, (4, 5), 1)),
        ),
        ("characters and types", _with("0", "type[0]", (*_ROUND, (-1, 1), (1, -1), (0, 2), (0, -2)))),
        ("pairs with a type", _triples()),
        ("edges of the sentence", _at("0 type[0]", (1, -1))),
    ]
    return numbered(sections, [("transitions that look", _each("0 type[0]", (-1, 0)))])


def _triples() -> Iterator[Gram]:
    """Two neighbouring characters and the type of a third."""
    kind = views(["type[0]"])[0]
    for row, beside in product((-2, -1, 0, 1), (-2, -1, 0, 1, 2)):
        if beside not in (row, row + 1):
            yield Term(row, 0), Term(row + 1, 0), replace(kind, row=beside)


PRESETS: dict[str, Callable[[], TemplateSet]] = {
    "cws-tp1": lambda: _table(_TP1),
    "cws-tp2": lambda: _table(_TP2),
    "ner-134": _ner_134,
    "dependency": lambda: _library("dependency"),
    "dependency-labels": lambda: _library("dependency-labels"),
    "ner": _ner,
    "pos": _pos,
    "chunking": _chunking,
    "segmentation": _segmentation,
}
"""Template sets by name: the paper's, then the rich ones."""

STRETCHED = ("dependency",)
"""Presets with a template for each place between two words, as many as wanted."""
