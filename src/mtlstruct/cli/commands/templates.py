"""`templates …`: make template files, look them over, write them in another language."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.cli.common import EncodingOption, JsonOption, print_json
from mtlstruct.cli.errors import complain
from mtlstruct.cli.lazy import add_lazy_command
from mtlstruct.cli.options import Dialect, DialectOption
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.training.options import Task

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.templates import TemplateSet
    from mtlstruct.templates.lint import Facts, Finding

app = typer.Typer(
    name="templates",
    help="Make, check and convert template files.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PRESETS = "cws-tp1, cws-tp2, ner-134, dependency, dependency-labels, ner, pos, chunking, segmentation"
"""The names in templates.PRESETS, for the help text only."""

STANDARD = Path("-")
"""The name of stdout."""

LIMIT = 1000
"""More templates than this are written only when that was meant."""


OutOption = Annotated[Path | None, typer.Option("-o", "--out", help="Where to write.", show_default="stdout")]


@app.callback(invoke_without_command=True)
def _top(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


add_lazy_command(
    app,
    "select",
    "templates_select:select",
    "Write the smaller template file: the lines worth keeping, in their order.",
)


# ---------------------------------------------------------------- generate


@app.command()
def generate(
    out: OutOption = None,
    preset: Annotated[str | None, typer.Option("--preset", help=f"A set by name: {PRESETS}.")] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help="First and last offset from the token.", show_default="-3:3"),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Columns to look at, such as 0,1.", show_default="0")
    ] = None,
    functions: Annotated[
        str | None,
        typer.Option("--functions", help='Functions to treat like columns: "shape[0] prefix[0,1-5]".'),
    ] = None,
    unigrams: Annotated[
        bool | None,
        typer.Option("--unigrams/--no-unigrams", help="Single cells.", show_default="unigrams"),
    ] = None,
    bigrams: Annotated[bool, typer.Option("--bigrams", help="Pairs of cells of one column.")] = False,
    trigrams: Annotated[
        str | None, typer.Option("--trigrams", help="Columns with triples of cells, such as 1.")
    ] = None,
    orders: Annotated[
        str | None, typer.Option("--orders", help="Further n-grams within every column, such as 3,4.")
    ] = None,
    cross: Annotated[
        bool, typer.Option("--cross", help="Pairs of cells of two columns at different offsets.")
    ] = False,
    across: Annotated[
        str | None, typer.Option("--across", help="n-grams of different columns at any offsets, such as 2,3.")
    ] = None,
    gap: Annotated[
        int | None,
        typer.Option("--gap", metavar="N", help="Neighbouring cells at most N apart; 1: no skip-grams."),
    ] = None,
    observed: Annotated[
        str | None, typer.Option("--observed", help='Cells for transitions to look at: "1 case[0]".')
    ] = None,
    observed_window: Annotated[
        str | None,
        typer.Option("--observed-window", help="Where these look, of the two tokens.", show_default="0:0"),
    ] = None,
    transitions: Annotated[
        bool | None,
        typer.Option(
            "--transitions/--no-transitions", help="B, the pair of labels.", show_default="transitions"
        ),
    ] = None,
    reach: Annotated[
        int | None,
        typer.Option(
            "--reach", metavar="N", help="Words between two others to look at (--preset dependency)."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Trees whose longest arc gives --reach (--preset dependency)."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Ask before writing more than N templates.")
    ] = LIMIT,
    force: ForceOption = False,
) -> None:
    """Enumerate templates: all n-grams of cells in a window, a rich set for a task, or a set of the paper."""
    from mtlstruct import templates

    check_template_output(out, [data], force=force)
    chosen: tuple[object, ...] = (
        window,
        columns,
        functions,
        unigrams,
        bigrams or None,
        trigrams,
        orders,
        cross or None,
    )
    chosen += (across, gap, observed, observed_window, transitions)
    if preset is not None:
        if any(choice is not None for choice in chosen):
            raise IncompatibleError(
                "--preset is a whole set: expected no other choice of templates beside it"
            )
        return _write_set(templates.preset(preset, _reach(reach, data)), out, limit)
    if reach is not None or data is not None:
        raise IncompatibleError("--reach and --data are for --preset dependency")
    found = templates.generate(
        _window("--window", window or "-3:3"),
        _numbers("--columns", columns or "0"),
        unigrams=unigrams is not False,
        bigrams=bigrams,
        trigrams=_numbers("--trigrams", trigrams or ""),
        cross=cross,
        transitions=transitions is not False,
        functions=(functions or "").split(),
        orders=_numbers("--orders", orders or ""),
        across=_numbers("--across", across or ""),
        gap=gap,
        observed=(observed or "").split(),
        observed_window=_window("--observed-window", observed_window or "0:0"),
    )
    return _write_set(found, out, limit)


def _reach(reach: int | None, data: Path | None) -> int | None:
    """How many words between to look at: as given, or as many as the longest arc of the data has."""
    if data is None:
        return reach
    if reach is not None:
        raise IncompatibleError("--reach and --data: expected one of them")
    from mtlstruct.formats import conll
    from mtlstruct.templates.arc_terms import reach_of

    return reach_of(conll.read(data))


def _write_set(templates: TemplateSet, out: Path | None, limit: int) -> None:
    if len(templates) > limit:
        _ask(len(templates), limit)
    write_templates(templates.source, out)


def _ask(count: int, limit: int) -> None:
    """Goes on only if a person says so."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise MtlError(
            f"this makes {count:,} templates, more than --limit {limit}: make fewer, or give --limit {count}"
        )
    if not typer.confirm(f"Write {count:,} templates?", err=True):
        raise MtlError("nothing was written")


