"""`templates …`: generate, check, convert and select template files."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from mtlstruct._system.atomic_write import replacing
from mtlstruct.cli import common
from mtlstruct.cli.command import Command
from mtlstruct.cli.common import argument, option
from mtlstruct.cli.errors import NEGATIVE, print_message
from mtlstruct.cli.options import Dialect, DialectOption
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs, check_picture_output
from mtlstruct.cli.selection_run import selected, selection_data
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, MtlError, shortened
from mtlstruct.explain import selection
from mtlstruct.features.index import encode_training
from mtlstruct.formats import conll
from mtlstruct.structures import structures_of
from mtlstruct.tasks import FileOptions, task_of
from mtlstruct.templates import PRESETS, TemplateSet, lint
from mtlstruct.templates import generate as generate_templates
from mtlstruct.templates import preset as preset_templates
from mtlstruct.templates.arc_terms import reach_of
from mtlstruct.templates.convert import converted
from mtlstruct.templates.generate import of_columns
from mtlstruct.templates.terms import read_text, split_lines
from mtlstruct.training.options import MAX_COUNT, Task

app = typer.Typer(
    name="templates",
    help="Generate, check, convert and select template files.",
    epilog="Example: mtlstruct templates generate --preset ner -o ner.tpl",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

OutOption = Annotated[Path, option("File to write; - is standard output.", "-o", "--out")]
TemplatesArgument = Annotated[Path, argument("TEMPLATES", "Template file.")]


@app.callback(invoke_without_command=True)
def _top(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command(cls=Command)
def generate(
    out: OutOption = common.STANDARD,
    preset: Annotated[str | None, option(f"A template set: {', '.join(PRESETS)}.")] = None,
    window: Annotated[str | None, option("First and last offset from the token.", shown="-3:3")] = None,
    columns: Annotated[
        str | None, option("Columns, such as 0,1; a preset without its other columns.", shown="0")
    ] = None,
    functions: Annotated[
        str | None, option('Functions to use like columns, such as "shape[0] prefix[0,1-5]".')
    ] = None,
    ngrams: Annotated[
        str | None, option("Orders of n-grams within each column, such as 1,2.", shown="1")
    ] = None,
    unigrams: Annotated[bool, typer.Option("--unigrams", help="Add 1 to --ngrams.", hidden=True)] = False,
    bigrams: Annotated[bool, option("Add 1,2 to --ngrams.", "--bigrams")] = False,
    trigrams: Annotated[str | None, option("Columns with 3-grams, too, such as 1.")] = None,
    cross: Annotated[
        bool, option("Add pairs of cells of two columns at different offsets.", "--cross")
    ] = False,
    gap: Annotated[
        int | None,
        option("Largest step between cells of an n-gram; 1: no skip-grams.", metavar="N", limits=(1, 1000)),
    ] = None,
    no_transitions: Annotated[bool, option("Leave out B, the pair of labels.", "--no-transitions")] = False,
    reach: Annotated[
        str | None,
        option(
            "Number of words between head and modifier to use, or trees whose longest arc gives it "
            "(--preset dependency).",
            metavar="N|FILE",
        ),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Generate templates: a preset, or all n-grams of cells in a window.

    Start with --preset ner, pos, chunking, segmentation or dependency. cws-tp1, cws-tp2 and ner-134
    are the sets of the paper. With --columns 0 a preset does without the column of tags.

    Example: mtlstruct templates generate --preset ner -o ner.tpl
    """
    _check_output(out, [None if reach is None else Path(reach)], force=force)
    choices = (window, functions, ngrams, unigrams, bigrams, trigrams, cross, gap)
    if preset is not None:
        if no_transitions or any(choice not in (None, False) for choice in choices):
            raise IncompatibleError(
                "--preset can be combined with --columns, not with other options that choose templates"
            )
        whole = preset_templates(preset, _reach(reach))
        if columns is not None:
            return _write(of_columns(whole, _numbers("--columns", columns)), out)
        return _write(whole.source, out)
    if reach is not None:
        raise IncompatibleError("--reach is for --preset dependency")
    orders = _numbers("--ngrams", ngrams or ("" if unigrams or bigrams else "1"))
    orders += [1] * (unigrams or bigrams) + [2] * bigrams
    found = generate_templates(
        _window("--window", window or "-3:3"),
        _numbers("--columns", columns or "0"),
        orders=list(dict.fromkeys(orders)),
        trigrams=_numbers("--trigrams", trigrams or ""),
        cross=cross,
        transitions=not no_transitions,
        functions=(functions or "").split(),
        gap=gap,
    )
    return _write(found.source, out)


