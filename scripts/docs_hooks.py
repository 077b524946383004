"""Hooks of the documentation site: the page of commands, and formulas.

The page of commands is made from the command tree of the program whenever the site is built. Formulas are written
in TeX between dollar signs and become MathML, which browsers show without a script.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from latex2mathml.converter import convert
from typer.main import get_command

from mtlstruct.cli import app

COMMANDS = "<!-- commands -->"
"""The line of a page that the list of commands replaces."""

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.+?)\\[)\]]</\1>', re.S)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the commands in place of their mark."""
    return markdown.replace(COMMANDS, commands()) if COMMANDS in markdown else markdown


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
    top = get_command(app)
    return "\n\n".join(_sections(top.make_context("mtlstruct", [], resilient_parsing=True)))


def _sections(context: Any) -> Iterator[str]:
    group = context.command
    for name in group.list_commands(context):
        # Commands are loaded when their context is made.
        child = group.get_command(context, name).make_context(
            name, [], parent=context, resilient_parsing=True
        )
        if hasattr(child.command, "list_commands"):
            yield from _sections(child)
        else:
            yield _section(child)


def _section(context: Any) -> str:
    command, tables = context.command, _Tables()
    usage = " ".join(command.collect_usage_pieces(context)).replace("{", "").replace("}", "")
    command.format_options(context, tables)
    return "\n\n".join(
        [
            f"## {context.command_path}",
            _prose(command.help),
            f"```text\n{context.command_path} {usage}\n```",
            *tables.found,
        ]
    )


class _Tables:
    """A formatter of help that makes a Markdown table of each section."""

    def __init__(self) -> None:
        self.title = ""
        self.found: list[str] = []

    @contextmanager
    def section(self, title: str) -> Iterator[None]:
        self.title = title
        yield

    def write_dl(self, rows: Sequence[tuple[str, str]], **_: Any) -> None:
        cells = [_row(*row) for row in rows if "--help" not in row[0]]
        if cells:
            self.found.append("\n".join([f"| {self.title} | |", "|---|---|", *cells]))


def _row(names: str, text: str) -> str:
    choices = re.search(r" [<\[](\w[^ ]*\|[^ ]*)[>\]]", names)
    if choices:
        names = names.replace(choices[0], "")
        text = f"{text} One of {', '.join(f'`{name}`' for name in choices[1].split('|'))}."
    names = re.sub(r"<(\w+)>", lambda kind: kind[1].upper(), names)
    text = re.sub(r"\[default: \(?([^\])]+)\)?[^\]]*\]", r"Default: \1.", text.replace("[required]", ""))
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
