"""The scripts of examples/ run as they stand, in an empty folder, and find what they say they find."""

import re
import runpy
from pathlib import Path

import pytest

from mtlstruct.structures import STRUCTURES

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "made_up.py")
FIGURE = re.compile(r"(?:F1|UAS|accuracy)[^\d\n]*(\d\.\d+)")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder; examples find made_up beside them; the table of structures is put back as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FOLDER))
    before = dict(STRUCTURES)
    yield tmp_path
    STRUCTURES.clear()
    STRUCTURES.update(before)


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs(name, place, capsys):
    if name == "spacy_component.py":
        pytest.importorskip("spacy", reason="spaCy is not installed: the example of a component was NOT run")
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    printed = capsys.readouterr().out
    figures = [float(figure) for figure in FIGURE.findall(printed)]
    assert figures, "an example prints how good it is"
    if name == "word_vectors.py":
        without, with_vectors = figures
        assert without < with_vectors
        assert with_vectors > 0.9
    else:
        assert min(figures) > 0.8


def test_the_list_is_complete():
    assert set(re.findall(r"`(\w+\.py)` \|", (FOLDER / "README.md").read_text())) == set(SCRIPTS)
