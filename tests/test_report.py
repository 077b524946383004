"""Tables and pictures of template weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mtlstruct.errors import MtlError
from mtlstruct.model.model import TemplateWeight
from mtlstruct.report import plots, tables
from mtlstruct.templates import TemplateSet, generate, preset


def weights_of(templates: TemplateSet) -> list[TemplateWeight]:
    """Weights that fall from template to template, every third one dropped."""
    raw = [0.0 if number % 3 == 2 else 1 / (1 + number) for number in range(len(templates))]
    total, m = sum(raw), len(templates)
    found = []
    for rank, number in enumerate(sorted(range(m), key=lambda number: -raw[number]), 1):
        mu, template = raw[number] / total, templates[number]
        figures = mu, m * mu, 3 * raw[number], 1234567 * (mu > 0)
        found.append(TemplateWeight(rank, number, template.name, template.title, *figures))
    return found


def drawn(weights: list[TemplateWeight], folder: Path) -> str:
    """The picture of weights as SVG, whose comments are the texts."""
    plots.plot_weights(weights, folder / "w.svg")
    return (folder / "w.svg").read_text()


def test_dropped_templates_are_listed_as_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    weights = weights_of(generate((-2, 2)))
    tables.print_weights(weights)
    header, *rows, closing = capsys.readouterr().out.splitlines()
    assert header.split() == ["rank", "name", "text", "mu", "relative", "norm", "features"]
    assert [row.split()[3] == "dropped" for row in rows] == [False] * 4 + [True] * 2
    assert closing == "4 of 6 templates kept, 2 dropped"


def test_numbers_are_never_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    weights = weights_of(preset("ner-134"))
    for terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setenv("COLUMNS", "40")
        tables.print_weights(weights, top=5)
        assert capsys.readouterr().out.count("1,234,567") == 5


def test_the_rest_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_weights(weights_of(preset("cws-tp2")), top=3)
    *table, closing = capsys.readouterr().out.splitlines()
    assert len(table) == 4
    assert closing == "15 more not shown; 12 of 18 templates kept, 6 dropped"


@pytest.mark.parametrize("name", ["cws-tp2", "ner-134"])
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_pictures_are_drawn_and_equal_weights_give_equal_files(
    tmp_path: Path, name: str, suffix: str
) -> None:
    weights = weights_of(preset(name))
    for number in (1, 2):
        plots.plot_weights(weights, tmp_path / f"{number}{suffix}")
    first, second = ((tmp_path / f"{number}{suffix}").read_bytes() for number in (1, 2))
    assert first == second
    assert first[:4] in (b"\x89PNG", b"<?xm", b"%PDF")


@pytest.mark.parametrize(
    "templates",
    [
        generate((0, 0), transitions=False),
        generate((-4, 4), (0, 1, 2), bigrams=True, cross=True, trigrams=(1, 2)),
    ],
)
def test_few_and_many_templates_can_be_drawn(tmp_path: Path, templates: TemplateSet) -> None:
    plots.plot_weights(weights_of(templates), tmp_path / "w.png", learned=False)
    assert (tmp_path / "w.png").stat().st_size > 1000


def test_a_model_without_weights_can_be_drawn(tmp_path: Path) -> None:
    assert "0 of 1 templates" in drawn([TemplateWeight(1, 0, "B", "B", 0.0, 0.0, 0.0, 0)], tmp_path)


def test_names_of_templates_are_in_the_picture(tmp_path: Path) -> None:
    found = drawn(weights_of(preset("cws-tp2")), tmp_path)
    assert "<!-- U05 [-2,0]/[-1,0]/[0,0] -->" in found
    assert "<!-- 12 of 18 templates have a weight -->" in found


def test_the_heaviest_of_many_templates_are_named_in_a_legend(tmp_path: Path) -> None:
    weights = weights_of(preset("ner-134"))
    found = drawn(weights, tmp_path)
    named = [w.rank for w in weights if f"<!-- {w.rank}  {plots.short_label(w.text)} -->" in found]
    assert named == list(range(1, 11))


def test_a_few_decades_have_plain_numbers_between_them(tmp_path: Path) -> None:
    bag = TemplateSet.parse("U:%x[-1,0]\nU:%x[0,0]\nU:%x[1,0]\nU1:%x[0,0]\n").shared()
    found = drawn(weights_of(bag), tmp_path)
    assert all(f"<!-- {text} -->" in found for text in ("U [-1,0] +2", "one cell", "0.5"))
    assert "10^" not in found


def test_without_matplotlib_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MtlError, match=r'pip install "mtlstruct\[plot\]"'):
        plots.plot_weights(weights_of(preset("cws-tp1")), tmp_path / "w.png")
    assert not list(tmp_path.iterdir())
