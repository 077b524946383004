"""The examples of docs/extending.md run as they stand, and print what the page says they print."""

import re
from pathlib import Path

import pytest

from mtlstruct.objective.losses import LOSSES
from mtlstruct.samples import recipes as demo
from mtlstruct.solvers.cutting_plane import MASTERS
from mtlstruct.structures import STRUCTURES
from mtlstruct.templates.functions import FUNCTIONS
from mtlstruct.training.methods import METHODS

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
EXAMPLE = re.compile(r"^## (.+?)\n|^```python\n(.+?)^```\n+(?:```\n(.+?)^```)?", re.S | re.M)
TABLES = (LOSSES, MASTERS, METHODS, STRUCTURES, FUNCTIONS)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def examples():
    """(heading, code, output) of each code block."""
    heading, found = "", []
    for title, code, output in EXAMPLE.findall(PAGE.read_text()):
        if title:
            heading = title
        else:
            found.append(pytest.param(code, output, id=heading.replace(" ", "-").lower()))
    return found


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the files that `mtlstruct demo` leaves behind; the tables are put back as they were."""
    (tmp_path / "demo").mkdir()
    for name, lines, seed in zip(("train", "test"), demo.split(demo.bundled()), (1, 2), strict=True):
        (tmp_path / "demo" / f"{name}.txt").write_text(demo.column_file(lines, seed=seed), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = [dict(table) for table in TABLES]
    yield tmp_path
    for table, rows in zip(TABLES, before, strict=True):
        table.clear()
        table.update(rows)


@pytest.mark.parametrize(("code", "output"), examples())
def test_the_example_runs_and_prints_what_is_said(code, output, place, capsys):
    exec(compile(code, "docs/extending.md", "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    assert output, "an example says what it prints"
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", output)
    # Another processor may sum in another order and stop elsewhere within the gap.
    got, said = ([float(x) for x in NUMBER.findall(text)] for text in (printed, output))
    assert got == pytest.approx(said, rel=0.1, abs=0.5)


def test_there_is_an_example_for_each_thing_to_add():
    assert len(examples()) >= 4


def test_the_structure_fits_on_a_page():
    (code,) = (case.values[0] for case in examples() if case.id == "a-structure")
    assert len([line for line in code.splitlines() if line.strip()]) < 60
