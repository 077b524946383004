"""Template selection on held-out data: the path of `templates select`, printed and drawn."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mtlstruct.cli.common import log_beside
from mtlstruct.cli.errors import print_message
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.model.model import Model
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.training.run_log import RunLog
from mtlstruct.tuning.elimination import eliminate, options_of, smallest
from mtlstruct.tuning.study import folds as divided


@dataclass(frozen=True)
class SelectionRun:
    """The input of a selection; `keep` and `drop` are patterns of names of templates."""

    model: Path
    data: Path | None = None
    valid: Path | None = None
    folds: int | None = None
    within: float = 0.3
    top: int | None = None
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    plot: Path | None = None

    def selected(self, model: Model) -> list[int]:
        """Walk the path, print a line per step, and return the indices of the chosen templates."""
        if model.takes_dicts or model.relations is not None or model.first is not None:
            problem = "--valid and --folds support no feature dicts, no labels of arcs and no --context"
            raise IncompatibleError(problem)
        options, task = options_of(model), task_of(model.task)
        locked, left_out = (_matching(model.templates, some) for some in (self.keep, self.drop))
        both = sorted(locked & left_out)
        if both:
            raise IncompatibleError(f"--keep and --drop: both match {model.templates[both[0]].name}")
        first, steps = "f1", []

        def score(made: Model, gold: Corpus, outputs: Any) -> float:
            nonlocal first
            first, value = task.main_score(made, gold, outputs)
            return value

        sets = {"locked": locked, "left_out": left_out}
        for step in eliminate(self._parts(model), model.templates, options, score, top=self.top, **sets):
            print_message(
                f"{len(step.kept):4} templates: {first} {step.score:.2f}, {step.speed:,.0f} tokens per second"
            )
            steps.append(step)
            if self.top is not None and len(step.kept) <= self.top:
                break
        chosen = smallest(steps, self.within) if self.top is None else steps[-1]
        best = max(step.score for step in steps)
        print_message(f"chosen: {len(chosen.kept)} templates, {first} {chosen.score:.2f}; best {best:.2f}")
        if self.plot is not None:
            from mtlstruct.report.plots import plot_elimination

            figures = [(len(step.kept), step.score, step.speed) for step in steps]
            plot_elimination(figures, len(chosen.kept), first, self.plot)
        return list(chosen.kept)

    def _parts(self, model: Model) -> list[tuple[Corpus, Corpus]]:
        """Return pairs of sentences to train on and to score."""
        task = task_of(model.task)
        corpus = task.read_for(model, self._train_file())
        if self.valid is not None:
            return [(corpus, task.read_for(model, self.valid))]
        assert self.folds is not None
        if not task.divisible:
            raise IncompatibleError(f"--folds does not support the task {task.name}: expected --valid")
        splits = divided(len(corpus), self.folds, int(model.facts.get("seed", 0)))
        return [(corpus.take(s.train), corpus.take(s.test)) for s in splits]  # type: ignore[arg-type]

    def _train_file(self) -> Path:
        """Return the training data as given, or those that the log of the training names."""
        if self.data is not None:
            return self.data
        log = log_beside(self.model)
        found = RunLog.read(log).run["files"].get("train") if log.is_file() else None
        if found is None or not Path(found).exists():
            raise MtlError(f"{log}: the training data are not found there: expected --train FILE")
        return Path(found)


def _matching(templates: TemplateSet, patterns: tuple[str, ...]) -> set[int]:
    """Return the indices of templates whose names match a pattern; raise for one without any."""
    found: set[int] = set()
    for pattern in patterns:
        some = {j for j, template in enumerate(templates) if fnmatchcase(template.name, pattern)}
        if not some:
            raise MtlError(f"no template has a name like {pattern!r}")
        found |= some
    return found
