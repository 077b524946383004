"""Benchmarks: stored rows, limits of time, files for other programs, fits."""

import json
import signal
import sys

import pytest

from benchmarks import growth, measure, tables_scale
from benchmarks.book import Ask, Book
from benchmarks.peers.cases import laid_out
from benchmarks.peers.parsers import with_heads
from benchmarks.places import Missing, head
from benchmarks.programs import attribute_file, columns, peer_score


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("MTLSTRUCT_BENCH_WORK", str(tmp_path / "work"))
    return tmp_path


def book(path, **asked):
    return Book("some", path / "some.json", Ask(**asked))


def rows_of(path):
    return json.loads((path / "some.json").read_text())["rows"]


def never():
    raise AssertionError("measured again")


def test_rows_are_stored_and_measured_again_if_needed(tmp_path):
    def row(cpu, stamp="code", **asked):
        return book(tmp_path, **asked).row({"program": "a"}, stamp, lambda: {"cpu": cpu})["cpu"]

    assert row(1.0) == row(2.0) == 1.0
    assert [stored["cpu"] for stored in rows_of(tmp_path)] == [1.0]
    assert row(3.0, stamp="other code") == 3.0
    assert row(4.0, stamp="other code", again=True) == 4.0


def test_stopped_missing_and_failed_rows_are_measured_again(tmp_path):
    def missing():
        raise Missing("not run: no such program")

    def fails():
        return {"run": measure.run([sys.executable, "-c", "raise SystemExit(3)"])}

    key = {"program": "a"}
    book(tmp_path, limit=10).row(key, "code", lambda: {"stopped": True})
    book(tmp_path, limit=10).row(key, "code", never)
    assert book(tmp_path, limit=20).row(key, "code", lambda: {"stopped": False})["limit"] == 20
    assert book(tmp_path).row(key, "", missing)["missing"] == "not run: no such program"
    assert "code 3" in book(tmp_path).row(key, "", fails)["missing"]
    assert book(tmp_path).row(key, "", lambda: {"cpu": 1.0})["cpu"] == 1.0


def test_only_chosen_rows_are_measured_and_obsolete_ones_are_removed(tmp_path):
    first = book(tmp_path)
    for name in ("a", "b", "gone"):
        first.row({"program": name}, "code", lambda: {"cpu": 1.0})
    second = book(tmp_path, only=("b",))
    second.row({"program": "b"}, "new", lambda: {"cpu": 2.0})
    second.row({"program": "a"}, "new", never)
    assert second.row({"program": "c"}, "new", never) is None
    second.close()
    assert [(row["program"], row["cpu"]) for row in rows_of(tmp_path)] == [("b", 2.0), ("a", 1.0)]


@pytest.mark.process
@pytest.mark.parametrize(
    ("stop", "printed"), [(signal.SIGKILL, "begun\n"), (signal.SIGINT, "begun\nsaved\n")]
)
def test_runs_that_take_too_long_are_stopped(stop, printed):
    code = "import time\nprint('begun', flush=True)\n"
    code += "try:\n time.sleep(60)\nexcept KeyboardInterrupt:\n print('saved')"
    run = measure.run([sys.executable, "-c", code], limit=3.0, stop=stop)
    assert run.stopped
    assert run.stdout == printed
    assert run.wall < 30


def test_texts_are_cut_and_laid_end_to_end(work):
    texts = (
        ("a.conll", "x A\ny B\n\nz A\n\n"),
        ("b.txt", "one two\nthree\nfour\n"),
        ("test", "a A\n\nb B\n\n\n"),
    )
    for name, text in texts:
        (work / name).write_text(text)
    assert head(work / "a.conll", 1).read_text() == "x A\ny B\n\n"
    assert head(work / "b.txt", 2).read_text() == "one two\nthree\n"
    assert laid_out(work / "test", 2).read_text() == "a A\n\nb B\n\n" * 2


@pytest.mark.parametrize(("kind", "text", "rows"), [
    ("segmented", "ab  c\n\ndef\n", "a\tB\nb\tE\nc\tB\n\nd\tB\ne\tI\nf\tE\n\n"),
    ("hand", "Oslo-3 NP B-LOC\nis V O\n",
     "Oslo-3\tNP\toslo-3\tOsl\to-3\tAa-0\tB-LOC\nis\tV\tis\tis\tis\ta\tO\n\n"),
])  # fmt: skip
def test_a_corpus_becomes_columns(tmp_path, kind, text, rows):
    (tmp_path / "source").write_text(text, "utf-8")
    columns.main(kind, tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "target").read_text("utf-8") == rows


