"""Probabilities, N best, constraints, partial labels on the command line; what crf_test prints is recorded here."""

import json
import re
from dataclasses import replace

import pytest
from support.commands import Ran, write_files

from mtlstruct import cli
from mtlstruct.model.model import Model

WEIGHTS = (
    "-0.70 1.25 0.30 -0.90 0.80 0.40 0.10 -1.60 0.60 1.10 0.20 -0.50 "
    "0.30 0.90 -0.20 -0.80 -0.60 1.40 -0.10 0.70 0.10 0.50 -1.20 0.20"
)
CRFPP = """\
version: 100
cost-factor: 1
maxid: 24
xsize: 1

B-PER
I-PER
O

U0:%x[0,0]
U1:%x[-1,0]
B

0 B
9 U0:Ana
12 U0:Paz
15 U0:vive
18 U1:Ana
21 U1:_B-1

""" + WEIGHTS.replace(" ", "\n")
INPUT = "Ana\nPaz\nvive\n\nvive\n\n"
# crf_test of CRF++ 0.59 on a model that crf_learn -C made of the above
CRF_TEST_V1 = """\
# 0.674518
Ana	B-PER/0.923840
Paz	I-PER/0.877618
vive	O/0.816877

# 0.845350
vive	O/0.845350

"""
EVERY = {
    "Ana": "B-PER/0.923840\tI-PER/0.046340\tO/0.029820",
    "Paz": "B-PER/0.041503\tI-PER/0.877618\tO/0.080880",
    "vive": "B-PER/0.027749\tI-PER/0.155374\tO/0.816877",
}
ALONE = {"vive": "B-PER/0.126438\tI-PER/0.028212\tO/0.845350"}


def n_best(*found, every, scores=True):
    """The blocks that crf_test prints: (probability, labels), best first; `every` are all labels of each token."""
    lines = []
    for rank, (probability, labels) in enumerate(found):
        lines.append(f"# {rank} {probability}")
        for (word, all_labels), label in zip(every.items(), labels.split(), strict=True):
            (own,) = (entry for entry in all_labels.split("\t") if entry.startswith(f"{label}/"))
            lines.append(f"{word}\t{own}\t{all_labels}" if scores else f"{word}\t{label}")
        lines.append("")
    return "\n".join(lines) + "\n"


CRF_TEST_V2_N4 = n_best(
    ("0.674518", "B-PER I-PER O"),
    ("0.136183", "B-PER I-PER I-PER"),
    ("0.058207", "B-PER O O"),
    ("0.031944", "I-PER I-PER O"),
    every=EVERY,
) + n_best(("0.845350", "O"), ("0.126438", "B-PER"), ("0.028212", "I-PER"), every=ALONE)
CRF_TEST_N2_COST_FACTOR_2_5 = n_best(
    ("0.979031", "B-PER I-PER O"), ("0.017932", "B-PER I-PER I-PER"), every=EVERY, scores=False
) + n_best(("0.991223", "O"), ("0.008576", "B-PER"), every=ALONE, scores=False)
CHARACTERS = "U0:%x[0,0]\nU1:%x[0,0]/%x[1,0]\nB\n"
TRAIN = "今天  天气  好\n我们  今天  去  北京\n北京  天气  好\n我  去  图书馆\n天  好\n"
LABELLED = "Ana B-PER\nPaz I-PER\nvive O\n\nvive O\n\nPaz O\nAna I-PER\n\n"


