"""The table of template weights. Numbers are never cut: on a narrow terminal the text is folded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from mtlstruct.model import TemplateWeight

WIDE = 100_000
"""The width of a file or pipe, which has none."""


def dropped(weight: TemplateWeight) -> bool:
    """Whether training found no use for a template."""
    return weight.features == 0


def print_weights(weights: Sequence[TemplateWeight], top: int | None = None) -> None:
    """The heaviest `top` templates (None: all), and a line on the rest."""
    shown = weights[:top]
    table = weights_table(shown)
    console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else WIDE)
    least = Measurement.get(console, console.options.update(width=WIDE), table).minimum
    console.width = max(console.width, least)
    console.print(table)
    print(closing(weights, len(shown)))


def weights_table(weights: Sequence[TemplateWeight]) -> Table:
    """Rank, name, text, mu, relative, norm, features; a dropped template has no figures."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("rank", "name"):
        table.add_column(title, justify="right" if title == "rank" else "left", no_wrap=True, overflow="fold")
    table.add_column("text", overflow="fold", min_width=12)
    for title in ("mu", "relative", "norm", "features"):
        table.add_column(title, justify="right", no_wrap=True, overflow="fold", min_width=8)
    for weight in weights:
        table.add_row(*_cells(weight), style="dim" if dropped(weight) else "")
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
