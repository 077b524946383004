"""The documentation site: every page is in its menu, and API pages name modules that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MENU = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_in_the_menu(page: str) -> None:
    assert f": {page}\n" in MENU, f"{page} is missing in the nav of mkdocs.yml"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.startswith("api/") and page != "api/index.md"]
)
def test_api_pages_name_what_exists(page: str) -> None:
    names = re.findall(r"^::: (\S+)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M)
    assert names
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute) or import_module(name)
