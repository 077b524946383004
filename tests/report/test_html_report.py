"""The report: what is in it for each task and method, and how it behaves in a browser."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.classes import CLASS_TEMPLATES, CLASS_TRAIN
from support.trees import ARC_TEMPLATES, LABELLED_TREES, SENTENCES, conll

from mtlstruct import cli, load
from mtlstruct.errors import IncompatibleError
from mtlstruct.evaluation.chunks import ChunkScores
from mtlstruct.evaluation.counts import Counts
from mtlstruct.evaluation.error_analysis import analysis, group_counts
from mtlstruct.formats import columns
from mtlstruct.model.calibration import CalibrationReport, Reliability
from mtlstruct.report.html_report import report_figures, report_page

# Names that would be markup if a page put them in as it found them.
SEQUENCES = (
    "Ann B-<b>PER</b>|lives O|in O|</script><script>alert(1)</script> B-LOC|. O||"
    "Bo B-<b>PER</b>|sees O|Ann B-<b>PER</b>|& O|<!--Rome B-LOC||"
    "Ann B-<b>PER</b>|was O|here O|. O|"
).replace("|", "\n")
TEMPLATES = "U<i>:%x[0,0]|U1:%x[-1,0]/%x[0,0]|U2:%x[1,0]|U3:%x[-2,0]/%x[2,0]|U4:%x[0,0]/%x[1,0]/%x[2,0]|B|"
TEMPLATES = TEMPLATES.replace("|", "\n")
# Names without a blank that are wider than a telephone, and pairs of labels with features of their own.
WORD = "Donaudampfschifffahrtsgesellschaftskapitänspatent"
LABEL = "LABEL_WITH_A_NAME_THAT_IS_WIDER_THAN_A_TELEPHONE"
LONG = "".join(
    f"{WORD}{n} B-{LABEL}_{n % 3}\nx{n % 2} I-{LABEL}_{n % 3}\nlives O\nin O\n{WORD} B-{LABEL}_{(n + 1) % 3}\n\n"
    for n in range(6)
)
LONG_TEMPLATES = f"U_{LABEL}:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB_{LABEL}:%x[0,0]\nB1:%x[-1,0]\nB\n"

CASES = {
    "sequence": (TEMPLATES, SEQUENCES, []),
    "segmentation": ("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB\n", "ab c def\nab c\nc c ab\nabcdefg c\n", []),
    "dependency": (ARC_TEMPLATES, conll(SENTENCES), []),
    "labels": (ARC_TEMPLATES, LABELLED_TREES, ["--labels"]),
    "multiclass": (CLASS_TEMPLATES, CLASS_TRAIN, []),
    "svm": (TEMPLATES, SEQUENCES, ["--method", "svm"]),
    "pmtl": (TEMPLATES, SEQUENCES, ["--method", "pmtl", "-p", "1.5"]),
    "mira": (TEMPLATES, SEQUENCES, ["--method", "mira", "--max-iter", "3"]),
    "crf-l2": (TEMPLATES, SEQUENCES, ["--method", "crf-l2"]),
    "online-mkl": (TEMPLATES, SEQUENCES, ["--method", "online-mkl"]),
    "long": (LONG_TEMPLATES, LONG, []),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a case with its model, trained when first asked for."""
    made: dict[str, Path] = {}

    def train(name):
        if name not in made:
            folder = made[name] = tmp_path_factory.mktemp(name)
            templates, data, options = CASES[name]
            (folder / "a.tpl").write_text(templates)
            (folder / "train.txt").write_text(data)
            tasks = {"labels": "dependency"} | {
                task: task for task in ("segmentation", "dependency", "multiclass")
            }
            files = [str(folder / file) for file in ("a.tpl", "train.txt", "m.mtl")]
            options = ["--valid", files[1], *options]
            assert (
                cli.run(["train", *files, "--task", tasks.get(name, "sequence"), "-c", "10", "-q", *options])
                == 0
            )
        return made[name]

    return train


def embedded(path):
    """The data of a page."""
    (found,) = re.findall(r'<script id="data"[^>]*>(.*?)</script>', path.read_text(encoding="utf-8"), re.S)
    return dict(json.loads(found))


def write(folder, *options):
    out = folder / "report.html"
    assert cli.run(["report", str(folder / "m.mtl"), str(out), *options]) == 0
    return out


