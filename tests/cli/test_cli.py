"""The command line in process: what each command prints, its JSON keys and its exit codes."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
from support.commands import TRAIN, WORDS, Ran, Run, write_files

import mtlstruct
from mtlstruct import cli
from mtlstruct._system.atomic_write import replacing

TEMPLATES = "# words and tags\nU0:%x[-1,0]\nU1:%x[0,0]\nU2:%x[1,0]\nU3:%x[0,1]\nU4:%x[-1,1]/%x[0,1]\nB\n"
CHARACTERS = "U0:%x[-1,0]\nU1:%x[0,0]\nU2:%x[1,0]\nU3:%x[0,0]/%x[1,0]\nB\n"

TRAIN_KEYS = {
    "objective", "dual", "gap", "epsilon", "passes", "converged", "seconds", "encode_seconds", "peak_rss_mb",
    "sentences", "tokens", "templates", "active_templates", "attributes", "features",
}  # fmt: skip
SEQUENCE_KEYS = {
    "precision", "recall", "f1", "accuracy", "sequence_accuracy", "scheme", "per_type", "sentences", "tokens",
}  # fmt: skip
TEMPLATE_COMMANDS = ("generate", "check", "convert", "select")
CALIBRATION_KEYS = {"ece", "nll", "token_nll", "temperature", "calibrated"}
FILES = {"a.tpl": TEMPLATES, "train.txt": TRAIN, "c.tpl": CHARACTERS, "words.txt": WORDS}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small data, which is the current one."""
    monkeypatch.chdir(write_files(tmp_path, FILES))
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tagger and a segmenter, trained once."""
    folder = write_files(tmp_path_factory.mktemp("trained"), FILES)
    tagger, segmenter = (
        [str(folder / name) for name in names.split()]
        for names in ("a.tpl train.txt m.mtl", "c.tpl words.txt s.mtl")
    )
    assert cli.run(["train", *tagger, "-q"]) == 0
    assert cli.run(["train", *segmenter, "-q", "--task", "segmentation", "-c", "10"]) == 0
    return folder


@pytest.fixture
def tagger(place: Path, trained: Path) -> Path:
    return Path(shutil.copy(trained / "m.mtl", place))


@pytest.fixture
def segmenter(place: Path, trained: Path) -> Path:
    return Path(shutil.copy(trained / "s.mtl", place))


# The top ----------------------------------------------------------------------------------------------------


def test_help_lists_every_command_with_an_uncut_summary(run: Run) -> None:
    got = run("--help").ok()
    for name, (_, summary) in cli.COMMANDS.items():
        assert f"\n  {name} " in got.out
        assert summary in got.out
    assert run().out == got.out


@pytest.mark.parametrize("command", [*cli.COMMANDS, *(f"templates {name}" for name in TEMPLATE_COMMANDS)])
def test_every_command_has_an_example_with_options_that_exist(run: Run, command: str) -> None:
    out = run(f"{command} --help").ok().out
    example = re.search(r"Example: mtlstruct (.*)", out)
    assert example is not None
    assert example[1].startswith(command)
    if command != "templates":
        assert all(word in out for word in re.findall(r" (-\S+)", example[1]))


def test_options_of_train_are_in_groups(run: Run) -> None:
    out = run("train --help").out
    titles = ["Arguments", "Common", "Search", "Method", "Data", "Trees", "Cluster", "Resume", "Options"]
    assert re.findall(r"^(\w+):$", out, re.MULTILINE) == titles
    common = out.partition("\nCommon:\n")[2].partition("\nMethod:\n")[0]
    assert {"--valid", "--task", "--method", "-c"} <= set(re.findall(r"^  (-\S+)", common, re.MULTILINE))


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("train -f 3", "-f is --min-count"),
        ("train --preset ner", "templates generate --preset NAME"),
        ("train -a CRF-L1", "--method crf-l1"),
        ("train -e 0.1", "--eta"),
        ("predict -m x", "predict MODEL INPUT"),
        ("predict -n 3", "predict --nbest"),
        ("predict -v2 x", "-v2 is predict --scores all"),
        ("train -t", "evaluate MODEL GOLD"),
    ],
)
def test_options_of_crfpp_wapiti_and_crfsuite_get_a_hint(run: Run, command: str, hint: str) -> None:
    run(command).rejected(hint, " --help)")


@pytest.mark.parametrize(
    ("command", "usage", "required"),
    [
        ("train", "[TEMPLATES] TRAIN MODEL", 2),
        ("tune", "[TEMPLATES] TRAIN", 1),
        ("predict", "MODEL [INPUT]", 1),
        ("weights", "MODEL...", 1),
    ],
)
def test_help_marks_optional_arguments(run: Run, command: str, usage: str, required: int) -> None:
    out = run(f"{command} --help").out
    assert out.splitlines()[0] == f"Usage: mtlstruct {command} [OPTIONS] {usage}"
    assert out.count("[required]") == required


def test_version(run: Run) -> None:
    from mtlstruct import __version__

    assert run("--version") == Ran(0, f"mtlstruct {__version__}\n", "")


@pytest.mark.parametrize("command", ["fly", "--fly", "train", "train --method x a b c", "score a b --task x"])
def test_bad_usage_is_one_sentence(run: Run, command: str) -> None:
    run(command).rejected(" --help)\n")


@pytest.mark.parametrize("command", ["--debug weights no", "weights no --debug"])
def test_debug_shows_the_traceback(run: Run, command: str) -> None:
    got = run(command)
    assert "Traceback" in got.err
    assert got.err.endswith("mtlstruct: no: no such model file\n")
    run("weights no").rejected("no such model file")


def test_a_file_may_be_called_debug(run: Run, place: Path) -> None:
    assert "--debug: no such model file" in run("weights -- --debug").err


def test_an_internal_error_is_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("oh [red]no[/red]")

    monkeypatch.setattr("mtlstruct.templates.generate.preset", broken)
    got = run("templates generate --preset x")
    assert got.code == 3
    assert got.err == (
        "mtlstruct: internal error, please report it: RuntimeError: oh [red]no[/red] (--debug shows where)\n"
    )


def test_choices_of_options_are_those_of_the_registries() -> None:
    from mtlstruct.formats.normalization import NORMALIZERS
    from mtlstruct.formats.segmented import TAGS
    from mtlstruct.solvers import SOLVERS
    from mtlstruct.training.methods import METHODS
    from mtlstruct.training.options import TYPES

    words = {name: get_args(kind) for name, kind in TYPES.items()}
    assert set(words["method"]) == {*METHODS, "auto"}
    assert set(get_args(words["solver"][0])) == set(SOLVERS)
    assert set(words["normalize"]) == set(NORMALIZERS)
    assert set(words["scheme"]) >= set(TAGS)


def test_defaults_are_those_of_training(run: Run, place: Path) -> None:
    from mtlstruct.training.train import Options

    run("train a.tpl train.txt m.mtl -q")
    assert _log(place / "m.mtl.log.jsonl")[0]["options"] == json.loads(json.dumps(Options().as_dict()))


# train ------------------------------------------------------------------------------------------------------


def _log(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_train_sums_up_on_stdout_and_reports_on_stderr(run: Run, place: Path) -> None:
    got = run("train a.tpl train.txt m.mtl --valid train.txt").ok()
    assert got.out.startswith("converged after ")
    assert "train.txt: precision 100.00 · recall 100.00 · f1 100.00" in got.out
    assert "saved m.mtl" in got.out
    lines = got.err.splitlines()
    assert lines[0] == "read 4 sentences, 16 tokens, 4 labels; 6 templates"
    assert "memory" in lines[1]
    assert lines[2].startswith("pass 1 ")
    assert "\x1b" not in got.out + got.err


def test_train_json_is_one_object_with_the_keys_of_the_contract(run: Run, place: Path) -> None:
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


def test_the_log_has_the_run_its_passes_and_the_summary(run: Run, place: Path) -> None:
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


def test_the_log_goes_elsewhere_or_nowhere(run: Run, place: Path) -> None:
    run("train a.tpl train.txt m.mtl -q --log here.jsonl")
    assert _log(place / "here.jsonl")[-1]["event"] == "summary"
    run("train a.tpl train.txt m.mtl -q --no-log")
    assert not (place / "m.mtl.log.jsonl").exists()


def test_not_converged_is_said_and_saved(run: Run, place: Path) -> None:
    got = run("train a.tpl train.txt m.mtl --max-iter 1 --gap 1e-9 --json").ok()
    assert got.json["converged"] is False
    assert "mtlstruct: not converged: after 1 passes (--max-iter) the gap is" in got.err
    run("weights m.mtl").ok()
    got = run("train a.tpl train.txt m.mtl --max-iter 1 --epsilon 1e-12 -q")
    assert "R_emp - R_s is" in got.err


def test_models_are_the_same_bytes_on_any_number_of_threads(run: Run, place: Path) -> None:
    for count in (1, 2, 4):
        run("train a.tpl train.txt", f"{count}.mtl", "-q", "--threads", count).ok()
    assert len({(place / f"{count}.mtl").read_bytes() for count in (1, 2, 4)}) == 1


def test_min_count_and_normalize_reach_the_encoder(run: Run, place: Path) -> None:
    all_of_them = run("train a.tpl train.txt m.mtl --json").json["attributes"]
    assert run("train a.tpl train.txt m.mtl --json --min-count 2").json["attributes"] < all_of_them
    (place / "wide.txt").write_text("A N X\n\uff21 N X\nB N Y\n", encoding="utf-8")
    plain, folded = (
        run("train a.tpl wide.txt m.mtl --json --normalize", how).json["attributes"]
        for how in ("none", "nfkc")
    )
    assert folded < plain


def test_segmentation_keeps_its_tags_in_the_model(run: Run, place: Path) -> None:
    from mtlstruct.model.model import Model

    for tags, labels in (("bie", ("B", "E", "I")), ("bmes", ("B", "E", "M", "S"))):
        run("train c.tpl words.txt s.mtl --task segmentation --scheme", tags, "-q").ok()
        model = Model.load("s.mtl")
        assert (model.task, model.facts["tags"], model.labels) == ("segmentation", tags, labels)


def test_latin1_goes_in_and_comes_out(run: Run, place: Path) -> None:
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


def test_cells_with_spaces_and_ragged_rows(run: Run, place: Path) -> None:
    train = gzip.compress(b"a b,N,X\n ,P,Y\n\nc,Y\n")
    (place / "t.csv.gz").write_bytes(train)
    run("train a.tpl t.csv.gz m.mtl -q --separator , --ragged pad --valid t.csv.gz").ok()
    assert run("predict m.mtl -", stdin=b"a b,N\nc\n").out == "a b\tN\tX\nc\t_\tY\n\n"
    assert mtlstruct.load("m.mtl").predict("t.csv.gz") is not None
    assert run("evaluate m.mtl t.csv.gz --json").json["accuracy"] == 100
    assert run("score t.csv.gz t.csv.gz --separator , --ragged pad --json").json["accuracy"] == 100
    ran = run("train a.tpl t.csv.gz n.mtl --separator ab")
    assert (ran.code, ran.err) == (2, "mtlstruct: --separator: expected one character or tab, got 'ab'\n")


# predict ----------------------------------------------------------------------------------------------------


def test_predict_takes_rows_with_and_without_labels(run: Run, tagger: Path) -> None:
    got = run("predict", tagger, "train.txt")
    rows = [line.split() for line in TRAIN.splitlines()]
    assert got.out == "".join("\t".join([*row, *row[-1:]]) + "\n" for row in [*rows, []])
    bare = "".join(" ".join(row[:-1]) + "\n" for row in rows).encode()
    assert run("predict", tagger, stdin=bare).out == "".join("\t".join(row) + "\n" for row in [*rows, []])


def test_predict_of_empty_input_writes_nothing(run: Run, tagger: Path) -> None:
    assert run("predict", tagger, stdin=b"") == Ran(0, "", "")
    assert run("predict", tagger, stdin=b"\n\n \n") == Ran(0, "", "")


def test_predict_keeps_the_order_over_many_batches(run: Run, tagger: Path, place: Path) -> None:
    many = "".join(f"w{number} N\n\n" for number in range(60_000))
    (place / "many.txt").write_text(many)
    out = run("predict", tagger, "many.txt", "--threads", 2).out
    assert [row.split("\t")[0] for row in out.splitlines() if row] == [f"w{n}" for n in range(60_000)]


def test_predict_cuts_words_and_raw_keeps_blanks(run: Run, segmenter: Path) -> None:
    bare = WORDS.replace("  ", "").encode()
    assert run("predict", segmenter, stdin=bare).out == WORDS
    assert run("predict", segmenter, stdin=WORDS.encode()).out == WORDS
    torn = "今 天天气好\n\n".encode()
    assert run("predict", segmenter, stdin=torn).out == "今天  天气  好\n\n"
    assert run("predict", segmenter, "--raw", stdin=torn).out == "今  天  天气  好\n\n"


def test_raw_is_for_models_of_words(run: Run, tagger: Path) -> None:
    run("predict", tagger, "--raw").rejected(
        "--raw is for models that use only the word", "uses column 0, column 1"
    )


@pytest.mark.parametrize("target", ["m.mtl", "train.txt"])
def test_predict_overwrites_none_of_its_inputs(run: Run, tagger: Path, place: Path, target: str) -> None:
    before = (place / target).read_bytes()
    assert run("predict", tagger, "train.txt", "-o", target).code == 2
    assert (place / target).read_bytes() == before


def test_a_bad_line_leaves_an_older_output_alone(run: Run, tagger: Path, place: Path) -> None:
    (place / "out").write_text("an old\tO\n")
    run("predict", tagger, "-o", "out", stdin=b"a N\n\nb N c d\n").rejected(
        "mtlstruct: standard input, line 3: expected 2 columns"
    )
    assert (place / "out").read_text() == "an old\tO\n"
    assert not list(place.glob(".*"))


# evaluate and score -----------------------------------------------------------------------------------------


def test_evaluate_prints_what_conlleval_prints(run: Run, tagger: Path) -> None:
    got = run("evaluate", tagger, "train.txt")
    assert got.out.startswith("processed 16 tokens with 7 phrases; found: 7 phrases; correct: 7.\n")
    assert "tokens in" in got.out.splitlines()[-1]
    got = run("evaluate", tagger, "train.txt", "--json", "--threads", 2)
    assert set(got.json) == {*SEQUENCE_KEYS, *CALIBRATION_KEYS, "seconds", "tokens_per_second"}
    assert got.json["f1"] == 100
    assert set(got.json["per_type"]) == {"LOC", "PER"}


def test_evaluate_words(run: Run, segmenter: Path, place: Path) -> None:
    assert "=== F MEASURE:\t1.000" in run("evaluate", segmenter, "words.txt").out
    (place / "known.txt").write_text("今天\n北京\n", encoding="utf-8")
    got = run("evaluate", segmenter, "words.txt", "--words", "known.txt", "--json").json
    assert set(got) >= {
        "precision",
        "recall",
        "f1",
        "r_iv",
        "r_oov",
        "sentences",
        "tokens",
        "tokens_per_second",
    }
    assert (got["f1"], got["r_iv"], got["r_oov"]) == (100, 100, 100)


def test_evaluate_wants_the_columns_of_training(run: Run, tagger: Path, place: Path) -> None:
    (place / "bare.txt").write_text("Ana N\n")
    got = run("evaluate", tagger, "bare.txt")
    assert (got.code, got.err) == (
        2,
        "mtlstruct: bare.txt, line 1: expected 3 columns, got 2; is the label column missing?\n",
    )


def test_evaluate_counts_labels_the_model_does_not_know(run: Run, tagger: Path, place: Path) -> None:
    (place / "new.txt").write_text("Ana N B-PER\nx N B-NEW\n")
    assert run("evaluate", tagger, "new.txt", "--json").json["per_type"]["NEW"]["recall"] == 0


def test_score_agrees_with_evaluate(run: Run, tagger: Path, place: Path) -> None:
    (place / "gold.txt").write_text("Ana N B-PER\nvive V O\n\nLima N B-PER\n")
    run("predict", tagger, "gold.txt", "-o", "ours.txt")
    scored = run("score gold.txt ours.txt --task sequence --json").json
    assert set(scored) == SEQUENCE_KEYS
    assert scored.items() <= run("evaluate", tagger, "gold.txt", "--json").json.items()


def test_score_of_words(run: Run, place: Path) -> None:
    (place / "cut.txt").write_text(WORDS.replace("图书馆", "图  书馆"), encoding="utf-8")
    got = run("score words.txt cut.txt --task segmentation --words words.txt --json").json
    assert (got["r_iv"], got["r_oov"]) == (pytest.approx(100 * 12 / 13), None)
    assert "=== TOTAL TRUE WORD COUNT:\t13" in run("score words.txt cut.txt --task segmentation").out


@pytest.mark.parametrize(("least", "code"), [("99", 1), ("50", 0)])
def test_score_min_is_an_exit_code(run: Run, place: Path, least: str, code: int) -> None:
    (place / "ours.txt").write_text(TRAIN.replace("Quito N B-LOC", "Quito N O"))
    got = run("score train.txt ours.txt --task sequence --min", least)
    assert got.code == code
    assert got.out.startswith("processed 16 tokens")
    assert ("below" in got.err) == bool(code)


def test_score_wants_the_same_words(run: Run, place: Path) -> None:
    (place / "ours.txt").write_text(TRAIN.replace("canta", "calla", 1))
    got = run("score train.txt ours.txt --task sequence")
    assert got.code == 2
    assert got.err == (
        "mtlstruct: ours.txt, line 9: expected 'canta' in the first column as in train.txt, got 'calla'\n"
    )
    (place / "ours.txt").write_text(TRAIN.partition("\n\n")[0])
    assert "expected 4 sentences" in run("score train.txt ours.txt --task sequence").err


def test_words_are_for_segmentation(run: Run, tagger: Path) -> None:
    assert "--words is for segmentation" in run("evaluate", tagger, "train.txt", "--words", "words.txt").err
    run("score train.txt train.txt --task sequence --words words.txt").rejected("--words is for segmentation")


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


def test_labels_that_are_no_chunks_are_summed_up_by_accuracy(run: Run, place: Path) -> None:
    (place / "pos.txt").write_text("a x N\nb y V\n\na x N\n")
    trained = run("train a.tpl pos.txt p.mtl --valid pos.txt").out
    figures = "accuracy 100.00 · macro f1 100.00 · whole sequences 100.00 (labels scored as classes)"
    assert f"pos.txt: {figures} · temperature " in trained
    table = run("evaluate p.mtl pos.txt").out
    assert table.startswith("processed 3 tokens of 2 classes; correct: 3.\n")
    lines = "whole sequences right: 2 of 2, 100.00%\nlabel scheme: none, labels are scored as classes\n"
    assert f"\n{lines}" in table
    run("evaluate p.mtl pos.txt --scheme bioes").rejected("expected labels of the scheme BIOES, got 'N'")


def test_fields_of_grobid_are_chunks_unless_classes_are_wanted(run: Run, place: Path) -> None:
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
    assert set(figures) == {*SEQUENCE_KEYS, "micro_f1"}
    assert (figures["scheme"], figures["sequence_accuracy"]) == ("classes", 50.0)
    assert figures["f1"] == pytest.approx(220 / 3)
    assert (figures["sentences"], figures["tokens"]) == (2, 6)
    assert set(figures["per_type"]) == {"<other>", "I-<day>", "I-<month>", "I-<other>", "I-<year>"}
    run("score gold.txt ours.txt --task sequence --scheme classes --min 73").ok()
    assert run("score gold.txt ours.txt --task sequence --scheme classes --min 74").code == 1
    run("score gold.txt ours.txt --task multiclass --scheme bio").rejected("--scheme is for label sequences")


def test_chunks_are_scored_as_conlleval_does_and_whole_sequences_after_that(run: Run, place: Path) -> None:
    (place / "ours.txt").write_text(TRAIN.replace("Quito N B-LOC", "Quito N O"))
    got = run("score train.txt ours.txt --task sequence")
    assert got.out == (
        "processed 16 tokens with 7 phrases; found: 6 phrases; correct: 6.\n"
        "accuracy:  93.75%; precision: 100.00%; recall:  85.71%; FB1:  92.31\n"
        "              LOC: precision: 100.00%; recall:  75.00%; FB1:  85.71  3\n"
        "              PER: precision: 100.00%; recall: 100.00%; FB1: 100.00  3\n"
        "whole sequences right: 3 of 4, 75.00%\n"
        "label scheme: BIO (IOB2)\n"
    )


POS = TRAIN.replace("B-", "").replace("I-", "")
"""Labels without places: classes."""


@pytest.mark.parametrize(("labels", "name"), [(FIELDS, "f1"), (POS, "accuracy"), (UNTYPED, "f1")])
def test_tune_and_report_read_labels_in_the_same_way(run: Run, place: Path, labels: str, name: str) -> None:
    (place / "some.txt").write_text(labels)
    grid = ("-c", "1", "--valid", "some.txt", "--out", "grid", "--json", "-q")
    assert run("tune a.tpl some.txt", *grid).json["score"] == name
    run("train a.tpl some.txt f.mtl -q").ok()
    run("report f.mtl page.html --data some.txt").ok()
    page = (place / "page.html").read_text(encoding="utf-8")
    assert ("by chunk type" in page) == (name == "f1")
    assert '"name":""' not in page.replace(": ", ":")


# Data of another task ---------------------------------------------------------------------------------------

SPANISH = "un hombre camina por la calle\nuna mujer lee el libro\n"


def test_segmentation_rejects_column_files(run: Run, segmenter: Path, place: Path) -> None:
    expected = (
        "mtlstruct: train.txt, line 1: expected segmented text (one sentence per line, words separated by blanks), "
        "got a column file (for other tasks than segmentation): 3 cells per row, the last a label such as 'B-PER'\n"
    )
    before = {path.name for path in place.iterdir()}
    for arguments in (
        ("train", "c.tpl", "train.txt", "new.mtl", "--task", "segmentation", "-q"),
        ("train", "c.tpl", "words.txt", "new.mtl", "--task", "segmentation", "-q", "--valid", "train.txt"),
        ("tune", "c.tpl", "train.txt", "--task", "segmentation", "-q"),
        ("predict", segmenter, "train.txt", "-o", "out.txt"),
        ("predict", segmenter, "train.txt", "-o", "out.txt", "--raw"),
        ("evaluate", segmenter, "train.txt"),
        ("score", "train.txt", "words.txt", "--task", "segmentation"),
        ("score", "words.txt", "train.txt", "--task", "segmentation"),
        ("report", segmenter, "page.html", "--data", "train.txt"),
    ):
        got = run(*arguments)
        last = got.err.splitlines(keepends=True)[-1]  # `report` says before that there is no log
        assert (got.code, got.out, last) == (2, "", expected), arguments
    assert {path.name for path in place.iterdir()} == before
    got = run("predict", segmenter, stdin=TRAIN.encode())
    assert (got.code, got.err) == (2, expected.replace("train.txt", "standard input"))


def test_warns_of_characters_that_a_segmenter_does_not_know(run: Run, segmenter: Path, place: Path) -> None:
    (place / "es.txt").write_text(SPANISH)
    warning = (
        "mtlstruct: warning: es.txt: 100% of 42 characters are unknown to the model: was it trained on text of "
        "this kind?\n"
    )
    got = run("predict", segmenter, "es.txt", "--raw")
    assert (got.code, got.err) == (0, warning)
    assert got.out.replace(" ", "") == SPANISH.replace(" ", "")
    assert warning in run("evaluate", segmenter, "es.txt").err
    options = ("--task", "segmentation", "-q", "--valid", "es.txt")
    assert warning in run("train c.tpl words.txt new.mtl", *options).err
    for arguments in (("predict", segmenter, "words.txt", "--raw"), ("evaluate", segmenter, "words.txt")):
        assert "unknown to the model" not in run(*arguments).err
    many = run("predict", segmenter, "--raw", stdin=(SPANISH * 500).encode())  # judged before the end, once
    assert many.err.count("are unknown to the model") == 1


def test_says_that_blanks_are_dropped_unless_they_are_kept(run: Run, segmenter: Path) -> None:
    text = "今天天气好\n今 天天气\u3000好\n"
    note = (
        "mtlstruct: note: standard input, line 2: spaces of the input are dropped "
        "(--raw keeps them as word boundaries)\n"
    )
    got = run("predict", segmenter, stdin=text.encode())
    assert (got.out, got.err) == ("今天  天气  好\n今天  天气  好\n", note)
    for option in ("--raw", "--partial"):
        got = run("predict", segmenter, option, stdin=text.encode())
        assert (got.out, got.err) == ("今天  天气  好\n今  天  天气  好\n", "")
    assert run("predict", segmenter, stdin="今天天气好\n".encode()).err == ""


def test_says_which_task_other_data_are_for(run: Run, place: Path) -> None:
    (place / "text.txt").write_text("a b c\nd e\nf g h i\nj\nk l m n o\n")
    got = run("train a.tpl text.txt new.mtl")
    assert (got.code, "segmented text, one sentence per line, is for --task segmentation" in got.err) == (
        2,
        True,
    )
    trees = "1 Eva _ N N _ 2 subj _ x\n2 canta _ V V _ 0 root _ y\n\n1 canta _ V V _ 0 root _ y\n"
    (place / "trees.txt").write_text(trees)
    note = "note: the data look like CoNLL trees, which need --task dependency"
    assert note in run("train a.tpl trees.txt new.mtl").err
    assert note not in run("train a.tpl train.txt new.mtl").err


# Bad input: each gets its sentence, and nothing that existed is damaged -------------------------------------


BAD_FILES = {
    "ragged rows": ("train.txt", b"a N X\nb Y\n", "train.txt, line 2: expected 3 columns as on line 1, got 2"),
    "empty file": ("train.txt", b"", "train.txt: no sentences"),
    "blank lines only": ("train.txt", b"\n \n\t\n", "train.txt: no sentences"),
    "no label column": ("train.txt", b"a\nb\n", "train.txt, line 1: expected at least 2 columns, got 1; is"),
    "one label": ("train.txt", b"a N O\nb N O\n", "the training data has one label only ('O'): there is nothing"),
    "latin-1": ("train.txt", b"a N X\n\xe1 N Y\n", "train.txt, line 2: expected utf-8 text, got byte 0xe1 at offset "
                "0; it can be read as cp1252 (--encoding cp1252)"),
    "NUL": ("train.txt", b"a N X\nb N\0 Y\n", "train.txt, line 2: expected text, got a NUL byte"),
    "a missing column": ("train.txt", b"a X\nb Y\n", "a.tpl, line 5: template names column 1, but the data has 1"),
    "no templates": ("a.tpl", b"# nothing\n\n", "a.tpl: expected at least one template line, got none"),
    "empty templates": ("a.tpl", b"", "a.tpl: expected at least one template line, got none"),
    "another letter": ("a.tpl", b"X:%x[0,0]\n", "a.tpl, line 1, column 1: expected U, B or A"),
    "no UTF-8": ("a.tpl", b"U:\xff%x[0,0]\n", "a.tpl, line 1: expected UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_input_files(run: Run, tagger: Path, place: Path, kind: str) -> None:
    name, content, sentence = BAD_FILES[kind]
    (place / name).write_bytes(content)
    before = _snapshot(place)
    got = run("train a.tpl train.txt m.mtl")
    assert (got.code, got.out) == (2, "")
    assert got.err.splitlines()[-1].startswith(f"mtlstruct: {sentence}")
    assert "Traceback" not in got.err
    assert _snapshot(place) == before


SAME_FILE = "cannot write there: this command uses the file for something else"
BAD_OPTIONS = {
    "m.mtl -c 0": "-c must be a number from 1e-09 to 1e+06, got 0.0",
    "m.mtl -p 4": "method 'mtl' has no exponent p: expected p with one of pmtl, mixed (CRF++'s -p is --threads)",
    "m.mtl -c nan": "-c must be a number from 1e-09 to 1e+06, got nan",
    "m.mtl -c much": "-c must be a number from 1e-09 to 1e+06, got 'much'",
    "m.mtl --gap 0": "--gap must be a number from 1e-15 to 100, got 0.0",
    "m.mtl --max-iter 0": "--max-iter must be a whole number from 1 to 2,147,483,647, got 0",
    "m.mtl --threads 0": "--threads must be a whole number from 1 to 1,000, got 0",
    "m.mtl --seed -1": "--seed must be a whole number from 0 to 2,147,483,647, got -1",
    "m.mtl --loss hinge --loss-weights O=1e300": "--loss-weights of 'O' must be a number from 0 to 1e+06, got 1e+300",
    "m.mtl --line-search": "--line-search is for --solver cutting-plane",
    "m.mtl --encoding utf-16": "train.txt: expected an encoding with one-byte line ends, got 'utf-16'",
    "m.mtl --encoding klingon": "train.txt: expected the name of a text encoding, got 'klingon'",
    "m.mtl --valid no.txt": "no.txt: cannot be read: No such file or directory",
    "m.mtl --valid ragged.txt": "ragged.txt, line 2: expected 3 columns",
    "m.mtl --log no/where.jsonl": "no/where.jsonl: cannot write there: the folder",
    "m.mtl --log train.txt": f"train.txt: {SAME_FILE}",
    "m.mtl --log m.mtl": f"m.mtl: {SAME_FILE}",
    "no/where/m.mtl": "no/where/m.mtl: cannot write there: the folder",
    ".": ".: cannot write there: it is a folder, expected a file name",
    "train.txt/m.mtl": "train.txt/m.mtl: cannot write there: the folder",
    "/proc/m.mtl": "/proc/m.mtl: cannot write there: no file can be made in /proc",
    "train.txt": f"train.txt: {SAME_FILE}",
    "a.tpl": f"a.tpl: {SAME_FILE}",
}


@pytest.mark.parametrize("arguments", BAD_OPTIONS)
def test_bad_options_and_outputs(run: Run, tagger: Path, place: Path, arguments: str) -> None:
    (place / "ragged.txt").write_text("a N X\nb Y\n")
    before = _snapshot(place)
    run(f"train a.tpl train.txt {arguments}").rejected(f"mtlstruct: {BAD_OPTIONS[arguments]}")
    assert _snapshot(place) == before


def test_inputs_that_are_not_there(run: Run, tagger: Path) -> None:
    assert "no.tpl: cannot read the template file" in run("train no.tpl train.txt m.mtl").err
    assert "no.txt: cannot be read: No such file" in run("train a.tpl no.txt m.mtl").err
    assert "no.txt: cannot be read: No such file" in run("predict", tagger, "no.txt").err
    assert ".: cannot be read: Is a directory" in run("predict", tagger, ".").err
    assert "no.txt: cannot be read: No such file" in run("evaluate", tagger, "no.txt").err
    assert "no.mtl: no such model file" in run("predict no.mtl").err
    assert "train.txt: not a model file" in run("weights train.txt").err


def test_labels_that_are_numbers_are_labels_with_a_note(run: Run, place: Path) -> None:
    (place / "numbers.txt").write_text("a N 0\nb N 1\nc N 2.5\n")
    got = run("train a.tpl numbers.txt m.mtl").ok()
    assert (
        "note: all 3 labels are numbers (0, 1, 2.5 …); the last column is read as the label: is the "
        in got.err
    )
    assert run("predict m.mtl numbers.txt").out.startswith("a\tN\t0\t0\nb\tN\t1\t1\n")


def test_a_sentence_of_100000_tokens(run: Run, place: Path) -> None:
    (place / "long.txt").write_text("a N X\nb N Y\n" * 50_000)
    got = run("train a.tpl long.txt m.mtl --max-iter 2 --json")
    assert (got.code, got.json["tokens"], got.json["sentences"]) == (0, 100_000, 1)
    run("predict m.mtl long.txt -o out.txt").ok()
    assert (place / "out.txt").read_text() == "a\tN\tX\tX\nb\tN\tY\tY\n" * 50_000 + "\n"


def test_crlf_and_bom_change_nothing(run: Run, place: Path) -> None:
    for name in ("train.txt", "a.tpl"):
        text = (place / name).read_text()
        (place / f"w-{name}").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    run("train a.tpl train.txt 1.mtl -q").ok()
    run("train w-a.tpl w-train.txt 2.mtl -q").ok()
    assert (place / "1.mtl").read_bytes() == (place / "2.mtl").read_bytes()
    assert run("predict 1.mtl w-train.txt").out == run("predict 1.mtl train.txt").out


def test_devices_are_written_and_not_replaced(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    with replacing(link) as out:
        out.write(b"x")
    assert link.is_symlink()
    assert target.read_bytes() == b"x"
    with replacing("/dev/null") as out:
        out.write(b"x")
    assert Path("/dev/null").is_char_device()


def _snapshot(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


# First use --------------------------------------------------------------------------------------------------


def test_explain_compares_gold_in_the_scheme_that_was_learned(run: Run, place: Path) -> None:
    run("train a.tpl train.txt o.mtl --scheme bioes -q").ok()
    found = [json.loads(line) for line in run("predict o.mtl train.txt --format json").out.splitlines()]
    gold = [
        [row.split()[-1] for row in block.splitlines()]
        for block in (place / "train.txt").read_text(encoding="utf-8").strip().split("\n\n")
    ]
    records = [json.loads(line) for line in run("explain o.mtl train.txt --json").out.splitlines()]
    wrong = [[token["label"] != token["gold"] for token in record["tokens"]] for record in records]
    expected = [
        [a != b for a, b in zip(x["labels"], y, strict=True)] for x, y in zip(found, gold, strict=True)
    ]
    assert any(token["gold"].startswith("S-") for record in records for token in record["tokens"])
    assert [any(marks) for marks in wrong] == [any(marks) for marks in expected]


def test_files_of_another_kind_get_a_hint(run: Run, place: Path) -> None:
    (place / "lcrf").write_bytes(b"lCRF\xe0\0\0\0")
    (place / "wide.txt").write_bytes("a N O\n".encode("utf-16"))
    run("train a.tpl train.txt m.mtl -q").ok()
    run("import lcrf n.mtl").rejected("expected a model of CRFsuite")
    run("import m.mtl n.mtl").rejected("got a model, which needs no import")
    run("predict lcrf train.txt").rejected("got a model of CRFsuite (mtlstruct import reads it)")
    run("train a.tpl wide.txt n.mtl").rejected("it looks like UTF-16: convert it to UTF-8")
    run("train a.tpl train.txt n.mtl --method auto --minutes 0 -q").rejected("ended within --minutes")
    assert not (place / "n.mtl").exists()
