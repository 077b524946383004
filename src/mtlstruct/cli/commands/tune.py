"""`tune`: the options of a grid of trainings. What it then does is in `trials`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlstruct.cli.commands.templates import CompatOption, Dialect, DialectOption
from mtlstruct.cli.common import EncodingOption, LabelSupport, Normalize, Scaling, Tags, Task, print_json
from mtlstruct.cli.errors import NO, complain
from mtlstruct.cli.options import (
    AllArcsOption,
    EpsilonOption,
    EtaOption,
    GapOption,
    LabelSupportOption,
    LineSearchOption,
    LossWeightsOption,
    MaxIterOption,
    MinCountOption,
    NormalizeOption,
    ProjectiveOption,
    ScalingOption,
    ShareIdenticalOption,
    SingleRootOption,
    SolverOption,
    TagsOption,
    TaskOption,
)
from mtlstruct.cli.training_run import Job, log_beside
from mtlstruct.errors import IncompatibleError, MtlError

if TYPE_CHECKING:
    from mtlstruct.training.options import Options

HELD_OUT = 0.2
"""The share that is held out if nothing else is said."""


def tune(
    context: typer.Context,
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
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="The picture, .png, .svg or .pdf.", show_default="tune.png in DIR"),
    ] = None,
    task: TaskOption = Task.sequence,
    projective: ProjectiveOption = False,
    single_root: SingleRootOption = False,
    all_arcs: AllArcsOption = False,
    solver: SolverOption = None,
    line_search: LineSearchOption = False,
    gap: GapOption = None,
    epsilon: EpsilonOption = None,
    eta: EtaOption = None,
    max_iter: MaxIterOption = None,
    loss_weights: LossWeightsOption = "",
    min_count: MinCountOption = 1,
    share_identical: ShareIdenticalOption = False,
    dialect: DialectOption = Dialect.mtlstruct,
    compat: CompatOption = False,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Orders visits, draws folds and held-out part.")
    ] = 0,
    normalize: NormalizeOption = Normalize.none,
    scaling: ScalingOption = Scaling.unit,
    label_support: LabelSupportOption = LabelSupport.all,
    tags: TagsOption = Tags.bie,
    encoding: EncodingOption = "utf-8",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print a row a training as CSV instead.")] = False,
) -> None:
    """Try options on data that training has not seen, and say which are best.

    Every combination of -c, -p and --method is trained and scored, in parallel, on data encoded once. Each
    result is a JSON file in DIR: the same command goes on where an earlier one was interrupted. Exit code 1 if
    a training failed; the others are not lost.
    """
    from mtlstruct.cli.tuning_run import Trials
    from mtlstruct.objective.losses import parse_weights
    from mtlstruct.training.options import Options
    from mtlstruct.tuning.result_store import combinations
    from mtlstruct.tuning.study import settled

    if json and csv:
        raise IncompatibleError("--json and --csv: expected one of them")
    if task == Task.dependency and valid is None:
        raise IncompatibleError(
            "--task dependency: expected --valid, since encoded trees cannot be held out in part"
        )
    if sum(given is not None for given in (valid, folds, hold_out)) > 1:
        raise IncompatibleError("--valid, --folds, --hold-out: expected one of them")
    base = Options(
        task=task.value,
        solver=solver and solver.value,
        gap=gap,
        epsilon=epsilon,
        eta=eta,
        max_iter=max_iter,
        min_count=min_count,
        normalize=normalize.value,
        seed=seed,
        projective=projective,
        single_root=single_root,
        all_arcs=all_arcs,
        line_search=line_search,
        tags=tags.value,
        loss_weights=parse_weights(loss_weights),
        share_identical=share_identical,
        scaling=scaling.value,
        label_support=label_support.value,
    )
    axes: dict[str, list[Any]] = {"method": _words(method, "--method")}
    if p:
        axes["p"] = numbers(p, "-p")
    axes["c"] = numbers(c, "-c")
    settings: list[Options] = settled(combinations(base, axes))
    log = None if model is None else log_beside(model)
    job = Job(
        templates,
        data,
        model or Path(),
        valid,
        log,
        encoding,
        base,
        tuple(context.obj or ()),
        None,
        dialect,
        compat,
    )
    trials = Trials(
        job,
        settings,
        folds=folds,
        hold_out=HELD_OUT if valid is None and folds is None and hold_out is None else hold_out,
        out=out,
        plot=plot,
        jobs=jobs,
        threads=threads,
        refit=model is not None,
    )
    trials.check()
    result = trials.run(quiet=quiet)
    if json:
        print_json(result.numbers)
    elif csv:
        result.print_csv()
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
