"""Commands: functions whose parameters are declared as arguments and options.

A command is called with the words of a command line. Its help is its docstring.

typer is not used because importing it took about a quarter of the start-up of `predict`; argparse
is not, because it rejects values that begin with `-` (`--forbid -X`) and takes MODEL of
`predict --scores MODEL` for the value of --scores.
"""

import inspect
import os
import shutil
import textwrap
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mtlstruct.cli.errors import UsageError, print_message, unknown
from mtlstruct.training.options import TYPES, Declaration, Options, check_number, declaration, flag

ARGUMENTS, OPTIONS = "Arguments", "Options"
TITLES = (ARGUMENTS, "Common", "Search", "Method", "Data", "Trees", "Cluster", "Resume", OPTIONS)
"""The sections of a help, in order."""

METAVARS = {Path: "FILE", int: "N", float: "X"}
MAX_COLUMN = 26
"""Most columns of names in a help; longer ones have a line of their own."""


@dataclass(frozen=True)
class Parameter:
    """An argument, or an option if it has flags.

    default   `...` if it is required
    bare      the value of an option without a value
    type      converts a word to a value
    many      whether it may be given several times
    """

    default: Any
    known: Declaration
    flags: tuple[str, ...] = ()
    bare: str | None = None
    name: str = ""
    type: Any = None
    many: bool = False

    def bound(self, name: str, hint: Any) -> "Parameter":
        """Return the parameter with its name, its type and its flags."""
        many = False
        while get_args(hint) and get_origin(hint) is not Literal:  # X | None, list[X]
            many |= get_origin(hint) is list
            hint = get_args(hint)[0]
        flags = () if self.known.group == ARGUMENTS else self.flags or (flag(name),)
        return replace(self, name=name, type=hint, many=many, flags=flags)

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words; empty if any word is allowed."""
        return get_args(self.type)

    @property
    def title(self) -> str:
        """The name in usage and messages."""
        if self.flags:
            return self.flags[-1]
        name = f"{self.known.metavar}{'...' * self.many}"
        return name if self.default is ... else f"[{name}]"

    def value(self, word: str) -> Any:
        """Return the value of a word; raise an error that names this parameter."""
        if not word and not self.flags and self.default is None:
            return None  # an empty argument that may be left out
        if self.choices:
            if word not in self.choices:
                raise UsageError(f"{self.title} must be one of {', '.join(self.choices)}, got {word!r}")
            return word
        if self.type not in (int, float):
            return self.type(word)
        value: Any = word
        with suppress(ValueError):  # a text that is no number is rejected as it is
            value = self.type(word)
        check_number(self.title, value, self.type, self.known.range)
        return value

    def help(self) -> tuple[str, str]:
        """Return the names and the help text."""
        known, notes = self.known, []
        names = ", ".join(self.flags) or str(known.metavar)
        if self.flags and self.type is not bool:
            words = f"<{'|'.join(self.choices)}>" if self.choices else METAVARS.get(self.type, "TEXT")
            names += f" {known.metavar or words}"
        hidden = self.default is None or self.default is False or self.default is ...
        if default := known.shown or ("" if hidden else str(self.default)):
            notes.append(f"default: {default}")
        if known.range is not None and self.type in METAVARS:
            notes.append("{:.10g} to {:.10g}".format(*known.range))
        if self.default is ...:
            notes.append("required")
        return names, f"{known.help}  [{'; '.join(notes)}]" if notes else known.help


def argument(default: Any, metavar: str, help: str) -> Any:
    """Declare an argument; it is required if its default is `...`."""
    return Parameter(default, Declaration(help, ARGUMENTS, metavar))


def option(default: Any, help: str, *flags: str, bare: str | None = None, **more: Any) -> Any:
    """Declare an option, whose flag is its name if none is given; `more` is for `Declaration`."""
    return Parameter(default, Declaration(help, **{"group": OPTIONS} | more), flags, bare)


def training_options(*, without: Collection[str] = ()) -> Any:
    """Declare the fields of `Options` as options; those of `without` keep their defaults."""
    rows = [row for row in fields(Options) if declaration(row).command_line and row.name not in without]
    found = [Parameter(row.default, declaration(row)).bound(row.name, TYPES[row.name]) for row in rows]
    return [replace(one, type=_loss_weights) if one.name == "loss_weights" else one for one in found]


def _loss_weights(text: str) -> Any:
    from mtlstruct.objective.losses import parse_weights

    return parse_weights(text)


HELP = option(False, "Show this message and exit.", "-h", "--help").bound("help", bool)


class Command:
    """A function as a command; `path` is how it is called.

    Its parameter `options` takes the options of a training, and `call` the whole command line.
    """

    def __init__(self, function: Callable[..., None], path: str) -> None:
        self.function, self.path = function, path
        self.hints = get_type_hints(function)
        declared = {name: one.default for name, one in inspect.signature(function).parameters.items()}
        self.training: list[Parameter] = declared.get("options", [])
        own = [one.bound(n, self.hints[n]) for n, one in declared.items() if isinstance(one, Parameter)]
        self.parameters = [*own, *self.training, HELP]
        self.arguments = [one for one in self.parameters if not one.flags]

    @property
    def usage(self) -> str:
        """The arguments as the help shows them."""
        return " ".join(one.title for one in self.arguments)

    def sections(self) -> dict[str, list[tuple[str, str]]]:
        """Return names and help of arguments and options by section."""
        rows = {title: [p.help() for p in self.parameters if p.known.group == title] for title in TITLES}
        return {title: found for title, found in rows.items() if found}

    def __call__(self, words: Sequence[str]) -> None:
        """Run the command. Options and arguments may stand in any order."""
        try:
            given, others = self._divided(words)
            if any(parameter is HELP for parameter, _ in given):
                text = inspect.getdoc(self.function) or ""
                print(help_page(f"{self.path} [OPTIONS] {self.usage}", text, self.sections()))
                return
            values = self._values(given, others)
        except UsageError as error:
            raise UsageError(f"{error} (see {self.path} --help)") from None
        for value in values.values():
            if isinstance(value, Path) and Path(os.path.realpath(value)).is_fifo():
                print_message(f"note: {value} is a named pipe: waiting for the program at its other end")
        if self.training:
            values["options"] = Options(**{one.name: values.pop(one.name) for one in self.training})
        if "call" in self.hints:
            values["call"] = [*self.path.split()[1:], *words]
        self.function(**values)

    def _divided(self, words: Sequence[str]) -> tuple[list[tuple[Parameter, Any]], list[str]]:
        """Return options with their values, and the other words."""
        flags = {name: one for one in self.parameters for name in one.flags}
        given: list[tuple[Parameter, Any]] = []
        others: list[str] = []
        waiting = deque(words)
        while waiting and (word := waiting.popleft()) != "--":
            if word[:1] != "-" or word == "-":
                others.append(word)
                continue
            name, equals, text = word.partition("=") if word[:2] == "--" else (word[:2], word[2:], word[2:])
            if (found := flags.get(name)) is None:
                raise UsageError(unknown(name, flags))
            if found.type is bool:
                if equals and word[:2] == "--":
                    raise UsageError(f"{name} takes no value, got {text!r}")
                waiting.extendleft([f"-{text}"] * bool(equals))
                given.append((found, True))
                continue
            if found.bare is not None and not equals:
                text = waiting.popleft() if waiting and waiting[0] in found.choices else found.bare
            elif not equals:
                if not waiting:
                    raise UsageError(f"Option {name!r} requires an argument")
                text = waiting.popleft()
            given.append((found, found.value(text)))
        return given, [*others, *waiting]

    def _values(self, given: list[tuple[Parameter, Any]], others: list[str]) -> dict[str, Any]:
        """Return the value of each parameter by name. Words are for required arguments first."""
        optional = [one for one in self.arguments if one.default is not ...]
        skipped = optional[: max(0, len(self.arguments) - len(others))]
        wanted = [one for one in self.arguments if one not in skipped]
        if wanted and wanted[-1].many:
            wanted += wanted[-1:] * (len(others) - len(wanted))
        if len(wanted) != len(others):
            raise UsageError(f"expected {f'the arguments {self.usage}' if self.usage else 'no arguments'}")
        given = given + [(one, one.value(word)) for one, word in zip(wanted, others, strict=True)]
        values = {one.name: one.default for one in self.parameters if one is not HELP}
        for one, value in given:
            values[one.name] = [value for same, value in given if same is one] if one.many else value
        for one in self.parameters:
            if values.get(one.name) is ...:
                raise UsageError(f"expected {one.title}")
        return values


def help_page(usage: str, text: str, sections: dict[str, list[tuple[str, str]]]) -> str:
    """Return the help of a command or of a group of commands."""
    width = min(80, shutil.get_terminal_size().columns)
    fill = partial(textwrap.fill, break_on_hyphens=False)
    blocks = [f"Usage: {usage}"]
    for paragraph in filter(None, text.split("\n\n")):
        said = " ".join(paragraph.split())
        blocks.append(fill(said, width, initial_indent="  ", subsequent_indent="  "))
    for title, rows in sections.items():
        first = 4 + min(MAX_COLUMN, max(len(names) for names, _ in rows))
        lines = [f"{title}:"]
        for names, said in rows:
            head = f"  {names}" if len(names) + 4 <= first else ""
            lines += [] if head else [f"  {names}"]
            start, indent = head.ljust(first), " " * first
            lines.append(fill(said, max(width, first + 20), initial_indent=start, subsequent_indent=indent))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
