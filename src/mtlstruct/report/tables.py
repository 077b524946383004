"""Tables of template weights and of a tuning grid; a narrow terminal folds text, never numbers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from mtlstruct.model.model import TemplateWeight
    from mtlstruct.tuning.search import Search

PIPE_WIDTH = 100_000
"""The width of tables, in characters, that are written to a file or pipe."""

SCORES = ("precision", "recall", "f1", "uas", "accuracy")
"""The scores in the table of a grid, if the task has them."""


def print_weights(
    weights: Sequence[TemplateWeight],
    top: int | None = None,
    extras: Mapping[str, Mapping[int, str]] | None = None,
    remark: str = "",
) -> None:
    """Print the `top` templates of the largest weights (None: all), and a line on the others.

    `extras` are further columns, by title: from template index to cell. `remark` ends the last
    line.
    """
    shown = weights[:top]
    extras = extras or {}
    table = plain_table(["rank", "name", "text"], ["mu", "relative", "norm", "features", *extras])
    table.columns[0].justify = "right"
    table.columns[2].no_wrap, table.columns[2].min_width = False, 12
    for weight in shown:
        numbers = [f"{number:.4g}" for number in (weight.mu, weight.relative, weight.norm)]
        figures = [*numbers, f"{weight.features:,}"] if weight.features else ["dropped", "", "", ""]
        more = [cells.get(weight.index, "") for cells in extras.values()]
        row = (str(weight.rank), weight.name, weight.text, *figures, *more)
        table.add_row(*map(Text, row), style="" if weight.features else "dim")
    show(table)
    kept, rest = sum(weight.features > 0 for weight in weights), len(weights) - len(shown)
    not_shown = f"{rest} more not shown; " if rest else ""
    print(f"{not_shown}{kept} of {len(weights)} templates kept, {len(weights) - kept} dropped{remark}")


def print_settings(search: Search) -> None:
    """Print a row per setting: the chosen one bold with a star, incomplete ones dim with dots.

    ± is the standard error of the difference to the best score.
    """
    found, score = search.findings, search.score
    scores = list(dict.fromkeys([*(name for name in SCORES if name in found[0].results[0]["scores"]), score]))
    with_p = any(finding.options.p is not None for finding in found)
    schemes = ["scheme"] * any(finding.options.scheme != "keep" for finding in found)
    titles = [*["p"] * with_p, "c", *scores, "±", "gap", "passes", "templates", "seconds"]
    table = plain_table(["", "method", "loss", *schemes], titles)
    for finding in found:
        chosen, options, mean = finding is search.chosen, finding.options, finding.mean
        row = ["*" if chosen else "" if finding.complete else "…", options.method, options.loss_name]
        row += [options.scheme for _ in schemes]
        row += ["" if options.p is None else f"{options.p:.4g}"] if with_p else []
        row += [f"{options.c_value:g}", *(f"{mean(name):.2f}" for name in scores)]
        row += [f"{search.error(finding):.2f}", f"{mean('gap'):.2%}", f"{mean('passes'):.3g}"]
        row += [f"{mean('active_templates'):.4g}", f"{mean('seconds'):.1f}"]
        table.add_row(*row, style="bold" if chosen else "" if finding.complete else "dim")
    show(table)


def plain_table(words: Sequence[str], figures: Sequence[str]) -> Table:
    """Return a table without lines: columns of words, then of figures, none of which is cut."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in words:
        table.add_column(title, no_wrap=True, overflow="fold")
    for title in figures:
        table.add_column(title, justify="right", no_wrap=True, overflow="fold")
    return table


def show(table: Table) -> None:
    """Print a table, wider than the terminal if necessary."""
    console = Console(
        highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH
    )
    least = Measurement.get(console, console.options.update(width=PIPE_WIDTH), table).minimum
    console.width = max(console.width, least)
    console.print(table)
