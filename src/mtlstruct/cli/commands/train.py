"""`train`: the options of a training run. What it then does is in `job`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.cli.commands.templates import CompatOption, Dialect, DialectOption
from mtlstruct.cli.common import (
    EncodingOption,
    JsonOption,
    LabelSupport,
    MemoryOption,
    Method,
    Normalize,
    Scaling,
    Tags,
    Task,
    ThreadsOption,
    print_json,
    use_memory,
    use_threads,
)
from mtlstruct.cli.engines import AddressOption, Engine, EngineOption, cluster_of
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
from mtlstruct.cli.training_run import LOG_SUFFIX, Job, log_beside
from mtlstruct.errors import IncompatibleError

if TYPE_CHECKING:
    from mtlstruct.cli.checkpoint_dir import Folder


def train(
    context: typer.Context,
    templates: Annotated[Path, typer.Argument(metavar="TEMPLATES", help="Feature templates.")],
    data: Annotated[
        Path, typer.Argument(metavar="TRAIN", help="Labelled training data: a file, or a folder of files.")
    ],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Where to save the model.")],
    task: TaskOption = Task.sequence,
    projective: ProjectiveOption = False,
    single_root: SingleRootOption = False,
    all_arcs: AllArcsOption = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="Learn the labels of arcs too (--task dependency).")
    ] = False,
    label_templates: Annotated[
        Path | None,
        typer.Option(
            "--label-templates",
            help="Templates of arcs for --labels.",
            show_default="the preset dependency-labels",
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            "--method",
            help="mtl weighs and drops templates; svm keeps all alike; pmtl is between; crf-l2 learns "
            "probabilities, crf-l1 with few features; mira and online-mkl are online.",
        ),
    ] = Method.mtl,
    p: Annotated[
        float | None,
        typer.Option("-p", help="The exponent of pmtl (default 4/3) or mixed (default 2): greater than 1."),
    ] = None,
    c: Annotated[
        float, typer.Option("-c", help="What an error in training costs; the larger, the closer the fit.")
    ] = 1.0,
    solver: SolverOption = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs", metavar="N", help="Passes of an online method.", show_default="mira 10, online-mkl 20"
        ),
    ] = None,
    line_search: LineSearchOption = False,
    dense_prox: Annotated[
        bool, typer.Option("--dense-prox", help="Touch every weight at every step (--method online-mkl).")
    ] = False,
    gap: GapOption = None,
    epsilon: EpsilonOption = None,
    eta: EtaOption = None,
    max_iter: MaxIterOption = None,
    loss_weights: LossWeightsOption = "",
    min_count: MinCountOption = 1,
    share_identical: ShareIdenticalOption = False,
    dialect: DialectOption = Dialect.mtlstruct,
    compat: CompatOption = False,
    refit_top: Annotated[
        int | None,
        typer.Option("--refit-top", metavar="N", min=1, help="Train again on the N heaviest templates."),
    ] = None,
    start: Annotated[
        Path | None, typer.Option("--from", metavar="MODEL", help="Begin with the weights of this model.")
    ] = None,
    valid: Annotated[
        Path | None,
        typer.Option("--valid", help="Labelled data to score the model on, and to fit its temperature on."),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Orders the visits of sentences.")
    ] = 0,
    shards: Annotated[
        int,
        typer.Option(
            "--shards", metavar="K", min=1, help="Cut the data into K parts with local passes each."
        ),
    ] = 1,
    engine: EngineOption = Engine.local,
    address: AddressOption = None,
    worker_limit: Annotated[
        float | None,
        typer.Option(
            "--worker-limit",
            metavar="SECONDS",
            min=1,
            help="A Ray worker that has not answered for so long is replaced.",
            show_default="half an hour",
        ),
    ] = None,
    threads: ThreadsOption = None,
    memory: MemoryOption = None,
    normalize: NormalizeOption = Normalize.none,
    scaling: ScalingOption = Scaling.unit,
    label_support: LabelSupportOption = LabelSupport.all,
    tags: TagsOption = Tags.bie,
    encoding: EncodingOption = "utf-8",
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", help="Where to write one JSON record a pass.", show_default=f"MODEL{LOG_SUFFIX}"
        ),
    ] = None,
    no_log: Annotated[bool, typer.Option("--no-log", help="Write no log.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="DIR", help="Keep the state of learning in this folder."),
    ] = None,
    checkpoint_every: Annotated[
        float | None,
        typer.Option("--checkpoint-every", metavar="SECONDS", min=0, help="How often.", show_default="60"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint in DIR, to the same model.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    json: JsonOption = False,
) -> None:
    """Learn a model, and how much each template is worth.

    Training ends with a proof of how near the optimum it is, the duality gap. Progress goes to stderr, the
    summary to stdout. The same data, options and seed give the same model file, on any number of threads, and
    with --checkpoint and --resume however often it was interrupted.
    """
    from mtlstruct.objective.losses import parse_weights
    from mtlstruct.training.options import Options

    options = Options(
        task=task,
        method=method,
        c=c,
        p=p,
        solver=solver,
        gap=gap,
        epsilon=epsilon,
        eta=eta,
        max_iter=max_iter,
        min_count=min_count,
        normalize=normalize,
        seed=seed,
        line_search=line_search,
        epochs=epochs,
        all_arcs=all_arcs,
        projective=projective,
        single_root=single_root,
        dense_prox=dense_prox,
        labels=labels,
        tags=tags,
        loss_weights=parse_weights(loss_weights),
        share_identical=share_identical,
        scaling=scaling,
        label_support=label_support,
        shards=shards,
    )
    log = None if no_log else log or log_beside(model)
    arguments = tuple(context.obj or ())
    job = Job(
        templates,
        data,
        model,
        valid,
        log,
        encoding,
        options,
        arguments,
        refit_top,
        dialect,
        compat,
        start,
        label_templates,
        _folder(checkpoint, checkpoint_every, resume),
        cluster_of(engine, address, worker_limit),
    )
    job.check()
    use_threads(threads)
    use_memory(memory)
    result = job.run(quiet=quiet)
    result.warn()
    if json:
        print_json(result.numbers)
    elif not quiet:
        print(result.summary())


def _folder(path: Path | None, every: float | None, resume: bool) -> Folder | None:
    from mtlstruct.cli.checkpoint_dir import Folder

    if path is not None:
        return Folder(path, 60.0 if every is None else every, resume)
    if resume or every is not None:
        option = "--resume" if resume else "--checkpoint-every"
        raise IncompatibleError(f"{option} is for --checkpoint DIR")
    return None
