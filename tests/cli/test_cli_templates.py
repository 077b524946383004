"""`templates generate | check | convert` and `train --dialect`, as people call them."""

from pathlib import Path

import pytest
from support.commands import Ran

from mtlstruct.templates import TemplateSet, preset

DATA = "Ann NNP B-PER\nlives VBZ O\nin IN O\nOslo NNP B-LOC\n\nBob NNP B-PER\nsleeps VBZ O\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder with data to train on."""
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text(DATA)


def check(run, templates, *arguments):
    """Check these templates; give the exit code and the report, with (line, code) of each finding."""
    Path("a.tpl").write_text(templates)
    got = run("templates check a.tpl", *arguments, "--json")
    assert got.err == ""
    return got.code, got.json | {"found": [(f["line"], f["code"]) for f in got.json["findings"]]}


@pytest.mark.parametrize(
    ("templates", "code", "lines"),
    [
        ("U1:%x[0,0]\nU2:%x[0,1]\nB\n", 0, ["a.tpl: no errors, no warnings"]),
        (
            "U1:%x[0,0]\nU2:%x[0,0]\nB\n",
            0,
            [
                "a.tpl, line 2: warning: looks at the same cells as line 1: leave one of them out (U2:%x[0,0])",
                "a.tpl: no errors, 1 warning",
            ],
        ),
        (
            "U1:%x[0,0]\nU2:%x[0,1]\n",
            0,
            [
                "a.tpl, line 2: warning: there is no B line, so each label is predicted independently of its "
                "neighbours: add the line B (in Wapiti: b or *) (U2:%x[0,1])",
                "a.tpl: no errors, 1 warning",
            ],
        ),
        ("x\nU1:%x[0,0]\nU2:%y[0,0]\nB\n", 1, ["a.tpl, line 1: ", "a.tpl, line 3: ", "a.tpl: 2 errors"]),
    ],
)
def test_all_lines_are_reported_and_only_errors_fail(run, templates, code, lines):
    Path("a.tpl").write_text(templates)
    got = run("templates check a.tpl")
    assert (got.code, got.err) == (code, "")
    for line, start in zip(got.out.splitlines(), lines, strict=True):
        assert line.startswith(start) if code else line == start


def test_data_is_counted(run):
    templates = "U1:%x[0,1]\nU2:%x[0,0]\nU3:%digits[0,0]\nU4:%x[9,0]\nB\nB1:%x[0,1]\n"
    code, found = check(run, templates, "--data", "train.txt")
    assert (code, found["found"]) == (0, [(2, "memorises"), (3, "constant"), (4, "outside")])
    assert (found["errors"], found["warnings"], found["path"]) == (0, 3, "a.tpl")
    Path("short.txt").write_text("a x A\n\nb x B\n\na x A\n")
    code, found = check(run, "U1:%x[0,0]\nB1:%x[0,0]\n", "--data", "short.txt")
    assert (code, found["found"]) == (0, [(2, "never")])


def test_data_is_counted_for_the_lines_that_can_be_read(run):
    templates = "U1:%x[0,1]\nU2:%x[0,7]\nU3:%q[0,0]\nU4:%x[9,0]\nB\n"
    code, found = check(run, templates, "--data", "train.txt")
    assert (code, found["found"]) == (1, [(2, "column"), (3, "syntax"), (4, "outside")])
    assert found["findings"][0]["problem"] == "names column 7, but the data has 2 observation columns (0..1)"
    assert check(run, "U3:%q[0,0]\n", "--data", "train.txt")[1]["errors"] == 1


def test_segmented_data_and_dialects(run):
    Path("words.txt").write_text("ab c ab\nc ab\n")
    options = ["--data", "words.txt", "--task", "segmentation", "--dialect", "wapiti"]
    assert check(run, "u:%X[0,0] # c\n*\n", *options)[0] == 0
    assert check(run, "x\nB\n")[0] == 1
    assert check(run, "x\nB\n", "--dialect", "crfpp")[0] == 0


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (
            ["--window", "0:1", "--functions", "case[0] suffix[0,2-3]"],
            "U000:%x[0,0] U001:%x[1,0] U002:%case[0,0] U003:%case[1,0] U004:%suffix[0,0,2] "
            "U005:%suffix[1,0,2] U006:%suffix[0,0,3] U007:%suffix[1,0,3] B",
        ),
        (
            ["--window", "0:2", "--columns", "0,1", "--ngrams", "2,3", "--gap", "1"],
            "U000:%x[0,0]/%x[1,0] U001:%x[1,0]/%x[2,0] U002:%x[0,1]/%x[1,1] U003:%x[1,1]/%x[2,1] "
            "U004:%x[0,0]/%x[1,0]/%x[2,0] U005:%x[0,1]/%x[1,1]/%x[2,1] B",
        ),
    ],
)
def test_generate_with_functions_orders_and_gap(run, options, lines):
    assert run("templates generate", *options).out.splitlines() == lines.split()


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (["--unigrams"], []),
        (["--bigrams"], ["--ngrams", "1,2"]),
        (["--unigrams", "--bigrams", "--trigrams", "0"], ["--ngrams", "1,2,3"]),
        (["--ngrams", "3", "--bigrams"], ["--ngrams", "3,2,1"]),
    ],
)
def test_short_options_of_generate_add_to_the_orders(run, short, long):
    assert run("templates generate", *short) == run("templates generate", *long)


