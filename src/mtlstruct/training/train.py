"""Train: corpus, templates and options to a model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import memory
from mtlstruct._system.stateful import Keeper
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.arcs.index import arc_bytes
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import encode_training
from mtlstruct.model.model import Index, Model
from mtlstruct.objective.losses import Hamming, WeightedHamming, tabulate
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers import Callback, Fit, Learner, Record, Start, check_needs
from mtlstruct.solvers.coordinate_ascent.duals import with_shared_singletons
from mtlstruct.structures import MulticlassStructure, Structure, TreeStructure, structure_for
from mtlstruct.structures.tree import arc_starts
from mtlstruct.templates import TemplateSet
from mtlstruct.training.build_model import build_model, left_out, observed_attributes
from mtlstruct.training.checkpoints import Checkpoint, facts_of
from mtlstruct.training.early_stopping import EarlyStop
from mtlstruct.training.methods import learner, method_spec, regularizer, solver_of
from mtlstruct.training.options import Options
from mtlstruct.training.warm_start import start_from


@dataclass(frozen=True)
class Training:
    """A model and the figures of the run that made it."""

    model: Model
    fit: Fit
    encode_seconds: float
    attributes: int
    weights: int
    seconds: float = 0.0


@dataclass(frozen=True)
class DatasetSummary:
    """Sizes of encoded training data.

    Attributes
    ----------
    attributes, weights : int
        Distinct attributes, and features (attributes combined with labels).
    memory : int
        Bytes that training will take on top of the data.
    seconds : float
        Time that encoding took.
    constant, identical : int
        Templates left out because they tell no tree from another, or equal another template.
    """

    attributes: int
    weights: int
    memory: int
    seconds: float
    constant: int = 0
    identical: int = 0


@dataclass(frozen=True)
class EncodedDataset:
    """Encoded training data, from which any number of models can be learned.

    Attributes
    ----------
    seconds : float
        Time that encoding took.
    """

    structure: Structure
    encoded: Encoded
    index: Index
    seconds: float


@dataclass(frozen=True)
class Hooks:
    """Callbacks, warm start and checkpointing of one training.

    Attributes
    ----------
    callback : callable or None
        Called with a `Record` after each pass; a true answer ends training.
    on_encoded : callable or None
        Called once with the `DatasetSummary`, before the first pass.
    init : Model or None
        Model whose weights training starts from.
    validate : callable or None
        Scores the model after each pass. The best model is returned.
    patience : int or None
        Passes without a better score that end training.
    checkpointer : Checkpoint or None
        Saves the state of training, and restores that of an earlier run.
    """

    callback: Callback | None = None
    on_encoded: Callable[[DatasetSummary], None] | None = None
    init: Model | None = None
    validate: Callable[[Model], float] | None = None
    patience: int | None = None
    checkpointer: Checkpoint | None = None

    def open_checkpoint(self, facts: Callable[[], dict[str, Any]]) -> None:
        """Tell the checkpointer what the training depends on."""
        if self.checkpointer is not None:
            if self.validate is not None:
                raise IncompatibleError("early stopping does not support checkpoints")
            self.checkpointer.open(facts())


def train(
    corpus: Corpus,
    templates: TemplateSet,
    options: Options,
    callback: Callback | None = None,
    *,
    dataset: EncodedDataset | None = None,
    **hooks: Any,
) -> Training:
    """Encode a corpus, learn, and return the model with the figures of the run.

    Parameters
    ----------
    corpus : Corpus
        Labelled sentences.
    templates : TemplateSet
    options : Options
    callback : callable, optional
        Called with a `Record` after each pass; a true answer ends training.
    dataset : EncodedDataset, optional
        What `encode` made of this corpus and these templates, if that is done already.
    **hooks
        The other fields of `Hooks`.
    """
    options = options.checked()
    if options.shards > 1:
        raise IncompatibleError("shards: expected 1, or training by distributed.train.train_local_shards")
    found = Hooks(callback, **hooks)
    found.open_checkpoint(
        lambda: facts_of(corpus.digest(), corpus.names, templates, asdict(options), found.init)
    )
    made = encode(corpus, templates, options) if dataset is None else dataset
    oracle = oracle_of(corpus, made.structure, made.encoded, options)
    if solver_of(options.method, options.solver) == "coordinate":
        oracle = with_shared_singletons(oracle, overwrite=dataset is None)
    index, summary = made.index, summarize(made, oracle, options)
    structure, outline = made.structure, oracle.encoded.outline()
    del made
    fit = run_solver(corpus, index, oracle, summary, options, found)
    del oracle  # frees the design matrix before the model is built
    return finish(corpus, index, structure, outline, fit, summary, options)


def summarize(dataset: EncodedDataset, oracle: Oracle, options: Options) -> DatasetSummary:
    """Return the sizes of encoded data, and of what training will take."""
    index = dataset.index
    gone = {name: len(found) for name, found in left_out(index).items()}
    needed = learner_of(dataset.structure, options).memory(oracle)
    return DatasetSummary(observed_attributes(index), oracle.features, needed, dataset.seconds, **gone)


def run_solver(
    corpus: Corpus, index: Index, oracle: Oracle, summary: DatasetSummary, options: Options, hooks: Hooks
) -> Fit:
    """Run the solver of the method on encoded data, with its callbacks."""
    structure = oracle.structure
    if hooks.on_encoded is not None:
        hooks.on_encoded(summary)
    memory.ensure(summary.memory, "training")
    init = None if hooks.init is None else start_from(hooks.init, index, oracle, corpus.labels)
    early = None
    if hooks.validate is not None:
        outline, validate = oracle.encoded.outline(), hooks.validate

        def score(fit: Fit) -> float:
            return validate(build_model(corpus, index.templates, structure, outline, index, fit, options))

        early = EarlyStop(score, hooks.patience, options.c * oracle.sentences)
    solver, checkpointer = learner_of(structure, options), hooks.checkpointer
    return learn(solver, oracle, options, hooks.callback, init=init, early=early, checkpointer=checkpointer)


def finish(
    corpus: Corpus,
    index: Index,
    structure: Structure,
    outline: Encoded,
    fit: Fit,
    summary: DatasetSummary,
    options: Options,
) -> Training:
    """Build the model of a fit; `outline` is the encoded data without the design matrix."""
    model = build_model(corpus, index.templates, structure, outline, index, fit, options)
    return Training(model, fit, summary.seconds, summary.attributes, summary.weights)


def encode(corpus: Corpus, templates: TemplateSet, options: Options) -> EncodedDataset:
    """What all trainings on a corpus share; of the options, those that do not touch the data play no part."""
    began = time.perf_counter()
    templates = resolved_templates(templates, corpus, options)
    if corpus.outputs is None:
        raise IncompatibleError("training data must have labels")
    structure = structure_of(corpus, options)
    ensure_memory(corpus, templates)
    encoded, index = encode_training(
        corpus,
        templates,
        structure.sites(corpus.ptr),
        min_count=options.min_count,
        normalize=options.normalize,
        unit=options.scaling == "unit",
    )
    return EncodedDataset(structure, encoded, index, time.perf_counter() - began)


def learn(
    chosen: Learner,
    oracle: Oracle,
    options: Options,
    callback: Callback | None = None,
    *,
    init: Start | None = None,
    early: EarlyStop | None = None,
    checkpointer: Keeper | None = None,
) -> Fit:
    """Run the solver on encoded data, with early stopping if given."""
    penalty = regularizer(options.method, options.p)
    with np.errstate(all="ignore"):  # learners look after each pass whether something has overflowed
        if early is None:
            return chosen.fit(oracle, penalty, options.c, callback, init=init, checkpointer=checkpointer)

        def watched(record: Record) -> bool:
            ended = early.see(record)
            return (callback is not None and callback(record)) or ended

        return early.result(chosen.fit(oracle, penalty, options.c, watched, init=init))


def oracle_of(corpus: Corpus, structure: Structure, encoded: Encoded, options: Options) -> Oracle:
    """The data as the method sees them."""
    assert corpus.outputs is not None
    if options.seen_only:
        encoded = encoded.supported(corpus.outputs, structure.labels)
    return Oracle(structure, encoded, corpus.outputs, cost_table(corpus, structure, options))


def learner_of(structure: Structure, options: Options) -> Learner:
    """The learner of the method; refuses a structure that it cannot learn."""
    chosen = learner(
        options.method,
        options.solver,
        options.stop(),
        seed=options.seed,
        line_search=options.line_search,
        dense=options.dense_prox,
    )
    check_needs(chosen, structure, regularizer(options.method, options.p))
    return chosen


def cost_table(corpus: Corpus, structure: Structure, options: Options) -> NDArray[np.float32]:
    """What a wrong choice costs: the loss of the method, weighted if so asked. float32[choices, choices]"""
    loss = method_spec(options.method).loss
    if options.loss_weights and loss is not Hamming:
        raise IncompatibleError(
            f"loss weights are for methods with the Hamming loss, {options.method} has another"
        )
    weighted = WeightedHamming(options.loss_weights)
    return tabulate(weighted if options.loss_weights else loss(), structure.choices(corpus.labels))


def resolved_templates(templates: TemplateSet, corpus: Corpus, options: Options) -> TemplateSet:
    """The templates as the data call their columns, lines that expand alike made one if so asked."""
    templates = templates.resolved(corpus.names)
    if options.share_identical:
        templates = templates.shared()
    if issubclass(structure_for(options.task), MulticlassStructure):
        _check_rows(templates)
    return templates


def structure_of(corpus: Corpus, options: Options) -> Structure:
    structure = structure_for(options.task, options.structure)
    if len(corpus.labels) < 2 and not issubclass(structure, TreeStructure):
        only = corpus.labels[0] if corpus.labels else "none"
        raise IncompatibleError(f"the training data has one label only ({only!r}): there is nothing to learn")
    return structure(len(corpus.labels))


def _check_rows(templates: TemplateSet) -> None:
    """Items stand alone: a template that looks at another row would see nothing but the edge."""
    for template in templates:
        for term in template.terms:
            if abs(term.row) != int(term.absolute):
                raise templates.error(template, f"items stand alone: expected row 0, got {term.row}")


def ensure_memory(corpus: Corpus, templates: TemplateSet) -> None:
    """Raise ResourceError for data whose features do not fit into memory."""
    if all(template.kind == "A" for template in templates):
        arcs = int(arc_starts(corpus.ptr)[-1])
        memory.ensure(16 * arcs + arc_bytes(arcs, templates), f"encoding {arcs:,} arcs")
        return
    readings = sum(len(template.readings) for template in templates)
    opened = sum(len(column.ids) for column in corpus.columns if column.ptr is not None)
    memory.ensure(corpus.tokens * (4 * readings + 64) + 24 * opened, f"encoding {corpus.tokens:,} tokens")
