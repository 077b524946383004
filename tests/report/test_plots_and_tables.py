"""Plots and tables of template weights, of a tuning grid and of weights along a path."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from mtlstruct.errors import MtlError
from mtlstruct.model.model import TemplateWeight
from mtlstruct.report.plots import MAX_NAMED, plot_paths, plot_settings, plot_weights, short_label
from mtlstruct.report.tables import print_settings, print_weights
from mtlstruct.templates import TemplateSet, generate, preset
from mtlstruct.training.options import Options
from mtlstruct.tuning.study import Finding

MANY = generate((-4, 4), (0, 1, 2), orders=(1, 2), cross=True, trigrams=(1, 2))
ONE_WITHOUT_WEIGHT = [TemplateWeight(1, 0, "B", "B", 0.0, 0.0, 0.0, 0)]


def weights_of(templates):
    """Weights that fall from template to template, every third one dropped."""
    raw = [0.0 if number % 3 == 2 else 1 / (1 + number) for number in range(len(templates))]
    total, m = sum(raw), len(templates)
    found = []
    for rank, number in enumerate(sorted(range(m), key=lambda number: -raw[number]), 1):
        mu, template = raw[number] / total, templates[number]
        figures = mu, m * mu, 3 * raw[number], 1234567 * (mu > 0)
        found.append(TemplateWeight(rank, number, template.name, template.title, *figures))
    return found


def finding(method, p, c, *f1):
    options = Options(method=method, p=p, c=c)
    figures = {"gap": 0.01, "passes": 5, "active_templates": 40, "seconds": 2.0}
    results = tuple({"scores": {"f1": score, "accuracy": 90.0}, **figures} for score in f1)
    return Finding(options, results, complete=True)


TWO_METHODS = [finding(m, None, c, 60 + c, 61 + c) for m in ("mtl", "svm") for c in (0.1, 1.0, 10.0)]
SEVERAL_P = [finding("mtl", None, c, 50 + c) for c in (0.1, 1.0)] + [
    finding("pmtl", p, c, 60 - p) for p in (4 / 3, 2.0) for c in (0.1, 1.0, 10.0)
]


def svg(plot, folder):
    """Draw twice, check that both files are equal, and return the SVG, whose comments are its texts."""
    for name in ("a.svg", "b.svg"):
        plot(folder / name)
    assert (folder / "a.svg").read_bytes() == (folder / "b.svg").read_bytes()
    return (folder / "a.svg").read_text()


@pytest.mark.parametrize(("weights", "texts"), [
    (weights_of(preset("cws-tp2")), ["U05 [-2,0]/[-1,0]/[0,0]", "12 of 18 templates have a weight"]),
    (weights_of(TemplateSet.parse("U:%x[-1,0]\nU:%x[0,0]\nU:%x[1,0]\nU1:%x[0,0]\n").shared()),
     ["U [-1,0] +2", "one cell", "0.5"]),
    (weights_of(generate((0, 0), transitions=False)), ["1 of 1 templates have a weight"]),
    (weights_of(MANY), ["template, in the order of the file"]),
    (ONE_WITHOUT_WEIGHT, ["0 of 1 templates have a weight", "dropped (1)"]),
])  # fmt: skip
def test_plots_of_weights_name_templates(tmp_path, weights, texts):
    drawn = svg(lambda path: plot_weights(weights, path), tmp_path)
    assert all(f"<!-- {text} -->" in drawn for text in texts)
    norms = svg(lambda path: plot_weights(weights, path, learned=False), tmp_path)
    assert "<!-- relative norm -->" in norms


def test_a_legend_names_the_heaviest_of_many_templates(tmp_path):
    weights = weights_of(preset("ner-134"))
    drawn = svg(lambda path: plot_weights(weights, path), tmp_path)
    named = [w.rank for w in weights if f"<!-- {w.rank}  {short_label(w.text)} -->" in drawn]
    assert named == list(range(1, MAX_NAMED + 1))


@pytest.mark.parametrize(("found", "texts"), [
    (TWO_METHODS, ["best F1 70.50: mtl log, c = 10", "svm hinge"]),
    (SEVERAL_P, ["best F1 58.67: pmtl log p=1.33, c = 0.1", "pmtl log p=2", "mtl log"]),
])  # fmt: skip
def test_plots_of_settings_name_methods_and_the_best(tmp_path, found, texts):
    drawn = svg(lambda path: plot_settings(found, "f1", path), tmp_path)
    assert all(f"<!-- {text} -->" in drawn for text in texts)


@pytest.mark.parametrize("templates", [preset("cws-tp2"), MANY])
def test_paths_name_the_heaviest(tmp_path, templates):
    relative = np.random.default_rng(0).dirichlet(np.ones(len(templates)), 4) * len(templates)
    texts = [template.text for template in templates]
    drawn = svg(lambda file: plot_paths(list("abcd"), texts, relative, file), tmp_path)
    assert sum(f"<!-- {short_label(text)} -->" in drawn for text in texts) == MAX_NAMED


def test_errors_name_the_format_and_the_missing_package(tmp_path, monkeypatch):
    with pytest.raises(MtlError, match="expected a picture file"):
        plot_settings(TWO_METHODS, "f1", tmp_path / "a.gif")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MtlError, match=r'pip install "mtlstruct\[plot\]"'):
        plot_weights(ONE_WITHOUT_WEIGHT, tmp_path / "w.png")
    assert not list(tmp_path.iterdir())


def test_dropped_templates_are_marked_and_the_others_counted(capsys):
    print_weights(weights_of(generate((-2, 2))))
    header, *rows, closing = capsys.readouterr().out.splitlines()
    assert header.split() == ["rank", "name", "text", "mu", "relative", "norm", "features"]
    assert [row.split()[3] == "dropped" for row in rows] == [False] * 4 + [True] * 2
    assert closing == "4 of 6 templates kept, 2 dropped"
    print_weights(weights_of(preset("cws-tp2")), top=3)
    *table, closing = capsys.readouterr().out.splitlines()
    assert len(table) == 4
    assert closing == "15 more not shown; 12 of 18 templates kept, 6 dropped"


@pytest.mark.parametrize("terminal", [False, True])
def test_numbers_are_never_cut(capsys, monkeypatch, terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "40")
    print_weights(weights_of(preset("ner-134")), top=5)
    assert capsys.readouterr().out.count("1,234,567") == 5


def searched(found, chosen):
    """Return a search with these results."""
    return SimpleNamespace(findings=found, score="f1", chosen=chosen, error=lambda one: one.deviation("f1"))


def test_settings_have_p_if_it_varies_and_errors(capsys):
    print_settings(searched(SEVERAL_P, SEVERAL_P[2]))
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:5] == ["method", "loss", "p", "c", "f1"]
    assert [row.startswith("*") for row in rows] == [False, False, True, *[False] * 5]
    assert rows[2].split()[:6] == ["*", "pmtl", "log", "1.333", "0.1", "58.67"]
    print_settings(searched(TWO_METHODS, TWO_METHODS[2]))
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:6] == ["method", "loss", "c", "f1", "accuracy", "±"]
    assert rows[2].split()[:7] == ["*", "mtl", "log", "10", "70.50", "90.00", "0.71"]
