"""No command overwrites a file of another kind than it writes, for all commands and all output arguments."""

import shutil
from pathlib import Path

import pytest
from support.commands import TEMPLATES, TRAIN, write_files

import reproduction.__main__ as reproduction
from mtlstruct import cli
from mtlstruct.cli.outputs import HEAD, Kind, kind_of
from mtlstruct.errors import MtlError

pytest.importorskip("matplotlib")

OUTPUTS: dict[tuple[str, str], tuple[str, Kind]] = {
    ("train", "MODEL"): ("train a.tpl train.txt out -q --no-log", Kind.MODEL),
    ("train", "--log"): ("train a.tpl train.txt new.mtl -q --log out", Kind.LOG),
    ("tune", "--model"): ("tune a.tpl train.txt --out new -q -o out", Kind.MODEL),
    ("predict", "--out"): ("predict m.mtl train.txt -o out", Kind.TABLE),
    ("calibrate", "--out"): ("calibrate m.mtl train.txt -o out", Kind.MODEL),
    ("weights", "--plot"): ("weights m.mtl --plot out.pdf", Kind.PDF),
    ("explain", "--html"): ("explain m.mtl train.txt --html out", Kind.PAGE),
    ("report", "OUT"): ("report m.mtl out", Kind.PAGE),
    ("export", "OUT"): ("export m.mtl out", Kind.CRFPP),
    ("import", "OUT"): ("import m.crfpp out", Kind.MODEL),
    ("templates generate", "--out"): ("templates generate -o out", Kind.TEMPLATES),
    ("templates convert", "--out"): ("templates convert a.tpl --to crfpp -o out", Kind.TEMPLATES),
    ("templates select", "--out"): ("templates select m.mtl --top 1 -o out", Kind.TEMPLATES),
    ("templates select", "--plot"): (
        "templates select m.mtl --valid train.txt --train train.txt --plot out.svg",
        Kind.SVG,
    ),
}
"""A call for each file that a command writes, and what it writes."""

FOLDERS = {("train", "--checkpoint"), ("tune", "--out"), ("demo", "--out")}
"""Folders that commands write to; each has a test below or in the file of its command."""

INPUTS = {
    ("train", "TEMPLATES"), ("train", "TRAIN"), ("train", "--from"),
    ("train", "--valid"), ("tune", "TEMPLATES"), ("tune", "TRAIN"), ("tune", "--valid"),
    ("predict", "MODEL"), ("predict", "INPUT"), ("evaluate", "MODEL"),
    ("evaluate", "GOLD"), ("evaluate", "--words"), ("score", "GOLD"),
    ("score", "PREDICTED"), ("score", "--words"), ("calibrate", "MODEL"), ("calibrate", "HELDOUT"),
    ("weights", "MODEL"), ("weights", "--data"), ("explain", "MODEL"),
    ("explain", "INPUT"), ("report", "MODEL"), ("report", "--data"), ("report", "--log"), ("serve", "MODEL"),
    ("serve", "--token-file"), ("serve", "--examples"), ("export", "MODEL"), ("export", "--data"),
    ("import", "FILE"),
    ("templates convert", "TEMPLATES"),
    ("templates check", "TEMPLATES"), ("templates check", "--data"), ("templates select", "MODEL"),
    ("templates select", "--valid"), ("templates select", "--train"),
}  # fmt: skip
"""Files and folders that commands only read."""


ALL = [(name, one) for name in cli.COMMANDS for one in cli.command(name).parameters]


def test_every_path_of_every_command_is_known_as_input_or_output():
    """A new output option belongs into OUTPUTS, where the tests below see whether it is guarded."""
    paths = [(name, one.title.strip("[].")) for name, one in ALL if one.type is Path]
    assert sorted(paths) == sorted([*OUTPUTS, *FOLDERS, *INPUTS])
    forced = {name for name, one in ALL if one.name == "force"}
    assert forced == {name for name, _ in OUTPUTS.keys() | FOLDERS}


@pytest.fixture(scope="module")
def samples(made, tmp_path_factory):
    """A file of each kind, those of ours as the commands write them."""
    place = shutil.copytree(made, tmp_path_factory.mktemp("samples") / "here")
    m = place / "m.mtl"

    def made(*arguments):
        assert cli.run([str(argument) for argument in arguments]) == 0
        return (place / "out").read_bytes()

    found = {
        Kind.MODEL: m.read_bytes(),
        Kind.LOG: (place / "m.mtl.log.jsonl").read_bytes(),
        Kind.TABLE: made("predict", m, place / "train.txt", "-o", place / "out", "--force"),
        Kind.PAGE: made("report", m, place / "out", "--force"),
        Kind.CRFPP: made("export", m, place / "out", "--force"),
        Kind.WAPITI: made("export", m, place / "out", "--format", "wapiti-text", "--rename", "--force"),
        Kind.CARD: made("report", m, place / "out", "--format", "markdown", "--force"),
        Kind.CRFSUITE: made("export", m, place / "out", "--format", "crfsuite", "--force"),
        Kind.TEMPLATES: TEMPLATES.encode(),
        Kind.COLUMNS: TRAIN.encode(),
        Kind.TEXT: b"Notes on the data\n\nThere are two files, of which the first is larger.\n",
        Kind.OTHER: bytes(range(256)),
    }
    for kind, ending in ((Kind.PNG, "png"), (Kind.SVG, "svg"), (Kind.PDF, "pdf")):
        assert cli.run(["weights", str(m), "--plot", str(place / f"out.{ending}")]) == 0
        found[kind] = (place / f"out.{ending}").read_bytes()
    assert cli.run(["export", str(m), str(place / "tagger"), "--format", "standalone"]) == 0
    for kind, name in ((Kind.PROGRAM, "tagger.py"), (Kind.WEIGHTS, "tagger.bin")):
        found[kind] = (place / "tagger" / name).read_bytes()
    return found | {Kind.CHECKPOINT: _checkpoint(place / "state.checkpoint")}


