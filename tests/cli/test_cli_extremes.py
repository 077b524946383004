"""Options of all commands with extreme values: a result or one short sentence, never an internal error."""

import inspect
import random
import shutil
from typing import get_args, get_type_hints

import pytest
import typer

from mtlstruct import cli
from mtlstruct.cli import COMMANDS
from mtlstruct.cli.command import load_target

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


def functions():
    """Yield the words and the function of each command."""
    for name, (target, _) in COMMANDS.items():
        found = load_target(target)
        if isinstance(found, typer.Typer):
            for command in found.registered_commands:
                yield f"{name} {command.name or command.callback.__name__}", command.callback
        else:
            yield name, found


def options(function):
    """Yield the name, the flag, the types and the declaration of each option."""
    hints = get_type_hints(function, include_extras=True)
    for name in inspect.signature(function).parameters:
        kind, *declared = get_args(hints[name]) or (hints[name],)
        if declared and isinstance(declared[-1], typer.models.OptionInfo):
            words = (declared[-1].default, *(declared[-1].param_decls or ()))
            flags = [flag for flag in words if str(flag).startswith("-")]
            yield (
                name,
                (flags or [f"--{name.replace('_', '-')}"])[-1],
                get_args(kind) or (kind,),
                declared[-1],
            )


ALL = [(words, *row) for words, function in functions() for row in options(function)]


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    """A folder with data, templates and models."""
    folder = shutil.copytree(made, tmp_path_factory.mktemp("extremes") / "here")
    assert cli.run(["export", str(folder / "m.mtl"), str(folder / "m.crfpp")]) == 0
    return folder


def test_every_command_and_every_number_is_covered():
    assert {words for words, *_ in ALL} <= set(BASE) == {words for words, _ in functions()}
    without = [(words, flag) for words, _, flag, kinds, option in ALL
               if {int, float} & set(kinds) and None in (option.min, option.max)]  # fmt: skip
    assert without == []


@pytest.fixture
def attempt(run, folder, monkeypatch):
    """Return a function that runs a command in a folder of data; a server ends at once."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("mtlstruct.serve.server.run", lambda app, listening: None)

    def call(words, *more, base=None):
        got = run(f"{words} {BASE[words] if base is None else base}", *more)
        assert got.code in (0, 1, 2), (more, got.err[-2000:])
        lines = got.err.splitlines() + got.out.splitlines()
        assert max(map(len, lines), default=0) <= 300, (words, more)
        return got

    return call


def flagged(flag, value):
    return flag if value is None else f"{flag}={value}" if flag.startswith("--") else flag + value


VALUED = [row for row in ALL if bool not in row[3]]


@pytest.mark.parametrize("row", VALUED, ids=[f"{words} {flag}" for words, _, flag, *_ in VALUED])
def test_extreme_values_of_every_option(attempt, row):
    words, name, flag, kinds, _ = row
    numeric = {int, float} & set(kinds)
    for value in () if name in OUTPUTS else NUMBERS if numeric else TEXTS:
        got = attempt(words, flagged(flag, value))
        if numeric and got.code == 2 and not value.startswith("-"):
            assert flag.strip("-") in got.err, got.err


def drawn(rng, row):
    """Return an option with an extreme value: a limit, a word that is allowed, a text; or a flag."""
    flag, kinds, option = row[2:]
    words = [word for kind in kinds for word in (get_args(kind) or (kind,)) if isinstance(word, str)]
    limits = [] if option.max is None else [str(option.min), str(option.max)]
    value = None if bool in kinds else rng.choice([w for w in words if w != "auto"] or limits or TEXTS)
    return flagged(flag, value)


SEEDS = [*range(20), *(pytest.param(n, marks=pytest.mark.slow) for n in range(20, 300))]


@pytest.mark.parametrize("words", ["train", None])
@pytest.mark.parametrize("seed", SEEDS)
def test_three_options_of_a_command_with_extreme_values(attempt, seed, words):
    """Draw options of `train`, or of any command."""
    rng = random.Random(f"{seed} {words}")
    chosen = words or rng.choice(sorted(BASE))
    rows = [row for row in ALL if row[0] == chosen and row[1] not in (*SLOW, *OUTPUTS, "json", "csv", "plot")]
    base = "a.tpl train.txt new.mtl --max-iter 20" if words else None
    attempt(chosen, *(drawn(rng, row) for row in rng.sample(rows, min(3, len(rows)))), base=base)
