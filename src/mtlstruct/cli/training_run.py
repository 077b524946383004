"""One training run: check, read, train with progress, log and checkpoints, calibrate, save."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mtlstruct._system import memory
from mtlstruct._system.memory import gigabytes
from mtlstruct.cli.checkpoint_dir import CheckpointDir, Stage
from mtlstruct.cli.commands.templates import read_templates
from mtlstruct.cli.engines import Cluster
from mtlstruct.cli.errors import complain
from mtlstruct.cli.outputs import Kind, check_outputs
from mtlstruct.cli.progress import Progress, clock
from mtlstruct.cli.training_summary import Result
from mtlstruct.cli.unknown import UnknownCharacters
from mtlstruct.corpus import Corpus
from mtlstruct.distributed.index import merged_outline
from mtlstruct.distributed.ray_pool import RayPool
from mtlstruct.distributed.train import train_local_shards, train_shards
from mtlstruct.errors import IncompatibleError
from mtlstruct.evaluation.scores import Scores
from mtlstruct.formats import conll
from mtlstruct.model.calibration import with_temperature
from mtlstruct.model.model import Model, load
from mtlstruct.solvers import Record
from mtlstruct.tasks import Form, task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.presets import preset
from mtlstruct.training.arc_labels import check_labels, train_labels
from mtlstruct.training.options import Options
from mtlstruct.training.run_log import LABEL_PASS, PASS, RunLog
from mtlstruct.training.train import DatasetSummary, EncodedDataset, Training, train


class Data(NamedTuple):
    """What a run is trained on.

    dataset : EncodedDataset or None
        The encoded corpus, if it is encoded already.
    labels : TemplateSet or None
        Templates for labels of arcs.
    pool : RayPool or None
        The workers that have read the data; the corpus is then without its text.
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
                folder = CheckpointDir(self.checkpoint, self.checkpoint_every, self.resume)
                stack.enter_context(folder.at_work())
            if data is None:
                pool = None
                if self.cluster is not None:
                    pool = stack.enter_context(self.cluster.pool(self.data, self.options, self.encoding))
                data = self.read(pool)
            return self._run(data, folder, quiet=quiet)

    def read(self, pool: RayPool | None = None) -> Data:
        """Read templates and data that fit each other; of data that workers have read, the outline."""
        templates = read_templates(self.templates, self.dialect)
        if self.options.share_identical:
            templates = templates.shared()
        corpus = self._corpus(self.data) if pool is None else merged_outline(pool.call("outline"))
        templates.resolved(corpus.names).check_columns(len(corpus.columns))
        valid = None if self.valid is None else self._corpus(self.valid, len(corpus.columns))
        labels = None
        if self.options.labels:
            given = self.label_templates
            labels = preset("dependency-labels") if given is None else TemplateSet.read(given)
            labels = check_labels(corpus, conll.relations(corpus), labels)
        return Data(templates, corpus, valid, labels=labels, pool=pool)

    def _corpus(self, path: Path, width: int = 0) -> Corpus:
        options = self.options
        return task_of(options.task).read(path, Form(self.encoding, options.tags, width, options.single_root))

    def _run(self, data: Data, folder: CheckpointDir | None, *, quiet: bool) -> Result:
        files = {
            "templates": self.templates,
            "train": self.data,
            "valid": self.valid,
            "from": self.start,
            "label_templates": self.label_templates,
        }
        log = RunLog.start(self.options, data.corpus, data.templates, files, self.arguments)
        if data.pool is not None:
            data.pool.listeners.append(log.add_worker_event)
        training, labels = self._train(data, log, folder, quiet=quiet), None
        model = self._calibrated(training.model, data.valid)
        if data.labels is not None:
            labels = self._train_labels(data.corpus, data.labels, log, folder, quiet=quiet)
            model = replace(model, relations=labels.model)
        model.save(self.model)
        training = replace(training, model=model)
        result = Result(self, data.corpus, training, self._score(model, data.valid), labels)
        if self.log is not None:
            if data.valid is not None:
                log.add(
                    "assessment", task_of(model.task).assess(model, data.valid, str(self.valid)).as_dict()
                )
            log.add("summary", result.numbers)
            log.write(self.log)
        return result

    def _train(self, data: Data, log: RunLog, folder: CheckpointDir | None, *, quiet: bool) -> Training:
        """Train the model, or the trees of a model with arc labels."""
        templates, corpus, options = data.templates, data.corpus, self.options
        start = None if self.start is None else load(self.start)
        known = data.dataset is not None  # its figures are on the screen already
        with self._stage("training", PASS, corpus, templates, log, folder, quiet=quiet) as (shown, hooks):
            if not known:
                say_what_was_read(shown.say, options.task, corpus, templates)
            hooks |= {"init": start} | ({"on_encoded": None} if known else {})
            if data.pool is not None:
                training = train_shards(data.pool, templates, options, **hooks)
            elif options.shards > 1:
                training = train_local_shards(corpus, templates, options, **hooks)
            else:
                training = train(corpus, templates, options, dataset=data.dataset, **hooks)
            return replace(training, seconds=shown.seconds)

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
        relations = conll.relations(corpus)
        with self._stage("labels", LABEL_PASS, corpus, templates, log, folder, quiet=quiet) as (shown, hooks):
            some = f"{len(relations.strings)} labels of {corpus.tokens:,} arcs; {len(templates)} templates"
            shown.say(f"training arc labels: {some}")
            training = train_labels(corpus, relations, templates, self.options, **hooks)
            return replace(training, seconds=shown.seconds)

    @contextmanager
    def _stage(
        self,
        name: str,
        event: str,
        corpus: Corpus,
        templates: TemplateSet,
        log: RunLog,
        folder: CheckpointDir | None,
        *,
        quiet: bool,
    ) -> Iterator[tuple[Progress, dict[str, Any]]]:
        """Show, log and checkpoint one training; give its progress and the hooks of `train`."""
        shown = Progress(len(templates), self.options.stop(), self.options.c * len(corpus), quiet=quiet)

        def callback(record: Record) -> bool:
            log.add(event, record.as_dict() | {"seconds": shown.seconds})
            shown.see(record)
            return False

        with (
            shown.screen,
            nullcontext() if folder is None else Stage(folder, name, log, shown) as checkpointer,
        ):
            encoded = partial(_say_encoded, shown.say)
            yield shown, {"callback": callback, "on_encoded": encoded, "checkpointer": checkpointer}

    def _calibrated(self, model: Model, valid: Corpus | None) -> Model:
        """Fit the temperature of a model, if there are held-out data and it needs one."""
        if valid is None:
            return model
        try:
            return with_temperature(model, valid)
        except IncompatibleError as error:  # not a reason to lose what was learned
            complain(f"{self.valid}: {error}: the model has no temperature and is not calibrated")
            return model

    def _score(self, model: Model, valid: Corpus | None) -> Scores | None:
        if valid is None:
            return None
        unknown = UnknownCharacters(model, str(self.valid))
        unknown.see(valid)
        unknown.finish()
        return task_of(model.task).score_model(model, valid, model.predict(valid))


def say_what_was_read(say: Callable[[str], None], task: str, corpus: Corpus, templates: TemplateSet) -> None:
    """Say how much data there is, and what looks odd about it."""
    known = task_of(task)
    say(f"read {known.summary(corpus)}; {len(templates)} templates")
    if corpus.labels and all(map(_is_number, corpus.labels)):  # they may be meant, so this is no error
        some = f"{len(corpus.labels)} labels are numbers ({', '.join(corpus.labels[:3])} …)"
        say(f"note: all {some}; the last column is taken for the label")
    if note := known.note(corpus):
        say(f"note: {note}")


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _say_encoded(say: Callable[[str], None], ready: DatasetSummary) -> None:
    say(
        f"encoded {ready.attributes:,} attributes, {ready.weights:,} features in {clock(ready.seconds)}; "
        f"training takes {gigabytes(ready.memory)} of memory on top of {gigabytes(memory.peak())}, "
        f"{gigabytes(memory.available())} is free"
    )
    if ready.constant or ready.identical:
        say(
            f"left out {ready.identical} templates that equal another on these data and {ready.constant} that cannot "
            "tell one tree from another (`weights` names them)"
        )
