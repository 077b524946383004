"""The report: what is in it for each task and method, and how it behaves in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser as chromium
import numpy as np
import pytest
from commands import Run
from test_cli_classes import TEMPLATES as CLASS_TEMPLATES
from test_cli_classes import TRAIN as CLASS_TRAIN
from test_cli_labels import GOLD
from test_cli_trees import SENTENCES, conll
from test_cli_trees import TEMPLATES as ARC_TEMPLATES

from mtlstruct import cli, load
from mtlstruct.errors import IncompatibleError
from mtlstruct.evaluation.chunks import ChunkScores
from mtlstruct.evaluation.counts import Counts
from mtlstruct.evaluation.error_analysis import Assessment, Group
from mtlstruct.formats import columns
from mtlstruct.model.calibration import Reliability, Trust
from mtlstruct.report.html_report import make_report

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
    "labels": (ARC_TEMPLATES, GOLD, ["--labels"]),
    "multiclass": (CLASS_TEMPLATES, CLASS_TRAIN, []),
    "svm": (TEMPLATES, SEQUENCES, ["--method", "svm"]),
    "pmtl": (TEMPLATES, SEQUENCES, ["--method", "pmtl", "-p", "1.5"]),
    "mira": (TEMPLATES, SEQUENCES, ["--method", "mira", "--max-iter", "3"]),
    "crf-l2": (TEMPLATES, SEQUENCES, ["--method", "crf-l2"]),
    "online-mkl": (TEMPLATES, SEQUENCES, ["--method", "online-mkl"]),
    "long": (LONG_TEMPLATES, LONG, []),
}
Train = Callable[[str], Path]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """The folder of a case with its model, trained when first asked for."""
    made: dict[str, Path] = {}

    def train(name: str) -> Path:
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


def embedded(path: Path) -> dict[str, Any]:
    """The data of a page."""
    (found,) = re.findall(r'<script id="data"[^>]*>(.*?)</script>', path.read_text(encoding="utf-8"), re.S)
    return dict(json.loads(found))


def write(folder: Path, *options: str) -> Path:
    out = folder / "report.html"
    assert cli.run(["report", str(folder / "m.mtl"), str(out), *options]) == 0
    return out


@pytest.mark.parametrize("name", CASES)
def test_every_task_and_method_has_a_report(trained: Train, name: str) -> None:
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
    assert data["assessment"]["trust"]["bins"]


def test_scores_come_from_the_log_where_no_data_are_given(trained: Train) -> None:
    folder = trained("sequence")
    stored = embedded(write(folder))["assessment"]
    fresh = embedded(write(folder, "--data", str(folder / "train.txt")))["assessment"]
    assert stored == fresh


def test_a_missing_log_and_the_log_of_another_training_are_reported(
    trained: Train, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "m.mtl").write_bytes((trained("svm") / "m.mtl").read_bytes())
    log = trained("sequence") / "m.mtl.log.jsonl"
    command = ("report", tmp_path / "m.mtl", tmp_path / "report.html")
    assert "there is no" in run(*command).err
    data = embedded(tmp_path / "report.html")
    assert (data["run"], data["stages"][0]["passes"], data["assessment"]) == (None, [], None)
    (tmp_path / "m.mtl.log.jsonl").write_bytes(log.read_bytes())
    assert "another training" in run(*command).err
    assert embedded(tmp_path / "report.html")["run"] is None
    got = run(*command, "--log", log)
    assert got.code == 2
    assert "another training" in got.err
    with pytest.raises(IncompatibleError, match="another training"):
        load(tmp_path / "m.mtl").report(log=log)


@pytest.mark.parametrize("content", ["", "nonsense\n", "[1]\n", '{"event": "run"}\n'])
def test_a_file_that_is_no_log_is_rejected_by_name(
    trained: Train, tmp_path: Path, content: str, run: Run
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(content)
    got = run("report", trained("sequence") / "m.mtl", tmp_path / "r.html", "--log", bad)
    assert got.code == 2
    assert str(bad) in got.err
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("name", ["m.mtl", "m.mtl.log.jsonl"])
def test_the_page_never_overwrites_its_sources(trained: Train, run: Run, name: str) -> None:
    folder = trained("sequence")
    before = (folder / name).read_bytes()
    got = run("report", folder / "m.mtl", folder / name)
    assert got.code == 2
    assert "cannot write there" in got.err
    assert (folder / name).read_bytes() == before


def test_models_make_their_report_from_python(trained: Train, tmp_path: Path) -> None:
    folder = trained("sequence")
    gold = columns.read(folder / "train.txt")
    page = load(folder / "m.mtl").report(name="m", log=folder / "m.mtl.log.jsonl", data=gold, source="gold")
    page.save(tmp_path / "r.html")
    data = embedded(tmp_path / "r.html")
    assert data["assessment"]["source"] == "gold"
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown


def test_pages_are_reproducible_and_no_text_of_the_user_becomes_markup(trained: Train) -> None:
    page = write(trained("sequence")).read_text(encoding="utf-8")
    assert write(trained("sequence")).read_text(encoding="utf-8") == page
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    assert "<b>PER" not in page


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from chromium.browser(tmp_path_factory)


def show(driver: Any, path: Path, width: int = 1200, scheme: str = "light") -> None:
    chromium.resize(driver, width)
    chromium.scheme(driver, scheme)
    chromium.requests(driver)
    driver.get(path.as_uri())
    chromium.settled(driver)


def evaluate(driver: Any, expression: str) -> Any:
    return driver.execute_script(f"return {expression}")


def count(driver: Any, selector: str) -> int:
    return len(driver.find_elements("css selector", selector))


def cells(driver: Any, column: int) -> list[str]:
    """A column of the table of templates, as it is shown."""
    rows = "[...document.querySelectorAll('#templates tbody tr')]"
    return list(evaluate(driver, f"{rows}.map(row => row.cells[{column}].textContent)"))


def click(driver: Any, selector: str, number: int = 0) -> None:
    driver.execute_script("document.querySelectorAll(arguments[0])[arguments[1]].click()", selector, number)


@pytest.mark.parametrize("name", CASES)
def test_pages_draw_themselves_and_ask_for_nothing(driver: Any, trained: Train, name: str) -> None:
    path = write(trained(name))
    show(driver, path)
    assert chromium.complaints(driver) == []
    assert chromium.requests(driver) == [path.as_uri()]
    sections = evaluate(driver, "[...document.querySelectorAll('section')].map(s => s.id)")
    expected = "summary templates convergence scores confusion calibration features sizes repeat"
    if name == "labels":
        second = "label-templates label-convergence label-features"
        expected = expected.replace("calibration", "confusion-1 calibration").replace(
            "sizes", f"{second} sizes"
        )
    assert " ".join(sections) == expected
    said = evaluate(driver, "document.getElementById('calibration').innerText").lower()
    assert ("not calibrated" in said) != embedded(path)["assessment"]["trust"]["calibrated"]
    assert count(driver, "#templates svg rect.hit") == len(embedded(path)["stages"][0]["templates"])
    assert count(driver, "#convergence svg") == 2
    assert "undefined" not in evaluate(driver, "document.body.innerText")
    assert "NaN" not in driver.page_source.partition('<script id="data"')[0]


@pytest.mark.parametrize("name", ["sequence", "labels", "multiclass", "long"])
def test_explanations_are_never_wider_than_the_window(driver: Any, trained: Train, name: str) -> None:
    folder = trained(name)
    files = [str(folder / file) for file in ("m.mtl", "train.txt", "explanations.html")]
    assert cli.run(["explain", *files[:2], "--html", files[2]]) == 0
    show(driver, folder / "explanations.html", 400)
    tokens = sum(len(sentence["tokens"]) for sentence in embedded(folder / "explanations.html")["sentences"])
    assert count(driver, "details") == tokens * (2 if name == "labels" else 1)
    assert chromium.complaints(driver) == []
    driver.execute_script("document.querySelectorAll('details').forEach(choice => { choice.open = true })")
    chromium.check_widths(driver)


@pytest.mark.parametrize("name", CASES)
def test_pages_fit_the_window_and_every_box_has_a_title(driver: Any, trained: Train, name: str) -> None:
    page = write(trained(name))
    show(driver, page, 400)
    chromium.check_widths(driver)
    show(driver, page)
    for row in range(len(driver.find_elements("css selector", "#templates tr.opens"))):
        click(driver, "#templates tr.opens", row)
    script = """
        const kinds = '.card, .tile, .pairs, .two-up > div:has(table), .features > div';
        const boxes = [...document.querySelectorAll(kinds)];
        const title = box => box.querySelector(':scope > :is(h2, h3, dt)');
        const seen = node => node && node.textContent.trim() && node.getClientRects().length;
        return [boxes.length, boxes.filter(box => !seen(title(box))).map(box => box.textContent)];
    """
    for width in (1200, 400):
        chromium.resize(driver, width)
        chromium.settled(driver)
        boxes, untitled = driver.execute_script(script)
        assert boxes > 20
        assert untitled == [], width
    assert count(driver, ".pairs .features > div") > 1 or name != "long"


def test_cells_of_the_confusion_matrix_are_not_broken(driver: Any, trained: Train) -> None:
    cells = [[right, chosen, 123456] for right in range(7) for chosen in range(7)]
    folder = trained("long")
    page = write(folder).read_text(encoding="utf-8")
    known = embedded(folder / "report.html")["assessment"]["confusions"][0]
    assert len(known["names"]) == 7
    old = json.dumps(known["cells"], separators=(",", ":"))
    assert page.count(old) == 1
    (folder / "full.html").write_text(page.replace(old, json.dumps(cells)), encoding="utf-8")
    show(driver, folder / "full.html")
    script = """
        return [...document.querySelectorAll('table.heat td')].map(cell => {
            const text = document.createRange();
            text.selectNodeContents(cell);
            const [inner, outer] = [text.getBoundingClientRect(), cell.getBoundingClientRect()];
            return text.getClientRects().length === 1 && inner.left >= outer.left && inner.right <= outer.right;
        });
    """
    for width in (320, 400, 1200):
        chromium.resize(driver, width)
        chromium.settled(driver)
        assert driver.execute_script(script) == [True] * 49, width
        assert chromium.overflow(driver) == 0, width


def test_scores_have_the_digits_that_evaluate_prints(driver: Any, trained: Train, tmp_path: Path) -> None:
    """Figures are rounded once, and exact halves to the even digit, as conlleval does it."""
    correct = [(101, 101, 50), (101, 101, 51), (103, 103, 63), (117, 117, 50)]
    tricky = [*correct, (32, 32, 1), (32, 32, 3), (32, 96, 7)]
    types = {f"T{n}": Counts(*counts) for n, counts in enumerate(tricky)}
    found = ChunkScores(Counts(3200, 3200, 100), types, 1, 800, 401, 0)
    trust = Trust(1 / 128, 1 / 64, 2.5, Reliability(np.array([1]), np.array([1 / 32]), np.zeros(1)))
    assessment = Assessment("x", found, (Group("by chunk type", types),), (), trust)
    page = make_report(load(trained("sequence") / "m.mtl"), assessment=assessment)
    page.save(tmp_path / "r.html")
    show(driver, tmp_path / "r.html")
    _, total, *printed = found.table().splitlines()
    number = re.compile(r"\d+\.\d\d")
    tiles = driver.find_elements("css selector", "#scores .tile dd")
    whole = "0.00"  # sequences
    assert sorted(tile.text for tile in tiles) == sorted([*number.findall(total), whole])
    script = """
        const rows = [...document.querySelectorAll('#scores tbody tr')];
        return rows.map(row => [2, 3, 1].map(n => row.cells[n].textContent));
    """
    assert driver.execute_script(script) == [number.findall(line) for line in printed]
    tiles = driver.find_elements("css selector", "#calibration .tile dd")
    assert [tile.text.rstrip("%") for tile in tiles] == re.findall(r"\d+(?:\.\d+)?", trust.line())


def test_the_table_is_sorted_and_searched(driver: Any, trained: Train) -> None:
    path = write(trained("sequence"))
    show(driver, path)
    rows = embedded(path)["stages"][0]["templates"]
    assert cells(driver, 1) == [row["text"] for row in rows]
    click(driver, "#templates th button", 1)
    texts = cells(driver, 1)
    collator = "return arguments[0].sort((a, b) => a.localeCompare(b))"
    assert texts == driver.execute_script(collator, [row["text"] for row in rows])
    click(driver, "#templates th button", 1)
    assert cells(driver, 1) == texts[::-1]
    assert evaluate(driver, "document.querySelectorAll('#templates th')[1].ariaSort") == "descending"
    for typed, left in (("[0,0] u1", ["U1:%x[-1,0]/%x[0,0]"]), ("zzz", [])):
        driver.find_element("css selector", "#templates input.search").send_keys(typed)
        assert cells(driver, 1) == left
    assert chromium.complaints(driver) == []


def test_a_row_opens_on_its_features(driver: Any, trained: Train) -> None:
    path = write(trained("sequence"))
    show(driver, path)
    click(driver, "#templates tr.opens")
    first = embedded(path)["stages"][0]["features"][0]["list"][0][0]
    detail = driver.find_element("css selector", "#templates tr.detail").get_attribute("textContent")
    assert first in detail
    click(driver, "#templates tr.opens")
    assert not driver.find_elements("css selector", "#templates tr.detail")


def test_labels_are_shown_as_text_and_convergence_by_passes_or_seconds(driver: Any, trained: Train) -> None:
    show(driver, write(trained("sequence")))
    assert "B-<b>PER</b>" in evaluate(driver, "document.body.innerText")
    assert not driver.find_elements("css selector", "td b b, h3 b, i i")
    drawing = "document.querySelector('#convergence svg').innerHTML"
    before = evaluate(driver, drawing)
    click(driver, "#convergence button", 1)
    assert before != evaluate(driver, drawing)
    assert "seconds" in evaluate(driver, drawing)
    assert chromium.complaints(driver) == []


def test_features_are_chosen_by_template_and_label(driver: Any, trained: Train) -> None:
    show(driver, write(trained("sequence")))
    script = """
        const [template, label] = document.querySelectorAll('#features select');
        label.value = 'O';
        label.dispatchEvent(new Event('change'));
        return [...document.querySelectorAll('#features .features h3')].map(h => h.textContent)
    """
    assert driver.execute_script(script) == ["O"]


def background(driver: Any) -> str:
    return str(evaluate(driver, "getComputedStyle(document.body).backgroundColor"))


def test_light_dark_and_paper(driver: Any, trained: Train) -> None:
    path = write(trained("sequence"))
    show(driver, path)
    light = background(driver)
    show(driver, path, scheme="dark")
    dark = background(driver)
    assert light != dark
    click(driver, "button.theme")
    assert background(driver) == light
    chromium.scheme(driver, "dark", media="print")
    assert background(driver) == "rgb(255, 255, 255)"
    assert evaluate(driver, "getComputedStyle(document.querySelector('.bar')).display") == "none"
    chromium.scheme(driver, "light")
