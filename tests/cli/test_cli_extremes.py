"""Options of all commands with extreme values: a result or one short sentence, never an internal error."""

import random
import shutil
from types import SimpleNamespace

import pytest

from mtlstruct import cli

NUMBERS = (
    *["0", "-1", "nan", "inf", "-inf", "1e300", "1e-300", "1e38", "-0.0", "99999999999999999999"],
    "9" * 5000,
)
TEXTS = (
    *["-", "O=1e300", "1e300,nan", "a/b", ".", "no.txt"],
    "",
    "x" * 9000,
    "*>" * 500,
    "é\u2028\x7f",
    "9" * 5000,
)

BASE = {
    "train": "a.tpl train.txt new.mtl -q --max-iter 3",
    "tune": "a.tpl train.txt -q --max-iter 2 --out cells -c 1",
    "predict": "m.mtl train.txt",
    "evaluate": "m.mtl train.txt",
    "score": "train.txt train.txt",
    "calibrate": "m.mtl train.txt new.mtl",
    "weights": "m.mtl",
    "explain": "m.mtl train.txt",
    "report": "m.mtl new.html",
    "serve": "m.mtl --port 0",
    "export": "m.mtl new.crfpp",
    "import": "m.crfpp new.mtl",
    "templates generate": "--columns 0,1",
    "templates convert": "a.tpl --to crfpp",
    "templates select": "m.mtl --top 1",
    "templates check": "a.tpl",
    "bench": "none",  # it has no argument: it does nothing
    "demo": "--out m.mtl",  # a file where a folder must be: it does nothing
    "warmup": "--task none",
}
"""Arguments with which each command does something small."""

SLOW = ("threads", "shards", "max_iter")
"""Options that take as long as their value is large."""

OUTPUTS = ("out", "log", "plot", "html", "checkpoint", "model", "address")
"""Options whose value would be written, or asked over the network."""


ALL = [(words, one) for words in cli.COMMANDS for one in cli.command(words).parameters if one.flags]
"""Each option of each command."""


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    """A folder with data, templates and models."""
    folder = shutil.copytree(made, tmp_path_factory.mktemp("extremes") / "here")
    assert cli.run(["export", str(folder / "m.mtl"), str(folder / "m.crfpp")]) == 0
    return folder


def test_every_command_and_every_number_is_covered():
    assert set(BASE) == set(cli.COMMANDS)
    assert [
        (words, one.title) for words, one in ALL if one.type in (int, float) and one.known.range is None
    ] == []


@pytest.fixture
def attempt(run, folder, monkeypatch):
    """Return a function that runs a command in a folder of data; a server ends at once."""
    monkeypatch.chdir(folder)
    server = SimpleNamespace(run=lambda sockets: None)
    monkeypatch.setattr("mtlstruct.serve.server.make_server", lambda app: server)

    def call(words, *more, base=None):
        got = run(f"{words} {BASE[words] if base is None else base}", *more)
        assert got.code in (0, 1, 2), (more, got.err[-2000:])
        lines = got.err.splitlines() + got.out.splitlines()
        assert max(map(len, lines), default=0) <= 300, (words, more)
        return got

    return call


def flagged(flag, value):
    return flag if value is None else f"{flag}={value}" if flag.startswith("--") else flag + value


VALUED = [row for row in ALL if row[1].type is not bool]


@pytest.mark.parametrize(("words", "option"), VALUED, ids=[f"{words} {one.title}" for words, one in VALUED])
def test_extreme_values_of_every_option(attempt, words, option):
    numeric = option.type in (int, float)
    for value in () if option.name in OUTPUTS else NUMBERS if numeric else TEXTS:
        got = attempt(words, flagged(option.title, value))
        if numeric and got.code == 2 and not value.startswith("-"):
            assert option.title.strip("-") in got.err, got.err


def drawn(rng, option):
    """Return an option with an extreme value: a limit, a word that is allowed, a text; or a flag."""
    limits = [*map(str, option.known.range or ())]
    words = [word for word in option.choices if word != "auto"]
    return flagged(option.title, None if option.type is bool else rng.choice(words or limits or TEXTS))


SEEDS = [*range(20), *(pytest.param(n, marks=pytest.mark.slow) for n in range(20, 300))]


@pytest.mark.parametrize("words", ["train", None])
@pytest.mark.parametrize("seed", SEEDS)
def test_three_options_of_a_command_with_extreme_values(attempt, seed, words):
    """Draw options of `train`, or of any command."""
    rng = random.Random(f"{seed} {words}")
    chosen = words or rng.choice(sorted(BASE))
    without = (*SLOW, *OUTPUTS, "json", "csv", "plot", "help")
    rows = [one for words, one in ALL if words == chosen and one.name not in without]
    base = "a.tpl train.txt new.mtl --max-iter 20" if words else None
    attempt(chosen, *(drawn(rng, row) for row in rng.sample(rows, min(3, len(rows)))), base=base)
