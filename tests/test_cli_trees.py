"""Trees on the command line: training, prediction that changes heads only, scores, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mtlstruct import cli

SENTENCES = [
    "the/D/2 cat/N/3 sleeps/V/0 ././3",
    "a/D/2 dog/N/3 sees/V/0 the/D/5 cat/N/3 ././3",
    "dogs/N/2 run/V/0 home/A/2 ././2",
    "the/D/3 old/J/3 man/N/4 reads/V/0 a/D/7 new/J/7 book/N/4 ././4",
    "cats/N/2 like/V/0 the/D/4 dog/N/2 ././2",
    "a/D/2 man/N/3 runs/V/0 ././3",
]
TEMPLATES = """\
A0:%x[h,FORM]/%x[m,FORM]
A1:%x[h,POSTAG]/%x[m,POSTAG]
A2:%x[h,POSTAG]/%x[m,POSTAG]/%direction[h,m]/%distance[h,m]
A3:%x[m-1,POSTAG]/%x[m,POSTAG]/%x[h,POSTAG]
A4:%x[h,POSTAG]/%x[b,POSTAG]/%x[m,POSTAG]
"""


def conll(sentences: list[str], *, heads: bool = True) -> str:
    lines = []
    for number, sentence in enumerate(sentences):
        lines.append(f"# sentence {number}")
        for token, cell in enumerate(sentence.split(), 1):
            form, tag, head = cell.split("/")
            lines.append(
                f"{token}\t{form}\t_\t{tag}\t{tag}\t_\t{head if heads else '_'}\trel\t_\tnote={token}"
            )
        lines.append("")
    return "".join(line + "\n" for line in lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trees")
    (path / "train.conll").write_text(conll(SENTENCES))
    (path / "blind.conll").write_text(conll(SENTENCES, heads=False))
    (path / "arcs.tpl").write_text(TEMPLATES)
    files = [str(path / name) for name in ("arcs.tpl", "train.conll", "model.mtl")]
    assert cli.run(["train", *files, "--task", "dependency", "-c", "10", "-q"]) == 0
    return path


Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """What a command prints: results if it ends well, everything if not."""

    def call(*arguments: object, code: int = 0) -> str:
        capsys.readouterr()
        got = cli.run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert got == code, err
        return out if code == 0 else out + err

    return call


def test_prediction_fills_heads_and_leaves_the_rest(folder: Path, run: Run) -> None:
    assert run("predict", folder / "model.mtl", folder / "blind.conll") == conll(SENTENCES)


def test_evaluate_and_score_print_attachment_scores(folder: Path, run: Run) -> None:
    found = json.loads(run("evaluate", folder / "model.mtl", folder / "train.conll", "--json"))
    assert (found["uas"], found["uasp"], found["acc"]) == (100, 100, 100)
    assert (found["sentences"], found["tokens"]) == (6, 31)
    wrong = conll(SENTENCES).replace("\t3\trel\t_\tnote=1", "\t2\tother\t_\tnote=1")
    (folder / "wrong.conll").write_text(wrong)
    both = folder / "train.conll", folder / "wrong.conll"
    found = json.loads(run("score", *both, "--task", "dependency", "--json"))
    assert found["uas"] < 100
    assert found["las"] < 100
    assert "Unlabeled attachment score: " in run("score", *both, "--task", "dependency")
    assert "UAS is" in run("score", *both, "--task", "dependency", "--min", 99.9, code=1)


@pytest.mark.parametrize(
    "extra", [["--projective"], ["--single-root"], ["--method", "mira", "--max-iter", 8]]
)
def test_other_trees_and_other_learners(folder: Path, run: Run, extra: list[object]) -> None:
    model = folder / "other.mtl"
    out = run(
        "train", folder / "arcs.tpl", folder / "train.conll", model, "--task", "dependency", *extra, "--valid",
        folder / "train.conll",
    )  # fmt: skip
    assert "uas 100.00" in out
    if "mira" in extra:
        assert "nothing is proved" in out
    assert run("predict", model, folder / "blind.conll") == conll(SENTENCES)


def test_refusals(folder: Path, run: Run) -> None:
    several = folder / "several.conll"
    several.write_text(conll(["a/D/0 b/N/0"]))
    trees = "--task", "dependency"
    out = run("train", folder / "arcs.tpl", several, folder / "no.mtl", *trees, "--single-root", code=2)
    assert "line 3: expected one token with head 0, got 2" in out
    sequence = folder / "sequence.txt"
    sequence.write_text("a X\nb Y\n")
    out = run("train", folder / "arcs.tpl", sequence, folder / "no.mtl", "--projective", code=2)
    assert "--projective is for --task dependency" in out
    mira = "--method", "mira", "--solver", "coordinate"
    out = run("train", folder / "arcs.tpl", several, folder / "no.mtl", *trees, *mira, code=2)
    assert "method 'mira' has no solver 'coordinate'" in out
    for option in (["--partial"], ["--scores", "all"], ["--nbest", 2]):
        assert "for trees" in run("predict", folder / "model.mtl", folder / "blind.conll", *option, code=2)
    other = folder / "words.conll"
    other.write_text(conll(["x/D/0"]))
    out = run("score", several, other, *trees, code=2)
    assert "line 2: expected the word 'a'" in out
    assert not (folder / "no.mtl").exists()


def test_probabilities_of_heads_are_comments(folder: Path, run: Run) -> None:
    text = folder / "ranges.conllu"
    ranged = conll(SENTENCES, heads=False).replace("1\tthe\t", "1-2\tthecat" + "\t_" * 8 + "\n1\tthe\t", 1)
    text.write_text(ranged)
    out = run("predict", folder / "model.mtl", text, "--scores")
    lines = out.split("\n")
    assert lines[0] == "# sentence 0"
    assert lines[1].startswith("# probability = 0.")
    heads = [float(p) for p in lines[2].removeprefix("# head_probabilities = ").split()]
    assert len(heads) == 4
    assert all(float(lines[1].split()[-1]) <= p <= 1 for p in heads)
    assert lines[3].startswith("1-2\t")
    bare = [line for line in lines if "probabilit" not in line]
    assert "\n".join(bare) == run("predict", folder / "model.mtl", text)
    text.write_text(out)
    assert run("predict", folder / "model.mtl", text, "--scores") == out


def test_temperatures_make_heads_as_sure_as_they_are_right(folder: Path, run: Run) -> None:
    model, data = folder / "calibrated.mtl", folder / "train.conll"
    found = json.loads(run("calibrate", folder / "model.mtl", data, "-o", model, "--json"))
    assert found["nll"] < found["before"]["nll"]
    assert 0 < found["temperature"] < 1
    judged = json.loads(run("evaluate", model, data, "--json"))
    assert judged["temperature"] == found["temperature"]
    assert judged["ece"] == found["ece"]
    assert "calibration error" in run("evaluate", model, data)
    files = folder / "arcs.tpl", data, folder / "valid.mtl"
    out = run("train", *files, "--task", "dependency", "--projective", "--valid", data)
    assert "temperature" in out


def test_templates_that_bring_nothing_are_named_and_counted(folder: Path, run: Run) -> None:
    more = folder / "more.tpl"
    more.write_text(
        TEMPLATES + "A5:%x[m,POSTAG]/%x[h,POSTAG]\nA6:%x[m,POSTAG]\nA7:%x[m,POSTAG]/%x[h,POSTAG]\n"
    )
    model = folder / "more.mtl"
    run("train", more, folder / "train.conll", model, "--task", "dependency", "--method", "svm", "-q")
    rows = {row["name"]: row for row in json.loads(run("weights", model, "--json"))}
    same = {name: row["same_as"] for name, row in rows.items() if row["same_as"] is not None}
    assert same == {"A5": "A1", "A6": "constant", "A7": "A1"}
    out = run("weights", model)
    assert "5 of 8 templates kept, 3 dropped" in out
    assert "5 of them are distinct: 2 equal another on the training data, 1 cannot tell one tree" in out
    assert "7 are kept if those that equal a kept one count too" in out
