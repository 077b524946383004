"""Training: from corpus, templates and options to a model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import memory
from mtlstruct._system.stateful import Checkpointer
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.arcs.index import arc_bytes
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import encode_training
from mtlstruct.formats import segmented
from mtlstruct.model.model import Index, Model
from mtlstruct.objective.losses import Hamming, tabulate
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers import Callback, Fit, Record, Solver, Start, check_needs
from mtlstruct.solvers.base import relative
from mtlstruct.solvers.coordinate_ascent.duals import with_shared_singletons
from mtlstruct.solvers.coordinate_ascent.sequence.smooth_step import dense_bytes
from mtlstruct.structures import MulticlassStructure, Structure, TreeStructure, structure_for
from mtlstruct.structures.schemes import SCHEMES, Conversion, recognised
from mtlstruct.structures.tree import arc_starts
from mtlstruct.templates import TemplateSet
from mtlstruct.training.build_model import build_model, observed_attributes
from mtlstruct.training.checkpoints import Checkpoint, facts_of
from mtlstruct.training.context import train_with_context
from mtlstruct.training.methods import (
    check_groups,
    loss_function,
    make_solver,
    method_spec,
    regularizer,
    solver_name,
)
from mtlstruct.training.options import Options
from mtlstruct.training.warm_start import start_from

MAX_PAIR_BYTES = 1_000_000_000
"""Bytes that probabilities of pairs of labels may take, whatever the design matrix."""

MAX_SENTENCE_TOKENS = 4000
"""Tokens of a sentence that the coordinate solver updates at once with a smooth loss."""


@dataclass(frozen=True)
class Training:
    """A model and the figures of the run that trained it."""

    model: Model
    fit: Fit
    encode_seconds: float
    attributes: int
    weights: int
    seconds: float = 0.0


class DatasetSummary(NamedTuple):
    """Encoded training data: distinct attributes, features, bytes for training, seconds taken."""

    attributes: int
    weights: int
    memory: int
    seconds: float


@dataclass(frozen=True)
class EncodedDataset:
    """Encoded training data, from which any number of models can be trained.

    seconds     time that encoding took
    disposable  whether training may change the data, which then serve for one training
    """

    structure: Structure
    encoded: Encoded
    index: Index
    seconds: float
    disposable: bool = False


Ready = tuple[Oracle, Index, float]
"""Encoded data with the index of their features, and how long encoding took."""


@dataclass(frozen=True)
class Hooks:
    """Callbacks, warm start and checkpointing of one training.

    callback      called with a `Record` after each pass; training stops if it returns true
    on_encoded    called once with the `DatasetSummary`, before the first pass
    init          model whose weights training starts from
    validate      scores the model after each pass; the best model is returned
    patience      number of passes without a better score after which training stops
    checkpointer  saves the state of training, and restores that of an earlier run
    on_stage      called with a sentence at the start of each stage, where training has several
    """

    callback: Callback | None = None
    on_encoded: Callable[[DatasetSummary], None] | None = None
    init: Model | None = None
    validate: Callable[[Model], float] | None = None
    patience: int | None = None
    checkpointer: Checkpoint | None = None
    on_stage: Callable[[str], None] | None = None

    def tell(self, stage: str) -> None:
        """Report the start of a stage of training in several passes."""
        if self.on_stage is not None:
            self.on_stage(stage)

    def open_checkpoint(self, facts: Callable[[], dict[str, Any]]) -> None:
        """Open the checkpoint, given a function that returns the facts of this run."""
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
    """Encode a corpus, train, and return the model with the figures of the run.

    Parameters
    ----------
    corpus : Corpus
        Labelled sentences.
    templates : TemplateSet
    options : Options
    callback : callable, optional
        Called with a `Record` after each pass; training stops if it returns true.
    dataset : EncodedDataset, optional
        Result of `encode` for this corpus and these templates, if it exists already.
    **hooks
        The other fields of `Hooks`.

    Returns
    -------
    Training

    Raises
    ------
    MtlError
        If options, templates and data do not fit each other, or memory does not suffice.
    """
    check_groups(corpus.names, options.method)
    corpus = with_learned_labels(corpus, options.checked())
    options = without_label_pairs(options.checked(), corpus, templates)
    if options.shards > 1:
        raise IncompatibleError("shards: expected 1, or training by distributed.train.train_local_shards")
    found = Hooks(callback, **hooks)
    if corpus.conversion is not None:
        given, learned = (SCHEMES[name].title for name in corpus.conversion.facts.values())
        found.tell(f"the labels are {given}, learned as {learned}: {len(corpus.labels)} labels")
    if options.context:
        return train_with_context(corpus, templates, options, dataset, found)
    found.open_checkpoint(
        lambda: facts_of(corpus.digest(), corpus.names, templates, options.as_dict(), found.init)
    )

    def ready() -> Ready:
        made = encode(corpus, templates, options) if dataset is None else dataset
        oracle = oracle_of(corpus, structure_of(corpus, options), made.encoded, options)
        if solver_name(options) == "coordinate":
            oracle = with_shared_singletons(oracle, overwrite=dataset is None or dataset.disposable)
        return oracle, made.index, made.seconds

    return fitted(corpus, options, found, ready)


def with_learned_labels(corpus: Corpus, options: Options) -> Corpus:
    """Return the corpus with the labels of the scheme to learn."""
    if options.scheme == "keep" or corpus.conversion is not None or corpus.outputs is None:
        return corpus
    if options.segments:
        return segmented.relabelled(corpus, options.tags)
    given = recognised(corpus.labels, corpus.outputs, corpus.ptr)
    if given is None:
        some = ", ".join(corpus.labels[:3])
        raise IncompatibleError(f"scheme {options.scheme} is for labels of chunks, got {some} …")
    conversion = Conversion(given, options.scheme, corpus.labels)
    outputs = corpus.relabelled(conversion.labels).outputs
    assert outputs is not None
    outputs = conversion.encode(outputs, corpus.ptr)
    return replace(corpus, outputs=outputs, labels=conversion.learned_labels, conversion=conversion)


def without_label_pairs(options: Options, corpus: Corpus, templates: TemplateSet) -> Options:
    """Return options whose dual variables fit into memory, where there are many labels.

    With a smooth loss the coordinate solver stores a probability per token and pair of labels. They
    may take as much memory as the design matrix, or MAX_PAIR_BYTES. Beyond that the default loss is
    the hinge, and the default solver of a loss that was given is L-BFGS, where it can be used; also
    if a sentence has more than MAX_SENTENCE_TOKENS: steps on such a sentence are short.
    """
    if options.solver is not None or solver_name(options) != "coordinate" or options.loss_name == "hinge":
        return options
    if issubclass(structure_for(options.task, options.structure), TreeStructure):
        return options
    known = method_spec(options.method).solvers
    able = "lbfgs" in known[options.loss_name] and (options.p or 0) <= 2
    batch = replace(options, solver="lbfgs") if able else options
    if int(np.diff(corpus.ptr).max(initial=0)) > MAX_SENTENCE_TOKENS:
        return batch
    allowed = max(MAX_PAIR_BYTES, 4 * corpus.tokens * len(templates))
    if dense_bytes(corpus.ptr, len(corpus.labels)) <= allowed:
        return options
    return replace(options, loss="hinge") if options.loss is None and "hinge" in known else batch


def fitted(corpus: Corpus, options: Options, hooks: Hooks, ready: Callable[[], Ready]) -> Training:
    """Run the solver on an oracle that nobody else holds, free it, then build the model."""
    oracle, index, seconds = ready()
    structure, outline = oracle.structure, oracle.encoded.outline()
    summary = DatasetSummary(
        observed_attributes(index), oracle.features, solver_for(structure, options).memory(oracle), seconds
    )
    if hooks.on_encoded is not None:
        hooks.on_encoded(summary)
    if not summary.weights:
        raise IncompatibleError("templates and --min-count leave no feature: there is nothing to learn")
    memory.trim()  # of what encoding has left behind
    memory.ensure(summary.memory, "training")

    def model_of(fit: Fit) -> Model:
        return build_model(corpus, structure, outline, index, fit, options)

    callback, early, validate = hooks.callback, None, hooks.validate
    if validate is not None:
        scale = options.c_value * len(corpus)
        callback = early = EarlyStop(lambda fit: validate(model_of(fit)), hooks.patience, scale, callback)
    init = None if hooks.init is None else start_from(hooks.init, index, oracle, corpus.labels)
    fit = learn(oracle, options, callback, init=init, checkpointer=hooks.checkpointer)
    del oracle
    fit = fit if early is None else early.result(fit)
    return Training(model_of(fit), fit, summary.seconds, summary.attributes, summary.weights)


def encode(corpus: Corpus, templates: TemplateSet, options: Options) -> EncodedDataset:
    """Encode a corpus; of the options, only those in `tuning.study.ENCODING` change the result."""
    began = time.perf_counter()
    templates = resolved_templates(templates, corpus, options)
    if corpus.outputs is None:
        raise IncompatibleError("training data must have labels")
    structure = structure_of(corpus, options)
    if all(template.kind == "A" for template in templates):
        arcs = int(arc_starts(corpus.ptr)[-1])
        memory.ensure(16 * arcs + arc_bytes(arcs, templates), f"encoding {arcs:,} arcs")
    else:
        opened = sum(len(column.ids) for column in corpus.columns if column.ptr is not None)
        needed = encoding_bytes(corpus.tokens, templates) + 24 * opened
        memory.ensure(needed, f"encoding {corpus.tokens:,} tokens")
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
    oracle: Oracle,
    options: Options,
    callback: Callback | None = None,
    *,
    init: Start | None = None,
    checkpointer: Checkpointer | None = None,
) -> Fit:
    """Run the solver of the method on encoded data."""
    solver, penalty = solver_for(oracle.structure, options), regularizer(options)
    with np.errstate(all="ignore"):  # solvers check for overflow after each pass
        return solver.fit(oracle, penalty, options.c_value, callback, init=init, checkpointer=checkpointer)


def oracle_of(corpus: Corpus, structure: Structure, encoded: Encoded, options: Options) -> Oracle:
    """Return the oracle of encoded data for the loss of the options."""
    assert corpus.outputs is not None
    if options.label_support == "seen" and encoded.designs[0].layout.support is None:
        encoded = encoded.supported(corpus.outputs, structure.labels)
    if options.transition_support == "seen" and encoded.designs[1].layout.support is None:
        tokens = structure.sites(corpus.ptr)[1].tokens
        assert tokens is not None
        encoded = encoded.with_seen_pairs(tokens, corpus.outputs, structure.labels)
    cost, loss = cost_table(corpus, structure, options), loss_function(options)
    if options.projective and loss.temperature > 0:  # other trees have no probability
        for number, span in enumerate(corpus.sentences(), 1):
            heads = corpus.outputs[span]
            tokens = np.arange(1, len(heads) + 1)
            left, right = np.minimum(heads, tokens), np.maximum(heads, tokens)
            inside = (left[:, None] < left) & (left < right[:, None])
            if (inside & (right > right[:, None])).any():
                raise IncompatibleError(
                    f"sentence {number} has crossing arcs: expected projective trees for --projective with the "
                    "log loss; --loss hinge takes them"
                )
    return Oracle(structure, encoded, corpus.outputs, cost, loss.temperature)


def solver_for(structure: Structure, options: Options) -> Solver:
    """Return the solver; raise an error if it does not support the structure."""
    chosen = make_solver(options)
    check_needs(chosen, structure, regularizer(options))
    return chosen


def cost_table(corpus: Corpus, structure: Structure, options: Options) -> NDArray[np.float32]:
    """Return the weighted cost of each choice per gold choice: float32[choices, choices]."""
    cost = method_spec(options.method).cost()
    if options.loss_weights:
        if not isinstance(cost, Hamming):
            raise IncompatibleError(f"loss weights are for the Hamming cost, {options.method} has another")
        cost = Hamming(options.loss_weights)
    table = tabulate(cost, structure.choices(corpus.labels))
    return np.float32(loss_function(options).cost_weight) * table


def resolved_templates(templates: TemplateSet, corpus: Corpus, options: Options) -> TemplateSet:
    """Return the templates with columns by number, and identical lines shared if requested."""
    templates = templates.resolved(corpus.names)
    if options.share_identical:
        templates = templates.shared()
    if issubclass(structure_for(options.task), MulticlassStructure):
        for template in templates:
            if row := next((t.row for t in template.terms if abs(t.row) != int(t.absolute)), 0):
                raise templates.error(template, f"items stand alone: expected row 0, got {row}")
    return templates


def structure_of(corpus: Corpus, options: Options) -> Structure:
    """Return the structure of the task; raise an error for data with one label or too many."""
    structure, count = structure_for(options.task, options.structure), len(corpus.labels)
    needed = 8 * count * count
    if needed > max(10**9, memory.available()):
        size = memory.gigabytes(needed)
        raise IncompatibleError(f"the data have {count:,} labels: the costs of all pairs would take {size}")
    if count < 2 and not issubclass(structure, TreeStructure):
        only = corpus.labels[0] if corpus.labels else "none"
        raise IncompatibleError(f"the training data has one label only ({only!r}): there is nothing to learn")
    return structure(len(corpus.labels))


def encoding_bytes(tokens: int, templates: TemplateSet) -> int:
    """Return about how many bytes it takes to encode tokens: A, the values of joins, and tables."""
    return tokens * (8 * sum(len(template.members) for template in templates) + 64)


@dataclass
class EarlyStop:
    """Callback that stores the best weights by `score`, and stops `patience` passes after them.

    The certificate of the best model is valid: its objective is that of its weights, and the lower
    bound of the last pass holds for all weights. `C` is c·n.
    """

    score: Callable[[Fit], float]
    patience: int | None
    C: float
    callback: Callback | None = None
    best_score: float = -np.inf
    best: Fit | None = None
    passes_since: int = 0

    def __call__(self, record: Record) -> bool:
        """Score a pass; return whether to stop."""
        if record.now is None:
            raise IncompatibleError("this solver does not show its weights: there is nothing to validate")
        now = record.now()
        score = self.score(now)
        self.passes_since += 1
        if score > self.best_score:
            weights = [u.copy() for u in now.weights]  # the solver overwrites its own
            self.best = replace(now, weights=weights, scale=now.scale.copy(), mu=now.mu.copy())
            self.best_score, self.passes_since = score, 0
        stop = self.callback is not None and bool(self.callback(record))
        return stop or (self.patience is not None and self.passes_since >= self.patience)

    def result(self, last: Fit) -> Fit:
        """Return the best fit with its certificate."""
        if self.best is None or self.score(last) >= self.best_score:
            return last
        objective, dual = self.best.objective, last.dual
        gap, epsilon = relative(objective, dual), (objective - dual) / self.C
        return replace(self.best, dual=dual, gap=gap, epsilon=epsilon, converged=False)
