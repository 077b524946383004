"""Template selection on held-out data: the path of `templates select`, printed and drawn."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mtlstruct.cli.common import log_beside
from mtlstruct.cli.errors import print_message
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.model.model import Model
from mtlstruct.report.plots import plot_elimination
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.training.run_log import RunLog
from mtlstruct.tuning.elimination import eliminate, options_of, smallest
from mtlstruct.tuning.study import folds


def selected(
    model: Model,
    parts: Sequence[tuple[Corpus, Corpus]],
    *,
    within: float,
    top: int | None,
    keep: Sequence[str],
    drop: Sequence[str],
    plot: Path | None,
) -> list[int]:
    """Walk the path, print a line per step, and return the indices of the chosen templates.

    `keep` and `drop` are patterns of names of templates.
    """
    options, task = options_of(model), task_of(model.task)
    locked, left_out = (_matching(model.templates, some) for some in (keep, drop))
    if both := sorted(locked & left_out):
        raise IncompatibleError(f"--keep and --drop: both match {model.templates[both[0]].name}")
    first, steps = "f1", []

    def score(made: Model, gold: Corpus, outputs: Any) -> float:
        nonlocal first
        first, value = task.main_score(made, gold, outputs)
        return value

    sets = {"locked": locked, "left_out": left_out}
    for step in eliminate(parts, model.templates, options, score, top=top, **sets):
        count = len(step.kept)
        print_message(f"{count:4} templates: {first} {step.score:.2f}, {step.speed:,.0f} tokens per second")
        steps.append(step)
        if top is not None and count <= top:
            break
    chosen = smallest(steps, within) if top is None else steps[-1]
    best = max(step.score for step in steps)
    print_message(f"chosen: {len(chosen.kept)} templates, {first} {chosen.score:.2f}; best {best:.2f}")
    if plot is not None:
        figures = [(len(step.kept), step.score, step.speed) for step in steps]
        plot_elimination(figures, len(chosen.kept), first, plot)
    return list(chosen.kept)


def selection_data(
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
        log = log_beside(path)
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
    splits = folds(len(corpus), count, int(model.facts.get("seed", 0)))
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
