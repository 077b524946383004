"""docs/benchmarks.md from the results: the text of page.md with a table in the place of each {name}."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import bound, growth, tables, tables_peers, tables_scale
from benchmarks.places import PAGE, RESULTS

GROWTH = "![Time and memory of training by parts of the data](images/benchmarks/growth.png)"

TEXT = Path(__file__).with_name("page.md")

TABLES: dict[str, tuple[str, Callable[[tables.Rows], str]]] = {
    "train_times": ("train", tables.train_times),
    "train_scores": ("train", tables.train_scores),
    "train_commands": ("train", tables.commands),
    "crfsuite": ("crfsuite", tables.crfsuite),
    "crfsuite_note": ("crfsuite", tables.crfsuite_note),
    "crfpp": ("crfpp", tables.crfpp),
    "passes": ("passes", tables.passes),
    "online": ("online", tables.online),
    "online_note": ("online", tables.online_note),
    "tutorial": ("tutorial", tables.tutorial),
    "solvers": ("solvers", tables.solvers),
    "masters": ("masters", tables.masters),
    "norms": ("norms", tables.norms),
    "labels": ("labels", tables.labels),
    "parsing": ("parsing", tables.parsing),
    "parsing_scores": ("parsing", tables.parsing_scores),
    "parsing_commands": ("parsing", tables.commands),
    "bound": ("bound", tables.bound),
    "peers": ("peers", tables_peers.peers),
    "peers_settings": ("peers", tables_peers.settings),
    "predict": ("predict", tables_peers.memory),
    "taggers": ("predict", tables_peers.taggers),
    "compaction": ("predict", tables_peers.compaction),
    "text": ("predict", tables_peers.text),
    "start_up": ("predict", tables_peers.start_up),
    "gaps": ("gaps", tables_scale.gaps),
    "ablation": ("ablation", tables_scale.ablation),
    "growth": ("growth", tables_scale.growth),
    "exponents": ("growth", tables_scale.exponents),
    "large": ("large", tables_scale.large),
    "first": ("first", tables_scale.first),
    "read_only": ("first", tables_scale.read_only),
    "roofline": ("roofline", tables_scale.roofline),
    "roofs": ("roofline", tables_scale.roofs),
    "serve": ("serve", tables.serve),
    "threads": ("threads", tables.threads),
}


def write() -> None:
    """Writes the page from whatever results there are."""
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))}
    rows = {name: result["rows"] for name, result in found.items()}
    if "goals" in rows.get("bound", [{}])[0]:
        bound.draw(rows["bound"])
    picture = growth.fits(rows.get("growth", []))
    if picture:
        growth.draw(rows["growth"])
    filled = {name: _table(rows, *source) for name, source in TABLES.items()}
    page = TEXT.read_text("utf-8").format(
        **filled,
        growth_picture=GROWTH if picture else "",
        reached=tables.reached(rows),
        machine=_machine(found),
        commands=_commands(found),
    )
    PAGE.write_text(page, "utf-8")


def _table(rows: dict[str, Any], benchmark: str, table: Callable[[tables.Rows], str]) -> str:
    return table(rows[benchmark]) if benchmark in rows else f"not run: `python -m benchmarks {benchmark}`"


def _commands(found: dict[str, Any]) -> str:
    return "\n".join(result["command"] for result in found.values())


def _machine(found: dict[str, Any]) -> str:
    """The facts of the runs. Figures that come from different code or machines are on lines of their own."""
    groups: dict[str, list[str]] = {}
    for name, result in found.items():
        line = f"{_line(result['machine'])}; code {result.get('source', 'not recorded')}"
        line += f", load {result.get('load', 'not recorded')}"
        groups.setdefault(line, []).append(f"`{name}`")
    return "\n".join(f"- {', '.join(names)}: {line}" for line, names in groups.items())


def _line(facts: dict[str, Any]) -> str:
    first = f"{facts['date']}, {facts['cpu']}, {facts['cores']} cores, {facts['system']}, Python {facts['python']}"
    libraries = [name for name in facts if name not in ("date", "cpu", "cores", "system", "python")]
    return ", ".join([first, *(f"{name} {facts[name]}" for name in libraries)])
