"""`tune`: train with several settings and choose the best on held-out data."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mtlstruct.cli import common
from mtlstruct.cli.common import argument, option
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
        Path | None, argument("TEMPLATES", "Template file; may be left out, as for train.")
    ] = None,
    data: Annotated[Path | None, argument("TRAIN", "Labelled training data.  [required]")] = None,
    c: Annotated[str, option("Values of c, such as 0.3,1,3.", "-c", metavar="LIST")] = "0.1,1,10",
    p: Annotated[str, option("Values of p, such as 1.1,4/3, for pmtl and mixed.", "-p", metavar="LIST")] = "",
    loss: Annotated[
        str, option("Losses, such as log,hinge.", metavar="LIST", shown="that of each method")
    ] = "",
    method: Annotated[str, option("Methods, such as mtl,svm,crf-l2.", metavar="LIST")] = "mtl",
    scheme: Annotated[
        str, option("Label schemes to learn, such as keep,bioes,io.", metavar="LIST", shown="keep")
    ] = "",
    valid: Annotated[
        Path | None, option("Score on this file; train on all of TRAIN.", metavar="FILE")
    ] = None,
    folds: Annotated[
        int | None,
        option(
            "Cross-validate: score each of K parts of TRAIN.",
            metavar="K",
            limits=(2, 1000),
            shown="3 below 2,000 sentences",
        ),
    ] = None,
    hold_out: Annotated[
        float | None,
        option(
            "Score on this share of TRAIN, train on the rest.",
            metavar="SHARE",
            limits=(0.0, 1.0),
            shown="0.2, from 2,000 sentences on",
        ),
    ] = None,
    dialect: DialectOption = "mtlstruct",
    separator: common.SeparatorOption = "",
    ragged: common.RaggedOption = None,
    encoding: common.EncodingOption = "utf-8",
    out: Annotated[Path, option("Folder of the results.", metavar="DIR")] = Path("tune"),
    model: Annotated[
        Path | None,
        option("Train on all of TRAIN with the best setting; save here.", "--model", "-o", metavar="MODEL"),
    ] = None,
    jobs: Annotated[
        int | None,
        option(
            "Trainings at the same time; with --engine ray the number of workers.",
            "--jobs",
            "--shards",
            metavar="N",
            limits=(1, 1000),
            shown="all cores",
        ),
    ] = None,
    engine: common.EngineOption = "local",
    address: common.AddressOption = None,
    score: common.ScoreOption = None,
    minutes: common.MinutesOption = None,
    threads: common.ThreadsOption = None,
    force: ForceOption = False,
    quiet: common.QuietOption = False,
    json: common.JsonOption = False,
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

    if sum(given is not None for given in (valid, folds, hold_out)) > 1:
        raise IncompatibleError("--valid, --folds, --hold-out: expected one of them")
    words = {"method": method, "loss": loss, "scheme": scheme}
    axes: dict[str, list[Any]] = {name: _words(text, f"--{name}") for name, text in words.items() if text}
    axes |= {name: _numbers(text, f"-{name}") for name, text in (("p", p), ("c", c)) if text}
    templates, data = common.training_files(call, templates, data)
    assert data is not None
    run = TrainingRun(
        options,
        templates,
        data,
        model or Path(),
        valid=valid,
        log=None if model is None else common.log_beside(model),
        encoding=encoding,
        cells=common.cell_format(separator, ragged),
        arguments=tuple(call.obj or ()),
        dialect=dialect,
        force=force,
        quiet=quiet,
    )
    search = TuningRun(
        run,
        combinations(options, axes),
        out,
        folds=folds,
        hold_out=hold_out,
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
        raise typer.Exit(NEGATIVE)


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
