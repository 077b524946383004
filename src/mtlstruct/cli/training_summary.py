"""What a training run came to, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mtlstruct.cli.errors import complain
from mtlstruct.cli.progress import clock, figure

if TYPE_CHECKING:
    from mtlstruct.cli.training_run import TrainingRun
    from mtlstruct.corpus import Corpus
    from mtlstruct.evaluation.scores import Scores
    from mtlstruct.solvers import Fit
    from mtlstruct.training.train import Training


@dataclass(frozen=True)
class Result:
    """The result of a run, for people and for programs. `labels` is the training of arc labels, if any."""

    job: TrainingRun
    corpus: Corpus
    training: Training
    valid: Scores | None
    labels: Training | None = None

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        from mtlstruct._system import memory

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
        """A few lines on what was learned and where it is."""
        from mtlstruct.evaluation.scores import headline

        lines = [self._ending(), self._learned()]
        if self.labels is not None:
            lines.append(self._labels_learned(self.labels))
        if self.valid is not None:
            lines.append(f"{self.job.valid}: {headline(self.valid)}{self._temperature()}")
        return "\n".join([*lines, self._saved()])

    def _temperature(self) -> str:
        model = self.training.model
        return f" · temperature {model.temperature:.3g}" if model.calibrated else ""

    def warn(self) -> None:
        """Says plainly when the answer is not as good as was asked for."""
        for training, what in ((self.training, ""), (self.labels, "labels of arcs: ")):
            if training is not None:
                self._warn_of(training.fit, what)

    def _warn_of(self, fit: Fit, what: str) -> None:
        from mtlstruct.training.methods import recipe

        stop = self.job.options.stop()
        asked_for = stop.eta is not None and fit.passes < stop.max_passes  # another rule, which was kept
        if fit.converged or asked_for or recipe(self.job.options.method).epochs is not None:
            return
        got, asked = f"gap is {fit.gap:.2%}", f"{stop.gap:.2%}"
        if stop.epsilon is not None:
            got, asked = f"R_emp - R_s is {fit.epsilon:.4g}", f"{stop.epsilon:g}"
        complain(
            f"{what}not converged: after {fit.passes} passes (--max-iter) the {got}, asked for was {asked}; "
            f"{self.job.model} is saved as it is"
        )

    def _ending(self) -> str:
        fit, training = self.training.fit, self.training
        word = "converged" if fit.converged else "stopped"
        gap = "an online method: nothing is proved" if self._online else f"gap {fit.gap:.2%}"
        return (
            f"{word} after {fit.passes} passes and {clock(training.seconds)}, of it encoding "
            f"{clock(training.encode_seconds)}: objective {figure(fit.objective)}, {gap}"
        )

    @property
    def _online(self) -> bool:
        from mtlstruct.training.methods import ONLINE

        return self.training.model.facts["solver"] in ONLINE

    def _learned(self) -> str:
        from mtlstruct._system.memory import gigabytes

        found = self.numbers
        return (
            f"{found['active_templates']} of {found['templates']} templates have a weight; "
            f"{found['attributes']:,} attributes and {found['features']:,} features were looked at; "
            f"peak memory {gigabytes(round(found['peak_rss_mb'] * 1e6))}"
        )

    def _labels_learned(self, labels: Training) -> str:
        found = _figures(labels)
        gap = "" if self._online else f", gap {labels.fit.gap:.2%}"
        return (
            f"labels: {found['passes']} passes and {clock(labels.seconds)}{gap}; {found['active_templates']} of "
            f"{found['templates']} templates have a weight"
        )

    def _saved(self) -> str:
        from mtlstruct._system.memory import gigabytes

        size = gigabytes(self.job.model.stat().st_size)
        log = f", log {self.job.log}" if self.job.log is not None else ""
        return f"saved {self.job.model} ({size}){log}"


def _figures(training: Training) -> dict[str, Any]:
    """What there is to say of any training."""
    from mtlstruct.solvers.base import active_templates

    fit = training.fit
    return {
        **fit.figures(),
        "seconds": training.seconds,
        "encode_seconds": training.encode_seconds,
        "templates": len(training.model.templates),
        "active_templates": active_templates(fit.mu),
        "attributes": training.attributes,
        "features": training.weights,
    }
