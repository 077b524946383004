"""`train`: learn a model from templates and labelled data."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mtlstruct.cli import common
from mtlstruct.cli.command import argument, option, training_options
from mtlstruct.errors import IncompatibleError
from mtlstruct.training.options import Options


def train(
    call: Sequence[str],
    templates: Path | None = argument(
        None, "TEMPLATES", "Template file; made from the data if left out or empty."
    ),
    data: Path = argument(..., "TRAIN", "Labelled training data: a file, or a folder of files."),
    model: Path = argument(..., "MODEL", "Model file to write."),
    valid: Path | None = common.VALID,
    start: Path | None = option(
        None, "Start from the weights of this model.", "--from", metavar="MODEL", group="Method"
    ),
    dialect: common.Dialect = common.DIALECT,
    separator: str = common.SEPARATOR,
    ragged: common.Ragged = common.RAGGED,
    encoding: str = common.ENCODING,
    folds: int | None = option(
        None,
        "--method auto: score each of K parts of TRAIN.",
        metavar="K",
        range=(2, 1000),
        shown="--valid; else 3 below 2,000 sentences, or a fifth of TRAIN",
        group="Search",
    ),
    score: str | None = common.SCORE,
    minutes: float | None = common.MINUTES,
    engine: common.Workers = common.ENGINE,
    address: str | None = common.ADDRESS,
    checkpoint: Path | None = option(
        None, "Save the state of training in this folder.", metavar="DIR", group="Resume"
    ),
    checkpoint_every: float = option(
        60.0, "Time between checkpoints.", metavar="SECONDS", range=(0.0, 1e6), group="Resume"
    ),
    resume: bool = option(False, "Continue from the checkpoint, to the same model.", group="Resume"),
    threads: int | None = common.THREADS,
    memory: float | None = common.MEMORY,
    log: Path | None = option(None, "Log file to write.", shown=f"MODEL{common.LOG_SUFFIX}"),
    no_log: bool = option(False, "Write no log."),
    force: bool = common.FORCE,
    quiet: bool = common.QUIET,
    json: bool = common.JSON,
    options: Options = training_options(),
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
    from mtlstruct.cli.tuning_run import TuningRun
    from mtlstruct.tuning.search import ROUNDS, auto_settings

    if resume and checkpoint is None:
        raise IncompatibleError("--resume is for --checkpoint DIR")
    run = TrainingRun(
        options,
        templates,
        data,
        model,
        valid=valid,
        log=None if no_log else log or common.log_beside(model),
        encoding=encoding,
        cells=common.cell_format(separator, ragged),
        arguments=call,
        dialect=dialect,
        start=start,
        checkpoint=None if checkpoint is None else CheckpointDir(checkpoint, checkpoint_every, resume),
        engine=Engine(engine, address, options.shards if engine == "ray" else None),
        force=force,
        quiet=quiet,
    )
    search: dict[str, Any] = {"folds": folds, "score": score, "minutes": minutes}
    if options.method == "auto":
        if options.shards > 1 and engine == "local":
            raise IncompatibleError("--method auto supports --shards with --engine ray only")
        if checkpoint is not None or start is not None:
            raise IncompatibleError("--method auto does not support --checkpoint and --from")
        if folds is not None and valid is not None:
            raise IncompatibleError("--valid, --folds: expected one of them")
        settings = auto_settings(replace(options, shards=1, context=False))
        workers, run = run.engine, replace(run, options=replace(options, shards=1), engine=Engine())
        found = TuningRun(run, settings, Path(f"{model}.auto"), ROUNDS, engine=workers, **search)
        found.check()
        common.use_resources(threads, memory)
        found.run()
        if not (json or quiet):
            found.print_table()
            return
        assert found.refitted is not None
        result = found.refitted
    else:
        for name, value in search.items():
            if value is not None:
                raise IncompatibleError(f"--{name} is for --method auto")
        run.check()
        common.use_resources(threads, memory)
        result = run.run()
    result.warn()
    if json:
        common.print_json(result.numbers)
    elif not quiet:
        print(result.summary())
