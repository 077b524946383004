"""The documentation: every page is in the menu, links lead somewhere, API pages name modules that exist."""

import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MENU = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_in_the_menu(page):
    assert f": {page}\n" in MENU, f"{page} is missing in the nav of mkdocs.yml"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.startswith("reference/api/") and not page.endswith("index.md")]
)
def test_api_pages_name_what_exists(page):
    names = re.findall(r"^::: (\S+)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M)
    assert names
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute) or import_module(name)


TEXTS = [
    *(f"docs/{page}" for page in PAGES),
    *sorted(path.name for path in ROOT.glob("*.md")),
    "examples/README.md",
]
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.S | re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MARKUP_LINK = re.compile(r"<(?:a|img|source|video|iframe)\b")
BROKEN = {
    "[page](missing.md)": "'missing.md'",
    "[anchor](serve.md#missing)": "'#missing'",
    "![picture](../images/missing.png)": "'../images/missing.png'",
    "[reference][mtlstruct.missing]": "'mtlstruct.missing'",
}
"""Links that lead nowhere, and how mkdocs names what is missing."""


def prose(path):
    """A Markdown file without its code."""
    return CODE.sub("", path.read_text(encoding="utf-8"))


def anchors(path):
    """The anchors of the headings of a Markdown file."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    words = [re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles]
    return {re.sub(r"[-\s]+", "-", title) for title in words}


@pytest.mark.parametrize("name", TEXTS)
def test_links_within_the_repository_lead_somewhere(name):
    for target in LINK.findall(prose(ROOT / name)):
        file, _, anchor = target.partition("#")
        if file.startswith(("https://", "http://")):
            continue
        path = (ROOT / name).parent / file if file else ROOT / name
        assert path.is_file(), f"{name}: {target} is missing"
        # The headings of commands and API pages are generated: only mkdocs knows them.
        if anchor and path.parent.name != "api" and path.name != "commands.md":
            assert anchor in anchors(path), f"{name}: {target} has no such heading"


def test_pages_that_the_code_names_exist():
    for folder in ("src", "tests", "benchmarks", "reproduction", "examples", "qa", "scripts"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in ("", ".py"):
                for page in re.findall(
                    r"\bdocs/[\w/-]+\.md", path.read_text(encoding="utf-8", errors="replace")
                ):
                    assert (ROOT / page).is_file(), f"{path.relative_to(ROOT)} names {page}"


@pytest.mark.parametrize("page", PAGES)
def test_links_are_not_written_as_markup(page):
    """Mkdocs checks the links that are written in Markdown, and no others."""
    assert not MARKUP_LINK.search(prose(ROOT / "docs" / page))


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs mtlstruct[docs]")
@pytest.mark.slow
def test_broken_links_fail_the_build(tmp_path):
    for folder in ("docs", "scripts", "src"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    with (tmp_path / "docs" / "howto" / "report.md").open("a", encoding="utf-8") as page:
        page.write("\n" + "\n\n".join(BROKEN) + "\n")
    *_, last = (ROOT / "scripts" / "docs").read_text(encoding="utf-8").splitlines()
    command = [sys.executable, "-m", "mkdocs", *last.partition('/bin/mkdocs" ')[2].split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert len(warnings) == len(BROKEN), done.stderr
    for target in BROKEN.values():
        assert any(target in warning for warning in warnings), done.stderr
