"""Presets: template sets by name, as files in `library`.

The paper's: cws-tp1 and cws-tp2 for segmentation (table "Two set of templates"; the table gives U08
the index 1 in TP2, a misprint for 9), ner-134 for named entities (section "Named Entity
Recognition"; the same as `generate` with two columns, bigrams, cross and trigrams of column 1) and
dependency, MSTParser's for trees (section "Dependency Parsing"). The rich ones know tasks, not
languages: they look at affixes, shapes, case, types of characters, words and parts of speech in
windows, and at conjunctions of these.
"""

from collections.abc import Iterator, Sequence
from importlib.resources import files

from mtlstruct.errors import MtlError
from mtlstruct.templates.arc_terms import stretched
from mtlstruct.templates.template_set import TemplateSet
from mtlstruct.templates.terms import MAX_ROW

PAPER = ("cws-tp1", "cws-tp2", "ner-134", "dependency", "dependency-labels")
PRESETS = (*PAPER, "ner", "pos", "chunking", "segmentation")
"""Names of template sets: the paper's, then the rich ones."""

STRETCHED = ("dependency",)
"""Presets with a template for each place between two words, as many as wanted."""


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
