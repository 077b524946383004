"""The table of template weights. Numbers are never cut: on a narrow terminal the text is folded."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from mtlstruct.model.model import TemplateWeight

WIDE = 100_000
"""The width of a file or pipe, which has none."""


@dataclass(frozen=True)
class Extra:
    """One more column of figures: a cell for each template number, and for each row that has no template here."""

    title: str
    cells: Mapping[int, str]
    strangers: Sequence[str] = ()


def dropped(weight: TemplateWeight) -> bool:
    """Whether training found no use for a template."""
    return weight.features == 0


def print_weights(
    weights: Sequence[TemplateWeight],
    top: int | None = None,
    extras: Sequence[Extra] = (),
    strangers: Sequence[tuple[str, str]] = (),
    remark: str = "",
) -> None:
    """The heaviest `top` templates (None: all), and a line on the rest, with a remark behind it.

    strangers: (name, text) of templates that only the other model of a comparison has.
    """
    shown = weights[:top]
    table = weights_table(shown, extras)
    for row, (name, text) in enumerate(strangers):
        figures = [extra.strangers[row] if extra.strangers else "" for extra in extras]
        table.add_row(*map(Text, ("", name, text, "", "", "", "", *figures)), style="dim")
    show(table)
    print(closing(weights, len(shown)) + remark)


def show(table: Table) -> None:
    """Prints a table, wider than the terminal if it must."""
    console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else WIDE)
    least = Measurement.get(console, console.options.update(width=WIDE), table).minimum
    console.width = max(console.width, least)
    console.print(table)


def plain_table(words: Sequence[str], figures: Sequence[str]) -> Table:
    """A table without lines: columns of words, then columns of figures, none of which is ever cut."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in words:
        table.add_column(title, no_wrap=True, overflow="fold")
    for title in figures:
        table.add_column(title, justify="right", no_wrap=True, overflow="fold")
    return table


def weights_table(weights: Sequence[TemplateWeight], extras: Sequence[Extra] = ()) -> Table:
    """Rank, name, text, mu, relative, norm, features, extras; a dropped template has no figures of its own."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("rank", "name"):
        table.add_column(title, justify="right" if title == "rank" else "left", no_wrap=True, overflow="fold")
    table.add_column("text", overflow="fold", min_width=12)
    for title in ("mu", "relative", "norm", "features", *(extra.title for extra in extras)):
        table.add_column(title, justify="right", no_wrap=True, overflow="fold", min_width=8)
    for weight in weights:
        more = [Text(extra.cells.get(weight.index, "")) for extra in extras]
        table.add_row(*_cells(weight), *more, style="dim" if dropped(weight) else "")
    return table


def closing(weights: Sequence[TemplateWeight], shown: int) -> str:
    """How many templates there are, and how many are left."""
    gone = sum(map(dropped, weights))
    rest = len(weights) - shown
    more = f"{rest} more not shown; " if rest else ""
    kept = len(weights) - gone
    return f"{more}{kept} of {len(weights)} templates kept, {gone} dropped"


def _cells(weight: TemplateWeight) -> list[Text]:
    """User text goes in as Text, which rich does not read for markup."""
    figures = ["dropped", "", "", ""]
    if not dropped(weight):
        figures = [f"{weight.mu:.4g}", f"{weight.relative:.4g}", f"{weight.norm:.4g}", f"{weight.features:,}"]
    return [Text(cell) for cell in (str(weight.rank), weight.name, weight.text, *figures)]