def test_attributes_for_crfsuite_are_escaped(tmp_path):
    templates, data, target = tmp_path / "t.tpl", tmp_path / "d.conll", tmp_path / "d.attributes"
    templates.write_text("U0:%x[0,0]\nU1:%x[1,0]\nB\n")
    data.write_text(":\tO\n\\\tB-X\n\n")
    attribute_file.main(str(templates), str(data), str(target))
    assert target.read_text() == "O\tU0\\:\\:\tU1\\:\\\\\nB-X\tU0\\:\\\\\tU1\\:_B+1\n\n"


@pytest.mark.parametrize(("task", "gold", "tagged", "scores"), [
    ("segmentation", "a B|b E|c B||", "B|E|B||", {"f1": 100.0}),
    ("segmentation", "a B|b E|c B||", "B|B|B||", {"f1": 40.0}),
    ("sequence", "a B-X|b O||c B-X||", "a B-X B-X|b O O||c B-X O||",
     {"f1": 200 / 3, "accuracy": 200 / 3, "sequence_accuracy": 50}),
])  # fmt: skip
def test_labels_of_any_program_are_scored(tmp_path, task, gold, tagged, scores):
    for name, text in (("gold", gold), ("tagged", tagged)):
        (tmp_path / name).write_text(text.replace("|", "\n"))
    assert peer_score.main(task, tmp_path / "gold", tmp_path / "tagged") == pytest.approx(scores)


def test_heads_of_a_parser_that_changes_words():
    text = "1\t100\t_\tN\tN\t_\t2\tnum\t_\t_\n2\tkr\t_\tN\tN\t_\t0\tROOT\t_\t_\n\n"
    parsed = "1\t<num>\t_\tN\tN\t_\t0\tROOT\n2\tkr\t_\tN\tN\t_\t1\tobj\n\n"
    assert with_heads(text, parsed).split("\n")[:2] == [
        "1\t100\t_\tN\tN\t_\t0\tROOT\t_\t_",
        "2\tkr\t_\tN\tN\t_\t1\tobj\t_\t_",
    ]


def test_the_rare_labels_become_one(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("w\tA\nw\tA\nw\tB\n\nw\tB\nw\tC\nw\tD\n\n")
    assert growth.fewer_labels(source, target, 1) == 4
    assert target.read_text() == source.read_text()
    assert growth.fewer_labels(source, target, 2) == 2
    assert target.read_text() == "w\tA\nw\tA\nw\tother\n\nw\tother\nw\tother\nw\tother\n\n"


def test_a_power_is_found_and_how_far_points_are_from_it():
    xs = [1.0, 2.0, 4.0, 8.0]
    assert growth.slope(xs, [3 * x**1.5 for x in xs]) == pytest.approx((1.5, 1.0))
    b, off = growth.slope(xs, [1.0, 2.0, 4.0, 16.0])
    assert b > 1
    assert off > 1.1


def test_growth_is_that_of_the_data_without_the_program_itself():
    own = {"data": "ESP ner-134", "loss": "log", "memory": 100.0}
    rows = [own | {"axis": "program", "count": 20}]
    rows += [
        own | {"axis": "length", "memory": 100.0 + 2 * n, "learning": n * n, "count": n} for n in (10, 20, 40)
    ]
    exponents = {(axis, figure): b for (axis, _, _, figure), (b, _) in growth.fits(rows).items()}
    assert exponents == pytest.approx({("length", "memory"): 1.0, ("length", "learning"): 2.0})


def test_cases_and_mechanisms_are_chosen_by_a_part_of_their_names():
    key = {"case": "Spanish ner", "c": "c = 1", "off": "gap-sampled passes"}
    assert Ask(case=("Spanish",), off=("gap",), only=("c = 1",)).chosen(key)
    assert not Ask(case=("Dutch",)).chosen(key)
    assert not Ask(case=("Spanish",), off=("singletons",)).chosen(key)


def test_ablation_is_a_table_of_both_sides():
    figures = {"clock": 2.0, "cpu": 1.0, "passes": 4, "gap": 0.0078, "memory": 617.2}
    row = {"key": {"case": "Spanish ner"}, "full": figures, "without": figures | {"cpu": 1.5, "passes": 6}}
    *_, line = tables_scale.ablation([row]).splitlines()
    assert line.split(" | ")[4:9] == ["1.0 s", "1.5 s", "1.50", "4", "6"]
