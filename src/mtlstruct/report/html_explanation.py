"""Pages for a browser: one file that fetches nothing and runs nothing, light or dark as the reader has it.

All texts are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from mtlstruct.report.tree_svg import Tree, tree_svg
from mtlstruct.report.web import asset

STYLES = ("explain.css", "tree.css")

Record = Mapping[str, Any]


def explanation_page(title: str, task: str, found: Iterable[tuple[Record, Tree | None]]) -> str:
    """The explanations of sentences, as `explain --json` prints them, and the drawings of those that have trees."""
    word = "item" if task == "multiclass" else "sentence"
    body = "".join(_sentence(word, record, tree) for record, tree in found)
    note = "What each template says for what was chosen against the runner-up, the best answer that differs there."
    return page(title, f'<h1>{escape(title)}</h1>\n<p class="note">{note}</p>\n{body}')


def page(title: str, body: str) -> str:
    """A whole page."""
    style = "\n".join(map(asset, STYLES))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
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
