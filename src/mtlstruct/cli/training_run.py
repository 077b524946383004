"""One training run: reads, checks all that can be checked, learns with the progress in sight, saves, sums up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mtlstruct.cli.errors import complain
from mtlstruct.cli.outputs import Kind, check_outputs
from mtlstruct.cli.progress import Progress, TimeLeft, clock
from mtlstruct.cli.training_summary import Result
from mtlstruct.errors import IncompatibleError

if TYPE_CHECKING:
    from mtlstruct.cli.checkpoint_dir import CheckpointDir, Stage
    from mtlstruct.cli.engines import Cluster
    from mtlstruct.cli.runlog import RunLog
    from mtlstruct.corpus import Corpus
    from mtlstruct.distributed.ray_pool import RayPool
    from mtlstruct.evaluation.scores import Scores
    from mtlstruct.solvers import Record
    from mtlstruct.templates import TemplateSet
    from mtlstruct.training.options import Options
    from mtlstruct.training.train import DatasetSummary, EncodedDataset, Training

LOG_SUFFIX = ".log.jsonl"


def log_beside(model: Path) -> Path:
    """Where the log of a model is looked for."""
    return Path(f"{model}{LOG_SUFFIX}")


class Data(NamedTuple):
    """What a run works on.

    dataset     the corpus, if it is encoded already
    labels      templates for labels of arcs, if any
    pool        the workers that read the data, if any: the corpus is then without its text
    """

    templates: TemplateSet
    corpus: Corpus
    valid: Corpus | None
    dataset: EncodedDataset | None = None
    labels: TemplateSet | None = None
    pool: RayPool | None = None


@dataclass(frozen=True)
class TrainingRun:
    """One run of `train`: options, input files, output files."""

    options: Options
    templates: Path
    data: Path
    model: Path
    valid: Path | None = None
    log: Path | None = None
    encoding: str = "utf-8"
    arguments: tuple[str, ...] = ()
    dialect: str = "mtlstruct"
    start: Path | None = None
    label_templates: Path | None = None
    checkpoint: Path | None = None
    checkpoint_every: float = 60.0
    resume: bool = False
    cluster: Cluster | None = None
    force: bool = False

    def check(self) -> None:
        """Raise an error, before any work, for what could only fail after it."""
        self.options.checked()
        if self.cluster is not None:
            self.cluster.check(self.options)
        if self.label_templates is not None and not self.options.labels:
            raise IncompatibleError("--label-templates is for --labels")
        if self.resume and self.checkpoint is None:
            raise IncompatibleError("--resume is for --checkpoint DIR")
        inputs = [self.templates, self.data, self.valid, self.label_templates]
        check_outputs([(self.model, Kind.MODEL)], inputs=inputs, force=self.force)
        check_outputs([(self.log, Kind.LOG)], inputs=[*inputs, self.model, self.start], force=self.force)

    def run(self, *, quiet: bool, data: Data | None = None) -> Result:
        """Read the data unless given, train, save. Until the model is saved, no file changes."""
        with ExitStack() as stack:
            folder = None
            if self.checkpoint is not None:
                from mtlstruct.cli.checkpoint_dir import CheckpointDir

                folder = CheckpointDir(self.checkpoint, self.checkpoint_every, self.resume)
                stack.enter_context(folder.at_work())
            if data is None:
                pool = None
                if self.cluster is not None:
                    pool = stack.enter_context(self.cluster.pool(self.data, self.options, self.encoding))
                data = self.read(pool)
            return self._run(data, folder, quiet=quiet)

    def _run(self, data: Data, folder: CheckpointDir | None, *, quiet: bool) -> Result:
        from mtlstruct.cli.runlog import RunLog
        from mtlstruct.training.arc_labels import with_labels

        log = RunLog(self, data.corpus, data.templates)
        if data.pool is not None:
            data.pool.listeners.append(log.add_event)
        training = self._calibrated(self._train(data, log, folder, quiet=quiet), data.valid)
        labels = None
        if data.labels is not None:
            labels = self._train_labels(data.corpus, data.labels, log, folder, quiet=quiet)
            training = replace(training, model=with_labels(training.model, labels.model))
        training.model.save(self.model)
        result = Result(self, data.corpus, training, self._score(training, data.valid), labels)
        if self.log is not None:
            log.add_assessment(training.model, data.valid, str(self.valid))
            log.write(self.log, result.numbers)
        return result

    def _train(self, data: Data, log: RunLog, folder: CheckpointDir | None, *, quiet: bool) -> Training:
        """Train the model, or the trees of a model with arc labels."""
        from mtlstruct.distributed.train import train_local_shards, train_shards
        from mtlstruct.model.model import load
        from mtlstruct.training.train import train

        templates, corpus, options = data.templates, data.corpus, self.options
        start = None if self.start is None else load(self.start)
        with self._progress(corpus, templates, quiet=quiet) as shown:
            if data.dataset is None:  # else it has been said
                say_what_was_read(shown.say, options.task, corpus, templates)

            def on_encoded(ready: DatasetSummary) -> None:
                if data.dataset is None:
                    _say_encoded(shown, ready)

            callback = _callback(shown, log.add_pass)
            with _checkpointed(folder, "training", log, shown) as checkpointer:
                hooks = {"on_encoded": on_encoded, "init": start, "checkpointer": checkpointer}
                if data.pool is not None:
                    training = train_shards(data.pool, templates, options, callback, **hooks)
                elif options.shards > 1:
                    training = train_local_shards(corpus, templates, options, callback, **hooks)
                else:
                    training = train(corpus, templates, options, callback, dataset=data.dataset, **hooks)
            return replace(training, seconds=shown.seconds)  # as the log counts them, earlier runs included

    def _train_labels(
        self,
        corpus: Corpus,
        templates: TemplateSet,
        log: RunLog,
        folder: CheckpointDir | None,
        *,
        quiet: bool,
    ) -> Training:
        """Train the second stage of parsing, the labels of arcs."""
        from mtlstruct.formats import conll
        from mtlstruct.training.arc_labels import train_labels

        relations = conll.relations(corpus)
        with self._progress(corpus, templates, quiet=quiet) as shown:
            some = f"{len(relations.strings)} labels of {corpus.tokens:,} arcs; {len(templates)} templates"
            shown.say(f"training arc labels: {some}")
            callback = _callback(shown, log.add_label_pass)
            with _checkpointed(folder, "labels", log, shown) as checkpointer:
                training = train_labels(
                    corpus, relations, templates, self.options, callback,
                    on_encoded=lambda ready: _say_encoded(shown, ready), checkpointer=checkpointer,
                )  # fmt: skip
            return replace(training, seconds=shown.seconds)

    def _progress(self, corpus: Corpus, templates: TemplateSet, *, quiet: bool) -> Progress:
        left = TimeLeft(self.options.stop(), self.options.c * len(corpus))
        return Progress(len(templates), left, quiet=quiet)

    def read(self, pool: RayPool | None = None) -> Data:
        """Templates and data, which fit each other; of data that workers read, the outline."""
        from mtlstruct.cli.commands.templates import read_templates
        from mtlstruct.distributed.index import merged_outline

        templates = read_templates(self.templates, self.dialect)
        if self.options.share_identical:
            templates = templates.shared()
        corpus = self._corpus(self.data) if pool is None else merged_outline(pool.call("outline"))
        templates.resolved(corpus.names).check_columns(len(corpus.columns))
        valid = None if self.valid is None else self._corpus(self.valid, len(corpus.columns))
        return Data(templates, corpus, valid, labels=self._label_templates(corpus), pool=pool)

    def _label_templates(self, corpus: Corpus) -> TemplateSet | None:
        """Those for labels of arcs, if wanted, which fit the data too."""
        if not self.options.labels:
            return None
        from mtlstruct.formats import conll
        from mtlstruct.templates import TemplateSet
        from mtlstruct.templates.presets import preset
        from mtlstruct.training.arc_labels import check_labels

        given = self.label_templates
        return check_labels(
            corpus,
            conll.relations(corpus),
            preset("dependency-labels") if given is None else TemplateSet.read(given),
        )

    def _corpus(self, path: Path, width: int = 0) -> Corpus:
        from mtlstruct.tasks import Form, task_of

        options = self.options
        form = Form(self.encoding, options.tags, width, options.single_root)
        return task_of(options.task).read(path, form)

    def _calibrated(self, training: Training, valid: Corpus | None) -> Training:
        """The training whose model has a temperature, if there are held-out data to fit one on and it needs one."""
        model = training.model
        if valid is None or model.calibrated:
            return training
        from mtlstruct.model.calibration import fit_temperature

        lattice = model.lattice(valid)
        if not lattice.probable:
            return training
        try:
            temperature = fit_temperature(lattice, model.gold(valid))
        except IncompatibleError as error:  # no reason to lose what was learned
            complain(f"{self.valid}: {error}: the model has no temperature and is not calibrated")
            return training
        return replace(training, model=replace(model, facts=model.facts | {"temperature": temperature}))

    def _score(self, training: Training, valid: Corpus | None) -> Scores | None:
        from mtlstruct.cli.unknown import UnknownCharacters
        from mtlstruct.tasks import task_of

        if valid is None:
            return None
        unknown = UnknownCharacters(training.model, str(self.valid))
        unknown.see(valid)
        unknown.finish()
        model = training.model
        return task_of(model.task).score_model(model, valid, model.predict(valid))


def _callback(shown: Progress, note: Callable[[Record, float], None]) -> Callable[[Record], bool]:
    """Shows and notes each pass, and never stops one."""

    def see(record: Record) -> bool:
        note(record, shown.seconds)
        shown.see(record)
        return False

    return see


def _checkpointed(
    folder: CheckpointDir | None, stage: str, log: RunLog, shown: Progress
) -> AbstractContextManager[Stage | None]:
    """Return what saves the state of one training, or a context of None."""
    if folder is None:
        return nullcontext()
    from mtlstruct.cli.checkpoint_dir import Stage

    return Stage(folder, stage, log, shown)


def say_what_was_read(say: Callable[[str], None], task: str, corpus: Corpus, templates: TemplateSet) -> None:
    """How much there is, and what looks odd about it."""
    from mtlstruct.tasks import task_of

    known = task_of(task)
    say(f"read {known.summary(corpus)}; {len(templates)} templates")
    if corpus.labels and all(map(_is_number, corpus.labels)):  # they may be meant, so this is no error
        some = f"{len(corpus.labels)} labels are numbers ({', '.join(corpus.labels[:3])} …)"
        say(f"note: all {some}; the last column is taken for the label")
    if note := known.note(corpus):
        say(f"note: {note}")


def _say_encoded(shown: Progress, ready: DatasetSummary) -> None:
    from mtlstruct._system import memory
    from mtlstruct._system.memory import gigabytes

    room = f", {gigabytes(memory.available())} is free"
    shown.say(
        f"encoded {ready.attributes:,} attributes, {ready.weights:,} features in {clock(ready.seconds)}; "
        f"training takes {gigabytes(ready.memory)} of memory on top of {gigabytes(memory.peak())}{room}"
    )
    if ready.constant or ready.identical:
        shown.say(
            f"left out {ready.identical} templates that equal another on these data and {ready.constant} that cannot "
            "tell one tree from another (`weights` names them)"
        )


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True