@pytest.mark.parametrize("name", CASES)
def test_every_task_and_method_has_a_report(trained, name):
    folder = trained(name)
    data = embedded(write(folder, "--data", str(folder / "train.txt")))
    model = load(folder / "m.mtl")
    stages = [model] if model.relations is None else [model, model.relations]
    for stage, shown in zip(stages, data["stages"], strict=True):
        assert [row["text"] for row in shown["templates"]] == [w.text for w in stage.template_weights()]
        assert shown["passes"][-1]["passes"] == stage.facts["passes"]
        assert all(entry["list"] for entry in shown["features"])
    rows = [row for shown in data["stages"] for row in shown["templates"]]
    assert sum(row["features"] for row in rows) == data["sizes"]["features"]
    assert data["run"]["command"].startswith("mtlstruct train ")
    assert data["sizes"]["file"] == (folder / "m.mtl").stat().st_size
    assert data["assessment"]["source"].endswith("train.txt")
    assert data["assessment"]["calibration"]["bins"]


@pytest.mark.parametrize("name", ["sequence", "segmentation", "labels", "multiclass", "svm"])
def test_a_model_card_has_the_figures_of_the_report(trained, name, tmp_path, run):
    folder, out = trained(name), tmp_path / "card.md"
    for _ in range(2):  # an earlier card may be replaced
        run("report --format markdown", folder / "m.mtl", out, "--data", folder / "train.txt").ok()
    text, data = out.read_text("utf-8"), embedded(write(folder, "--data", str(folder / "train.txt")))
    kept = [row for row in data["stages"][0]["templates"] if row["kept"]][:10]
    assert all(f"| `{row['text']}` | {row['mu']:.3g} |" in text for row in kept)
    assert data["assessment"]["headline"] in text
    assert ("not calibrated" in text) == (data["stages"][0]["facts"]["temperature"] is None)
    tables = [line for line in text.split("\n") if line.startswith("|")]
    assert len(tables) > 12
    assert all(line.endswith(" |") for line in tables)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "m.mtl").write_bytes((folder / "m.mtl").read_bytes())
    run("report --format markdown", tmp_path / "bare" / "m.mtl", out).ok()
    assert "Not measured" in out.read_text("utf-8")


def test_scores_come_from_the_log_where_no_data_are_given(trained):
    folder = trained("sequence")
    stored = embedded(write(folder))["assessment"]
    fresh = embedded(write(folder, "--data", str(folder / "train.txt")))["assessment"]
    assert stored == fresh


def test_a_missing_log_and_the_log_of_another_training_are_reported(trained, tmp_path, run):
    (tmp_path / "m.mtl").write_bytes((trained("svm") / "m.mtl").read_bytes())
    log = trained("sequence") / "m.mtl.log.jsonl"
    command = ("report", tmp_path / "m.mtl", tmp_path / "report.html")
    assert "there is no" in run(*command).err
    data = embedded(tmp_path / "report.html")
    assert (data["run"], data["stages"][0]["passes"], data["assessment"]) == (None, [], None)
    (tmp_path / "m.mtl.log.jsonl").write_bytes(log.read_bytes())
    assert "is not the log of the training of" in run(*command).err
    assert embedded(tmp_path / "report.html")["run"] is None
    got = run(*command, "--log", log)
    assert got.code == 2
    assert "is not the log of the training of" in got.err
    with pytest.raises(IncompatibleError, match="another training"):
        load(tmp_path / "m.mtl").report(log=log)


@pytest.mark.parametrize("content", ["", "nonsense\n", "[1]\n", '{"event": "run"}\n'])
def test_a_file_that_is_no_log_is_rejected_by_name(trained, tmp_path, content, run):
    bad = tmp_path / "bad.jsonl"
    bad.write_text(content)
    got = run("report", trained("sequence") / "m.mtl", tmp_path / "r.html", "--log", bad)
    assert got.code == 2
    assert str(bad) in got.err
    assert not (tmp_path / "r.html").exists()


def test_models_make_their_report_from_python(trained, tmp_path):
    folder = trained("sequence")
    gold = columns.read(folder / "train.txt")
    page = load(folder / "m.mtl").report(name="m", log=folder / "m.mtl.log.jsonl", data=gold, source="gold")
    page.save(tmp_path / "r.html")
    data = embedded(tmp_path / "r.html")
    assert data["assessment"]["source"] == "gold"
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown


