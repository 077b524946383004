"""The command line in process: what each command prints, its JSON keys and its exit codes."""

import gzip
import json
import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest
from support.commands import TRAIN, WORDS, Ran

import mtlstruct
from mtlstruct import cli
from mtlstruct._system.atomic_write import replacing

TRAIN_KEYS = {
    "objective", "dual", "gap", "epsilon", "passes", "converged", "seconds", "encode_seconds", "peak_rss_mb",
    "sentences", "tokens", "templates", "active_templates", "attributes", "features",
}  # fmt: skip
SEQUENCE_KEYS = {
    "precision", "recall", "f1", "accuracy", "sequence_accuracy", "scheme", "per_type", "sentences", "tokens",
}  # fmt: skip
CALIBRATION_KEYS = {"ece", "nll", "token_nll", "temperature", "calibrated"}


def test_help_lists_every_command_with_an_uncut_summary(run):
    got = run("--help").ok()
    for name, (_, summary) in cli.COMMANDS.items():
        assert f"\n  {name} " in got.out
        assert summary in " ".join(got.out.split())
    assert run().out == got.out
    assert run("templates").ok().out == run("templates --help").out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_an_example_with_options_that_exist(run, command):
    out = run(f"{command} --help").ok().out
    example = re.search(r"Example: mtlstruct (.*)", out)
    assert example is not None
    assert example[1].startswith(command)
    assert all(word in out for word in re.findall(r" (-\S+)", example[1]))
    assert cli.COMMANDS[command][1] in " ".join(out.split())


def test_options_of_train_are_in_groups(run):
    out = run("train --help").out
    titles = ["Arguments", "Common", "Search", "Method", "Data", "Trees", "Cluster", "Resume", "Options"]
    assert re.findall(r"^(\w+):$", out, re.MULTILINE) == titles
    common = out.partition("\nCommon:\n")[2].partition("\nMethod:\n")[0]
    assert {"--valid", "--task", "--method", "-c"} <= set(re.findall(r"^  (-\S+)", common, re.MULTILINE))


@pytest.mark.parametrize(
    ("command", "usage", "required"),
    [
        ("train", "[TEMPLATES] TRAIN MODEL", 2),
        ("tune", "[TEMPLATES] TRAIN", 1),
        ("predict", "MODEL [INPUT]", 1),
        ("weights", "MODEL...", 1),
    ],
)
def test_help_marks_optional_arguments(run, command, usage, required):
    out = run(f"{command} --help").out
    assert out.splitlines()[0] == f"Usage: mtlstruct {command} [OPTIONS] {usage}"
    assert out.count("[required]") == required


def test_version(run):
    from mtlstruct import __version__

    assert run("--version") == Ran(0, f"mtlstruct {__version__}\n", "")


@pytest.mark.parametrize("command", ["--debug weights no", "weights no --debug"])
def test_debug_shows_the_traceback(run, command):
    got = run(command)
    assert "Traceback" in got.err
    assert got.err.endswith("mtlstruct: no: no such model file\n")
    run("weights no").rejected("no such model file")


def test_an_internal_error_is_one_sentence(run, monkeypatch):
    def broken(*_):
        raise RuntimeError("oh [red]no[/red]")

    monkeypatch.setattr(import_module("mtlstruct.cli.commands.templates"), "preset_templates", broken)
    got = run("templates generate --preset x")
    assert got.code == 3
    assert got.err == (
        "mtlstruct: internal error, please report it: RuntimeError: oh [red]no[/red] (--debug shows where)\n"
    )


def test_choices_of_options_are_those_of_the_registries():
    from mtlstruct.cli.common import Dialect
    from mtlstruct.formats.normalization import NORMALIZERS
    from mtlstruct.formats.segmented import TAGS
    from mtlstruct.solvers import SOLVERS
    from mtlstruct.templates import DIALECTS
    from mtlstruct.training.methods import METHODS
    from mtlstruct.training.options import TYPES

    words = {name: get_args(kind) for name, kind in TYPES.items()}
    assert set(words["method"]) == {*METHODS, "auto"}
    assert set(get_args(words["solver"][0])) == set(SOLVERS)
    assert set(words["normalize"]) == set(NORMALIZERS)
    assert set(words["scheme"]) >= set(TAGS)
    assert set(get_args(Dialect)) == set(DIALECTS)