def _window(option: str, text: str) -> tuple[int, int]:
    first, _, last = text.partition(":")
    try:
        return int(first), int(last)
    except ValueError:
        raise MtlError(f"{option}: expected first:last such as -3:3, got {text!r}") from None


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",") if text]
    except ValueError:
        raise MtlError(f"{option}: expected column numbers such as 0,1, got {text!r}") from None


# ---------------------------------------------------------------- convert


@app.command()
def convert(
    templates: Annotated[Path, typer.Argument(metavar="TEMPLATES", help="A template file.")],
    to: Annotated[Dialect, typer.Option("--to", help="The language to write.")],
    out: OutOption = None,
    dialect: DialectOption = "mtlstruct",
    force: ForceOption = False,
) -> None:
    """Write a template file in another language. What that cannot express is an error with the line."""
    from mtlstruct.templates.convert import converted

    check_template_output(out, [templates], force=force)
    write_templates(converted(read_templates(templates, dialect), to), out)


def read_templates(path: Path, dialect: str) -> TemplateSet:
    """Reads a template file and says on stderr which lines were passed over."""
    from mtlstruct.templates import TemplateSet

    found = TemplateSet.read(path, dialect=dialect)
    for note in found.notes:
        complain(note)
    return found


def check_template_output(out: Path | None, inputs: Iterable[Path | None], *, force: bool) -> None:
    """Check a file that templates are to be written to, if it is not stdout."""
    check_outputs([(None if out == STANDARD else out, Kind.TEMPLATES)], inputs=inputs, force=force)


def write_templates(text: str, out: Path | None) -> None:
    """Write a template file, or print it."""
    from mtlstruct._system.atomic_write import replacing

    if out is None or out == STANDARD:
        print(text, end="")
    else:
        with replacing(out) as file:
            file.write(text.encode())


# ---------------------------------------------------------------- check


@app.command()
def check(
    templates: Annotated[Path, typer.Argument(metavar="TEMPLATES", help="A template file.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="Labelled data, to check columns and count values.")
    ] = None,
    task: Annotated[Task, typer.Option("--task", help="What --data is.")] = "sequence",
    dialect: DialectOption = "mtlstruct",
    encoding: EncodingOption = "utf-8",
    json: JsonOption = False,
) -> None:
    """Look a template file over: errors, and what was hardly meant. Exit code 1 if there are errors."""
    from mtlstruct.tasks import base as scoring
    from mtlstruct.templates.lint import ERROR, as_dict

    corpus = None if data is None else scoring.read(data, task, encoding=encoding)
    found = _findings(templates, dialect, corpus, task)
    errors = sum(finding.severity == ERROR for finding in found)
    if json:
        counts = {"errors": errors, "warnings": len(found) - errors}
        print_json({"path": str(templates), **counts, "findings": [as_dict(f) for f in found]})
    else:
        for finding in found:
            print(f"{templates}, {finding}")
        print(f"{templates}: {_count(errors, 'error')}, {_count(len(found) - errors, 'warning')}")
    if errors:
        raise typer.Exit(1)


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"


def _findings(path: Path, dialect: str, corpus: Corpus | None, task: str) -> list[Finding]:
    from mtlstruct.templates import TemplateSet, lint
    from mtlstruct.templates.lines import read_text, split_lines

    text = read_text(path, "template file")
    columns = None if corpus is None else len(corpus.columns)
    names = () if corpus is None else corpus.names
    found = lint.check(text, path, dialect=dialect, folder=path.parent, columns=columns, names=names)
    if corpus is None:
        return found
    broken = {finding.line for finding in found if finding.severity == lint.ERROR}
    sound = "\n".join("" if n in broken else line for n, line in enumerate(split_lines(text), 1))
    if lint.readable(sound, path, dialect=dialect)[0]:
        templates = TemplateSet.parse(sound, path, dialect=dialect, folder=path.parent)
        found += lint.check_data(templates, _facts(templates, corpus, task))
    return sorted(found, key=lambda finding: finding.line)


def _facts(templates: TemplateSet, corpus: Corpus, task: str) -> list[Facts]:
    """What the encoder counts for each template."""
    import numpy as np

    from mtlstruct.features.index import encode_training
    from mtlstruct.structures import SequenceStructure, TreeStructure
    from mtlstruct.templates import lint

    structure = TreeStructure() if task == "dependency" else SequenceStructure(max(2, len(corpus.labels)))
    sites = structure.sites(corpus.ptr)
    places = {s.letter: corpus.tokens if s.tokens is None else len(s.tokens) for s in sites}
    _, index = encode_training(corpus, templates, sites)
    longest = int(np.diff(corpus.ptr).max(initial=0))
    return [
        lint.Facts(places[template.kind], int(values), longest)
        for template, values in zip(templates, index.found, strict=True)
    ]