def test_pages_are_reproducible_and_no_text_of_the_user_becomes_markup(trained):
    page = write(trained("sequence")).read_text(encoding="utf-8")
    assert write(trained("sequence")).read_text(encoding="utf-8") == page
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    assert "<b>PER" not in page


def show(browser, path, width=1200, scheme="light"):
    browser.resize(width)
    browser.scheme(scheme)
    browser.open(path.as_uri())


def count(browser, selector):
    return int(browser.run("return document.querySelectorAll(arguments[0]).length", selector))


def cells(browser, column):
    """Return a column of the table of templates, as it is shown."""
    rows = "[...document.querySelectorAll('#templates tbody tr')]"
    return list(browser.value(f"{rows}.map(row => row.cells[{column}].textContent)"))


@pytest.mark.parametrize("name", CASES)
def test_pages_are_drawn_without_errors_or_requests(browser, trained, name):
    path = write(trained(name))
    show(browser, path)
    sections = browser.value("[...document.querySelectorAll('section')].map(s => s.id)")
    expected = "summary templates convergence scores confusion calibration features sizes repeat"
    if name == "labels":
        second = "label-templates label-convergence label-features"
        expected = expected.replace("calibration", "confusion-1 calibration")
        expected = expected.replace("sizes", f"{second} sizes")
    assert " ".join(sections) == expected
    said = browser.value("document.getElementById('calibration').innerText").lower()
    assert ("not calibrated" in said) != embedded(path)["assessment"]["calibration"]["calibrated"]
    assert count(browser, "#templates svg rect.hit") == len(embedded(path)["stages"][0]["templates"])
    assert count(browser, "#convergence svg") == 2
    assert "undefined" not in browser.value("document.body.innerText")
    assert "NaN" not in browser.value("document.getElementById('page').outerHTML")
    assert browser.complaints() == []
    assert browser.requests() == [path.as_uri()]


@pytest.mark.parametrize("name", ["sequence", "labels", "multiclass", "long"])
def test_explanations_are_never_wider_than_the_window(browser, trained, name):
    folder = trained(name)
    files = [str(folder / file) for file in ("m.mtl", "train.txt", "explanations.html")]
    assert cli.run(["explain", *files[:2], "--html", files[2]]) == 0
    show(browser, folder / "explanations.html", 400)
    tokens = sum(len(sentence["tokens"]) for sentence in embedded(folder / "explanations.html")["sentences"])
    assert count(browser, "details") == tokens * (2 if name == "labels" else 1)
    browser.run("document.querySelectorAll('details').forEach(choice => { choice.open = true })")
    browser.check_widths()
    assert browser.complaints() == []


@pytest.mark.parametrize("name", CASES)
def test_pages_fit_the_window_and_every_box_has_a_title(browser, trained, name):
    show(browser, write(trained(name)), 400)
    browser.check_widths()
    for row in range(count(browser, "#templates tr.opens")):
        browser.click("#templates tr.opens", row)
    script = """
        const kinds = '.card, .tile, .pairs, .two-up > div:has(table), .features > div';
        const boxes = [...document.querySelectorAll(kinds)];
        const title = box => box.querySelector(':scope > :is(h2, h3, dt)');
        const seen = node => node && node.textContent.trim() && node.getClientRects().length;
        return [boxes.length, boxes.filter(box => !seen(title(box))).map(box => box.textContent)];
    """
    for width in (1200, 400):
        browser.resize(width)
        boxes, untitled = browser.run(script)
        assert boxes > 20
        assert untitled == [], width
    assert count(browser, ".pairs .features > div") > 1 or name != "long"


def test_cells_of_the_confusion_matrix_are_not_broken(browser, trained):
    cells = [[right, chosen, 123456] for right in range(7) for chosen in range(7)]
    folder = trained("long")
    page = write(folder).read_text(encoding="utf-8")
    known = embedded(folder / "report.html")["assessment"]["confusions"][0]
    assert len(known["names"]) == 7
    old = json.dumps(known["cells"], separators=(",", ":"))
    assert page.count(old) == 1
    (folder / "full.html").write_text(page.replace(old, json.dumps(cells)), encoding="utf-8")
    show(browser, folder / "full.html")
    script = """
        return [...document.querySelectorAll('table.heat td')].map(cell => {
            const text = document.createRange();
            text.selectNodeContents(cell);
            const [inner, outer] = [text.getBoundingClientRect(), cell.getBoundingClientRect()];
            return text.getClientRects().length === 1 && inner.left >= outer.left && inner.right <= outer.right;
        });
    """
    for width in (320, 400, 1200):
        browser.check_widths((width,))
        assert browser.run(script) == [True] * 49, width


