"""`tune`: train with several settings and choose the best on held-out data."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from mtlstruct.cli.common import (
    EncodingOption,
    JsonOption,
    MinutesOption,
    QuietOption,
    RaggedOption,
    ScoreOption,
    SeparatorOption,
    ThreadsOption,
    cell_format,
    log_beside,
    print_json,
    use_threads,
)
from mtlstruct.cli.errors import NEGATIVE, print_message
from mtlstruct.cli.options import DialectOption, with_options
from mtlstruct.cli.outputs import ForceOption
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.training.options import Options


@with_options(without=("method", "loss", "p", "c", "scheme", "labels", "shards"))
def tune(
    call: typer.Context,
    options: Options,
    templates: Annotated[
        Path, typer.Argument(metavar="[TEMPLATES]", help="Template file; may be left out, as for train.")
    ],
    data: Annotated[Path | None, typer.Argument(metavar="TRAIN", help="Labelled training data.")] = None,
    c: Annotated[str, typer.Option("-c", metavar="LIST", help="Values of c, such as 0.3,1,3.")] = "0.1,1,10",
    p: Annotated[
        str, typer.Option("-p", metavar="LIST", help="Values of p, such as 1.1,4/3, for pmtl and mixed.")
    ] = "",
    loss: Annotated[
        str,
        typer.Option(metavar="LIST", help="Losses, such as log,hinge.", show_default="that of each method"),
    ] = "",
    method: Annotated[str, typer.Option(metavar="LIST", help="Methods, such as mtl,svm,crf-l2.")] = "mtl",
    scheme: Annotated[
        str,
        typer.Option(
            metavar="LIST", help="Label schemes to learn, such as keep,bioes,io.", show_default="keep"
        ),
    ] = "",
    valid: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Score on this file; train on all of TRAIN.")
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(metavar="K", min=2, max=1000, help="Cross-validate: score each of K parts of TRAIN."),
    ] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Score on this share of TRAIN, train on the rest.",
            show_default="0.2, without --valid and --folds",
        ),
    ] = None,
    dialect: DialectOption = "mtlstruct",
    separator: SeparatorOption = "",
    ragged: RaggedOption = None,
    encoding: EncodingOption = "utf-8",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")] = Path("tune"),
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", "-o", metavar="MODEL", help="Train on all of TRAIN with the best setting; save here."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=1000, help="Trainings at the same time.", show_default="all cores"
        ),
    ] = None,
    score: ScoreOption = None,
    minutes: MinutesOption = None,
    threads: ThreadsOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Choose -c, -p, --loss, --scheme and --method on held-out data.

    Every combination of the values of -c, -p, --loss, --scheme and --method is trained and scored,
    in parallel, on data encoded once. Of the settings within one standard error of the best score
    the one with the smallest model is chosen. Each result is a line of DIR/results.jsonl: after an
    interruption the same command continues. The exit code is 1 if a training failed; the results of
    the others are saved.

    Example: mtlstruct tune ner.tpl train.txt -c 0.3,1,3 --valid dev.txt
    """
    from mtlstruct.cli.training_run import TrainingRun  # here, so that --help is quick
    from mtlstruct.cli.tuning_run import Trials
    from mtlstruct.tuning.result_store import combinations
    from mtlstruct.tuning.study import distinct

    if sum(given is not None for given in (valid, folds, hold_out)) > 1:
        raise IncompatibleError("--valid, --folds, --hold-out: expected one of them")
    axes: dict[str, list[Any]] = {"method": _words(method, "--method")}
    if loss:
        axes["loss"] = _words(loss, "--loss")
    if scheme:
        axes["scheme"] = _words(scheme, "--scheme")
    if p:
        axes["p"] = _numbers(p, "-p")
    axes["c"] = _numbers(c, "-c")
    run = TrainingRun(
        options,
        None if data is None else templates,
        data or templates,
        model or Path(),
        valid=valid,
        log=None if model is None else log_beside(model),
        encoding=encoding,
        cells=cell_format(separator, ragged),
        arguments=tuple(call.obj or ()),
        dialect=dialect,
        force=force,
        quiet=quiet,
    )
    trials = Trials(
        run,
        distinct(combinations(options, axes)),
        out,
        folds=folds,
        hold_out=hold_out,
        score=score,
        jobs=jobs,
        minutes=minutes,
        refit=model is not None,
    )
    trials.check()
    use_threads(threads)
    result = trials.run()
    if json:
        print_json(result.numbers)
    else:
        result.print_table()
    if result.failed:
        print_message(result.failures())
        raise typer.Exit(NEGATIVE)


def _numbers(text: str, option: str) -> list[float]:
    """Return the numbers of a list; fractions such as 4/3 are numbers, too."""
    words = _words(text, option)
    try:
        return [float(Fraction(word)) for word in words]
    except (ValueError, ZeroDivisionError, OverflowError):
        raise MtlError(f"{option}: expected numbers separated by commas, got {text!r}") from None


def _words(text: str, option: str) -> list[str]:
    """Return the distinct words between commas, in order."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise MtlError(f"{option}: expected values separated by commas, got {text!r}")
    return list(dict.fromkeys(words))
