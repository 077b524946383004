"""`templates …`: generate, check and convert template files."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from mtlstruct._system.atomic_write import replacing
from mtlstruct.cli import common
from mtlstruct.cli.command import argument, option
from mtlstruct.cli.errors import NEGATIVE, print_message
from mtlstruct.cli.outputs import Kind, check_outputs
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, MtlError, shortened
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
from mtlstruct.training.options import Task

OUT = option(common.STANDARD, "File to write; - is standard output.", "-o", "--out")
TEMPLATES = argument(..., "TEMPLATES", "Template file.")


def generate(
    out: Path = OUT,
    preset: str | None = option(None, f"A template set: {', '.join(PRESETS)}."),
    window: str | None = option(None, "First and last offset from the token.", shown="-3:3"),
    columns: str | None = option(
        None, "Columns, such as 0,1; a preset without its other columns.", shown="0"
    ),
    functions: str | None = option(None, 'Functions to use like columns, such as "shape[0] prefix[0,1-5]".'),
    ngrams: str | None = option(None, "Orders of n-grams within each column, such as 1,2.", shown="1"),
    unigrams: bool = option(False, "Add 1 to --ngrams."),
    bigrams: bool = option(False, "Add 1,2 to --ngrams."),
    trigrams: str | None = option(None, "Columns with 3-grams, too, such as 1."),
    cross: bool = option(False, "Add pairs of cells of two columns at different offsets."),
    gap: int | None = option(
        None, "Largest step between cells of an n-gram; 1: no skip-grams.", range=(1, 1000)
    ),
    no_transitions: bool = option(False, "Leave out B, the pair of labels."),
    reach: str | None = option(
        None,
        "Number of words between head and modifier to use, or trees whose longest arc gives it "
        "(--preset dependency).",
        metavar="N|FILE",
    ),
    force: bool = common.FORCE,
) -> None:
    """Generate templates: a preset, or all n-grams of cells in a window.

    Start with --preset ner, pos, chunking, segmentation or dependency. cws-tp1, cws-tp2 and ner-134
    are the sets of the paper. With --columns 0 a preset does without the column of tags.

    Example: mtlstruct templates generate --preset ner -o ner.tpl
    """
    check_output(out, [None if reach is None else Path(reach)], force=force)
    if preset is not None:
        if any((window, functions, ngrams, unigrams, bigrams, trigrams, cross, gap, no_transitions)):
            raise IncompatibleError(
                "--preset can be combined with --columns, not with other options that choose templates"
            )
        known = reach is None or reach.isdecimal()  # else the longest arc of a file gives it
        words = None if reach is None else int(reach) if known else reach_of(conll.read(reach))
        whole = preset_templates(preset, words)
        write_text(
            whole.source if columns is None else of_columns(whole, _numbers("--columns", columns)), out
        )
        return
    if reach is not None:
        raise IncompatibleError("--reach is for --preset dependency")
    first, _, last = (window or "-3:3").partition(":")
    try:
        edges = int(first), int(last)
    except ValueError:
        raise MtlError(f"--window: expected first:last such as -3:3, got {window!r}") from None
    orders = _numbers("--ngrams", ngrams or ("" if unigrams or bigrams else "1"))
    orders += [1] * (unigrams or bigrams) + [2] * bigrams
    found = generate_templates(
        edges,
        _numbers("--columns", columns or "0"),
        orders=list(dict.fromkeys(orders)),
        trigrams=_numbers("--trigrams", trigrams or ""),
        cross=cross,
        transitions=not no_transitions,
        functions=(functions or "").split(),
        gap=gap,
    )
    write_text(found.source, out)


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",") if text]
    except ValueError:
        raise MtlError(f"{option}: expected numbers such as 0,1, got {text!r}") from None


def convert(
    templates: Path = TEMPLATES,
    to: common.Dialect = option(..., "Language to write."),
    out: Path = OUT,
    dialect: common.Dialect = common.DIALECT,
    force: bool = common.FORCE,
) -> None:
    """Translate a template file into the language of another program.

    A line that the other language cannot express is an error.

    Example: mtlstruct templates convert ner.tpl --to crfpp -o ner.crfpp
    """
    check_output(out, [templates], force=force)
    write_text(converted(read_templates(templates, dialect), to), out)


def read_templates(path: Path, dialect: str) -> TemplateSet:
    """Read a template file; print a note for each line that is ignored."""
    found = TemplateSet.read(path, dialect=dialect)
    for note in found.notes:
        print_message(note)
    return found


def check_output(out: Path, inputs: Iterable[Path | None], *, force: bool) -> None:
    """Check a template file to write, or standard output."""
    check_outputs([(None if out == common.STANDARD else out, Kind.TEMPLATES)], inputs=inputs, force=force)


def write_text(text: str, out: Path) -> None:
    """Write a text to a file or to standard output."""
    if out == common.STANDARD:
        print(text, end="")
    else:
        with replacing(out) as file:
            file.write(text.encode())


def check(
    templates: Path = TEMPLATES,
    data: Path | None = option(None, "Labelled data, to check columns and values."),
    task: Task = option("sequence", "Task of --data."),
    dialect: common.Dialect = common.DIALECT,
    encoding: str = common.ENCODING,
    json: bool = common.JSON,
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
        sys.exit(NEGATIVE)


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
        sites = task_of(task).sites(corpus)
        places = {s.letter: corpus.tokens if s.tokens is None else len(s.tokens) for s in sites}
        sizes, repeated = (encode_training(corpus, templates, sites, min_count=n)[1].sizes for n in (1, 2))
        longest = int(np.diff(corpus.ptr).max(initial=0))
        facts = [
            lint.Facts(places[template.kind], int(values), int(values - twice), longest)
            for template, values, twice in zip(templates, sizes, repeated, strict=True)
        ]
        found += lint.check_data(templates, facts)
    return sorted(found, key=lambda finding: finding.line)