def test_scores_have_the_digits_that_evaluate_prints(browser, trained, tmp_path):
    """Figures are rounded once, and exact halves to the even digit, as conlleval does it."""
    correct = [(101, 101, 50), (101, 101, 51), (103, 103, 63), (117, 117, 50)]
    tricky = [*correct, (32, 32, 1), (32, 32, 3), (32, 96, 7)]
    types = {f"T{n}": Counts(*counts) for n, counts in enumerate(tricky)}
    found = ChunkScores(types, 800, 401, 1, 0, Counts(3200, 3200, 100))
    calibration = CalibrationReport(
        1 / 128, 1 / 64, 2.5, Reliability(np.array([1]), np.array([1 / 32]), np.zeros(1))
    )
    assessment = analysis("x", found, [group_counts("by chunk type", types)], [], calibration)
    page = report_page(report_figures(load(trained("sequence") / "m.mtl"), assessment=assessment))
    page.save(tmp_path / "r.html")
    show(browser, tmp_path / "r.html")
    _, total, *printed = found.table().splitlines()
    number = re.compile(r"\d+\.\d\d")
    whole = "0.00"  # sequences
    assert sorted(browser.texts("#scores .tile dd")) == sorted([*number.findall(total), whole])
    script = """
        const rows = [...document.querySelectorAll('#scores tbody tr')];
        return rows.map(row => [2, 3, 1].map(n => row.cells[n].textContent));
    """
    assert browser.run(script) == [number.findall(line) for line in printed]
    shown = [text.rstrip("%") for text in browser.texts("#calibration .tile dd")]
    assert shown == re.findall(r"\d+(?:\.\d+)?", calibration.line())


def test_the_table_is_sorted_searched_and_opened(browser, trained):
    path = write(trained("sequence"))
    show(browser, path)
    stage = embedded(path)["stages"][0]
    browser.click("#templates tr.opens")
    assert stage["features"][0]["list"][0][0] in " ".join(browser.texts("#templates tr.detail"))
    browser.click("#templates tr.opens")
    assert count(browser, "#templates tr.detail") == 0
    names = [row["text"] for row in stage["templates"]]
    assert cells(browser, 1) == names
    browser.click("#templates th button", 1)
    texts = cells(browser, 1)
    assert texts == browser.run("return arguments[0].sort((a, b) => a.localeCompare(b))", names)
    browser.click("#templates th button", 1)
    assert cells(browser, 1) == texts[::-1]
    assert browser.value("document.querySelectorAll('#templates th')[1].ariaSort") == "descending"
    for typed, left in (("[0,0] u1", ["U1:%x[-1,0]/%x[0,0]"]), ("zzz", [])):
        browser.type("#templates input.search", typed)
        assert cells(browser, 1) == left
    assert browser.complaints() == []


def test_labels_are_shown_as_text_and_features_can_be_chosen(browser, trained):
    show(browser, write(trained("sequence")))
    assert "B-<b>PER</b>" in browser.value("document.body.innerText")
    assert count(browser, "td b b, h3 b, i i") == 0
    drawing = "document.querySelector('#convergence svg').innerHTML"
    before = browser.value(drawing)
    browser.click("#convergence button", 1)
    assert before != browser.value(drawing)
    assert "seconds" in browser.value(drawing)
    script = """
        const [template, label] = document.querySelectorAll('#features select');
        label.value = 'O';
        label.dispatchEvent(new Event('change'));
        return [...document.querySelectorAll('#features .features h3')].map(h => h.textContent)
    """
    assert browser.run(script) == ["O"]
    assert browser.complaints() == []


def test_light_dark_and_paper(browser, trained):
    def background():
        return str(browser.value("getComputedStyle(document.body).backgroundColor"))

    path = write(trained("sequence"))
    show(browser, path)
    light = background()
    show(browser, path, scheme="dark")
    assert background() != light
    browser.click("button.theme")
    assert background() == light
    browser.scheme("dark", media="print")
    assert background() == "rgb(255, 255, 255)"
    assert browser.value("getComputedStyle(document.querySelector('.bar')).display") == "none"
    browser.scheme("light")
