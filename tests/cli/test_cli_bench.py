"""`bench` measures every step it names, on the bundled corpus."""

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


def test_figures_are_printed_with_the_size_of_the_data(run):
    lines = run("bench").ok().out.splitlines()
    assert [line.split()[0] for line in lines] == STEPS
    assert "sentences" in lines[0]
