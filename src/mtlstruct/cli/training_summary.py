"""The result of a training run, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mtlstruct._system import memory
from mtlstruct._system.memory import gigabytes
from mtlstruct.cli.errors import complain
from mtlstruct.cli.progress import clock, figure
from mtlstruct.corpus import Corpus
from mtlstruct.evaluation.scores import Scores, headline
from mtlstruct.solvers import Fit
from mtlstruct.solvers.base import active_templates
from mtlstruct.training.methods import ONLINE, method_spec
from mtlstruct.training.train import Training

if TYPE_CHECKING:
    from mtlstruct.cli.training_run import TrainingRun


@dataclass(frozen=True)
class Result:
    """The result of a run. `labels` is the training of arc labels, if any."""

    job: TrainingRun
    corpus: Corpus
    training: Training
    valid: Scores | None
    labels: Training | None = None

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        found = _figures(self.training) | {
            "peak_rss_mb": memory.peak() / 1e6,
            "sentences": len(self.corpus),
            "tokens": self.corpus.tokens,
        }
        if self.valid is not None:
            found["valid"] = self.valid.as_dict()
        if self.training.model.calibrated:
            found["temperature"] = self.training.model.temperature
        if self.labels is not None:
            found["labels"] = _figures(self.labels)
        return found

    def summary(self) -> str:
        """Return a few lines on what was learned and where it is."""
        job, training, model, fit = self.job, self.training, self.training.model, self.training.fit
        online, found = model.facts["solver"] in ONLINE, self.numbers
        gap = "an online method: nothing is proved" if online else f"gap {fit.gap:.2%}"
        lines = [
            f"{'converged' if fit.converged else 'stopped'} after {fit.passes} passes and {clock(training.seconds)}, "
            f"of it encoding {clock(training.encode_seconds)}: objective {figure(fit.objective)}, {gap}",
            f"{found['active_templates']} of {found['templates']} templates have a weight; "
            f"{found['attributes']:,} attributes and {found['features']:,} features were looked at; "
            f"peak memory {gigabytes(round(found['peak_rss_mb'] * 1e6))}",
        ]
        if self.labels is not None:
            gap, some = "" if online else f", gap {self.labels.fit.gap:.2%}", found["labels"]
            lines.append(
                f"labels: {some['passes']} passes and {clock(self.labels.seconds)}{gap}; "
                f"{some['active_templates']} of {some['templates']} templates have a weight"
            )
        if self.valid is not None:
            temperature = f" · temperature {model.temperature:.3g}" if model.calibrated else ""
            lines.append(f"{job.valid}: {headline(self.valid)}{temperature}")
        log = f", log {job.log}" if job.log is not None else ""
        return "\n".join([*lines, f"saved {job.model} ({gigabytes(job.model.stat().st_size)}){log}"])

    def warn(self) -> None:
        """Warn of each training that ended before the gap that was asked for."""
        for training, what in ((self.training, ""), (self.labels, "labels of arcs: ")):
            if training is not None:
                self._warn_of(training.fit, what)

    def _warn_of(self, fit: Fit, what: str) -> None:
        stop = self.job.options.stop()
        by_eta = stop.eta is not None and fit.passes < stop.max_passes
        if fit.converged or by_eta or method_spec(self.job.options.method).epochs is not None:
            return
        got, asked = f"gap is {fit.gap:.2%}", f"{stop.gap:.2%}"
        if stop.epsilon is not None:
            got, asked = f"R_emp - R_s is {fit.epsilon:.4g}", f"{stop.epsilon:g}"
        complain(
            f"{what}not converged: after {fit.passes} passes (--max-iter) the {got}, asked for was {asked}; "
            f"{self.job.model} is saved as it is"
        )


def _figures(training: Training) -> dict[str, Any]:
    """Return the figures of any training."""
    return {
        **training.fit.figures(),
        "seconds": training.seconds,
        "encode_seconds": training.encode_seconds,
        "templates": len(training.model.templates),
        "active_templates": active_templates(training.fit.mu),
        "attributes": training.attributes,
        "features": training.weights,
    }
