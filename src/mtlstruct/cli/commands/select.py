"""`templates select`: the templates worth keeping, by their weights or by new trainings."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from mtlstruct.cli import common
from mtlstruct.cli.command import option
from mtlstruct.cli.commands.templates import OUT, check_output, write_text
from mtlstruct.cli.errors import print_message
from mtlstruct.cli.outputs import check_picture_output
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.explain import selection
from mtlstruct.model.model import Model
from mtlstruct.report.plots import plot_elimination
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import MAX_COUNT
from mtlstruct.training.run_log import RunLog
from mtlstruct.tuning import study
from mtlstruct.tuning.elimination import eliminate, options_of, smallest


def select(
    model: Path = common.MODEL,
    out: Path = OUT,
    top: int | None = option(None, "The N most useful templates.", range=(1, MAX_COUNT)),
    above: float | None = option(
        None, "Templates with mu above X (svm: with a norm above X).", range=(0.0, 1e9)
    ),
    valid: Path | None = option(None, "Held-out data, to choose by scores of new trainings."),
    folds: int | None = option(
        None, "Choose by scores on K parts of the training data.", metavar="K", range=(2, 1000)
    ),
    data: Path | None = option(None, "Training data.", "--train", shown="from the log of the training"),
    within: float = option(0.3, "The smallest set within X points of the best score.", range=(0.0, 100.0)),
    keep: list[str] | None = option(
        None, "Never drop templates of these names, such as U0*. May be repeated.", metavar="PATTERN"
    ),
    drop: list[str] | None = option(None, "Drop templates of these names at once.", metavar="PATTERN"),
    plot: Path | None = option(None, "Draw score and speed.", metavar="PICTURE"),
    threads: int | None = common.THREADS,
    form: common.Dialect = option("mtlstruct", "Language to write.", "--format"),
    force: bool = common.FORCE,
) -> None:
    """Write the most useful templates of a model to a file.

    Without held-out data, --top and --above choose by the weights of the model. With --valid or
    --folds, templates are dropped step by step, from all to one. After each step a new model is
    trained, from the weights of the last one, and scored. Chosen is the smallest set within
    --within points of the best score, or the set of --top N templates. The lines are in their
    original order.

    Example: mtlstruct templates select ner.mtl --valid dev.txt -o small.tpl --plot path.png
    """
    by_path = valid is not None or folds is not None
    if by_path and (above is not None or (valid is not None and folds is not None)):
        raise IncompatibleError("--valid, --folds, --above: expected one of them")
    if not by_path and (top is None) == (above is None):
        raise IncompatibleError("expected one of --valid, --folds, --top and --above")
    if not by_path and (keep or drop or plot is not None or data is not None):
        raise IncompatibleError("--keep, --drop, --plot and --train are for --valid and --folds")
    check_output(out, [model, valid, data], force=force)
    loaded, _ = common.load_model(model, threads)
    templates = loaded.templates
    if by_path:
        inputs = [model, valid, data, None if out == common.STANDARD else out]
        check_picture_output(plot, inputs=inputs, force=force)
        parts = _parts(model, loaded, data, valid, folds)
        locked, left_out = (_matching(templates, some or ()) for some in (keep, drop))
        if both := sorted(locked & left_out):
            raise IncompatibleError(f"--keep and --drop: both match {templates[both[0]].name}")
        kept = _walked(loaded, parts, within, top, plot, {"locked": locked, "left_out": left_out})
    else:
        kept = selection.top(loaded, top) if top is not None else selection.above(loaded, above or 0.0)
    write_text(selection.selected_lines(templates, kept, form), out)
    whole, left = int(loaded.features.sum()), int(loaded.features[kept].sum())
    print_message(f"kept {len(kept)} of {len(templates)} templates, {left:,} of {whole:,} features")


def _walked(
    model: Model,
    parts: Sequence[tuple[Corpus, Corpus]],
    within: float,
    top: int | None,
    plot: Path | None,
    sets: dict[str, set[int]],
) -> list[int]:
    """Walk the path, print and draw its steps, and return the indices of the chosen templates."""
    score, steps = task_of(model.task).main_score, []
    for step in eliminate(parts, model.templates, options_of(model), score, top=top, **sets):
        count = len(step.kept)
        print_message(
            f"{count:4} templates: {step.name} {step.score:.2f}, {step.speed:,.0f} tokens per second"
        )
        steps.append(step)
        if top is not None and count <= top:
            break
    chosen = smallest(steps, within) if top is None else steps[-1]
    best = max(step.score for step in steps)
    print_message(f"chosen: {len(chosen.kept)} templates, {chosen.name} {chosen.score:.2f}; best {best:.2f}")
    if plot is not None:
        figures = [(len(step.kept), step.score, step.speed) for step in steps]
        plot_elimination(figures, len(chosen.kept), chosen.name, plot)
    return list(chosen.kept)


def _parts(
    path: Path, model: Model, data: Path | None, valid: Path | None, count: int | None
) -> list[tuple[Corpus, Corpus]]:
    """Return pairs of sentences to train on and to score: `valid`, or `count` folds.

    Without `data`, the training data are those that the log beside the model of `path` names.
    """
    if model.takes_dicts or model.relations is not None or model.first is not None:
        problem = "--valid and --folds support no feature dicts, no labels of arcs and no --context"
        raise IncompatibleError(problem)
    task = task_of(model.task)
    if data is None:
        log = common.log_beside(path)
        named = RunLog.read(log).last("run")["files"].get("train") if log.is_file() else None
        if named is None or not Path(named).exists():
            raise MtlError(f"{log}: the training data are not found there: expected --train FILE")
        data = Path(named)
    corpus = task.read_for(model, data)
    if valid is not None:
        return [(corpus, task.read_for(model, valid))]
    assert count is not None
    if not task.divisible:
        raise IncompatibleError(f"--folds does not support the task {task.name}: expected --valid")
    splits = study.folds(len(corpus), count, int(model.facts.get("seed", 0)))
    return [(corpus.take(s.train), corpus.take(s.test)) for s in splits]  # type: ignore[arg-type]


def _matching(templates: TemplateSet, patterns: Sequence[str]) -> set[int]:
    """Return the indices of templates whose names match a pattern; raise for one without any."""
    found: set[int] = set()
    for pattern in patterns:
        some = {j for j, template in enumerate(templates) if fnmatchcase(template.name, pattern)}
        if not some:
            raise MtlError(f"no template has a name like {pattern!r}")
        found |= some
    return found
