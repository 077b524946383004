"""`tune`: train with several settings and choose the best on held-out data."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtlstruct.cli import common
from mtlstruct.cli.command import argument, option, training_options
from mtlstruct.cli.errors import NEGATIVE, print_message
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.training.options import Options

SEARCHED = ("method", "loss", "p", "c", "scheme")
"""The options that take several values."""


def tune(
    call: Sequence[str],
    templates: Path | None = argument(None, "TEMPLATES", "Template file; may be left out, as for train."),
    data: Path = argument(..., "TRAIN", "Labelled training data."),
    c: str = option("0.1,1,10", "Values of c, such as 0.3,1,3.", "-c", metavar="LIST"),
    p: str = option("", "Values of p, such as 1.1,4/3, for pmtl and mixed.", "-p", metavar="LIST"),
    loss: str = option("", "Losses, such as log,hinge.", metavar="LIST", shown="that of each method"),
    method: str = option("mtl", "Methods, such as mtl,svm,crf-l2.", metavar="LIST"),
    scheme: str = option("", "Label schemes to learn, such as keep,bioes,io.", metavar="LIST", shown="keep"),
    valid: Path | None = option(None, "Score on this file; train on all of TRAIN.", group="Common"),
    folds: int | None = option(
        None,
        "Cross-validate: score each of K parts of TRAIN.",
        metavar="K",
        range=(2, 1000),
        shown="3 below 2,000 sentences",
        group="Common",
    ),
    dialect: common.Dialect = common.DIALECT,
    separator: str = common.SEPARATOR,
    ragged: common.Ragged = common.RAGGED,
    encoding: str = common.ENCODING,
    out: Path = option(Path("tune"), "Folder of the results.", metavar="DIR"),
    model: Path | None = option(
        None, "Train on all of TRAIN with the best setting; save here.", "-o", "--model", metavar="MODEL"
    ),
    jobs: int | None = option(
        None,
        "Trainings at the same time; with --engine ray the number of workers.",
        "--jobs",
        "--shards",
        range=(1, 1000),
        shown="all cores",
    ),
    engine: common.Workers = common.ENGINE,
    address: str | None = common.ADDRESS,
    score: str | None = common.SCORE,
    minutes: float | None = common.MINUTES,
    threads: int | None = common.THREADS,
    force: bool = common.FORCE,
    quiet: bool = common.QUIET,
    json: bool = common.JSON,
    options: Options = training_options(without=(*SEARCHED, "labels", "shards")),
) -> None:
    """Choose -c, -p, --loss, --scheme and --method on held-out data.

    Every combination of the values of -c, -p, --loss, --scheme and --method is trained and scored,
    in parallel, on data encoded once. Of the settings within a quarter of a standard error of the
    best score the one with the smallest model is chosen. Each result is a line of
    DIR/results.jsonl: after an interruption the same command continues. The exit code is 1 if a
    training failed; the results of the others are saved.

    Example: mtlstruct tune ner.tpl train.txt -c 0.3,1,3 --valid dev.txt
    """
    from mtlstruct.cli.engine import Engine  # here, so that --help is quick
    from mtlstruct.cli.training_run import TrainingRun
    from mtlstruct.cli.tuning_run import TuningRun
    from mtlstruct.tuning.study import combinations

    if valid is not None and folds is not None:
        raise IncompatibleError("--valid, --folds: expected one of them")
    words = {"method": method, "loss": loss, "scheme": scheme}
    axes: dict[str, list[Any]] = {name: _words(text, f"--{name}") for name, text in words.items() if text}
    axes |= {name: _numbers(text, f"-{name}") for name, text in (("p", p), ("c", c)) if text}
    run = TrainingRun(
        options,
        templates,
        data,
        model or Path(),
        valid=valid,
        log=None if model is None else common.log_beside(model),
        encoding=encoding,
        cells=common.cell_format(separator, ragged),
        arguments=call,
        dialect=dialect,
        force=force,
        quiet=quiet,
    )
    search = TuningRun(
        run,
        combinations(options, axes),
        out,
        folds=folds,
        score=score,
        jobs=jobs,
        engine=Engine(engine, address, jobs if engine == "ray" else None),
        minutes=minutes,
        refit=model is not None,
    )
    search.check()
    common.use_resources(threads)
    search.run()
    if json:
        common.print_json(search.numbers)
    else:
        search.print_table()
    if search.failed:
        print_message(search.failures())
        sys.exit(NEGATIVE)


def _numbers(text: str, option: str) -> list[float]:
    """Return the numbers of a list; fractions such as 4/3 are numbers, too."""
    parts = [word.partition("/") for word in _words(text, option)]
    try:
        return [float(above) / float(below or 1) for above, _, below in parts]
    except (ValueError, ZeroDivisionError):
        raise MtlError(f"{option}: expected numbers separated by commas, got {text!r}") from None


def _words(text: str, option: str) -> list[str]:
    """Return the distinct words between commas, in order."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise MtlError(f"{option}: expected values separated by commas, got {text!r}")
    return list(dict.fromkeys(words))
