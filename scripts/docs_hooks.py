"""Hooks of the documentation site: the page of commands, and formulas.

The page of commands is made from the command tree of the program whenever the site is built. Formulas are written
in TeX between dollar signs and become MathML, which browsers show without a script.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

from mtlstruct.cli import COMMANDS, command
from mtlstruct.cli.command import Command

MARK = "<!-- commands -->"
"""The line of a page that the list of commands replaces."""

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.+?)\\[)\]]</\1>', re.S)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the commands in place of their mark."""
    return markdown.replace(MARK, commands()) if MARK in markdown else markdown


def on_page_content(content: str, **_: Any) -> str:
    """Replace formulas by MathML."""
    return FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    tex = html.unescape(found[2]).strip()
    mathml = convert(tex, display="block" if found[1] == "div" else "inline")
    if "\\" in mathml:
        raise ValueError(f"a command that latex2mathml does not know in the formula {tex}")
    return mathml


# Commands --------------------------------------------------------------------------------------------------


def commands() -> str:
    """Return a section of Markdown per command."""
    return "\n\n".join(map(_section, map(command, COMMANDS)))


def _section(one: Command) -> str:
    tables = [
        "\n".join([f"| {title} | |", "|---|---|", *(_row(*row) for row in rows if "--help" not in row[0])])
        for title, rows in one.sections().items()
    ]
    text = _prose(one.function.__doc__)
    return "\n\n".join([f"## {one.path}", text, f"```text\n{one.path} [OPTIONS] {one.usage}\n```", *tables])


def _row(names: str, text: str) -> str:
    choices = re.search(r" <(\w[^ ]*\|[^ ]*)>", names)
    if choices:
        names = names.replace(choices[0], "")
        text = f"{text} One of {', '.join(f'`{name}`' for name in choices[1].split('|'))}."
    text = re.sub(r"\[default: ([^\]]+)\]", r"Default: \1.", text.replace("[required]", ""))
    return f"| `{names}` | {_prose(text)} |".replace("\n", " ")


def _prose(text: str | None) -> str:
    """Return help text as Markdown: paragraphs unwrapped, options and examples as code."""
    paragraphs = re.split(r"\n\s*\n", (text or "").replace("\b", "").strip())
    return "\n\n".join(_paragraph(" ".join(paragraph.split())) for paragraph in paragraphs)


def _paragraph(text: str) -> str:
    if text.startswith("Example: "):
        return "```console\n$ " + text.removeprefix("Example: ") + "\n```"
    text = text.replace("|", "\\|").replace("<", "&lt;")
    return re.sub(r"(?<![\w`-])(--?[a-z][\w-]*)(?![\w`])", r"`\1`", text)
