"""Trees on the command line: training, prediction that changes heads only, scores, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Output, write_files
from support.trees import ARC_TEMPLATES, SENTENCES, conll

from mtlstruct import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {
        "train.conll": conll(SENTENCES),
        "blind.conll": conll(SENTENCES, heads=False),
        "arcs.tpl": ARC_TEMPLATES,
    }
    path = write_files(tmp_path_factory.mktemp("trees"), files)
    names = [str(path / name) for name in ("arcs.tpl", "train.conll", "model.mtl")]
    assert cli.run(["train", *names, "--task", "dependency", "-c", "10", "-q"]) == 0
    return path


def test_prediction_fills_heads_and_leaves_the_rest(folder: Path, output: Output) -> None:
    assert output("predict", folder / "model.mtl", folder / "blind.conll") == conll(SENTENCES)


def test_json_has_heads(folder: Path, output: Output) -> None:
    options = ("--format", "json", "--scores")
    lines = output("predict", folder / "model.mtl", folder / "blind.conll", *options).splitlines()
    rows = [block.split("\n") for block in conll(SENTENCES).strip().split("\n\n")]
    heads = [[int(row.split("\t")[6]) for row in block if row[0].isdigit()] for block in rows]
    assert [json.loads(line)["heads"] for line in lines] == heads
    assert all(0 < json.loads(line)["probability"] <= 1 for line in lines)


def test_evaluate_and_score_print_attachment_scores(folder: Path, output: Output) -> None:
    found = json.loads(output("evaluate", folder / "model.mtl", folder / "train.conll", "--json"))
    assert (found["uas"], found["uasp"], found["acc"]) == (100, 100, 100)
    assert (found["sentences"], found["tokens"]) == (6, 31)
    wrong = conll(SENTENCES).replace("\t3\trel\t_\tnote=1", "\t2\tother\t_\tnote=1")
    (folder / "wrong.conll").write_text(wrong)
    both = folder / "train.conll", folder / "wrong.conll"
    found = json.loads(output("score", *both, "--task", "dependency", "--json"))
    assert found["uas"] < 100
    assert found["las"] < 100
    assert "Unlabeled attachment score: " in output("score", *both, "--task", "dependency")
    assert "UAS is" in output("score", *both, "--task", "dependency", "--min", 99.9, code=1)


@pytest.mark.parametrize(
    "extra", [["--projective"], ["--single-root"], ["--method", "mira", "--max-iter", 8]]
)
def test_other_trees_and_other_learners(folder: Path, output: Output, extra: list[object]) -> None:
    model = folder / "other.mtl"
    out = output(
        "train", folder / "arcs.tpl", folder / "train.conll", model, "--task", "dependency", *extra, "--valid",
        folder / "train.conll")  # fmt: skip
    assert "uas 100.00" in out
    if "mira" in extra:
        assert "since the method is online" in out
    assert output("predict", model, folder / "blind.conll") == conll(SENTENCES)


def test_bad_options_and_files_are_rejected(folder: Path, output: Output) -> None:
    several = folder / "several.conll"
    several.write_text(conll(["a/D/0 b/N/0"]))
    trees = "--task", "dependency"
    out = output("train", folder / "arcs.tpl", several, folder / "no.mtl", *trees, "--single-root", code=2)
    assert "line 3: expected one token with head 0, got 2" in out
    sequence = folder / "sequence.txt"
    sequence.write_text("a X\nb Y\n")
    crossing = folder / "crossing.conll"
    rows = zip("abcd", (3, 4, 0, 3), strict=True)
    crossing.write_text(
        "".join(f"{n}\t{w}\t_\t{w}\t{w}\t_\t{h}\tr\t_\t_\n" for n, (w, h) in enumerate(rows, 1))
    )
    files = folder / "arcs.tpl", crossing, folder / "no.mtl"
    out = output("train", *files, *trees, "--projective", "--loss", "log", code=2)
    assert "sentence 1 has crossing arcs" in out
    out = output("train", folder / "arcs.tpl", sequence, folder / "no.mtl", "--projective", code=2)
    assert "--projective is for --task dependency" in out
    mira = "--method", "mira", "--solver", "coordinate"
    out = output("train", folder / "arcs.tpl", several, folder / "no.mtl", *trees, *mira, code=2)
    assert "'mira' with the loss 'hinge' has no solver 'coordinate'" in out
    for option in (["--partial"], ["--scores", "all"], ["--nbest", 2]):
        assert "for trees" in output("predict", folder / "model.mtl", folder / "blind.conll", *option, code=2)
    other = folder / "words.conll"
    other.write_text(conll(["x/D/0"]))
    out = output("score", several, other, *trees, code=2)
    assert "line 2: expected the word 'a'" in out
    assert not (folder / "no.mtl").exists()


def test_probabilities_of_heads_are_comments(folder: Path, output: Output) -> None:
    text = folder / "ranges.conllu"
    ranged = conll(SENTENCES, heads=False).replace("1\tthe\t", "1-2\tthecat" + "\t_" * 8 + "\n1\tthe\t", 1)
    text.write_text(ranged)
    out = output("predict", folder / "model.mtl", text, "--scores")
    lines = out.split("\n")
    assert lines[0] == "# sentence 0"
    assert lines[1].startswith("# probability = 0.")
    heads = [float(p) for p in lines[2].removeprefix("# head_probabilities = ").split()]
    assert len(heads) == 4
    assert all(float(lines[1].split()[-1]) <= p <= 1 for p in heads)
    assert lines[3].startswith("1-2\t")
    bare = [line for line in lines if "probabilit" not in line]
    assert "\n".join(bare) == output("predict", folder / "model.mtl", text)
    text.write_text(out)
    assert output("predict", folder / "model.mtl", text, "--scores") == out


def test_calibrate_lowers_the_log_loss_of_heads(folder: Path, output: Output) -> None:
    model, data = folder / "calibrated.mtl", folder / "train.conll"
    found = json.loads(output("calibrate", folder / "model.mtl", data, "-o", model, "--json"))
    assert found["nll"] < found["before"]["nll"]
    assert 0 < found["temperature"] < 1
    judged = json.loads(output("evaluate", model, data, "--json"))
    assert judged["temperature"] == found["temperature"]
    assert judged["ece"] == found["ece"]
    assert "calibration error" in output("evaluate", model, data)
    files = folder / "arcs.tpl", data, folder / "valid.mtl"
    out = output("train", *files, "--task", "dependency", "--projective", "--valid", data)
    assert "temperature" in out
