"""Pictures and tables of grids and of weights along a path."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mtlstruct.errors import MtlError
from mtlstruct.report.plots import LABELLED, short_label
from mtlstruct.report.tables import print_settings
from mtlstruct.report.tuning_plot import plot_settings
from mtlstruct.report.weight_path import Training, plot_paths, weight_paths
from mtlstruct.templates import TemplateSet, generate, preset
from mtlstruct.tuning.study import Finding


def finding(method: str, p: float | None, c: float, *f1: float) -> Finding:
    options = SimpleNamespace(method=method, p=p, c=c)
    figures = {"gap": 0.01, "passes": 5, "active_templates": 40, "seconds": 2.0}
    results = tuple({"scores": {"f1": score, "accuracy": 90.0}, **figures} for score in f1)
    return Finding(options, results, complete=True)  # type: ignore[arg-type]


LINES = [finding(m, None, c, 60 + c, 61 + c) for m in ("mtl", "svm") for c in (0.1, 1.0, 10.0)]
HEAT = [finding("mtl", None, c, 50 + c) for c in (0.1, 1.0)] + [
    finding("pmtl", p, c, 60 - p) for p in (4 / 3, 2.0) for c in (0.1, 1.0, 10.0)
]


def trainings(templates: TemplateSet, exponents: list[float], c: float = 1.0) -> list[Training]:
    base = np.exp(2 * np.random.default_rng(0).normal(size=len(templates)))
    texts = tuple(template.text for template in templates)
    family = {1.0: ("mtl", None), 2.0: ("svm", None)}
    return [
        Training("m", *family.get(p, ("pmtl", p)), c, texts, base ** ((2 - p) / p) * (base > p - 0.9))
        for p in exponents
    ]


@pytest.mark.parametrize(("found", "words"), [
    (LINES, ["best F1 70.50: mtl, c = 10", "svm"]),
    (HEAT, ["best F1 58.67: pmtl p=1.33, c = 0.1", "pmtl p=2", "51.00", "mtl"]),
])  # fmt: skip
def test_settings_are_drawn_the_same_twice(tmp_path: Path, found: list[Finding], words: list[str]) -> None:
    for name in ("a.svg", "b.svg"):
        plot_settings(found, "f1", tmp_path / name)
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn == (tmp_path / "b.svg").read_text()
    for word in words:
        assert f"<!-- {word} -->" in drawn


@pytest.mark.parametrize(
    "templates", [preset("cws-tp2"), generate((-4, 4), (0, 1, 2), bigrams=True, cross=True)]
)
def test_paths_name_the_heaviest_of_few_and_of_many(tmp_path: Path, templates: TemplateSet) -> None:
    (path,) = weight_paths(trainings(templates, [1.0, 4 / 3, 2.0, 4.0]))
    assert path.values == (1.0, 4 / 3, 2.0, 4.0)
    assert path.along == "p"
    for name in ("a.svg", "b.svg"):
        plot_paths([path], tmp_path / name)
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn == (tmp_path / "b.svg").read_text()
    assert sum(f"<!-- {short_label(t.text)} -->" in drawn for t in templates) == LABELLED
    assert "<!-- average -->" in drawn


def test_relative_weights_average_one_for_every_p() -> None:
    (path,) = weight_paths(trainings(preset("cws-tp1"), [1.0, 1.5, 3.0]))
    assert path.relative.mean(axis=1) == pytest.approx(np.ones(3))
    assert path.heaviest()[0] == int(np.argmax(path.relative.max(axis=0)))


def test_pictures_that_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(MtlError, match="expected a picture file"):
        plot_settings(LINES, "f1", tmp_path / "a.gif")


def test_the_best_setting_is_marked_and_p_is_shown_where_there_is_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_settings(HEAT, HEAT[2], "f1")
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["method", "p", "c", "f1"]
    assert [row.startswith("*") for row in rows] == [False, False, True, False, False, False, False, False]
    assert rows[2].split()[:5] == ["*", "pmtl", "1.333", "0.1", "58.67"]
    print_settings(LINES, LINES[2], "f1")
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:5] == ["method", "c", "f1", "accuracy", "±"]
    assert rows[2].split()[:6] == ["*", "mtl", "10", "70.50", "90.00", "0.71"]
