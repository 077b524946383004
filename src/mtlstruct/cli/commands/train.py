"""`train`: learn a model from templates and labelled data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlstruct.cli import common
from mtlstruct.cli.common import argument, option
from mtlstruct.cli.options import DialectOption, with_options
from mtlstruct.cli.outputs import ForceOption
from mtlstruct.errors import IncompatibleError
from mtlstruct.training.options import Options

if TYPE_CHECKING:
    from mtlstruct.cli.training_run import TrainingRun
    from mtlstruct.cli.tuning_run import TuningRun


@with_options()
def train(
    call: typer.Context,
    options: Options,
    templates: Annotated[
        Path | None, argument("TEMPLATES", "Template file; made from the data if left out or empty.")
    ] = None,
    data: Annotated[
        Path | None, argument("TRAIN", "Labelled training data: a file, or a folder of files.  [required]")
    ] = None,
    model: Annotated[Path | None, argument("MODEL", "Model file to write.  [required]")] = None,
    valid: Annotated[
        Path | None, option("Held-out data, to score and calibrate the model.", metavar="FILE")
    ] = None,
    start: Annotated[
        Path | None, option("Start from the weights of this model.", "--from", metavar="MODEL")
    ] = None,
    dialect: DialectOption = "mtlstruct",
    separator: common.SeparatorOption = "",
    ragged: common.RaggedOption = None,
    encoding: common.EncodingOption = "utf-8",
    folds: Annotated[
        int | None,
        option(
            "--method auto: score each of K parts of TRAIN.",
            metavar="K",
            limits=(2, 1000),
            shown="--valid; else 3 below 2,000 sentences, or a fifth of TRAIN",
            group="Search",
        ),
    ] = None,
    score: common.ScoreOption = None,
    minutes: common.MinutesOption = None,
    label_templates: Annotated[
        Path | None, option("Templates for --labels.", metavar="FILE", shown="the preset dependency-labels")
    ] = None,
    engine: common.EngineOption = "local",
    address: common.AddressOption = None,
    checkpoint: Annotated[
        Path | None, option("Save the state of training in this folder.", metavar="DIR")
    ] = None,
    checkpoint_every: Annotated[
        float, option("Time between checkpoints.", metavar="SECONDS", limits=(0.0, 1e6))
    ] = 60.0,
    resume: Annotated[bool, option("Continue from the checkpoint, to the same model.", "--resume")] = False,
    threads: common.ThreadsOption = None,
    memory: common.MemoryOption = None,
    log: Annotated[Path | None, option("Log file to write.", shown=f"MODEL{common.LOG_SUFFIX}")] = None,
    no_log: Annotated[bool, option("Write no log.", "--no-log")] = False,
    force: ForceOption = False,
    quiet: common.QuietOption = False,
    json: common.JsonOption = False,
) -> None:
    """Train a model and learn a weight for each template.

    Training stops at a certified duality gap, a bound on the distance to the optimum (~ marks an
    estimate). Progress goes to stderr, the summary to stdout. The same data, options and seed give
    the same model file, on any number of threads, and after any number of interruptions with
    --checkpoint and --resume.

    Without TEMPLATES a large set is made from what the columns hold, and training drops templates
    that are of no use; MODEL.tpl has those that are left. TRAIN may be JSON lines of feature dicts
    (FILE.jsonl), with one template per key.

    --method auto tries losses, norms, values of c and label schemes on held-out data, then trains
    with the setting it chooses, and with --context if asked to. Its results are in
    MODEL.auto/results.jsonl: after an interruption the same command continues.

    Example: mtlstruct train ner.tpl train.txt ner.mtl --valid dev.txt
    """
    from mtlstruct.cli.checkpoint_dir import CheckpointDir  # here, so that --help is quick
    from mtlstruct.cli.engine import Engine
    from mtlstruct.cli.training_run import TrainingRun

    if resume and checkpoint is None:
        raise IncompatibleError("--resume is for --checkpoint DIR")
    templates, data, model = common.training_files(call, templates, data, model)
    assert data is not None
    assert model is not None
    run = TrainingRun(
        options,
        templates,
        data,
        model,
        valid=valid,
        log=None if no_log else log or common.log_beside(model),
        encoding=encoding,
        cells=common.cell_format(separator, ragged),
        arguments=tuple(call.obj or ()),
        dialect=dialect,
        start=start,
        label_templates=label_templates,
        checkpoint=None if checkpoint is None else CheckpointDir(checkpoint, checkpoint_every, resume),
        engine=Engine(engine, address, options.shards if engine == "ray" else None),
        force=force,
        quiet=quiet,
    )
    found, search = None, {"folds": folds, "score": score, "minutes": minutes}
    if options.method == "auto":
        found = _auto(run, **search)
        found.check()
        common.use_resources(threads, memory)
        found.run()
        result = found.refitted
        assert result is not None
    else:
        for name, value in search.items():
            if value is not None:
                raise IncompatibleError(f"--{name} is for --method auto")
        run.check()
        common.use_resources(threads, memory)
        result = run.run()
    if found is not None and not (json or quiet):
        found.print_table()
        return
    result.warn()
    if json:
        common.print_json(result.numbers)
    elif not quiet:
        print(result.summary())


def _auto(run: TrainingRun, **search: Any) -> TuningRun:
    """Return the search of --method auto for the setting to train with."""
    from mtlstruct.cli.engine import Engine
    from mtlstruct.cli.tuning_run import TuningRun
    from mtlstruct.tuning.search import ROUNDS, auto_settings

    engine = run.engine
    if run.options.shards > 1 and engine.name == "local":
        raise IncompatibleError("--method auto supports --shards with --engine ray only")
    if run.checkpoint is not None or run.start is not None:
        raise IncompatibleError("--method auto does not support --checkpoint and --from")
    run = replace(run, options=replace(run.options, shards=1), engine=Engine())
    if search["folds"] is not None and run.valid is not None:
        raise IncompatibleError("--valid, --folds: expected one of them")
    settings = auto_settings(replace(run.options, context=False))
    return TuningRun(run, settings, Path(f"{run.model}.auto"), ROUNDS, engine=engine, **search)
