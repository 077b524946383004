"""Classes on the command line: train, predict, evaluate, score, explain, weights; and the cost of a label."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from mtlstruct.formats import columns
from mtlstruct.model.model import Model


def test_rows_need_not_wait_for_a_blank_line():
    """A pipe that stays open gets its answers line by line."""

    class Typed(io.RawIOBase):
        lines = iter([b"a\n", b"b\n"])

        def read1(self, size):
            return next(self.lines, b"")

    got = columns.stream(Typed(), columns=1, source="x", alone=True)
    assert next(got).columns[0].cells() == ["a"]
    assert next(got).columns[0].cells() == ["b"]


def test_predicting_adds_a_column_and_streams(run, place):
    code, out, _ = run("predict k.mtl", stdin=b"casa\n\ncome\n")
    assert (code, out) == (0, "casa\tN\ncome\tV\n")
    assert run("predict k.mtl items.txt")[1].splitlines()[0] == "casa\tN\tN"


def test_probabilities_stand_beside_the_classes(run, place):
    code, out, err = run("predict k.mtl --scores", stdin=b"casa\n\ncome\n")
    assert (code, err) == (0, "")
    cells = [line.split("\t") for line in out.splitlines()]
    assert [cell[:2] for cell in cells] == [["casa", cells[0][1]], ["come", cells[1][1]]]
    assert cells[0][1].startswith("N/0.")
    _, every, _ = run("predict k.mtl --scores all", stdin=b"casa\n")
    shares = [float(cell.partition("/")[2]) for cell in every.split("\t")[2:]]
    assert sum(shares) == pytest.approx(1, abs=1e-5)
    _, ranked, _ = run("predict k.mtl --nbest 5", stdin=b"casa\n")
    lines = ranked.splitlines()
    assert len(lines) == 6  # three classes, a line before each
    assert lines[0].startswith("# 0 0.")
    assert {line.split("\t")[1] for line in lines[1::2]} == {"A", "N", "V"}


def test_given_classes_are_kept_and_temperatures_fitted(run, place):
    Path("b.tpl").write_text("U0:%x[@1,0]\nU1:%x[@-1,0]\n")  # the item itself is the first and the last
    assert run("train b.tpl items.txt n.mtl --task multiclass -q")[0] == 0
    assert run("predict k.mtl --partial", stdin=b"casa V\ncome _\n")[1] == "casa\tV\tV\ncome\t_\tV\n"
    assert run("calibrate k.mtl items.txt -o n.mtl")[0] == 0
    assert Model.load("n.mtl").temperature > 0


def test_evaluate_and_score_agree(run, place):
    assert run("predict k.mtl items.txt -o p.txt")[0] == 0
    found = json.loads(run("evaluate k.mtl items.txt --json")[1])
    scored = json.loads(run("score items.txt p.txt --task multiclass --json")[1])
    assert found.items() >= scored.items()
    assert {"precision", "recall", "f1", "accuracy", "micro_f1", "per_type", "sentences", "tokens"} == set(
        scored
    )
    assert scored["accuracy"] == 100
    assert run("score items.txt p.txt --task multiclass --min 99")[0] == 0
    table = run("evaluate k.mtl items.txt")[1]
    assert table.startswith(
        "processed 12 items of 3 classes; correct: 12.\naccuracy: 100.00%; macro precision: "
    )
    assert f"\n{'N':>17}: precision: 100.00%; recall: 100.00%; FB1: 100.00  5\n" in table


def test_explain_names_the_templates(run, place):
    code, out, _ = run("explain k.mtl", stdin=b"casa\n")
    assert code == 0
    assert out.startswith("item 1\n  1 casa   N, not ")
    record = json.loads(run("explain k.mtl --json --sentence 2", stdin=b"casa\ncome\n")[1])
    (token,) = record["tokens"]
    assert token["label"] == "V"
    voices = sum(voice["value"] for voice in token["templates"]) + token["others"]
    assert voices == pytest.approx(token["margin"], abs=1e-6)
    assert abs(token["elsewhere"]) < 1e-9


def test_models_are_byte_identical_on_any_number_of_threads(run, place):
    rng = np.random.default_rng(0)
    rows = [
        f"w{a} p{a % 7} L{(a + b) % 5}"
        for a, b in zip(*rng.integers(0, 40, (2, 6000)) // [[1], [38]], strict=True)
    ]
    Path("big.txt").write_text("\n".join(rows) + "\n")
    Path("c.tpl").write_text("U0:%x[0,0]\nU1:%x[0,1]\n")
    for n in (1, 3):
        assert run("train c.tpl big.txt", f"{n}.mtl", "--task", "multiclass", "-q", "--threads", n)[0] == 0
    assert Path("1.mtl").read_bytes() == Path("3.mtl").read_bytes()