def _checkpoint(path):
    from mtlstruct.training.checkpoints import write

    write(path, {"options": {}}, None, {"x": 1})
    return path.read_bytes()


@pytest.fixture
def place(place, samples):
    """The shared folder with what the calls of OUTPUTS read."""
    Path("m.crfpp").write_bytes(samples[Kind.CRFPP])
    return place


def target(call):
    """The output of a call."""
    return Path(next(word for word in call.split() if word.startswith("out")))


def test_samples_are_of_their_kind(samples):
    assert samples.keys() == set(Kind)
    assert {kind: kind_of(content[:HEAD]) for kind, content in samples.items()} == {
        kind: kind for kind in Kind
    }


@pytest.mark.parametrize(("call", "kind"), OUTPUTS.values(), ids=map(" ".join, OUTPUTS))
def test_a_file_of_another_kind_is_not_overwritten(run, place, samples, call, kind):
    before = sorted(place.iterdir())
    for other, content in samples.items():
        if other is kind:
            continue
        target(call).write_bytes(content)
        got = run(*call.split())
        assert (got.code, got.out) == (2, ""), other
        assert got.err == (
            f"mtlstruct: {target(call)}: expected a new file or one that holds {kind.value}, got one that holds "
            f"{other.value}; {'is an argument missing? ' if kind is Kind.MODEL else ''}--force overwrites it\n"
        )
        assert target(call).read_bytes() == content
        target(call).unlink()
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize(("call", "kind"), OUTPUTS.values(), ids=map(" ".join, OUTPUTS))
@pytest.mark.parametrize("old", ["forced", "same kind", "empty"])
def test_a_file_is_overwritten_with_force_or_if_it_is_of_the_same_kind_or_empty(
    run, place, samples, call, kind, old, monkeypatch
):
    def reached(*_, **__):
        raise MtlError("the trainings would begin")

    monkeypatch.setattr("mtlstruct.cli.tuning_run.TuningRun.run", reached)  # they take long
    content = {"forced": samples[Kind.OTHER], "same kind": samples[kind], "empty": b""}[old]
    target(call).write_bytes(content)
    got = run(*call.split(), *(["--force"] if old == "forced" else []))
    if call.startswith("tune"):
        assert got.err == "mtlstruct: the trainings would begin\n"
    else:
        assert got.code == 0, got.err
        assert kind_of(target(call).read_bytes()[:HEAD]) is kind


GUARDED: dict[str, tuple[dict[str, str], str]] = {
    "tune a.tpl train.txt --out t": (
        {"t/tune.png": "notes\n"},
        "t/tune.png: expected a new file or one that holds",
    ),
    "tune a.tpl train.txt --out u": (
        {"u/results.jsonl": "notes\n"},
        "u/results.jsonl: expected a new file or results",
    ),
    "demo --out mine": ({"mine/notes": "notes\n"}, "mine: expected a new folder or that of an earlier demo"),
    "demo": (
        {"demo/ingredients.tpl": TEMPLATES, "demo/report.html": "notes\n"},
        "demo/report.html: expected a new file or one that holds an HTML page",
    ),
}


def contents(place):
    return {path: path.read_bytes() for path in place.rglob("[!.]*") if path.is_file()}


@pytest.mark.parametrize("command", GUARDED)
def test_inputs_and_other_files_are_not_overwritten(run, place, command):
    files, problem = GUARDED[command]
    for name in files:
        Path(name).parent.mkdir(exist_ok=True)
    before = contents(write_files(place, files))
    run(command).rejected(f"mtlstruct: {problem}")
    assert contents(place) == before


def test_the_reproduction_writes_to_no_folder_with_other_files(place, capsys):
    Path("mine").mkdir()
    Path("mine/reproduction.md").write_text("notes\n")
    assert reproduction.run(["parsing", "--data", ".", "--out", "mine"]) == 2
    assert "mine: expected a new folder or that of an earlier" in capsys.readouterr().err
    assert [path.read_text() for path in Path("mine").iterdir()] == ["notes\n"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PK\x03\x04 cut off", Kind.OTHER),
        ("Español está aquí\n".encode("latin-1"), Kind.TEXT),
        ("U0:%x[0,0]\r\n\r\nB\r\n".encode("utf-8-sig"), Kind.TEMPLATES),
        (b"u:%t[0,0,'\\u']\n*\nb\n", Kind.TEMPLATES),
        (b"# only a comment\n", Kind.TEXT),
        (b"Ulla N O\nBo N O\nAnn N O\n\nUwe N O\nBob N O\n", Kind.COLUMNS),
        (b"a b\nc d\n", Kind.TEXT),
        (b"one\ntwo\nthree\nfour\nfive\n", Kind.TEXT),
        (b"# 0 0.5\na\tN\tO\n\n# 1 0.2\na\tN\tB\n", Kind.TABLE),
        (b"a b\tO\nc\td\tO\n", Kind.TEXT),
        (b"<?xml version='1.0'?><data/>", Kind.TEXT),
        (b"a\tb\tc\n" * 30_000, Kind.TABLE),
    ],
)
def test_kinds_of_files(content, kind):
    assert kind_of(content[:HEAD]) is kind
