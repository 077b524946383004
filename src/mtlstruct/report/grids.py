"""The table of a grid: what each setting scored, and what it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mtlstruct.report.tables import plain_table, show

if TYPE_CHECKING:
    from mtlstruct.tuning.study import Finding

SHOWN = ("precision", "recall", "f1", "uas", "accuracy")
"""The scores that the table has, where the task has them."""


def print_settings(found: Sequence[Finding], best: Finding, score: str) -> None:
    """A row a setting, the best one in bold and marked by a star; a missing trial is marked too."""
    scores = [name for name in SHOWN if name in best.results[0]["scores"]]
    with_p = any(finding.options.p is not None for finding in found)
    folded = len(best.results) > 1
    spread = ["±"] if folded else []
    titles = ["c", *scores, *spread, "gap", "passes", "templates", "seconds"]
    table = plain_table(["", "method"], ["p", *titles] if with_p else titles)
    for finding in found:
        chosen = finding is best
        p = finding.options.p
        cells = [
            "*" if chosen else "" if finding.complete else "…",
            finding.options.method,
            *([] if not with_p else ["" if p is None else f"{p:.4g}"]),
            f"{finding.options.c:g}",
            *(f"{finding.mean(name):.2f}" for name in scores),
            *([f"{finding.deviation(score):.2f}"] if folded else []),
            f"{finding.mean('gap'):.2%}",
            f"{finding.mean('passes'):.3g}",
            f"{finding.mean('active_templates'):.4g}",
            f"{finding.mean('seconds'):.1f}",
        ]
        table.add_row(*cells, style="bold" if chosen else "" if finding.complete else "dim")
    show(table)