@pytest.mark.parametrize("name", ["ner", "pos", "chunking"])
def test_presets_do_without_other_columns(run, name):
    found = TemplateSet.parse(run(f"templates generate --preset {name} --columns 0").ok().out)
    whole = preset(name)
    assert list(found) == [t for t in whole if all(term.column == 0 for term in t.terms)]
    assert list(found)[-1].text == "B"
    both = TemplateSet.parse(run(f"templates generate --preset {name} --columns 0,1").ok().out)
    assert list(both) == list(whole)


def test_generate_sets_of_the_paper(run):
    paper = run("templates generate --preset ner-134").ok()
    assert len(paper.out.splitlines()) == 134
    assert run("templates generate --columns 0,1 --bigrams --trigrams 1 --cross") == paper
    assert run("templates generate --preset cws-tp1 -o t.tpl") == Ran(0, "", "")
    assert len(Path("t.tpl").read_text().splitlines()) == 11
    less = run("templates generate --ngrams 2 --no-transitions --window 0:1")
    assert less.out == "U000:%x[0,0]/%x[1,0]\n"


def test_convert(run):
    Path("w.tpl").write_text("# c\n*:%X[0,0]\n")
    got = run("templates convert w.tpl --dialect wapiti --to mtlstruct")
    assert got == Ran(0, "# c\nU:%lower[0,0]\nB:%lower[0,0]\n", "")
    run("templates convert w.tpl --dialect wapiti --to crfpp").rejected(
        "w.tpl, line 2: CRF++ cannot express %lower[0,0]"
    )
    Path("c.tpl").write_text("U1:%x[0,0]\nB\n")
    run("templates convert c.tpl --to wapiti -o d.tpl").ok()
    assert Path("d.tpl").read_text() == "u1:%x[0,0]\nb\n"


def test_train_warns_of_lines_that_crfpp_drops(run):
    Path("c.tpl").write_text("U:%x[0,0]\nx:%x[0,0]\nB\n")
    assert run("train c.tpl train.txt c.mtl -q").code == 2
    got = run("train c.tpl train.txt c.mtl -q --dialect crfpp").ok()
    assert got.err == "mtlstruct: c.tpl, line 2: CRF++ drops this line, and so do we in 'x:%x[0,0]'\n"


def test_select_walks_a_path_of_trainings(run):
    Path("train.txt").write_text(f"{DATA}\n" * 8)
    Path("a.tpl").write_text("# words\nU1:%x[0,0]\nU2:%x[0,1]\nU3:%x[-1,0]\nU4:%x[1,1]\nB\n")
    run("train a.tpl train.txt m.mtl -q").ok()
    got = run("templates select m.mtl --valid train.txt --keep U2 --drop U[34] --plot p.png").ok()
    assert "U2:" in got.out
    assert "U3" not in got.out
    assert "   3 templates: f1 " in got.err
    assert Path("p.png").stat().st_size
    assert len(run("templates select m.mtl --folds 2 --top 2 --train train.txt").ok().out.split()) == 2
    Path("m.mtl.log.jsonl").unlink()
    run("templates select m.mtl --valid train.txt").rejected("expected --train FILE")


@pytest.mark.parametrize("task", ["sequence", "segmentation", "multiclass"])
def test_training_without_templates_writes_those_that_are_left(run, task):
    Path("train.txt").write_text(
        "今天  天气  好\n我们  去\n" * 5 if task == "segmentation" else f"{DATA}\n" * 8
    )
    run("train train.txt m.mtl -q --task", task).ok()
    run("train", "", *f"train.txt e.mtl -q --task {task}".split()).ok()
    assert Path("e.mtl").read_bytes() == Path("m.mtl").read_bytes()
    left = Path("m.mtl.tpl").read_text()
    run("train m.mtl.tpl train.txt n.mtl -q --task", task).ok()
    assert 0 < left.count("%") < 300
    if task == "sequence":
        run("train train.txt c.mtl -q --context --scheme bioes").ok()
        assert "U_label" not in Path("c.mtl.tpl").read_text()  # nothing of the first pass


def test_segmentation_learns_six_labels(run):
    from mtlstruct.model.model import Model

    text = "今天天气好  我们  去  图书馆  中华人民共和国\n" * 4
    Path("train.txt").write_text(text)
    run("train train.txt m.mtl -q --task segmentation --scheme six").ok()
    assert Model.load("m.mtl").labels == ("B", "B2", "B3", "E", "M", "S")
    Path("raw.txt").write_text(text.replace(" ", ""))
    assert run("predict m.mtl raw.txt").ok().out == text
    assert run("evaluate m.mtl train.txt --json").ok().json["f1"] == 100
