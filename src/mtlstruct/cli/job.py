"""One training run: reads, checks all that can be checked, learns with the progress in sight, saves, sums up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlstruct.cli.common import refuse_overwriting
from mtlstruct.cli.outcome import complain
from mtlstruct.cli.progress import Progress, TimeLeft, clock, figure
from mtlstruct.errors import IncompatibleError

if TYPE_CHECKING:
    from mtlstruct.cli.runlog import RunLog
    from mtlstruct.cli.scoring import Scores
    from mtlstruct.corpus import Corpus
    from mtlstruct.learners import Record
    from mtlstruct.model import Model
    from mtlstruct.templates import TemplateSet
    from mtlstruct.train import Material, Options, Prepared, Training

LOG_SUFFIX = ".log.jsonl"


def log_beside(model: Path) -> Path:
    """Where the log of a model is looked for."""
    return Path(f"{model}{LOG_SUFFIX}")


class Data(NamedTuple):
    """What a run works on; `material` if it is encoded already."""

    templates: TemplateSet
    corpus: Corpus
    valid: Corpus | None
    material: Material | None = None


@dataclass(frozen=True)
class Job:
    """One training run: what goes in, where the results go, how."""

    templates: Path
    data: Path
    model: Path
    valid: Path | None
    log: Path | None
    encoding: str
    options: Options
    arguments: tuple[str, ...] = ()
    refit_top: int | None = None
    dialect: str = "mtlstruct"
    compat: bool = False
    start: Path | None = None

    def check(self) -> None:
        """Refuses, before any work, what could only fail after it."""
        from mtlstruct.files import check_writable

        self.options.checked()
        refuse_overwriting([self.templates, self.data, self.valid], [self.model, self.log])
        refuse_overwriting([self.model, self.start], [self.log])
        for path in (self.model, self.log):
            if path is not None:
                check_writable(path)

    def run(self, *, quiet: bool, data: Data | None = None) -> Result:
        """Reads, unless that is done, learns, saves. Until the model is saved, files stay as they are."""
        from mtlstruct.cli.runlog import RunLog
        from mtlstruct.model import load
        from mtlstruct.selection import top

        templates, corpus, valid, material = data or self.read()
        start = None if self.start is None else load(self.start)
        log = RunLog(self, corpus, templates)
        training = self._train(corpus, templates, log, material, start, quiet=quiet)
        first = None
        if self.refit_top is not None:
            chosen = templates.select(top(training.model, self.refit_top))
            first = Result(self, corpus, _outlined(training), self._score(training, valid))
            log.add_refit(first.numbers, chosen)
            training = self._train(corpus, chosen, log, None, start, quiet=quiet)
        training = self._calibrated(training, valid)
        training.model.save(self.model)
        result = Result(self, corpus, training, self._score(training, valid), first)
        if self.log is not None:
            log.write(self.log, result.numbers)
        return result

    def _train(
        self,
        corpus: Corpus,
        templates: TemplateSet,
        log: RunLog,
        material: Material | None,
        start: Model | None,
        *,
        quiet: bool,
    ) -> Training:
        """One training with the progress in sight."""
        from mtlstruct.train import train

        left = TimeLeft(self.options.stop(), self.options.c * len(corpus))
        with Progress(len(templates), left, quiet=quiet) as shown:
            if material is None:  # else it has been said
                say_what_was_read(shown.say, self.options.task, corpus, templates)

            def watch(record: Record) -> bool:
                log.add_pass(record, shown.seconds)
                shown.see(record)
                return False

            def notify(ready: Prepared) -> None:
                if material is None:
                    _say_prepared(shown, ready)

            return train(corpus, templates, self.options, watch, notify, material, start)

    def read(self) -> Data:
        """Templates and data, which fit each other."""
        from mtlstruct.cli.templates import read_templates

        templates = read_templates(self.templates, self.dialect, self.compat)
        if self.options.share_identical:
            templates = templates.shared()
        corpus = self._corpus(self.data)
        templates.resolved(corpus.names).check_columns(len(corpus.columns))
        valid = None if self.valid is None else self._corpus(self.valid, len(corpus.columns))
        return Data(templates, corpus, valid)

    def _corpus(self, path: Path, width: int = 0) -> Corpus:
        from mtlstruct.cli import scoring

        options = self.options
        return scoring.read(
            path,
            options.task,
            tags=options.tags,
            encoding=self.encoding,
            width=width,
            single_root=options.single_root,
        )

    def _calibrated(self, training: Training, valid: Corpus | None) -> Training:
        """The training whose model has a temperature, if there are held-out data to fit one on and it needs one."""
        model = training.model
        if valid is None or "temperature" in model.facts:
            return training
        from mtlstruct.calibration import fit_temperature

        lattice = model.lattice(valid)
        if not lattice.probable:
            return training
        gold = valid.relabelled(model.labels).outputs
        assert gold is not None
        try:
            temperature = fit_temperature(lattice, gold)
        except IncompatibleError as error:  # no reason to lose what was learned
            complain(f"{self.valid}: {error}: the model has no temperature")
            return training
        return replace(training, model=replace(model, facts=model.facts | {"temperature": temperature}))

    def _score(self, training: Training, valid: Corpus | None) -> Scores | None:
        from mtlstruct.cli import scoring

        if valid is None:
            return None
        model = training.model
        return scoring.scores(self.options.task, valid, model.predict(valid), model.labels)


@dataclass(frozen=True)
class Result:
    """What a run came to, for people and for programs; `first` is the training that chose the templates, if any."""

    job: Job
    corpus: Corpus
    training: Training
    valid: Scores | None
    first: Result | None = None

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        from mtlstruct import memory
        from mtlstruct.learners.base import active_templates

        fit = self.training.fit
        found: dict[str, Any] = {
            "objective": fit.objective,
            "dual": fit.dual,
            "gap": fit.gap,
            "epsilon": fit.epsilon,
            "passes": fit.passes,
            "converged": fit.converged,
            "seconds": self.training.seconds,
            "encode_seconds": self.training.encode_seconds,
            "peak_rss_mb": memory.peak() / 1e6,
            "sentences": len(self.corpus),
            "tokens": self.corpus.tokens,
            "templates": len(self.training.model.templates),
            "active_templates": active_templates(fit.mu),
            "attributes": self.training.attributes,
            "features": self.training.weights,
        }
        if self.valid is not None:
            found["valid"] = self.valid.as_dict()
        if "temperature" in self.training.model.facts:
            found["temperature"] = self.training.model.temperature
        return found if self.first is None else found | {"first": self.first.numbers}

    def summary(self) -> str:
        """A few lines on what was learned and where it is."""
        from mtlstruct.cli import scoring

        lines = []
        for result in (self.first, self):
            if result is not None:
                lines += [result._ending(), result._learned()]
            if result is not None and result.valid is not None:
                lines.append(f"{self.job.valid}: {scoring.headline(result.valid)}{result._temperature()}")
        return "\n".join([*lines, self._saved()])

    def _temperature(self) -> str:
        model = self.training.model
        return f" · temperature {model.temperature:.3g}" if "temperature" in model.facts else ""

    def warn(self) -> None:
        """Says plainly when the answer is not as good as was asked for."""
        from mtlstruct.recipes import recipe

        fit, stop = self.training.fit, self.job.options.stop()
        asked_for = stop.eta is not None and fit.passes < stop.max_passes  # another rule, which was kept
        if fit.converged or asked_for or recipe(self.job.options.method).epochs is not None:
            return
        got, asked = f"gap is {fit.gap:.2%}", f"{stop.gap:.2%}"
        if stop.epsilon is not None:
            got, asked = f"R_emp - R_s is {fit.epsilon:.4g}", f"{stop.epsilon:g}"
        complain(
            f"not converged: after {fit.passes} passes (--max-iter) the {got}, asked for was {asked}; "
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
        from mtlstruct.recipes import ONLINE

        return self.training.model.facts["solver"] in ONLINE

    def _learned(self) -> str:
        found = self.numbers
        return (
            f"{found['active_templates']} of {found['templates']} templates have a weight; "
            f"{found['attributes']:,} attributes and {found['features']:,} features were looked at; "
            f"peak memory {_size(round(found['peak_rss_mb'] * 1e6))}"
        )

    def _saved(self) -> str:
        size = _size(self.job.model.stat().st_size)
        log = f", log {self.job.log}" if self.job.log is not None else ""
        return f"saved {self.job.model} ({size}){log}"


def _outlined(training: Training) -> Training:
    """The same without the weights of the fit, whose memory the next training wants."""
    return replace(training, fit=replace(training.fit, weights=[]))


def say_what_was_read(say: Callable[[str], None], task: str, corpus: Corpus, templates: TemplateSet) -> None:
    """How much there is, and what looks odd about it."""
    labels = f", {len(corpus.labels)} labels" if corpus.labels else ""
    sentences = f"{len(corpus):,} sentences, {corpus.tokens:,} tokens{labels}"
    items = f"{corpus.tokens:,} items, {len(corpus.labels)} classes"
    say(f"read {items if task == 'multiclass' else sentences}; {len(templates)} templates")
    if corpus.labels and all(map(_is_number, corpus.labels)):  # they may be meant, so this is no error
        some = f"{len(corpus.labels)} labels are numbers ({', '.join(corpus.labels[:3])} …)"
        say(f"note: all {some}; the last column is taken for the label")


def _say_prepared(shown: Progress, ready: Prepared) -> None:
    from mtlstruct import memory

    free = memory.available()
    room = "" if free is None else f", {_size(free)} is free"
    shown.say(
        f"encoded {ready.attributes:,} attributes, {ready.weights:,} features in {clock(ready.seconds)}; "
        f"training takes {_size(ready.memory)} of memory on top of {_size(memory.peak())}{room}"
    )
    if ready.constant or ready.identical:
        shown.say(
            f"left out {ready.identical} templates that equal another on these data and {ready.constant} that cannot "
            "tell one tree from another (`weights` names them)"
        )


def _size(count: int) -> str:
    from mtlstruct.memory import gigabytes

    return gigabytes(count)


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True
