"""Trees and arc labels on the command line: training, prediction, scores, explanations, refusals."""

import json
from pathlib import Path

import pytest
from support.trees import LABELLED_TREES, SENTENCES, conll

pytestmark = pytest.mark.usefixtures("place")


@pytest.mark.parametrize(("model", "expected"), [("t.mtl", conll(SENTENCES)), ("l.mtl", LABELLED_TREES)])
def test_prediction_fills_heads_and_relations_and_leaves_the_rest(output, model, expected):
    assert output("predict", model, "blind.conll") == expected
    Path("empty.conll").write_text("# nothing but this\n\n")
    assert output("predict", model, "empty.conll") == "# nothing but this\n\n"


def test_evaluate_and_score_print_attachment_scores(output):
    found = json.loads(output("evaluate t.mtl heads.conll --json"))
    assert (found["uas"], found["uasp"], found["acc"]) == (100, 100, 100)
    assert (found["sentences"], found["tokens"]) == (6, 31)
    wrong = conll(SENTENCES).replace("\t3\trel\t_\tnote=1", "\t2\tother\t_\tnote=1")
    Path("wrong.conll").write_text(wrong)
    score = "score heads.conll wrong.conll --task dependency"
    found = json.loads(output(f"{score} --json"))
    assert max(found["uas"], found["las"]) < 100
    assert "Unlabeled attachment score: " in output(score)
    assert "UAS is" in output(f"{score} --min 99.9", code=1)
    found = json.loads(output("evaluate l.mtl trees.conll --json"))
    assert (found["las"], found["label_accuracy"], found["uas"]) == (100, 100, 100)
    out = output("evaluate l.mtl trees.conll")
    assert "Labeled   attachment score: 25 / 25" in out
    assert "Label accuracy score:       25 / 25" in out


def test_probabilities_of_heads_are_comments(output):
    text = Path("ranges.conllu")
    ranged = conll(SENTENCES, heads=False).replace("1\tthe\t", "1-2\tthecat" + "\t_" * 8 + "\n1\tthe\t", 1)
    text.write_text(ranged)
    out = output("predict t.mtl ranges.conllu --scores")
    lines = out.split("\n")
    assert lines[0] == "# sentence 0"
    assert lines[1].startswith("# probability = 0.")
    heads = [float(p) for p in lines[2].removeprefix("# head_probabilities = ").split()]
    assert len(heads) == 4
    assert all(float(lines[1].split()[-1]) <= p <= 1 for p in heads)
    assert lines[3].startswith("1-2\t")
    bare = [line for line in lines if "probabilit" not in line]
    assert "\n".join(bare) == output("predict t.mtl ranges.conllu")
    text.write_text(out)
    assert output("predict t.mtl ranges.conllu --scores") == out


def test_weights_shows_both_stages(output):
    assert len(json.loads(output("weights l.mtl --json"))) == 5
    assert "--labels shows the templates of the arc labels" in output("weights l.mtl")
    rows = json.loads(output("weights l.mtl --labels --json --data blind.conll"))
    assert len(rows) > 50
    assert rows[0]["mu"] > 0
    assert sum(row["share"] for row in rows) == pytest.approx(1, rel=1e-3)
    assert sum(row["mu"] for row in rows) == pytest.approx(1, rel=1e-3)


def sentences_of(page):
    text = Path(page).read_text().partition('type="application/json">')[2].partition("</script>")[0]
    return json.loads(text)["sentences"]


def test_a_page_with_drawings(output):
    wrong = LABELLED_TREES.replace("\t3\tsubj\t", "\t0\tsubj\t").replace("\tobj\t", "\t<obj>\t")
    Path("wrong.conll").write_text(wrong)
    assert output("explain l.mtl wrong.conll --html page.html") == ""
    drawings = "".join(sentence["tree"]["drawing"] for sentence in sentences_of("page.html"))
    assert drawings.count("<svg") == len(SENTENCES)
    assert drawings.count('<g class="missed">') == 3
    assert "(&lt;obj&gt;)" in drawings
    output("explain l.mtl blind.conll --html page.html --sentence 2")
    (sentence,) = sentences_of("page.html")
    assert sentence["sentence"] == 2
    assert 'class="missed"' not in sentence["tree"]["drawing"]


def test_training_of_labels_and_validation(output):
    train = "train arcs.tpl trees.conll own.mtl --task dependency --labels -c 10 --valid trees.conll"
    found = json.loads(output(f"{train} --json"))
    assert found["valid"]["las"] == 100
    assert found["labels"]["templates"] > 50
    assert found["labels"]["gap"] <= 0.01
    assert '"event": "label-pass"' in Path("own.mtl.log.jsonl").read_text()
    assert "labels: " in output(train)
