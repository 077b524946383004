"""One training run: check, read, train with progress, log and checkpoints, calibrate, save."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from mtlstruct._system import memory
from mtlstruct._system.atomic_write import replacing
from mtlstruct._system.disk_arrays import arrays_on_disk
from mtlstruct._system.memory import gigabytes
from mtlstruct.cli.checkpoint_dir import CheckpointDir, Stage
from mtlstruct.cli.commands.templates import read_templates
from mtlstruct.cli.common import warn_unknown_characters
from mtlstruct.cli.engine import Engine
from mtlstruct.cli.errors import print_message
from mtlstruct.cli.outputs import Kind, check_outputs
from mtlstruct.cli.progress import TrainingProgress, clock, figure, percentage
from mtlstruct.corpus import Corpus
from mtlstruct.distributed.index import merged_outline
from mtlstruct.distributed.on_disk import encode_on_disk, readers_of
from mtlstruct.distributed.ray_pool import RESUME, RayPool
from mtlstruct.distributed.shard import Shard
from mtlstruct.distributed.train import train_local_shards, train_shards
from mtlstruct.errors import FormatError, IncompatibleError, MtlError, ResourceError
from mtlstruct.evaluation.scores import Scores, headline
from mtlstruct.explain.selection import selected_lines
from mtlstruct.formats import conll, jsonl, partition
from mtlstruct.formats.columns import SPACES, CellFormat
from mtlstruct.formats.feature_dicts import merged_groups
from mtlstruct.formats.sentences import aligned
from mtlstruct.model.calibration import with_temperature
from mtlstruct.model.model import load
from mtlstruct.solvers import Record
from mtlstruct.solvers.base import active_templates
from mtlstruct.structures.schemes import recognised
from mtlstruct.tasks import FileOptions, task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.generate import automatic, of_keys, preset
from mtlstruct.training.arc_labels import check_labels, train_labels
from mtlstruct.training.methods import ONLINE, check_groups, method_spec
from mtlstruct.training.options import Options
from mtlstruct.training.run_log import LABEL_PASS, PASS, TIME_FORMAT, RunLog
from mtlstruct.training.train import DatasetSummary, EncodedDataset, Training, train


class RunData(NamedTuple):
    """Input of a run after reading; `labels` are templates for labels of arcs.

    With a pool, whose workers have read the data, the corpus is without its text.
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
    templates: Path | None
    data: Path
    model: Path
    valid: Path | None = None
    log: Path | None = None
    encoding: str = "utf-8"
    cells: CellFormat = SPACES
    arguments: Sequence[str] = ()
    dialect: str = "mtlstruct"
    start: Path | None = None
    checkpoint: CheckpointDir | None = None
    engine: Engine = field(default_factory=Engine)
    force: bool = False
    quiet: bool = False
    search: Mapping[str, Any] | None = None
    """What was tried before this training, and why its options were chosen."""

    @property
    def _on_ray(self) -> bool:
        return self.engine.name == "ray"

    @property
    def dicts(self) -> bool:
        """Whether the data are JSON lines of feature dicts."""
        return self.data.name.endswith(jsonl.SUFFIXES)

    def check(self) -> None:
        """Raise an error, before any work, for what could only fail after it."""
        self.options.checked()
        if self.dicts and self.options.context:
            raise IncompatibleError("--context needs rows of cells with the word first, not feature dicts")
        self.engine.check()
        if self._on_ray:
            replace(self.options, shards=2).checked()  # one worker has the limits of several
            if self.cells.ragged:
                raise IncompatibleError(
                    "--ragged pad does not support --engine ray: a worker sees only its rows"
                )
        if self.templates is None and self._on_ray:
            raise IncompatibleError("--engine ray needs TEMPLATES")
        inputs = [self.templates, self.data, self.valid]
        if self.templates is None:
            check_outputs([(Path(f"{self.model}.tpl"), Kind.TEMPLATES)], inputs=inputs, force=self.force)
        check_outputs([(self.model, Kind.MODEL)], inputs=inputs, force=self.force)
        check_outputs([(self.log, Kind.LOG)], inputs=[*inputs, self.model, self.start], force=self.force)

    def run(self, data: RunData | None = None) -> TrainingResult:
        """Read the data unless given, train, save. Until the model is saved, no file changes."""
        with ExitStack() as stack:
            if self.checkpoint is not None:
                stack.enter_context(self.checkpoint.locked())
            if data is not None:
                return self._run(data)
            if self._on_ray:
                return self._run(self.read(stack.enter_context(self._pool())))
            try:
                return self._run(self.read())
            except ResourceError as error:
                options = self.options  # a pipe cannot be read twice
                able = (self.data.is_dir() or self.data.is_file()) and self.templates is not None
                if not able or self.dicts or self.cells.ragged or not options.labelled or options.context:
                    raise
                reason = str(error)  # the error itself would keep what was encoded
            print_message(f"{reason}: encoding in files beside the model")
            stack.enter_context(arrays_on_disk(self.model.absolute().parent))
            assert self.templates is not None
            found, task = read_templates(self.templates, self.dialect), task_of(self.options.task)
            read = partial(task.read_file, options=self._file_options())
            readers = readers_of(self.data, read, found, at_blank_lines=task.ends_at_blank_line)
            corpus, dataset = encode_on_disk(readers, found, self.options)
            valid = None if self.valid is None else self._corpus(self.valid, len(corpus.columns))
            return self._run(RunData(found, corpus, valid, dataset))

    def read(self, pool: RayPool | None = None) -> RunData:
        """Read templates and data; with a pool, only the outline of the data that it has read."""
        templates = None if self.templates is None else read_templates(self.templates, self.dialect)
        outlined = pool is not None and self._workers_read
        corpus = merged_outline(pool.call("outline")) if pool and outlined else self._corpus(self.data)
        if templates is None and self.dicts:
            check_groups(corpus.names, self.options.method)
            templates = of_keys(corpus.names, transitions=self.options.structure == "sequence")
        elif templates is None:
            names, outputs = corpus.labels, corpus.outputs
            known = names and outputs is not None and recognised(names, outputs, corpus.ptr)
            templates = automatic(corpus, self.options.task, chunks=bool(known))
        if self.options.share_identical:
            templates = templates.shared()
        templates.resolved(corpus.names).check_columns(len(corpus.columns))
        valid = None if self.valid is None else self._corpus(self.valid, len(corpus.columns))
        if valid is not None and self.dicts:
            valid = aligned(valid, corpus.names)
        labels = None
        if self.options.labels:
            labels = check_labels(corpus, conll.relations(corpus), preset("dependency-labels"))
        return RunData(templates, corpus, valid, labels=labels, pool=pool)

    def _corpus(self, path: Path, width: int = 0) -> Corpus:
        return task_of(self.options.task).read(path, self._file_options(width))

    def _file_options(self, width: int = 0) -> FileOptions:
        options = self.options
        return FileOptions(self.encoding, options.tags, width, options.single_root, self.cells)

    def _pool(self) -> Any:
        """Start the workers of a Ray cluster."""
        task, shards = task_of(self.options.task), self.options.shards
        readers: list[Any] = [None] * shards
        if self._workers_read:
            read = partial(task.read_file, options=self._file_options())
            files = partition.files_of(self.data.absolute())
            parts = partition.split(files, shards, at_blank_lines=task.ends_at_blank_line)
            readers = [partial(partition.read, part, read) for part in parts]
        if not readers:
            raise FormatError(self.data, None, "no sentences: expected data, got an empty file")
        makers = [partial(Shard, k, reader) for k, reader in enumerate(readers)]
        return RayPool(makers, hint=RESUME, **self.engine.settings)

    @property
    def _workers_read(self) -> bool:
        """Whether workers read and index the data; else they get encoded sentences from here."""
        options = self.options
        return options.labelled and "seen" not in (options.label_support, options.transition_support)

    def _run(self, data: RunData) -> TrainingResult:
        files = {"templates": self.templates, "train": self.data, "valid": self.valid, "from": self.start}
        log = RunLog.start(self.options, data.corpus, data.templates, files, self.arguments)
        if data.pool is not None:
            data.pool.listeners.append(
                lambda says: log.add("worker", {"says": says, "time": time.strftime(TIME_FORMAT)})
            )
        training, labels = self._train(data, log), None
        model = training.model
        if self.search is not None:
            model = replace(model, facts=model.facts | {"search": dict(self.search)})
        if data.valid is not None:
            try:
                model = with_temperature(model, data.valid)
            except IncompatibleError as error:  # not a reason to lose the model
                print_message(f"{self.valid}: {error}: the model is not calibrated")
        if data.labels is not None:
            relations = conll.relations(data.corpus)
            with self._stage("labels", LABEL_PASS, data.corpus, data.labels, log) as (shown, hooks):
                arcs = f"{len(relations.strings)} labels of {data.corpus.tokens:,} arcs"
                shown.say(f"training arc labels: {arcs}; {len(data.labels)} templates")
                labels = train_labels(data.corpus, relations, data.labels, self.options, **hooks)
                labels = replace(labels, seconds=shown.seconds)
            model = replace(model, relations=labels.model)
        default = {"encoding": "utf-8", **asdict(SPACES), "dicts": False}
        form = {"encoding": self.encoding, **asdict(self.cells), "dicts": self.dicts}
        known = {name: value for name, value in form.items() if value != default[name]}
        groups = merged_groups(data.corpus.names)
        model = replace(model, facts=model.facts | known | ({"groups": groups} if groups else {}))
        model.save(self.model)
        if self.templates is None:
            kept = [j for j in model.live if j < len(data.templates)]  # without those of --context
            with replacing(f"{self.model}.tpl") as out:
                out.write(selected_lines(data.templates, kept).encode())
        scores, task = None, task_of(model.task)
        if data.valid is not None:
            warn_unknown_characters(model, data.valid, str(self.valid))
            scores = task.score_model(model, data.valid, model.predict(data.valid))
        result = TrainingResult(self, data.corpus, replace(training, model=model), scores, labels)
        if self.log is not None:
            if data.valid is not None:
                log.add("assessment", task.assess(model, data.valid, str(self.valid)))
            log.add("summary", result.numbers)
            try:
                log.write(self.log)
            except MtlError as error:
                reason = str(error).partition(";")[0]
                raise MtlError(f"saved {self.model}, but not its log: {reason}") from None
        return result

    def _train(self, data: RunData, log: RunLog) -> Training:
        """Train the model, or the trees of a model with arc labels."""
        templates, corpus, options = data.templates, data.corpus, self.options
        start = None if self.start is None else load(self.start)
        encoded = data.dataset is not None and not data.dataset.disposable  # its size is on the screen
        with self._stage("training", PASS, corpus, templates, log) as (shown, hooks):
            if not encoded:
                print_data_summary(shown.say, options.task, corpus, templates)
            hooks |= {"init": start} | ({"on_encoded": None} if encoded else {})
            if data.pool is not None and self._workers_read:
                training = train_shards(data.pool, templates, options, **hooks)
            elif options.shards > 1 or data.pool is not None:
                training = train_local_shards(
                    corpus, templates, options, pool=data.pool, dataset=data.dataset, **hooks
                )
            else:
                training = train(corpus, templates, options, dataset=data.dataset, **hooks)
            return replace(training, seconds=shown.seconds)

    @contextmanager
    def _stage(
        self, name: str, event: str, corpus: Corpus, templates: TemplateSet, log: RunLog
    ) -> Iterator[tuple[TrainingProgress, dict[str, Any]]]:
        """Show, log and checkpoint one training; yield its progress and the hooks of `train`."""
        shown = TrainingProgress(
            len(templates), self.options.stop(), self.options.c_value * len(corpus), quiet=self.quiet
        )

        def callback(record: Record) -> bool:
            log.add(event, record.as_dict() | {"seconds": shown.seconds})
            shown.see(record)
            return False

        stage = nullcontext() if self.checkpoint is None else Stage(self.checkpoint, name, log, shown)

        def encoded(ready: DatasetSummary) -> None:
            used, more, free = map(gigabytes, (memory.peak(), ready.memory, memory.available()))
            shown.say(
                f"encoded {ready.attributes:,} attributes, {ready.weights:,} features in {clock(ready.seconds)}; "
                f"memory: {used} used, {more} more for training, {free} free"
            )

        with shown.screen, stage as checkpointer:
            hooks = {"callback": callback, "on_encoded": encoded, "on_stage": shown.say}
            yield shown, hooks | {"checkpointer": checkpointer}


