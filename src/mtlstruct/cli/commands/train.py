"""`train`: learn a model from templates and labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtlstruct.cli.common import (
    LOG_SUFFIX,
    EncodingOption,
    JsonOption,
    MemoryOption,
    QuietOption,
    ThreadsOption,
    log_beside,
    print_json,
    use_memory,
    use_threads,
)
from mtlstruct.cli.engines import AddressOption, EngineOption, cluster_of
from mtlstruct.cli.options import DialectOption, with_options
from mtlstruct.cli.outputs import ForceOption
from mtlstruct.training.options import Options


@with_options()
def train(
    context: typer.Context,
    options: Options,
    templates: Annotated[Path, typer.Argument(metavar="TEMPLATES", help="Feature templates.")],
    data: Annotated[
        Path, typer.Argument(metavar="TRAIN", help="Labelled training data: a file, or a folder of files.")
    ],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Where to save the model.")],
    label_templates: Annotated[
        Path | None,
        typer.Option(
            "--label-templates",
            help="Templates of arcs for --labels.",
            show_default="the preset dependency-labels",
        ),
    ] = None,
    dialect: DialectOption = "mtlstruct",
    start: Annotated[
        Path | None, typer.Option("--from", metavar="MODEL", help="Start with the weights of this model.")
    ] = None,
    valid: Annotated[
        Path | None,
        typer.Option("--valid", help="Labelled data to score the model on and to calibrate it with."),
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    threads: ThreadsOption = None,
    memory: MemoryOption = None,
    encoding: EncodingOption = "utf-8",
    log: Annotated[
        Path | None,
        typer.Option("--log", help="Where to write the log of the run.", show_default=f"MODEL{LOG_SUFFIX}"),
    ] = None,
    no_log: Annotated[bool, typer.Option("--no-log", help="Write no log.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="DIR", help="Save the state of training in this folder."),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option("--checkpoint-every", metavar="SECONDS", min=0, help="Time between checkpoints.")
    ] = 60.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the checkpoint in DIR, to the same model.")
    ] = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Learn a model, and how much each template is worth.

    Training ends with a proof of how near the optimum it is, the duality gap. Progress goes to stderr, the
    summary to stdout. The same data, options and seed give the same model file, on any number of threads, and
    with --checkpoint and --resume however often it was interrupted.
    """
    from mtlstruct.cli.training_run import TrainingRun  # here, so that --help is quick

    run = TrainingRun(
        options,
        templates,
        data,
        model,
        valid=valid,
        log=None if no_log else log or log_beside(model),
        encoding=encoding,
        arguments=tuple(context.obj or ()),
        dialect=dialect,
        start=start,
        label_templates=label_templates,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
        cluster=cluster_of(engine, address),
        force=force,
    )
    run.check()
    use_threads(threads)
    use_memory(memory)
    result = run.run(quiet=quiet)
    result.warn()
    if json:
        print_json(result.numbers)
    elif not quiet:
        print(result.summary())
