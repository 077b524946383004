"""Documentation: examples run and print what a page shows, names and links exist, every page is in the menu."""

import ast
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from mtlstruct.cli import run
from mtlstruct.samples import recipes
from mtlstruct.solvers.cutting_plane import MASTERS
from mtlstruct.structures import STRUCTURES
from mtlstruct.templates.functions import FUNCTIONS
from mtlstruct.training.methods import METHODS

ROOT = Path(__file__).parents[2]
TABLES = (MASTERS, METHODS, STRUCTURES, FUNCTIONS)
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.S | re.M)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
PAGES = (
    "README.md",
    *(f"docs/tutorials/{path.name}" for path in sorted((ROOT / "docs" / "tutorials").glob("*.md"))),
    "docs/howto/templates.md",
    "docs/howto/python.md",
    "docs/howto/tune.md",
    "docs/howto/confidence.md",
    "docs/howto/explain.md",
    "docs/howto/report.md",
    "docs/howto/deploy.md",
    "docs/howto/exchange.md",
    "docs/howto/resume.md",
    "docs/reference/api/index.md",
)
"""Pages whose Python blocks and `mtlstruct` commands run in order, in one folder."""

QUICK = ("README.md", "docs/tutorials/from-sklearn-crfsuite.md", "docs/howto/templates.md")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to a folder with the files that the examples read; restore the tables of extensions after it."""
    train, test = recipes.split(recipes.bundled())
    (tmp_path / "demo").mkdir()
    for name, lines, seed in (("train", train, 1), ("test", test, 2)):
        (tmp_path / "demo" / f"{name}.txt").write_text(recipes.column_file(lines, seed), encoding="utf-8")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    made_up = import_module("made_up")
    for name, seed in (("train", 1), ("test", 2)):
        (tmp_path / f"{name}.conll").write_text(_treebank(made_up.sentences(40, seed)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = [dict(table) for table in TABLES]
    yield tmp_path
    for table, rows in zip(TABLES, before, strict=True):
        table.clear()
        table.update(rows)


def _treebank(sentences):
    blocks = []
    for sentence in sentences:
        rows = enumerate(sentence, 1)
        blocks.append(
            "".join(f"{i}\t{w}\t_\t{t}\t{t}\t_\t{h}\t{t.lower()}\t_\t_\n" for i, (w, t, _, h) in rows)
        )
    return "\n".join(blocks)


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if page in QUICK else pytest.mark.slow) for page in PAGES]
)
def test_examples_run(page, folder, capsys):
    namespace = {"__name__": "example"}
    for language, title, code in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        if title:
            (folder / title).write_text(code, encoding="utf-8")
        elif language == "python":
            exec(compile(code, page, "exec", dont_inherit=True), namespace)
        elif language == "console":
            for command, shown in _commands(code):
                assert run(command) == 0, f"{page}: {shlex.join(command)}\n{capsys.readouterr().err}"
                printed = capsys.readouterr().out
                for line in shown:
                    assert _masked(line) in _masked(printed), (
                        f"{page}: {shlex.join(command)} prints\n{printed}"
                    )
                _assert_close(shown, printed)
    capsys.readouterr()


def _commands(block):
    """Yield the arguments and shown output of each `mtlstruct` command that ends by itself."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        line, *shown = part.replace("\\\n", " ").splitlines()
        command = shlex.split(line, comments=True)
        if command[0] == "mtlstruct" and command[1] not in ("demo", "serve"):
            yield command[1:], [text.partition("…")[0].rstrip() for text in shown if text.partition("…")[0]]


def _masked(text):
    return re.sub(r" +", " ", NUMBER.sub("#", text.replace(",", "")))


def _assert_close(shown, printed):
    """Compare numbers: another processor may sum in another order and stop elsewhere within the gap."""
    by_mask = {_masked(line): line for line in reversed(printed.splitlines())}
    for line in shown:
        if _masked(line) in by_mask:
            got, expected = (
                [float(x) for x in NUMBER.findall(text.replace(",", ""))]
                for text in (by_mask[_masked(line)], line)
            )
            assert got == pytest.approx(expected, rel=0.1, abs=0.5)


EXTENDING = "docs/howto/extend.md"
EXAMPLE = re.compile(r"^## (.+?)\n|^```python\n(.+?)^```\n+(?:```\w*\n(.+?)^```)?", re.S | re.M)


