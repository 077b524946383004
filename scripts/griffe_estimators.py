"""Griffe extensions: completed docstrings of estimators, and docstrings with columns as code."""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe


class EstimatorDocstrings(griffe.Extension):
    """Replace docstrings with placeholders by those of the imported classes."""

    def on_class_instance(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Import a class of `mtlstruct.estimators` and copy its docstring."""
        if cls.docstring is not None and "{parameters}" in cls.docstring.value:
            cls.docstring.value = inspect.getdoc(griffe.dynamic_import(cls.path)) or ""


class ColumnsAsCode(griffe.Extension):
    """Keep the columns of docstrings that list fields as `name   meaning`."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **kwargs: Any) -> None:
        """Fence each paragraph of a docstring that is set in columns."""
        if obj.docstring is not None and not obj.is_alias:
            paragraphs = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join(
                f"```text\n{text}\n```" if re.match(r"\w[\w, ]*? {2,}\S", text) else text
                for text in paragraphs
            )