@pytest.fixture
def run(run):
    return lambda *arguments, stdin=INPUT: run(*arguments, stdin=stdin.encode())


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with a tagger that CRF++ could have made, and a segmenter."""
    files = {"crfpp.txt": CRFPP, "c.tpl": CHARACTERS, "words.txt": TRAIN, "gold.txt": LABELLED}
    folder = write_files(tmp_path_factory.mktemp("confidence"), files)
    names = [str(folder / name) for name in ("c.tpl", "words.txt", "s.mtl")]
    assert cli.run(["import", str(folder / "crfpp.txt"), str(folder / "m.mtl")]) == 0
    assert cli.run(["train", *names, "-q", "--no-log", "--task", "segmentation", "--loss", "hinge"]) == 0
    return folder


@pytest.fixture(autouse=True)
def place(place):
    return place


def with_temperature(name, temperature):
    model = Model.load(name)
    replace(model, facts=model.facts | {"temperature": temperature}).save(name)


def test_scores_and_n_best_are_written_as_crf_test_writes_them(run):
    assert run("predict m.mtl --scores") == Ran(0, CRF_TEST_V1, "")
    assert run("predict m.mtl --scores all --nbest 4") == Ran(0, CRF_TEST_V2_N4, "")
    bare = re.sub(r"/[\d.]+", "", CRF_TEST_V1).replace("# ", "# 0 ")
    assert run("predict m.mtl --nbest 1") == Ran(0, bare, "")


def test_a_temperature_is_the_inverse_of_a_cost_factor(run):
    with_temperature("m.mtl", 1 / 2.5)
    assert run("predict m.mtl --nbest 2").out == CRF_TEST_N2_COST_FACTOR_2_5


def test_words_with_probabilities(run):
    with_temperature("s.mtl", 0.3)
    plain = run("predict s.mtl", stdin="今天天气好\n\n我\n").out
    scored = run("predict s.mtl --scores", stdin="今天天气好\n\n我\n").out.split("\n")
    assert scored[0].startswith("# 0.")
    words, chances = zip(*(word.rsplit("/", 1) for word in scored[1].split("  ")), strict=True)
    assert "  ".join(words) == plain.split("\n")[0] == "今天  天气  好"
    assert all(float(scored[0][2:]) <= float(chance) <= 1 for chance in chances)
    assert scored[2] == ""
    assert [line.split("/")[0] for line in scored[3:]] == [scored[3], "我", ""]
    assert scored[4].split("/")[1] == scored[3][2:]  # a sentence of one word is as probable as the word


def test_n_best_segmentations_are_all_different(run):
    with_temperature("s.mtl", 0.3)
    out = run("predict s.mtl --nbest 100", stdin="今天去\n\n").out
    *lines, last, end = out.split("\n")
    heads, found = lines[::2], lines[1::2]
    assert (last, end) == ("", "")
    assert sorted(found) == sorted(["今天去", "今  天去", "今天  去", "今  天  去"])
    chances = [float(head.split()[2]) for head in heads]
    assert [int(head.split()[1]) for head in heads] == [0, 1, 2, 3]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) == pytest.approx(1, abs=1e-5)


def test_scores_may_be_followed_by_the_word_all_or_by_the_input(run, place):
    (place / "text").write_text(INPUT)
    assert run("predict m.mtl --scores text", stdin="") == Ran(0, CRF_TEST_V1, "")
    assert run("predict --scores m.mtl text", stdin="") == Ran(0, CRF_TEST_V1, "")
    every = run("predict m.mtl --scores all")
    assert every == run("predict m.mtl text --scores=all", stdin="")
    assert every.out.count("B-PER/") > CRF_TEST_V1.count("B-PER/")
    (place / "all").write_text(INPUT)
    assert run("predict --scores -- m.mtl all", stdin="") == Ran(0, CRF_TEST_V1, "")


def labels(out):
    return [line.split("\t")[-1] for line in out.splitlines() if line]


def test_forbidden_transitions_do_not_occur(run, place):
    assert labels(run("predict m.mtl").out) == ["B-PER", "I-PER", "O", "O"]
    assert labels(run("predict m.mtl --forbid B-PER>I-PER").out)[:2] != ["B-PER", "I-PER"]
    both = run("predict m.mtl --forbid *>O --forbid >O --scores all").out
    assert "O/0.000000" in both
    assert labels(run("predict m.mtl --forbid *>O --forbid >O").out)[2:] != ["O", "O"]
    for rules, others in (("# nothing outside\n\n*>O\n>O\n", ()), ("*>O\n", ("--forbid", ">O"))):
        (place / "rules").write_text(rules)
        assert run("predict m.mtl --forbid @rules", *others, "--scores", "all").out == both


def test_files_of_rules_and_labels_with_an_at_sign(run, place):
    (place / "at.txt").write_text(CRFPP.replace("\nO\n", "\n@\n"))
    run("import at.txt at.mtl").ok()
    found = run("predict at.mtl --forbid *>@ --forbid @>*", stdin="Ana\nPaz\n").out
    assert "@" not in labels(found)


def test_given_labels_are_kept(run):
    out = run("predict m.mtl --partial", stdin="Ana _\nPaz O\nvive ?\n\nvive B-PER\n").out
    assert out == "Ana\t_\tB-PER\nPaz\tO\tO\nvive\t?\tO\n\nvive\tB-PER\tB-PER\n\n"
    out = run("predict m.mtl --partial --scores", stdin="Ana I-PER\n").out
    assert out == "# 1.000000\nAna\tI-PER\tI-PER/1.000000\n\n"


def test_given_blanks_are_word_ends(run):
    assert run("predict s.mtl", stdin="今天 天气好").out == "今天  天气  好\n"
    assert run("predict s.mtl --partial", stdin="今 天天气好\n\n").out == "今  天  天气  好\n\n"
    out = run("predict s.mtl --partial --nbest 9 --valid-bio", stdin="今 天天 气").out
    assert sorted(out.split("\n")[1::2]) == ["今  天  天  气", "今  天天  气"]


def test_evaluate_measures_probabilities(run, place):
    found = run("evaluate m.mtl gold.txt --json").ok().json
    assert 0 < found["ece"] < 100
    assert found["nll"] > found["token_nll"] > 0
    assert found["temperature"] == 1
    assert "probabilities: calibration error " in run("evaluate m.mtl gold.txt").out
    valid = json.loads(run("evaluate m.mtl gold.txt --json --valid-bio").out)
    assert valid["nll"] is None  # the last sentence of gold is none that --valid-bio allows


def test_calibrate_stores_a_better_temperature(run, place):
    before = (place / "m.mtl").read_bytes()
    got = run("calibrate m.mtl gold.txt -o t.mtl --json")
    found = json.loads(got.out)
    assert (place / "m.mtl").read_bytes() == before
    assert found["nll"] < found["before"]["nll"]
    assert Model.load("t.mtl").temperature == found["temperature"] != 1
    assert run("predict t.mtl").out == run("predict m.mtl").out
    assert run("calibrate m.mtl gold.txt").out.endswith("saved m.mtl\n")
    assert (place / "m.mtl").read_bytes() == (place / "t.mtl").read_bytes()
    assert "makes no error on" in run("calibrate s.mtl words.txt").err


def test_training_with_held_out_data_fits_a_temperature(run, place):
    (place / "valid.txt").write_text("今天  天  气  好\n我  们  去\n", encoding="utf-8")
    files = ("c.tpl", "words.txt", "v.mtl")
    common = ("train", *files, "--task", "segmentation", "--loss", "hinge", "--json", "-q", "--no-log")
    found = json.loads(run(*common, "--valid", "valid.txt").out)
    model = Model.load("v.mtl")
    assert model.temperature == found["temperature"] != 1
    run("calibrate s.mtl valid.txt")
    assert Model.load("s.mtl").temperature == model.temperature
    assert "temperature" not in json.loads(run(*common).out)
    said = run(*common[:-3], "--valid", "valid.txt", "--no-log").out
    assert f" · temperature {model.temperature:.3g}\n" in said


def test_raw_text_is_labelled_as_its_tokens(run):
    text = "Ana Paz vive!\n\n  Paz.\n"
    rows = "Ana\nPaz\nvive\n!\n\nPaz\n.\n\n"
    for options in ((), ("--scores",), ("--nbest", "2"), ("--format", "json", "--scores", "all")):
        raw, given = (
            run("predict m.mtl --raw", *options, stdin=text),
            run("predict m.mtl", *options, stdin=rows),
        )
        if not options or options[0] != "--format":
            assert raw.ok().out == given.ok().out
            continue
        ours, theirs = ([json.loads(line) for line in got.out.splitlines()] for got in (raw, given))
        assert [record["text"] for record in ours] == ["Ana Paz vive!", "  Paz."]
        for record in (*ours, *theirs):
            for entity in record.pop("entities"):
                words = record["tokens"][entity["first"] : entity["stop"]]
                assert entity["text"].replace(" ", "") == "".join(words)
            del record["text"]
        assert ours == theirs
    run("predict m.mtl --raw --partial").rejected("expected one of them")


def test_json_has_entities_with_their_places(run):
    record = json.loads(run("predict m.mtl --raw --format json --nbest 2", stdin="  Ana Paz, vive").ok().out)
    assert record["labels"][:2] == ["B-PER", "I-PER"]
    entity = record["entities"][0]
    assert {k: entity[k] for k in ("type", "first", "start")} == {"type": "PER", "first": 0, "start": 2}
    assert record["text"][entity["start"] : entity["end"]] == entity["text"]
    best, second = record["nbest"]
    assert best["labels"] == record["labels"] != second["labels"]
    assert best["probability"] == record["probability"] >= second["probability"]
    words = json.loads(run("predict s.mtl --format json", stdin="今天天气好").ok().out)
    assert words["words"] == ["今天", "天气", "好"]