def _reach(text: str | None) -> int | None:
    """Return the given number, or the number of words that the longest arc of a file spans."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
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


@app.command(cls=Command)
def convert(
    templates: TemplatesArgument,
    to: Annotated[Dialect, option("Language to write.")],
    out: OutOption = common.STANDARD,
    dialect: DialectOption = "mtlstruct",
    force: ForceOption = False,
) -> None:
    """Translate a template file into the language of another program.

    A line that the other language cannot express is an error.

    Example: mtlstruct templates convert ner.tpl --to crfpp -o ner.crfpp
    """
    _check_output(out, [templates], force=force)
    _write(converted(read_templates(templates, dialect), to), out)


@app.command(cls=Command)
def select(
    model: common.ModelArgument,
    out: OutOption = common.STANDARD,
    top: Annotated[
        int | None, option("The N most useful templates.", metavar="N", limits=(1, MAX_COUNT))
    ] = None,
    above: Annotated[
        float | None,
        option("Templates with mu above X (svm: with a norm above X).", metavar="X", limits=(0.0, 1e9)),
    ] = None,
    valid: Annotated[
        Path | None, option("Held-out data, to choose by scores of new trainings.", metavar="FILE")
    ] = None,
    folds: Annotated[
        int | None, option("Choose by scores on K parts of the training data.", metavar="K", limits=(2, 1000))
    ] = None,
    data: Annotated[
        Path | None, option("Training data.", "--train", metavar="FILE", shown="from the log of the training")
    ] = None,
    within: Annotated[
        float, option("The smallest set within X points of the best score.", metavar="X", limits=(0.0, 100.0))
    ] = 0.3,
    keep: Annotated[
        list[str] | None,
        option("Never drop templates of these names, such as U0*. May be repeated.", metavar="PATTERN"),
    ] = None,
    drop: Annotated[
        list[str] | None, option("Drop templates of these names at once.", metavar="PATTERN")
    ] = None,
    plot: Annotated[Path | None, option("Draw score and speed.", metavar="PICTURE")] = None,
    threads: common.ThreadsOption = None,
    source: Annotated[
        Path | None, option("Template file of the training, to keep its comments.", "--templates")
    ] = None,
    dialect: Annotated[Dialect, option("Language of --templates.")] = "mtlstruct",
    form: Annotated[Dialect, option("Language to write.", "--format")] = "mtlstruct",
    force: ForceOption = False,
) -> None:
    """Write the most useful templates of a model to a file.

    Without held-out data, --top and --above choose by the weights of the model. With --valid or
    --folds, templates are dropped step by step, from all to one. After each step a new model is
    trained, from the weights of the last one, and scored. Chosen is the smallest set within
    --within points of the best score, or the set of --top N templates.

    The lines are in their original order. A model does not store comments; --templates adds them.

    Example: mtlstruct templates select ner.mtl --valid dev.txt -o small.tpl --plot path.png
    """
    by_path = valid is not None or folds is not None
    if by_path and (above is not None or (valid is not None and folds is not None)):
        raise IncompatibleError("--valid, --folds, --above: expected one of them")
    if not by_path and (top is None) == (above is None):
        raise IncompatibleError("expected one of --valid, --folds, --top and --above")
    if not by_path and (keep or drop or plot is not None or data is not None):
        raise IncompatibleError("--keep, --drop, --plot and --train are for --valid and --folds")
    _check_output(out, [model, source, valid, data], force=force)
    loaded, _ = common.load_model(model, threads)
    templates = loaded.templates
    if source is not None:
        templates = TemplateSet.read(source, dialect=dialect)
        if loaded.facts.get("share_identical"):
            templates = templates.shared()
        if templates.text() != loaded.templates.text():
            raise IncompatibleError(f"{source}: these are not the templates that {model} was trained with")
    if by_path:
        inputs = [model, source, valid, data, None if out == common.STANDARD else out]
        check_picture_output(plot, inputs=inputs, force=force)
        parts = selection_data(model, loaded, data, valid, folds)
        kept = selected(loaded, parts, within=within, top=top, keep=keep or (), drop=drop or (), plot=plot)
    else:
        kept = selection.top(loaded, top) if top is not None else selection.above(loaded, above or 0.0)
    _write(selection.selected_lines(templates, kept, form), out)
    whole, left = int(loaded.features.sum()), int(loaded.features[kept].sum())
    print_message(f"kept {len(kept)} of {len(loaded.templates)} templates, {left:,} of {whole:,} features")


def read_templates(path: Path, dialect: str) -> TemplateSet:
    """Read a template file; print a note for each line that is ignored."""
    found = TemplateSet.read(path, dialect=dialect)
    for note in found.notes:
        print_message(note)
    return found


def _check_output(out: Path, inputs: Iterable[Path | None], *, force: bool) -> None:
    check_outputs([(None if out == common.STANDARD else out, Kind.TEMPLATES)], inputs=inputs, force=force)


def _write(text: str, out: Path) -> None:
    if out == common.STANDARD:
        print(text, end="")
    else:
        with replacing(out) as file:
            file.write(text.encode())


@app.command(cls=Command)
def check(
    templates: TemplatesArgument,
    data: Annotated[Path | None, option("Labelled data, to check columns and values.")] = None,
    task: Annotated[Task, option("Task of --data.")] = "sequence",
    dialect: DialectOption = "mtlstruct",
    encoding: common.EncodingOption = "utf-8",
    json: common.JsonOption = False,
) -> None:
    """Report errors and likely mistakes in a template file.

    The exit code is 1 if there are errors.

    Example: mtlstruct templates check ner.tpl --data train.txt
    """
    corpus = None if data is None else task_of(task).read(data, FileOptions(encoding))
    found = _findings(templates, dialect, corpus, task)
    errors = sum(finding.severity == lint.ERROR for finding in found)
    counts = {"errors": errors, "warnings": len(found) - errors}
    if json:
        common.print_json({"path": str(templates), **counts, "findings": [asdict(f) for f in found]})
    else:
        for finding in found:
            print(shortened(f"{templates}, {finding}"))
        words = (f"{n or 'no'} {word.rstrip('s') if n == 1 else word}" for word, n in counts.items())
        print(f"{templates}: {', '.join(words)}")
    if errors:
        raise typer.Exit(NEGATIVE)


def _findings(path: Path, dialect: str, corpus: Corpus | None, task: str) -> list[lint.LintFinding]:
    text = read_text(path, "template file")
    columns = None if corpus is None else len(corpus.columns)
    names = () if corpus is None else corpus.names
    linked = "sequence" in structures_of(task)
    found = lint.check(
        text, path, dialect=dialect, folder=path.parent, columns=columns, names=names, linked=linked
    )
    if corpus is None:
        return found
    broken = {finding.line for finding in found if finding.severity == lint.ERROR}
    sound = "\n".join("" if n in broken else line for n, line in enumerate(split_lines(text), 1))
    if lint.readable(sound, path, dialect=dialect)[0]:
        templates = TemplateSet.parse(sound, path, dialect=dialect, folder=path.parent)
        found += lint.check_data(templates, _facts(templates, corpus, task))
    return sorted(found, key=lambda finding: finding.line)


def _facts(templates: TemplateSet, corpus: Corpus, task: str) -> list[lint.Facts]:
    """Return what the encoder counts for each template."""
    sites = task_of(task).sites(corpus)
    places = {s.letter: corpus.tokens if s.tokens is None else len(s.tokens) for s in sites}
    found, repeated = (encode_training(corpus, templates, sites, min_count=n)[1].sizes for n in (1, 2))
    longest = int(np.diff(corpus.ptr).max(initial=0))
    return [
        lint.Facts(places[template.kind], int(values), int(values - twice), longest)
        for template, values, twice in zip(templates, found, repeated, strict=True)
    ]
