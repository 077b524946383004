"""Template sets nobody wants to type: all n-grams of cells in a window, and the sets of the paper.

`generate` enumerates unigrams, bigrams and trigrams of increasing offsets within a column, and bigrams across
columns at different offsets. PRESETS holds the paper's sets: those for segmentation (table "Two set of
templates") and the 134 for named entities (section "Named Entity Recognition"). Both refuse what cannot be
meant: an empty window, a column named twice, more than MAX_TEMPLATES templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, islice, permutations

from mtlstruct.errors import MtlError
from mtlstruct.templates.language import MAX_ROW, TemplateSet

MAX_TEMPLATES = 100_000
"""More than this is refused: a window of ±255 alone has 22 million trigrams."""

Cell = tuple[int, int]
"""(row, column), as in %x[row,column]."""


def generate(
    window: tuple[int, int] = (-3, 3),
    columns: Sequence[int] = (0,),
    *,
    unigrams: bool = True,
    bigrams: bool = False,
    trigrams: Sequence[int] = (),
    cross: bool = False,
    transitions: bool = True,
) -> TemplateSet:
    """All templates of the kinds asked for, named U000, U001, … in this order, and last `B`.

    window        first and last offset, both included
    columns       where unigrams and bigrams look; bigrams pair cells of one column
    trigrams      the columns with trigrams, all triples of increasing offsets
    cross         bigrams of two different columns at two different offsets
    transitions   whether to add `B`
    """
    _check(window, columns, trigrams)
    offsets = range(window[0], window[1] + 1)
    grams: list[Iterable[tuple[Cell, ...]]] = []
    if unigrams:
        grams += [_within(offsets, column, 1) for column in columns]
    if bigrams:
        grams += [_within(offsets, column, 2) for column in columns]
    if cross:
        grams += [_across(offsets, first, second) for first, second in combinations(columns, 2)]
    grams += [_within(offsets, column, 3) for column in trigrams]
    return _named(_bounded(cells for gram in grams for cells in gram), digits=3, transitions=transitions)


def preset(name: str) -> TemplateSet:
    """A template set by name, one of PRESETS."""
    if name not in PRESETS:
        raise MtlError(f"unknown preset {name!r}: expected one of {', '.join(PRESETS)}")
    return PRESETS[name]()


def _check(window: tuple[int, int], columns: Sequence[int], trigrams: Sequence[int]) -> None:
    first, last = window
    if not -MAX_ROW <= first <= last <= MAX_ROW:
        raise MtlError(
            f"expected a window first:last with first <= last, both within ±{MAX_ROW}, got {first}:{last}"
        )
    for option, named in (("columns", columns), ("trigrams", trigrams)):
        if len(set(named)) < len(named) or min(named, default=0) < 0:
            got = ",".join(map(str, named))
            raise MtlError(f"expected different column numbers from 0 for {option}, got {got}")


def _within(offsets: range, column: int, size: int) -> Iterator[tuple[Cell, ...]]:
    """Cells of one column at `size` increasing offsets."""
    for rows in combinations(offsets, size):
        yield tuple((row, column) for row in rows)


def _across(offsets: range, first: int, second: int) -> Iterator[tuple[Cell, ...]]:
    """A cell of one column with a cell of another, at every ordered pair of different offsets."""
    for row, other in permutations(offsets, 2):
        yield (row, first), (other, second)


def _bounded(grams: Iterable[tuple[Cell, ...]]) -> list[tuple[Cell, ...]]:
    found = list(islice(grams, MAX_TEMPLATES + 1))
    if len(found) > MAX_TEMPLATES:
        raise MtlError(f"expected at most {MAX_TEMPLATES} templates, got more: take a smaller window")
    return found


def _named(grams: Sequence[tuple[Cell, ...]], *, digits: int, transitions: bool = True) -> TemplateSet:
    """Numbers the templates in order, with at least `digits` digits, as many as the last one needs."""
    digits = max(digits, len(str(len(grams) - 1)))
    lines = [f"U{number:0{digits}}:{_cells(cells)}" for number, cells in enumerate(grams)]
    lines += ["B"] if transitions else []
    return TemplateSet.parse("".join(line + "\n" for line in lines), path="generated templates")


def _cells(cells: tuple[Cell, ...]) -> str:
    return "/".join(f"%x[{row},{column}]" for row, column in cells)


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


def _segmentation(table: Sequence[tuple[int, ...]]) -> TemplateSet:
    return _named([tuple((row, 0) for row in rows) for rows in table], digits=2)


def _ner() -> TemplateSet:
    """Column 0 the word, column 1 its part of speech: 14 unigrams, 42 + 42 bigrams, 35 trigrams, `B`."""
    return generate((-3, 3), (0, 1), bigrams=True, cross=True, trigrams=(1,))


PRESETS: dict[str, Callable[[], TemplateSet]] = {
    "cws-tp1": lambda: _segmentation(_TP1),
    "cws-tp2": lambda: _segmentation(_TP2),
    "ner-134": _ner,
}
"""The paper's template sets by name."""