def _log(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_train_sums_up_on_stdout_and_reports_on_stderr(run, place):
    got = run("train a.tpl train.txt m.mtl --valid train.txt").ok()
    assert got.out.startswith("converged after ")
    assert "train.txt: precision 100.00 · recall 100.00 · f1 100.00" in got.out
    assert "saved m.mtl" in got.out
    lines = got.err.splitlines()
    assert lines[0] == "read 4 sentences, 16 tokens, 4 labels; 6 templates"
    assert "memory" in lines[1]
    assert lines[2].startswith("pass 1 ")
    assert "\x1b" not in got.out + got.err


def test_train_json_is_one_object_with_the_keys_of_the_contract(run, place):
    got = run("train a.tpl train.txt m.mtl --json --loss hinge")
    assert set(got.json) == TRAIN_KEYS
    got = run("train a.tpl train.txt m.mtl --json")
    assert set(got.json) == {*TRAIN_KEYS, "temperature"}
    assert got.json["temperature"] == 1
    assert got.json["converged"] is True
    assert got.json["gap"] <= 0.01
    assert (got.json["sentences"], got.json["tokens"], got.json["templates"]) == (4, 16, 6)
    got = run("train a.tpl train.txt m.mtl --json -q --valid train.txt")
    assert set(got.json) == {*TRAIN_KEYS, "valid", "temperature"}
    assert set(got.json["valid"]) == SEQUENCE_KEYS
    assert got.err == ""


def test_the_log_has_the_run_its_passes_and_the_summary(run, place):
    got = run("train a.tpl train.txt m.mtl --json --seed 3")
    first, *passes, last = _log(place / "m.mtl.log.jsonl")
    assert first["event"] == "run"
    assert first["command"] == ["mtlstruct", "train", "a.tpl", "train.txt", "m.mtl", "--json", "--seed", "3"]
    assert first["options"]["seed"] == 3
    assert first["data"]["labels"] == ["B-LOC", "B-PER", "I-PER", "O"]
    assert set(first["versions"]) >= {"mtlstruct", "python", "numpy", "numba"}
    assert [line["passes"] for line in passes] == list(range(1, got.json["passes"] + 1))
    assert all(line["event"] == "pass" and line["seconds"] > 0 for line in passes)
    assert last == {"event": "summary", **got.json}


def test_not_converged_is_said_and_saved(run, place):
    got = run("train a.tpl train.txt m.mtl --max-iter 1 --gap 1e-9 --json").ok()
    assert got.json["converged"] is False
    assert "mtlstruct: not converged: after 1 passes (--max-iter) the gap is" in got.err
    run("weights m.mtl").ok()
    got = run("train a.tpl train.txt m.mtl --max-iter 1 --epsilon 1e-12 -q")
    assert "R_emp - R_s is" in got.err


def test_min_count_and_normalize_reach_the_encoder(run, place):
    all_of_them = run("train a.tpl train.txt m.mtl --json").json["attributes"]
    assert run("train a.tpl train.txt m.mtl --json --min-count 2").json["attributes"] < all_of_them
    (place / "wide.txt").write_text("A N X\n\uff21 N X\nB N Y\n", encoding="utf-8")
    plain, folded = (
        run("train a.tpl wide.txt m.mtl --json --normalize", how).json["attributes"]
        for how in ("none", "nfkc")
    )
    assert folded < plain


def test_latin1_goes_in_and_comes_out(run, place):
    (place / "l.txt").write_bytes("á N X\nb N Y\n".encode("latin-1"))
    run("train a.tpl l.txt l.mtl -q --encoding latin-1").ok()
    run("predict l.mtl l.txt -o out").ok()  # the model has the encoding
    assert (place / "out").read_bytes() == "á\tN\tX\tX\nb\tN\tY\tY\n\n".encode("latin-1")
    assert mtlstruct.load("l.mtl").predict("l.txt") == [["X", "Y"]]
    run("evaluate l.mtl l.txt").ok()
    run("export l.mtl l.crfpp --encoding utf-8").ok()
    assert "á" in (place / "l.crfpp").read_text(encoding="utf-8")
    run("export l.mtl l.wapiti --format wapiti-text").ok()
    assert "á".encode("latin-1") in (place / "l.wapiti").read_bytes()
    ran = run("export l.mtl a.wapiti --format wapiti-text --encoding ascii")
    assert (ran.code, ran.err) == (2, "mtlstruct: a.wapiti: cannot be written: ascii has no 'á'\n")
    assert not (place / "a.wapiti").exists()


def test_cells_with_spaces_and_ragged_rows(run, place):
    train = gzip.compress(b"a b,N,X\n ,P,Y\n\nc,Y\n")
    (place / "t.csv.gz").write_bytes(train)
    run("train a.tpl t.csv.gz m.mtl -q --separator , --ragged pad --valid t.csv.gz").ok()
    assert run("predict m.mtl -", stdin=b"a b,N\nc\n").out == "a b\tN\tX\nc\t_\tY\n\n"
    assert mtlstruct.load("m.mtl").predict("t.csv.gz") is not None
    assert run("evaluate m.mtl t.csv.gz --json").json["accuracy"] == 100
    assert run("score t.csv.gz t.csv.gz --separator , --ragged pad --json").json["accuracy"] == 100


def test_predict_takes_rows_with_and_without_labels(run, place):
    got = run("predict m.mtl train.txt")
    rows = [line.split() for line in TRAIN.splitlines()]
    assert got.out == "".join("\t".join([*row, *row[-1:]]) + "\n" for row in [*rows, []])
    bare = "".join(" ".join(row[:-1]) + "\n" for row in rows).encode()
    assert run("predict m.mtl", stdin=bare).out == "".join("\t".join(row) + "\n" for row in [*rows, []])


def test_predict_of_empty_input_writes_nothing(run, place):
    assert run("predict m.mtl", stdin=b"") == Ran(0, "", "")
    assert run("predict m.mtl", stdin=b"\n\n \n") == Ran(0, "", "")


def test_predict_keeps_the_order_over_many_batches(run, place):
    many = "".join(f"w{number} N\n\n" for number in range(60_000))
    (place / "many.txt").write_text(many)
    out = run("predict m.mtl many.txt", "--threads", 2).out
    assert [row.split("\t")[0] for row in out.splitlines() if row] == [f"w{n}" for n in range(60_000)]


def test_predict_cuts_words_and_raw_keeps_blanks(run, place):
    bare = WORDS.replace("  ", "").encode()
    assert run("predict s.mtl", stdin=bare).out == WORDS
    assert run("predict s.mtl", stdin=WORDS.encode()).out == WORDS
    torn = "今 天天气好\n\n".encode()
    assert run("predict s.mtl", stdin=torn).out == "今天  天气  好\n\n"
    assert run("predict s.mtl --raw", stdin=torn).out == "今  天  天气  好\n\n"


def test_evaluate_prints_what_conlleval_prints(run, place):
    got = run("evaluate m.mtl train.txt")
    assert got.out.startswith("processed 16 tokens with 7 phrases; found: 7 phrases; correct: 7.\n")
    assert "\nwhole sequences right: 4 of 4, 100.00%\nlabel scheme: BIO (IOB2)\n" in got.out
    assert "tokens in" in got.out.splitlines()[-1]
    got = run("evaluate m.mtl train.txt", "--json", "--threads", 2)
    assert set(got.json) == {*SEQUENCE_KEYS, *CALIBRATION_KEYS, "seconds", "tokens_per_second"}
    assert got.json["f1"] == 100
    assert set(got.json["per_type"]) == {"LOC", "PER"}


def test_evaluate_words(run, place):
    assert "=== F MEASURE:\t1.000" in run("evaluate s.mtl words.txt").out
    (place / "known.txt").write_text("今天\n北京\n", encoding="utf-8")
    got = run("evaluate s.mtl words.txt", "--words", "known.txt", "--json").json
    assert set(got) >= {"precision", "recall", "sentences", "tokens", "tokens_per_second"}
    assert (got["f1"], got["r_iv"], got["r_oov"]) == (100, 100, 100)


def test_score_agrees_with_evaluate(run, place):
    (place / "gold.txt").write_text("Ana N B-PER\nvive V O\n\nLima N B-PER\n")
    run("predict m.mtl gold.txt", "-o", "ours.txt")
    scored = run("score gold.txt ours.txt --task sequence --json").json
    assert set(scored) == SEQUENCE_KEYS
    assert scored.items() <= run("evaluate m.mtl gold.txt", "--json").json.items()


def test_score_of_words(run, place):
    (place / "cut.txt").write_text(WORDS.replace("图书馆", "图  书馆"), encoding="utf-8")
    got = run("score words.txt cut.txt --task segmentation --words words.txt --json").json
    assert (got["r_iv"], got["r_oov"]) == (pytest.approx(100 * 12 / 13), None)
    assert "=== TOTAL TRUE WORD COUNT:\t13" in run("score words.txt cut.txt --task segmentation").out


@pytest.mark.parametrize(("least", "code"), [("99", 1), ("50", 0)])
def test_score_min_is_an_exit_code(run, place, least, code):
    (place / "ours.txt").write_text(TRAIN.replace("Quito N B-LOC", "Quito N O"))
    got = run("score train.txt ours.txt --task sequence --min", least)
    assert got.code == code
    assert got.out.startswith("processed 16 tokens")
    assert ("below" in got.err) == bool(code)


FIELDS = """\
12 x I-<day>
May x I-<month>
2001 x I-<year>

around x I-<other>
the x <other>
May x I-<month>
"""
"""Labels as GROBID writes them: I- begins a field, a label without prefix goes on with it."""

UNTYPED = TRAIN.replace("-PER", "").replace("-LOC", "")
"""Chunks without a type: B, I, O."""


def test_labels_that_are_no_chunks_are_summed_up_by_accuracy(run, place):
    (place / "pos.txt").write_text("a x N\nb y V\n\na x N\n")
    trained = run("train a.tpl pos.txt p.mtl --valid pos.txt").out
    figures = "accuracy 100.00 · macro f1 100.00 · whole sequences 100.00 (labels scored as classes)"
    assert f"pos.txt: {figures} · temperature " in trained
    table = run("evaluate p.mtl pos.txt").out
    assert table.startswith("processed 3 tokens of 2 classes; correct: 3.\n")
    lines = "whole sequences right: 2 of 2, 100.00%\nlabel scheme: none, labels are scored as classes; F1 of runs "
    assert f"\n{lines}of equal labels: 100.00%\n" in table
    run("evaluate p.mtl pos.txt --scheme bioes").rejected("expected labels of the scheme BIOES, got 'N'")


def test_fields_of_grobid_are_chunks_unless_classes_are_wanted(run, place):
    (place / "gold.txt").write_text(FIELDS)
    (place / "ours.txt").write_text(FIELDS.replace("the x <other>", "the x I-<day>"))
    got = run("score gold.txt ours.txt --task sequence")
    assert got.out.startswith(
        "processed 6 tokens with 4 phrases; found: 5 phrases; correct: 4.\n"
        "accuracy:  83.33%; precision:  80.00%; recall: 100.00%; FB1:  88.89\n"
        "            <day>: precision:  50.00%; recall: 100.00%; FB1:  66.67  2\n"
    )
    assert got.out.endswith("\nwhole sequences right: 1 of 2, 50.00%\nlabel scheme: GROBID\n")
    # precision of I-<day> is 1/2, <other> is never found, the three other labels are right: F1 (2/3 + 0 + 3) / 5
    figures = run("score gold.txt ours.txt --task sequence --json --scheme classes").json
    assert set(figures) == {*SEQUENCE_KEYS, "micro_f1", "field_f1"}
    assert figures["field_f1"] == pytest.approx(250 / 3)  # five of six runs
    assert (figures["scheme"], figures["sequence_accuracy"]) == ("classes", 50.0)
    assert figures["f1"] == pytest.approx(220 / 3)
    assert (figures["sentences"], figures["tokens"]) == (2, 6)
    assert set(figures["per_type"]) == {"<other>", "I-<day>", "I-<month>", "I-<other>", "I-<year>"}
    run("score gold.txt ours.txt --task sequence --scheme classes --min 73").ok()
    assert run("score gold.txt ours.txt --task sequence --scheme classes --min 74").code == 1


POS = TRAIN.replace("B-", "").replace("I-", "")
"""Labels without places: classes."""


@pytest.mark.parametrize(("labels", "name"), [(FIELDS, "f1"), (POS, "accuracy"), (UNTYPED, "f1")])
def test_tune_and_report_read_labels_in_the_same_way(run, place, labels, name):
    (place / "some.txt").write_text(labels)
    grid = ("-c", "1", "--valid", "some.txt", "--out", "grid", "--json", "-q")
    assert run("tune a.tpl some.txt", *grid).json["score"] == name
    run("train a.tpl some.txt f.mtl -q").ok()
    run("report f.mtl page.html --data some.txt").ok()
    page = (place / "page.html").read_text(encoding="utf-8")
    assert ("by chunk type" in page) == (name == "f1")
    assert '"name":""' not in page.replace(": ", ":")


SPANISH = "un hombre camina por la calle\nuna mujer lee el libro\n"


def test_segmentation_rejects_column_files(run, place):
    expected = (
        "mtlstruct: train.txt, line 1: expected segmented text (one sentence per line, words separated by blanks), "
        "got a column file (for other tasks than segmentation): 3 cells per row, the last a label such as 'B-PER'\n"
    )
    before = {path.name for path in place.iterdir()}
    for arguments in (
        ("train", "c.tpl", "train.txt", "new.mtl", "--task", "segmentation", "-q"),
        ("train", "c.tpl", "words.txt", "new.mtl", "--task", "segmentation", "-q", "--valid", "train.txt"),
        ("tune", "c.tpl", "train.txt", "--task", "segmentation", "-q"),
        ("predict", "s.mtl", "train.txt", "-o", "out.txt"),
        ("predict", "s.mtl", "train.txt", "-o", "out.txt", "--raw"),
        ("evaluate", "s.mtl", "train.txt"),
        ("score", "train.txt", "words.txt", "--task", "segmentation"),
        ("score", "words.txt", "train.txt", "--task", "segmentation"),
        ("report", "s.mtl", "page.html", "--data", "train.txt"),
    ):
        got = run(*arguments)
        last = got.err.splitlines(keepends=True)[-1]  # `report` says before that there is no log
        assert (got.code, got.out, last) == (2, "", expected), arguments
    assert {path.name for path in place.iterdir()} == before
    got = run("predict s.mtl", stdin=TRAIN.encode())
    assert (got.code, got.err) == (2, expected.replace("train.txt", "standard input"))


def test_warns_of_characters_that_a_segmenter_does_not_know(run, place):
    (place / "es.txt").write_text(SPANISH)
    warning = (
        "mtlstruct: warning: es.txt: 100% of 42 characters are unknown to the model: was it trained on text of "
        "this kind?\n"
    )
    got = run("predict s.mtl es.txt", "--raw")
    assert (got.code, got.err) == (0, warning)
    assert got.out.replace(" ", "") == SPANISH.replace(" ", "")
    assert warning in run("evaluate s.mtl es.txt").err
    options = ("--task", "segmentation", "-q", "--valid", "es.txt")
    assert warning in run("train c.tpl words.txt new.mtl", *options).err
    for arguments in (("predict", "s.mtl", "words.txt", "--raw"), ("evaluate", "s.mtl", "words.txt")):
        assert "unknown to the model" not in run(*arguments).err
    many = run("predict s.mtl --raw", stdin=(SPANISH * 500).encode())  # judged before the end, once
    assert many.err.count("are unknown to the model") == 1


def test_says_that_blanks_are_dropped_unless_they_are_kept(run, place):
    text = "今天天气好\n今 天天气\u3000好\n"
    note = (
        "mtlstruct: note: standard input, line 2: spaces of the input are dropped "
        "(--raw keeps them as word boundaries)\n"
    )
    got = run("predict s.mtl", stdin=text.encode())
    assert (got.out, got.err) == ("今天  天气  好\n今天  天气  好\n", note)
    for option in ("--raw", "--partial"):
        got = run("predict s.mtl", option, stdin=text.encode())
        assert (got.out, got.err) == ("今天  天气  好\n今  天  天气  好\n", "")
    assert run("predict s.mtl", stdin="今天天气好\n".encode()).err == ""


def test_says_which_task_other_data_are_for(run, place):
    trees = "1 Eva _ N N _ 2 subj _ x\n2 canta _ V V _ 0 root _ y\n\n1 canta _ V V _ 0 root _ y\n"
    (place / "trees.txt").write_text(trees)
    note = "note: the data look like CoNLL trees, which need --task dependency"
    assert note in run("train a.tpl trees.txt new.mtl").err
    assert note not in run("train a.tpl train.txt new.mtl").err


def test_labels_that_are_numbers_are_labels_with_a_note(run, place):
    (place / "numbers.txt").write_text("a N 0\nb N 1\nc N 2.5\n")
    got = run("train a.tpl numbers.txt m.mtl").ok()
    assert (
        "note: all 3 labels are numbers (0, 1, 2.5 …); the last column is read as the label: is the "
        in got.err
    )
    assert run("predict m.mtl numbers.txt").out.startswith("a\tN\t0\t0\nb\tN\t1\t1\n")


def test_a_sentence_of_100000_tokens(run, place):
    (place / "long.txt").write_text("a N X\nb N Y\n" * 50_000)
    got = run("train a.tpl long.txt m.mtl --max-iter 2 --json")
    assert (got.code, got.json["tokens"], got.json["sentences"]) == (0, 100_000, 1)
    run("predict m.mtl long.txt -o out.txt").ok()
    assert (place / "out.txt").read_text() == "a\tN\tX\tX\nb\tN\tY\tY\n" * 50_000 + "\n"


def test_devices_are_written_and_not_replaced(tmp_path):
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    with replacing(link) as out:
        out.write(b"x")
    assert link.is_symlink()
    assert target.read_bytes() == b"x"
    with replacing("/dev/null") as out:
        out.write(b"x")
    assert Path("/dev/null").is_char_device()