@dataclass(frozen=True)
class TrainingResult:
    """The result of a run. `labels` is the training of arc labels, if any."""

    run: TrainingRun
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
        if self.run.search is not None:
            found["search"] = self.run.search
        return found

    def summary(self) -> str:
        """Return a few lines on the training and on the files that it wrote."""
        run, training, model, fit = self.run, self.training, self.training.model, self.training.fit
        online, found = model.facts["solver"] in ONLINE, self.numbers
        gap = "no gap, since the method is online" if online else f"gap {percentage(fit.gap)}"
        lines = [
            f"{'converged' if fit.converged else 'stopped'} after {fit.passes} passes, {clock(training.seconds)} "
            f"({clock(training.encode_seconds)} of that encoding): objective {figure(fit.objective)}, {gap}",
            f"kept {found['active_templates']} of {found['templates']} templates, out of {found['features']:,} "
            f"candidate features ({found['attributes']:,} attributes); "
            f"peak memory {gigabytes(round(found['peak_rss_mb'] * 1e6))}",
        ]
        if self.labels is not None:
            gap, some = "" if online else f", gap {percentage(self.labels.fit.gap)}", found["labels"]
            lines.append(
                f"labels: {some['passes']} passes, {clock(self.labels.seconds)}{gap}; "
                f"kept {some['active_templates']} of {some['templates']} templates"
            )
        if self.valid is not None:
            temperature = f" · temperature {model.temperature:.3g}" if model.calibrated else ""
            lines.append(f"{run.valid}: {headline(self.valid)}{temperature}")
        log = f", log {run.log}" if run.log is not None else ""
        log += f", templates {run.model}.tpl" if run.templates is None else ""
        return "\n".join([*lines, f"saved {run.model} ({gigabytes(run.model.stat().st_size)}){log}"])

    def warn(self) -> None:
        """Warn of each training that stopped before the gap was reached."""
        stop, online = self.run.options.stop(), method_spec(self.run.options.method).epochs is not None
        for training, what in ((self.training, ""), (self.labels, "labels of arcs: ")):
            if training is None or training.fit.converged or online:
                continue
            fit = training.fit
            if stop.eta is not None and fit.passes < stop.max_passes:
                continue
            got, asked = f"gap is {percentage(fit.gap)}", f"{stop.gap:.2%}"
            if stop.epsilon is not None:
                got, asked = f"R_emp - R_s is {fit.epsilon:.4g}", f"{stop.epsilon:g}"
            print_message(
                f"{what}not converged: after {fit.passes} passes (--max-iter) the {got}, expected {asked}; "
                f"saved {self.run.model} nevertheless"
            )


def _figures(training: Training) -> dict[str, Any]:
    return {
        **training.fit.figures(),
        "seconds": training.seconds,
        "encode_seconds": training.encode_seconds,
        "templates": len(training.model.templates),
        "active_templates": active_templates(training.fit.mu),
        "attributes": training.attributes,
        "features": training.weights,
    }


def print_data_summary(say: Callable[[str], None], task: str, corpus: Corpus, templates: TemplateSet) -> None:
    """Print the size of the data, and what looks odd about them."""
    say(f"read {task_of(task).summary(corpus)}; {len(templates)} templates")
    with suppress(ValueError):
        if [float(label) for label in corpus.labels]:  # it may be intended, so this is no error
            some = f"{len(corpus.labels)} labels are numbers ({', '.join(corpus.labels[:3])} …)"
            say(f"note: all {some}; the last column is read as the label: is the label column missing?")
    if note := task_of(task).warning(corpus):
        say(f"note: {note}")
