"""`templates …`: make, check, convert and select template files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.cli.common import EncodingOption, JsonOption, print_json
from mtlstruct.cli.errors import complain
from mtlstruct.cli.options import Dialect, DialectOption
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.training.options import Task

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.model.model import Model
    from mtlstruct.templates import TemplateSet
    from mtlstruct.templates.lint import Facts, Finding

app = typer.Typer(
    name="templates",
    help="Make, check, convert and select template files.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PRESETS = "cws-tp1, cws-tp2, ner-134, dependency, dependency-labels, ner, pos, chunking, segmentation"
"""The names in templates.PRESETS, for the help text only."""

STANDARD = Path("-")
"""The name of stdout."""

OutOption = Annotated[Path | None, typer.Option("-o", "--out", help="Where to write.", show_default="stdout")]


@app.callback(invoke_without_command=True)
def _top(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


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
    ngrams: Annotated[
        str | None,
        typer.Option("--ngrams", help="Orders of n-grams within each column, such as 1,2.", show_default="1"),
    ] = None,
    unigrams: Annotated[bool, typer.Option("--unigrams", help="Add 1 to --ngrams.", hidden=True)] = False,
    bigrams: Annotated[bool, typer.Option("--bigrams", help="Add 1,2 to --ngrams.")] = False,
    trigrams: Annotated[
        str | None, typer.Option("--trigrams", help="Columns with 3-grams in addition, such as 1.")
    ] = None,
    cross: Annotated[
        bool, typer.Option("--cross", help="Pairs of cells of two columns at different offsets.")
    ] = False,
    gap: Annotated[
        int | None,
        typer.Option("--gap", metavar="N", help="Neighbouring cells at most N apart; 1: no skip-grams."),
    ] = None,
    observed: Annotated[
        str | None, typer.Option("--observed", help='Cells for transitions to look at: "1 case[0]".')
    ] = None,
    no_transitions: Annotated[
        bool, typer.Option("--no-transitions", help="Leave out B, the pair of labels.")
    ] = False,
    reach: Annotated[
        str | None,
        typer.Option(
            "--reach",
            metavar="N|FILE",
            help="Words between two others to look at, or trees whose longest arc gives it "
            "(--preset dependency).",
        ),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Enumerate templates: all n-grams of cells in a window, a rich set for a task, or a set of the paper."""
    from mtlstruct import templates

    _check_output(out, [None if reach is None else Path(reach)], force=force)
    choices = (window, columns, functions, ngrams, unigrams, bigrams, trigrams, cross, gap, observed)
    if preset is not None:
        if no_transitions or any(choice not in (None, False) for choice in choices):
            raise IncompatibleError(
                "--preset is a whole set: expected no other choice of templates beside it"
            )
        return _write(templates.preset(preset, _reach(reach)).source, out)
    if reach is not None:
        raise IncompatibleError("--reach is for --preset dependency")
    orders = dict.fromkeys(_numbers("--ngrams", ngrams or ("" if unigrams or bigrams else "1")))
    found = templates.generate(
        _window("--window", window or "-3:3"),
        _numbers("--columns", columns or "0"),
        unigrams=1 in orders or unigrams or bigrams,
        bigrams=2 in orders or bigrams,
        trigrams=_numbers("--trigrams", trigrams or ""),
        cross=cross,
        transitions=not no_transitions,
        functions=(functions or "").split(),
        orders=[order for order in orders if order not in (1, 2)],
        gap=gap,
        observed=(observed or "").split(),
    )
    return _write(found.source, out)


def _reach(text: str | None) -> int | None:
    """Return how many words between to look at: as given, or as many as the longest arc of a file has."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    from mtlstruct.formats import conll
    from mtlstruct.templates.arc_terms import reach_of

    return reach_of(conll.read(text))


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
        raise MtlError(f"{option}: expected numbers such as 0,1, got {text!r}") from None


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

    _check_output(out, [templates], force=force)
    _write(converted(read_templates(templates, dialect), to), out)


@app.command()
def select(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    out: OutOption = None,
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="The N heaviest templates.")
    ] = None,
    above: Annotated[
        float | None,
        typer.Option("--above", metavar="X", help="Templates with mu above X (svm: with a norm above X)."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--templates", help="The file that was trained with: its comments are kept."),
    ] = None,
    dialect: Annotated[
        Dialect, typer.Option("--dialect", help="The template language of --templates.")
    ] = "mtlstruct",
    form: Annotated[Dialect, typer.Option("--format", help="The template language to write.")] = "mtlstruct",
    force: ForceOption = False,
) -> None:
    """Write a smaller template file: the lines worth keeping, in their order.

    A model keeps template lines but no comments; give the original by --templates to have them too. A line that
    --format cannot express is an error.
    """
    from mtlstruct.explain import selection
    from mtlstruct.model.model import Model

    if (top is None) == (above is None):
        raise IncompatibleError("expected one of --top and --above")
    _check_output(out, [model, source], force=force)
    loaded = Model.load(model)
    templates = loaded.templates if source is None else _original(source, dialect, loaded, model)
    kept = selection.top(loaded, top) if top is not None else selection.above(loaded, above or 0.0)
    _write(selection.lines_kept(templates, kept, form), out)
    whole, left = int(loaded.features.sum()), int(loaded.features[kept].sum())
    complain(f"kept {len(kept)} of {len(loaded.templates)} templates, {left:,} of {whole:,} features")


def _original(path: Path, dialect: str, model: Model, name: Path) -> TemplateSet:
    """Return the user's own file, if it is the one of the model."""
    from mtlstruct.templates import TemplateSet

    templates = TemplateSet.read(path, dialect=dialect)
    if model.facts.get("share_identical"):
        templates = templates.shared()
    if templates.text() != model.templates.text():
        raise IncompatibleError(f"{path}: these are not the templates that {name} was trained with")
    return templates


def read_templates(path: Path, dialect: str) -> TemplateSet:
    """Reads a template file and says on stderr which lines were passed over."""
    from mtlstruct.templates import TemplateSet

    found = TemplateSet.read(path, dialect=dialect)
    for note in found.notes:
        complain(note)
    return found


def _check_output(out: Path | None, inputs: Iterable[Path | None], *, force: bool) -> None:
    check_outputs([(None if out == STANDARD else out, Kind.TEMPLATES)], inputs=inputs, force=force)


def _write(text: str, out: Path | None) -> None:
    from mtlstruct._system.atomic_write import replacing

    if out is None or out == STANDARD:
        print(text, end="")
    else:
        with replacing(out) as file:
            file.write(text.encode())


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
    from mtlstruct.tasks import Form, task_of
    from mtlstruct.templates.lint import ERROR, as_dict

    corpus = None if data is None else task_of(task).read(data, Form(encoding))
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
    from mtlstruct.tasks import task_of
    from mtlstruct.templates import lint

    sites = task_of(task).sites(corpus)
    places = {s.letter: corpus.tokens if s.tokens is None else len(s.tokens) for s in sites}
    _, index = encode_training(corpus, templates, sites)
    longest = int(np.diff(corpus.ptr).max(initial=0))
    return [
        lint.Facts(places[template.kind], int(values), longest)
        for template, values in zip(templates, index.found, strict=True)
    ]
