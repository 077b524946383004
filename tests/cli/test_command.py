"""Command lines become the arguments of a function."""

import shlex
from pathlib import Path
from typing import Literal

import pytest

from mtlstruct.cli.command import Command, argument, option
from mtlstruct.cli.errors import UsageError

DEFAULTS = {
    "first": None,
    "rest": [],
    "scores": None,
    "forbid": None,
    "c": 1.0,
    "out": Path("-"),
    "quiet": False,
}


def values(line):
    """Return the values that differ from the defaults; the argument is called `rest`."""

    def show(
        first: Path | None = argument(None, "FIRST", "May be left out."),
        rest: list[str] = argument(..., "REST", "Required."),
        scores: Literal["best", "all"] | None = option(None, "Has a value of its own.", bare="best"),
        forbid: list[str] | None = option(None, "May be repeated."),
        c: float = option(1.0, "Number.", "-c", range=(-1.0, 9.0)),
        out: Path = option(Path("-"), "File.", "-o", "--out"),
        quiet: bool = option(False, "Flag.", "-q", "--quiet"),
    ) -> None:
        got.update(locals())

    got = {}
    Command(show, "mtlstruct show")(shlex.split(line))
    return {name: got[name] for name, default in DEFAULTS.items() if got[name] != default}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a", {"rest": ["a"]}),
        ("a b c", {"first": Path("a"), "rest": ["b", "c"]}),
        ("'' b", {"rest": ["b"]}),
        ("--scores a", {"rest": ["a"], "scores": "best"}),
        ("--scores all a", {"rest": ["a"], "scores": "all"}),
        ("a --scores=best --out=b", {"rest": ["a"], "scores": "best", "out": Path("b")}),
        ("a -c -1e-3 b", {"first": Path("a"), "rest": ["b"], "c": -0.001}),
        ("--forbid -X a --forbid=--Y", {"rest": ["a"], "forbid": ["-X", "--Y"]}),
        ("-qc2 - -qo -b", {"rest": ["-"], "c": 2.0, "out": Path("-b"), "quiet": True}),
        ("-c 2 -- a -q --", {"first": Path("a"), "rest": ["-q", "--"], "c": 2.0}),
        ("-c 2 a -c 3", {"rest": ["a"], "c": 3.0}),
    ],
)
def test_options_may_stand_anywhere_and_take_any_value(line, expected):
    assert values(line) == expected


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", r"expected the arguments \[FIRST\] REST\.\.\."),
        ("a --qui", r"No such option: --qui: did you mean --quiet\?"),
        ("a -z", "No such option: -z"),
        ("a --quiet=yes", "--quiet takes no value, got 'yes'"),
        ("a --out", "Option '--out' requires an argument"),
        ("a --scores=some", "--scores must be one of best, all, got 'some'"),
    ],
)
def test_a_command_line_that_cannot_be_parsed(line, problem):
    with pytest.raises(UsageError, match=rf"^{problem}.* \(see mtlstruct show --help\)$"):
        values(line)
