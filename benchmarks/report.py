"""Write build/benchmarks.md: for each benchmark its command, machine and tables, from the results.

docs/explanation/benchmarks.md is written by hand and quotes some of the tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from benchmarks import bound, choice, growth, roofline, shards, tables, tables_peers, tables_scale
from benchmarks.places import PAGE, RESULTS

TABLES: dict[str, tuple[Callable[[tables.Rows], str], ...]] = {
    "train": (tables.train_times, tables.train_scores, tables.commands),
    "tutorial": (tables.tutorial,),
    "solvers": (tables.solvers,),
    "labels": (tables.labels,),
    "parsing": (tables.parsing, tables.parsing_scores, tables.commands),
    "bound": (tables.bound,),
    "peers": (tables_peers.peers, tables_peers.settings),
    "predict": (
        tables_peers.memory,
        tables_peers.taggers,
        tables_peers.text,
        tables_peers.start_up,
    ),
    "choice": (choice.table,),
    "gaps": (tables_scale.gaps,),
    "ablation": (tables_scale.ablation,),
    "growth": (tables_scale.growth, tables_scale.exponents),
    "roofline": (roofline.table,),
    "first": (tables_scale.first, tables_scale.read_only),
    "serve": (tables.serve,),
    "threads": (tables.threads,),
    "shards": (shards.ratios, shards.simulated),
}


def write() -> None:
    """Write the tables of all results, and draw the pictures of `bound` and `growth`."""
    parts = ["# Benchmarks"]
    for name, made in TABLES.items():
        path = RESULTS / f"{name}.json"
        if not path.is_file():
            continue
        result = json.loads(path.read_text("utf-8"))
        rows = result["rows"]
        parts += [f"## {name}", f"`{result['command']}`: {_machine(result)}"]
        parts += [table(rows) for table in made]
        if name == "bound" and "goals" in rows[0]:
            bound.draw(rows)
        if name == "growth" and growth.fits(rows):
            growth.draw(rows)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n\n".join(parts) + "\n", "utf-8")


def _machine(result: dict[str, Any]) -> str:
    facts = result["machine"]
    first = f"{facts['date']}, {facts['cpu']}, {facts['cores']} cores, {facts['system']}, Python {facts['python']}"
    libraries = [name for name in facts if name not in ("date", "cpu", "cores", "system", "python")]
    code = f"code {result.get('source', 'not recorded')}, load {result.get('load', 'not recorded')}"
    return ", ".join([first, *(f"{name} {facts[name]}" for name in libraries), code])
