"""`tune`: try settings on held-out data, and say which are best."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from mtlstruct.cli.common import EncodingOption, JsonOption, QuietOption, log_beside, print_json
from mtlstruct.cli.errors import NO, complain
from mtlstruct.cli.options import DialectOption, with_options
from mtlstruct.cli.outputs import ForceOption
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.training.options import Options

HELD_OUT = 0.2
"""The share that is held out if nothing else is said."""


@with_options(without=("method", "p", "c", "labels", "shards"))
def tune(
    context: typer.Context,
    options: Options,
    templates: Annotated[Path, typer.Argument(metavar="TEMPLATES", help="Feature templates.")],
    data: Annotated[Path, typer.Argument(metavar="TRAIN", help="Labelled training data.")],
    c: Annotated[str, typer.Option("-c", metavar="LIST", help="Values of c, with commas.")] = "0.1,1,10",
    p: Annotated[
        str, typer.Option("-p", metavar="LIST", help="Values of p, for methods that have it; 4/3 is fine.")
    ] = "",
    method: Annotated[str, typer.Option("--method", metavar="LIST", help="Methods, with commas.")] = "mtl",
    valid: Annotated[
        Path | None, typer.Option("--valid", help="Score on this file; train on all of TRAIN.")
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option("--folds", metavar="K", help="Score each of K parts of TRAIN, training on the others."),
    ] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(
            "--hold-out",
            metavar="SHARE",
            help="Score on this share of TRAIN, training on the rest.",
            show_default=f"{HELD_OUT}, if neither --valid nor --folds is given",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where results are kept and looked for.")
    ] = Path("tune"),
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", "-o", metavar="MODEL", help="Train on all of TRAIN with the best, save here."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", min=1, help="Trainings at a time.", show_default="all cores"),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", metavar="N", min=1, help="For each.", show_default="its share of the cores"
        ),
    ] = None,
    dialect: DialectOption = "mtlstruct",
    encoding: EncodingOption = "utf-8",
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Try options on data that training has not seen, and say which are best.

    Every combination of -c, -p and --method is trained and scored, in parallel, on data encoded once. Each
    result is a line of DIR/results.jsonl: the same command goes on where an earlier one was interrupted. Exit
    code 1 if a training failed; the others are not lost.
    """
    from mtlstruct.cli.training_run import TrainingRun  # here, so that --help is quick
    from mtlstruct.cli.tuning_run import Trials
    from mtlstruct.tasks import task_of
    from mtlstruct.tuning.result_store import combinations
    from mtlstruct.tuning.study import settled

    if not task_of(options.task).divisible and valid is None:
        raise IncompatibleError(
            f"--task {options.task}: expected --valid, since encoded trees cannot be held out in part"
        )
    if sum(given is not None for given in (valid, folds, hold_out)) > 1:
        raise IncompatibleError("--valid, --folds, --hold-out: expected one of them")
    axes: dict[str, list[Any]] = {"method": _words(method, "--method")}
    if p:
        axes["p"] = numbers(p, "-p")
    axes["c"] = numbers(c, "-c")
    settings: list[Options] = settled(combinations(options, axes))
    run = TrainingRun(
        options,
        templates,
        data,
        model or Path(),
        valid=valid,
        log=None if model is None else log_beside(model),
        encoding=encoding,
        arguments=tuple(context.obj or ()),
        dialect=dialect,
        force=force,
    )
    trials = Trials(
        run,
        settings,
        folds=folds,
        hold_out=HELD_OUT if valid is None and folds is None and hold_out is None else hold_out,
        out=out,
        jobs=jobs,
        threads=threads,
        refit=model is not None,
    )
    trials.check()
    result = trials.run(quiet=quiet)
    if json:
        print_json(result.numbers)
    else:
        result.print_table()
    if result.failed:
        complain(result.failures())
        raise typer.Exit(NO)


def numbers(text: str, option: str) -> list[float]:
    """The values of an axis; a fraction is a number too, since the paper's p are fractions."""
    try:
        return [float(Fraction(word)) for word in _words(text, option)]
    except (ValueError, ZeroDivisionError, OverflowError):
        raise MtlError(f"{option}: expected numbers separated by commas, got {text!r}") from None


def _words(text: str, option: str) -> list[str]:
    """Distinct words between commas, in order."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise MtlError(f"{option}: expected values separated by commas, got {text!r}")
    return list(dict.fromkeys(words))