def extensions():
    """Return the heading, code and output of each example of extending."""
    heading, found = "", []
    for title, code, output in EXAMPLE.findall((ROOT / EXTENDING).read_text(encoding="utf-8")):
        if title:
            heading = title
        else:
            found.append(pytest.param(code, output, id=heading.replace(" ", "-").lower()))
    return found


@pytest.mark.parametrize(("code", "output"), extensions())
def test_extension_runs_and_prints_the_output_shown(code, output, folder, capsys):
    exec(compile(code, EXTENDING, "exec", dont_inherit=True), {"__name__": "example"})
    printed = capsys.readouterr().out
    assert output, "an example shows what it prints"
    assert _masked(printed) == _masked(output)
    _assert_close(output.splitlines(), printed)


def test_every_extension_point_has_an_example():
    assert {case.id for case in extensions()} >= {
        "a-regularizer",
        "a-cost",
        "a-structure",
        "a-template-function",
    }


DOTTED = re.compile(r"`(?:mtlstruct\.)?((?:[a-z_]+\.)+[A-Za-z_]+)(?:\(.*?\))?`")
PACKAGES = {path.name for path in (ROOT / "src" / "mtlstruct").iterdir() if path.is_dir()}
PACKAGES |= {path.stem for path in (ROOT / "src" / "mtlstruct").glob("*.py")}


PACKAGE_FILES = sorted((ROOT / "src" / "mtlstruct").rglob("__init__.py"))
MEMBER = re.compile(r"`([A-Z]\w+)\.([a-z_]\w*)(?:\(.*?\))?`")
DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
ROOT_PAGES = sorted(path.name for path in ROOT.glob("*.md"))


@pytest.mark.parametrize("page", DOCUMENTS)
def test_members_of_classes_exist(page, members):
    for name, member in MEMBER.findall((ROOT / page).read_text(encoding="utf-8")):
        if name in members:
            assert member in members[name], f"{page}: {name}.{member}"


@pytest.fixture(scope="module")
def members():
    """Return the names that each class of the package has, by the name of the class."""
    found, bases = {}, {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                inside = list(ast.walk(node))
                names = {n.name for n in inside if isinstance(n, ast.FunctionDef)}
                names |= {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                names |= {
                    n.attr for n in inside if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
                }
                found.setdefault(node.name, set()).update(names)
                bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]

    def inherited(name):
        return found.get(name, set()).union(*map(inherited, bases.get(name, ())))

    return {name: inherited(name) for name in found}


@pytest.mark.parametrize("page", [*DOCUMENTS, *ROOT_PAGES])
def test_names_of_modules_and_members_exist(page):
    for name in DOTTED.findall((ROOT / page).read_text(encoding="utf-8")):
        if name.partition(".")[0] in PACKAGES and not name.endswith(".json"):
            assert _exists(f"mtlstruct.{name}"), f"{page}: {name}"


@pytest.mark.parametrize("path", PACKAGE_FILES, ids=lambda path: path.parent.name)
def test_package_docstrings_name_what_exists(path):
    """A package says what it may import and where to start; both exist, there or at the root."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    here = ".".join(path.relative_to(ROOT / "src").parts[:-1])
    assert here == "mtlstruct" or "May import: " in text
    names = re.findall(r"`([\w.]+)`", text.partition("Start reading at ")[2])
    assert names
    for name in names:
        assert _exists(f"{here}.{name}") or _exists(f"mtlstruct.{name}"), f"{here}: {name}"


def _exists(name):
    module, _, member = name.rpartition(".")
    try:
        import_module(name)
    except ModuleNotFoundError:
        if module not in sys.modules and not _exists(module):
            return False
        owner = sys.modules.get(module)
        if owner is None:
            outer, _, attribute = module.rpartition(".")
            owner = getattr(sys.modules[outer], attribute)
        return hasattr(owner, member) or member in getattr(owner, "__annotations__", {})
    return True


MENU = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
SITE = [page.removeprefix("docs/") for page in DOCUMENTS]


@pytest.mark.parametrize("page", SITE)
def test_every_page_is_in_the_menu(page):
    assert f": {page}\n" in MENU, f"{page} is missing in the nav of mkdocs.yml"


@pytest.mark.parametrize(
    "page", [page for page in SITE if page.startswith("reference/api/") and not page.endswith("index.md")]
)
def test_api_pages_name_what_exists(page):
    names = re.findall(r"^::: (\S+)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M)
    assert names
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute) or import_module(name)


TEXTS = [
    *(f"docs/{page}" for page in SITE),
    *ROOT_PAGES,
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


@pytest.mark.parametrize("page", SITE)
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
