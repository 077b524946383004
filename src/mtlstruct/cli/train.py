"""`train`: reads, checks all that can be checked, learns with the progress in sight, saves, sums up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlstruct.cli.common import (
    EncodingOption,
    JsonOption,
    Method,
    Normalize,
    Solver,
    Tags,
    Task,
    ThreadsOption,
    print_json,
    refuse_overwriting,
    use_threads,
)
from mtlstruct.cli.outcome import complain
from mtlstruct.cli.progress import Progress, TimeLeft, clock, figure, progress
from mtlstruct.errors import IncompatibleError

if TYPE_CHECKING:
    from mtlstruct.cli.scoring import Scores
    from mtlstruct.corpus import Corpus
    from mtlstruct.templates import TemplateSet
    from mtlstruct.train import Options, Prepared, Training

LOG_SUFFIX = ".log.jsonl"


def train(
    context: typer.Context,
    templates: Annotated[
        Path, typer.Argument(metavar="TEMPLATES", help="Feature templates in the language of CRF++.")
    ],
    data: Annotated[Path, typer.Argument(metavar="TRAIN", help="Labelled training data.")],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Where to save the model.")],
    task: Annotated[
        Task, typer.Option("--task", help="A column file with labels, or segmented text.")
    ] = Task.sequence,
    method: Annotated[
        Method, typer.Option("--method", help="mtl weighs and drops templates; svm keeps all alike.")
    ] = Method.mtl,
    c: Annotated[
        float, typer.Option("-c", help="What an error in training costs; the larger, the closer the fit.")
    ] = 1.0,
    solver: Annotated[
        Solver, typer.Option("--solver", help="The fast dual, or the paper's algorithm.")
    ] = Solver.coordinate,
    line_search: Annotated[
        bool, typer.Option("--line-search", help="Cut near the best point (--solver cutting-plane).")
    ] = False,
    gap: Annotated[float, typer.Option("--gap", help="Stop at this relative duality gap.")] = 0.01,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="Stop at this R_emp - R_s instead, as the paper does.")
    ] = None,
    max_iter: Annotated[
        int, typer.Option("--max-iter", metavar="N", help="Stop after so many passes anyway.")
    ] = 1000,
    min_count: Annotated[
        int, typer.Option("--min-count", metavar="N", help="Leave out attributes that are seen less often.")
    ] = 1,
    valid: Annotated[
        Path | None, typer.Option("--valid", help="Labelled data to score the model on at the end.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Orders the visits of sentences.")
    ] = 0,
    threads: ThreadsOption = None,
    normalize: Annotated[
        Normalize, typer.Option("--normalize", help="Look cells up in this Unicode form.")
    ] = Normalize.none,
    tags: Annotated[
        Tags, typer.Option("--tags", help="Labels of characters (--task segmentation).")
    ] = Tags.bie,
    encoding: EncodingOption = "utf-8",
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", help="Where to write one JSON record a pass.", show_default=f"MODEL{LOG_SUFFIX}"
        ),
    ] = None,
    no_log: Annotated[bool, typer.Option("--no-log", help="Write no log.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    json: JsonOption = False,
) -> None:
    """Learn a model, and how much each template is worth.

    Training ends with a proof of how near the optimum it is, the duality gap. Progress goes to stderr, the
    summary to stdout. The same data, options and seed give the same model file, on any number of threads.
    """
    from mtlstruct.train import Options

    options = Options(
        task=task,
        method=method,
        c=c,
        solver=solver,
        gap=gap,
        epsilon=epsilon,
        max_iter=max_iter,
        min_count=min_count,
        normalize=normalize,
        seed=seed,
        line_search=line_search,
        tags=tags,
    )
    log = None if no_log else log or log_beside(model)
    job = Job(templates, data, model, valid, log, encoding, options, tuple(context.obj or ()))
    job.check()
    use_threads(threads)
    result = job.run(quiet=quiet)
    result.warn()
    if json:
        print_json(result.numbers())
    elif not quiet:
        print(result.summary())


def log_beside(model: Path) -> Path:
    """Where the log of a model is looked for."""
    return Path(f"{model}{LOG_SUFFIX}")


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

    def check(self) -> None:
        """Refuses, before any work, what could only fail after it."""
        from mtlstruct.files import check_writable

        self.options.checked()
        if self.options.line_search and self.options.solver != Solver.cutting_plane:
            raise IncompatibleError("--line-search is for --solver cutting-plane")
        refuse_overwriting([self.templates, self.data, self.valid], [self.model, self.log])
        refuse_overwriting([self.model], [self.log])
        for path in (self.model, self.log):
            if path is not None:
                check_writable(path)

    def run(self, *, quiet: bool) -> Result:
        """Reads, learns, saves. Whatever goes wrong before the model is saved, files stay as they are."""
        from mtlstruct.cli.runlog import RunLog
        from mtlstruct.learners import Stop
        from mtlstruct.train import train

        templates, corpus, valid = self._read()
        stop = Stop(self.options.gap, self.options.epsilon, self.options.max_iter)
        left = TimeLeft(stop, self.options.c * len(corpus))
        log = RunLog(self, corpus, templates)
        with progress(quiet=quiet, templates=len(templates), left=left) as shown:
            shown.say(what_was_read(corpus, templates))
            note = odd_labels(corpus)
            if note:
                shown.say(note)

            def watch(record: Any) -> bool:
                log.add_pass(record, shown.seconds)
                shown.see(record)
                return False

            training = train(corpus, templates, self.options, watch, lambda ready: _prepared(shown, ready))
        training.model.save(self.model)
        result = Result(self, corpus, training, self._score(training, valid))
        if self.log is not None:
            log.write(self.log, result.numbers())
        return result

    def _read(self) -> tuple[TemplateSet, Corpus, Corpus | None]:
        from mtlstruct.templates import TemplateSet

        templates = TemplateSet.read(self.templates)
        corpus = self._corpus(self.data)
        templates.check_columns(len(corpus.columns))
        valid = None if self.valid is None else self._corpus(self.valid, len(corpus.columns))
        return templates, corpus, valid

    def _corpus(self, path: Path, width: int = 0) -> Corpus:
        from mtlstruct.cli import scoring

        return scoring.read(
            path, self.options.task, tags=self.options.tags, encoding=self.encoding, width=width
        )

    def _score(self, training: Training, valid: Corpus | None) -> Scores | None:
        from mtlstruct.cli import scoring

        if valid is None:
            return None
        model = training.model
        return scoring.scores(self.options.task, valid, model.predict(valid), model.labels)


@dataclass(frozen=True)
class Result:
    """What a run came to, for people and for programs."""

    job: Job
    corpus: Corpus
    training: Training
    valid: Scores | None

    def numbers(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        from mtlstruct import memory
        from mtlstruct.learners.base import active_templates

        fit = self.training.fit
        found = {
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
        return found if self.valid is None else found | {"valid": self.valid.as_dict()}

    def summary(self) -> str:
        """A few lines on what was learned and where it is."""
        from mtlstruct.cli import scoring

        lines = [self._ending(), self._learned()]
        if self.valid is not None:
            lines.append(f"{self.job.valid}: {scoring.headline(self.valid)}")
        return "\n".join([*lines, self._saved()])

    def warn(self) -> None:
        """Says plainly when the answer is not as good as was asked for."""
        fit, options = self.training.fit, self.job.options
        if fit.converged:
            return
        got, asked = f"gap is {fit.gap:.2%}", f"{options.gap:.2%}"
        if options.epsilon is not None:
            got, asked = f"R_emp - R_s is {fit.epsilon:.4g}", f"{options.epsilon:g}"
        complain(
            f"not converged: after {fit.passes} passes (--max-iter) the {got}, asked for was {asked}; "
            f"{self.job.model} is saved as it is"
        )

    def _ending(self) -> str:
        fit, training = self.training.fit, self.training
        word = "converged" if fit.converged else "stopped"
        return (
            f"{word} after {fit.passes} passes and {clock(training.seconds)}, of it encoding "
            f"{clock(training.encode_seconds)}: objective {figure(fit.objective)}, gap {fit.gap:.2%}"
        )

    def _learned(self) -> str:
        numbers = self.numbers()
        return (
            f"{numbers['active_templates']} of {numbers['templates']} templates have a weight; "
            f"{numbers['attributes']:,} attributes and {numbers['features']:,} features were looked at; "
            f"peak memory {_size(round(numbers['peak_rss_mb'] * 1e6))}"
        )

    def _saved(self) -> str:
        size = _size(self.job.model.stat().st_size)
        log = f", log {self.job.log}" if self.job.log is not None else ""
        return f"saved {self.job.model} ({size}){log}"


def what_was_read(corpus: Corpus, templates: TemplateSet) -> str:
    """The data in numbers."""
    return (
        f"read {len(corpus):,} sentences, {corpus.tokens:,} tokens, {len(corpus.labels)} labels; "
        f"{len(templates)} templates"
    )


def odd_labels(corpus: Corpus) -> str | None:
    """A hint where the last column does not look like labels. Numbers may be labels, so it is no error."""
    if not all(_is_number(label) for label in corpus.labels):
        return None
    some = f"{len(corpus.labels)} labels are numbers ({', '.join(corpus.labels[:3])} …)"
    return f"note: all {some}; the last column is taken for the label"


def _prepared(shown: Progress, ready: Prepared) -> None:
    from mtlstruct import memory

    free = memory.available()
    room = "" if free is None else f", {_size(free)} is free"
    shown.say(
        f"encoded {ready.attributes:,} attributes, {ready.weights:,} features in {clock(ready.seconds)}; "
        f"training takes {_size(ready.memory)} of memory on top of {_size(memory.peak())}{room}"
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
