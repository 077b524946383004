"""`bench` measures every step it names, on the bundled corpus or on the user's data, and changes nothing."""

import numpy as np
import pytest

from mtlstruct.cli.commands import bench

STEPS = ["threads", "encode", "pass", "train", "predict", "memory"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(bench, "COPIES", 1)
    monkeypatch.setattr(bench, "REPEAT", 1)


def test_all_steps_are_measured(run):
    result = run("bench --json")
    found = result.json
    assert list(found) == STEPS
    assert all(np.isfinite(entry["value"]) and entry["value"] > 0 for entry in found.values())


def test_bench_on_given_data(run, tmp_path):
    templates, data = tmp_path / "t.tpl", tmp_path / "d.txt"
    templates.write_text("U0:%x[0,0]\nB\n")
    data.write_text("a\tX\nb\tY\n\nb\tY\na\tX\n\n" * 20)
    result = run("bench", str(templates), str(data))
    assert "40 sentences, 80 tokens, 2 templates" in result.out
    assert "predict" in result.out


def test_templates_without_data_are_rejected(run, tmp_path):
    templates = tmp_path / "t.tpl"
    templates.write_text("U0:%x[0,0]\n")
    result = run("bench", str(templates))
    assert result.code == 2
    assert "expected templates and labelled data" in result.err
