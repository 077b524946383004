"""Pages for a browser: one file that fetches nothing and runs nothing, light or dark as the reader has it.

All texts are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from mtlstruct.report.trees import Tree, tree_svg

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #22303c; --soft: #6b7885; --rule: #dde3e8;
        --line: #7b8794; --wrong: #c2410c; --missed: #1d6fa5; --plus: #2e7d4f; --minus: #c2410c; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14191e; --ink: #e4e9ee; --soft: #97a3ae; --rule: #2c353d;
          --line: #8996a3; --wrong: #ff8f57; --missed: #62b5ec; --plus: #7bc99a; --minus: #ff8f57; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto;
       max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2.2rem; }
p.note { color: var(--soft); }
.scroll { overflow-x: auto; border: 1px solid var(--rule); border-radius: 6px; margin: .6rem 0; }
svg.tree { display: block; }
svg.tree text { font-family: system-ui, sans-serif; fill: var(--ink); text-anchor: middle; }
svg.tree .word { font-size: 15px; } svg.tree .tag { font-size: 11px; fill: var(--soft); }
svg.tree .label { font-size: 11px; paint-order: stroke; stroke: var(--paper); stroke-width: 5px; }
svg.tree .line { fill: none; stroke: var(--line); stroke-width: 1.4; } svg.tree .tip { fill: var(--line); }
svg.tree .wrong .line { stroke: var(--wrong); } svg.tree .wrong .tip, svg.tree .wrong .label { fill: var(--wrong); }
svg.tree .missed .line { stroke: var(--missed); stroke-dasharray: 5 3; }
svg.tree .missed .tip, svg.tree .missed .label, svg.tree .right { fill: var(--missed); }
b.wrong { color: var(--wrong); } b.missed { color: var(--missed); }
details { border-top: 1px solid var(--rule); } summary { cursor: pointer; padding: .25rem 0; }
summary .margin, td.value { font-variant-numeric: tabular-nums; }
summary .margin { color: var(--soft); float: right; }
table { border-collapse: collapse; margin: 0 0 .6rem 1.4rem; }
td { padding: .05rem .8rem .05rem 0; } td.value { text-align: right; }
td.plus { color: var(--plus); } td.minus { color: var(--minus); } td code { overflow-wrap: anywhere; }
"""

Record = Mapping[str, Any]


def explanation_page(title: str, task: str, found: Iterable[tuple[Record, Tree | None]]) -> str:
    """The explanations of sentences, as `explain --json` prints them, and the drawings of those that have trees."""
    word = "item" if task == "multiclass" else "sentence"
    body = "".join(_sentence(word, record, tree) for record, tree in found)
    note = "What each template says for what was chosen against the runner-up, the best answer that differs there."
    return page(title, f'<h1>{escape(title)}</h1>\n<p class="note">{note}</p>\n{body}')


def page(title: str, body: str) -> str:
    """A whole page."""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _sentence(word: str, record: Record, tree: Tree | None) -> str:
    drawing = "" if tree is None else f'<div class="scroll">{tree_svg(tree)}</div>\n{_legend(tree)}'
    tokens = "".join(_token(token) for token in record["tokens"])
    return f"<section>\n<h2>{word} {record['sentence']}</h2>\n{drawing}{tokens}</section>\n"


def _legend(tree: Tree) -> str:
    """What the colours mean, where there are any."""
    if tree.gold is None:
        return ""
    wrong = len(tree.missed)
    if not wrong and not tree.mislabelled:
        return '<p class="note">All heads are right.</p>\n'
    labels = ""
    if tree.mislabelled:
        have = "has" if len(tree.mislabelled) == 1 else "have"
        labels = f"; of the others {len(tree.mislabelled)} {have} a wrong label, the right one in brackets"
    return (
        f'<p class="note">{wrong} of {len(tree.words)} heads are wrong: <b class="wrong">found</b> above, '
        f'<b class="missed">right</b> below the words{labels}.</p>\n'
    )


def _token(token: Record) -> str:
    """A line for a token, which opens to what the templates say."""
    parts = [_choice(" ".join(token["cells"]), token, token["elsewhere"])]
    if "relation" in token:
        parts.append(_choice(f"label of {token['cells'][0]}", token["relation"], 0.0))
    return "".join(parts)


def _choice(what: str, choice: Record, elsewhere: float) -> str:
    margin = "" if choice["margin"] is None else f'<span class="margin">{choice["margin"]:+.4f}</span>'
    lines = [(voice["value"], f"<code>{escape(voice['text'])}</code>") for voice in choice["templates"]]
    rest = (("others", choice["others"]), ("elsewhere", elsewhere))
    lines += [(value, name) for name, value in rest if abs(value) > 5e-7]
    rows = "".join(
        f'<tr><td class="value {"plus" if value > 0 else "minus"}">{value:+.4f}</td><td>{text}</td></tr>'
        for value, text in lines
    )
    said = f"{escape(what)} · <b>{escape(_chosen(choice))}</b>{escape(_other(choice))}"
    return f"<details><summary>{margin}{said}</summary><table>{rows}</table></details>\n"


def _chosen(choice: Record) -> str:
    return choice["label"] if "label" in choice else f"under {choice['head']} {choice['head_word']}"


def _other(choice: Record) -> str:
    if "label" in choice:
        return f", not {choice['runner_up']}"
    return "" if choice["runner_up"] is None else f", not {choice['runner_up']} {choice['runner_up_word']}"
