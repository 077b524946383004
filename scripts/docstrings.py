"""For the API pages: lists in docstrings that are set in columns stay so.

Our docstrings say what arguments and fields are in two columns, `name   what it is`. Markdown would run them
together, so such paragraphs are made code blocks.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Columns(griffe.Extension):
    """Fences the columns of every docstring."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None and not obj.is_alias:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    """The docstring with paragraphs that are columns as code blocks."""
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(f"```text\n{p}\n```" if _in_columns(p) else p for p in paragraphs)


def _in_columns(paragraph: str) -> bool:
    """Whether it begins with an entry whose gap is more than a slip, or is a drawing."""
    first, *rest = paragraph.split("\n")
    if paragraph.startswith(("├", "│")) or any(line.startswith(("├", "└")) for line in rest):
        return True
    gap = re.match(r"(\S(?:.*?\S)?) {2,}\S", first)
    return gap is not None and len(gap[1]) < 40 and "```" not in paragraph
