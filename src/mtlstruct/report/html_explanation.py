"""The page of `explain --html`: explanations as JSON, with drawings of trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mtlstruct.report import web
from mtlstruct.report.tree_svg import Tree, tree_svg


def explanation_page(
    title: str, unit: str, found: Iterable[tuple[Mapping[str, Any], Tree | None]]
) -> web.Page:
    """Return the page of sentences (or another `unit`): records of `explain --json`, and trees."""
    sentences = [{**record, "tree": None if tree is None else _tree(tree)} for record, tree in found]
    return web.page(
        title,
        {"title": title, "unit": unit, "sentences": sentences},
        styles=["base.css", "tree.css", "explain.css"],
        scripts=["base.js", "explain.js"],
    )


def _tree(tree: Tree) -> dict[str, Any]:
    counts = {"wrong": len(tree.missed), "mislabelled": len(tree.mislabelled), "words": len(tree.words)}
    return {"drawing": tree_svg(tree), "gold": None if tree.gold is None else counts}
