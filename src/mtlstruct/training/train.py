"""Corpus + templates + recipe -> Model."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import memory
from mtlstruct._system.digest import digest
from mtlstruct._system.stateful import Keeper
from mtlstruct.corpus import Corpus
from mtlstruct.distributed.sharded_index import Piece, build_index, pieces_of, whole
from mtlstruct.distributed.sharded_oracle import Shard, ShardedOracle, outline_of
from mtlstruct.distributed.team import Each, LocalTeam, Own, Team
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.arcs.index import arc_bytes, arc_starts
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import encode_training
from mtlstruct.model.model import Index, Model
from mtlstruct.objective.losses import Hamming, WeightedHamming, tabulate
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers import Fit, Learner, Start, Watch, check_needs
from mtlstruct.solvers.base import NOTHING, table_bytes
from mtlstruct.structures import Structure, structure_for
from mtlstruct.templates import TemplateSet
from mtlstruct.training.build_model import build_model, left_out, observed_attributes
from mtlstruct.training.checkpoints import Checkpoint, facts_of
from mtlstruct.training.early_stopping import EarlyStop
from mtlstruct.training.methods import learner, recipe, regularizer, solver_of
from mtlstruct.training.options import Options
from mtlstruct.training.warm_start import start_from


@dataclass(frozen=True)
class Training:
    """A model and the figures of the run that made it."""

    model: Model
    fit: Fit
    encode_seconds: float
    seconds: float
    attributes: int
    weights: int


@dataclass(frozen=True)
class Prepared:
    """What is known when the data are encoded; `memory` is what learning will take on top, in bytes.

    constant, identical    how many templates were left out, as telling no tree from another or equal to another
    """

    attributes: int
    weights: int
    memory: int
    seconds: float
    constant: int = 0
    identical: int = 0


@dataclass(frozen=True)
class Material:
    """Training data in features, from which any number of models can be learned.

    seconds    what that took
    """

    structure: Structure
    encoded: Encoded
    index: Index
    seconds: float


def train(
    corpus: Corpus,
    templates: TemplateSet,
    options: Options,
    watch: Watch,
    notify: Callable[[Prepared], None] | None = None,
    material: Material | None = None,
    start: Model | None = None,
    judge: Callable[[Model], float] | None = None,
    patience: int | None = None,
    keep: Checkpoint | None = None,
) -> Training:
    """Encodes, learns, compacts. `notify` hears of the data before learning, `watch` may stop it at a pass.

    material    what `encode` made of this corpus and these templates, if that has been done already
    start       a model to begin from
    judge       scores the model after each pass, before `watch` hears of it: the best model is returned, and learning
                ends after `patience` passes without a better one
    keep        keeps learning, and may go on where an earlier one was; what a judge has seen is not kept
    """
    options.checked()
    wishes = _Wishes(watch, notify, start, judge, patience, keep)
    if options.shards > 1:
        _ensure_memory(corpus, _resolved(templates, corpus, options))
        with closing(LocalTeam(min(options.shards, len(corpus)))) as team:
            team.make("piece", Piece, Each(pieces_of(corpus, team.size)))
            return _train_shards(team, templates, options, wishes)
    wishes.open(lambda: facts_of(corpus.digest(), corpus.names, templates, asdict(options), start))

    def prepare() -> tuple[Material, Oracle]:
        made = encode(corpus, templates, options) if material is None else material
        oracle = oracle_of(corpus, made.structure, made.encoded, options)
        if solver_of(options.method, options.solver) == "coordinate":
            oracle = oracle.folded(spare=material is None)
        return made, oracle

    return _train(corpus, prepare, options, wishes)


def train_shards(
    team: Team,
    templates: TemplateSet,
    options: Options,
    watch: Watch,
    notify: Callable[[Prepared], None] | None = None,
    start: Model | None = None,
    keep: Checkpoint | None = None,
) -> Training:
    """The same on the pieces that workers have, which stay with them."""
    options.checked()
    return _train_shards(team, templates, options, _Wishes(watch, notify, start, keep=keep))


@dataclass(frozen=True)
class _Wishes:
    """Who wants to hear of a training, where it begins, when it may end: see `train`."""

    watch: Watch
    notify: Callable[[Prepared], None] | None = None
    start: Model | None = None
    judge: Callable[[Model], float] | None = None
    patience: int | None = None
    keep: Checkpoint | None = None

    def open(self, facts: Callable[[], dict[str, Any]]) -> None:
        """Finds the checkpoint of this training, if it is to be kept."""
        if self.keep is not None:
            if self.judge is not None:
                raise IncompatibleError("early stopping cannot be kept in a checkpoint")
            self.keep.open(facts())


def _train_shards(team: Team, templates: TemplateSet, options: Options, wishes: _Wishes) -> Training:
    corpus = whole(team.ask("piece", "outline"))

    def facts() -> dict[str, Any]:
        data = digest(team.ask("piece", "digest"))
        return facts_of(data, corpus.names, templates, asdict(options) | {"workers": team.size}, wishes.start)

    wishes.open(facts)

    def prepare() -> tuple[Material, Oracle]:
        began = time.perf_counter()
        team.make("labelled", Piece.relabel, Own("piece"), corpus.labels)
        lines, structure = _resolved(templates, corpus, options), _structure(corpus, options)
        index = build_index(team, lines, structure, min_count=options.min_count, normalize=options.normalize)
        cost = cost_table(corpus, structure, options)
        team.make("oracle", Shard.of, Own("piece"), Own("encoded"), structure, cost)
        encoded = outline_of(index, structure, corpus.ptr)
        made = Material(structure, encoded, index, time.perf_counter() - began)
        oracle = ShardedOracle(team, structure, encoded, cost)
        # the weights, those of each worker, their sums, and what is kept for workers that are lost
        team.ensure_room((2 * team.size + 3) * table_bytes(oracle), "training")
        return made, oracle

    return _train(corpus, prepare, options, wishes)


def _train(
    corpus: Corpus, prepare: Callable[[], tuple[Material, Oracle]], options: Options, wishes: _Wishes
) -> Training:
    """Learns from what is encoded, and compacts."""
    began = time.perf_counter()
    material, oracle = prepare()
    structure, encoded, index = material.structure, oracle.encoded, material.index
    templates = index.templates  # lines that are shared have become one
    chosen = learner_of(structure, options)
    needed = chosen.memory(oracle)
    gone = {name: len(found) for name, found in left_out(index).items()}
    ready = Prepared(
        observed_attributes(index),
        oracle.features,
        needed,
        time.perf_counter() - began,
        **gone,
    )
    del material  # A is not to be held beyond learning
    if wishes.notify is not None:
        wishes.notify(ready)
    memory.ensure(needed, "training")
    start, judge = wishes.start, wishes.judge
    first = None if start is None else start_from(start, index, oracle, corpus.labels)
    early = None
    if judge is not None:
        outline = encoded.outline()

        def judged(fit: Fit) -> float:
            return judge(build_model(corpus, templates, structure, outline, index, fit, options))

        early = EarlyStop(judged, wishes.patience, options.c * oracle.sentences)
    fit = learn(chosen, oracle, options, wishes.watch, first, early, wishes.keep or NOTHING)
    del oracle, first
    encoded = encoded.outline()  # A has served; its memory is wanted for the model
    model = build_model(corpus, templates, structure, encoded, index, fit, options)
    return Training(
        model=model,
        fit=fit,
        encode_seconds=ready.seconds,
        seconds=time.perf_counter() - began,
        attributes=ready.attributes,
        weights=ready.weights,
    )


def encode(corpus: Corpus, templates: TemplateSet, options: Options) -> Material:
    """What all trainings on a corpus share; of the options, those that do not touch the data play no part."""
    began = time.perf_counter()
    templates = _resolved(templates, corpus, options)
    if corpus.outputs is None:
        raise IncompatibleError("training data must have labels")
    structure = _structure(corpus, options)
    _ensure_memory(corpus, templates)
    encoded, index = encode_training(
        corpus,
        templates,
        structure.sites(corpus.ptr),
        min_count=options.min_count,
        normalize=options.normalize,
        unit=options.scaling == "unit",
    )
    return Material(structure, encoded, index, time.perf_counter() - began)


def learn(
    chosen: Learner,
    oracle: Oracle,
    options: Options,
    watch: Watch,
    start: Start | None = None,
    early: EarlyStop | None = None,
    keep: Keeper = NOTHING,
) -> Fit:
    """Runs the method on encoded data."""
    penalty = regularizer(options.method, options.p)
    with np.errstate(all="ignore"):  # learners look after each pass whether something has overflowed
        if early is None:
            return chosen.fit(oracle, penalty, options.c, watch, start, keep)
        last = chosen.fit(oracle, penalty, options.c, lambda record: early.see(record) | watch(record), start)
        return early.result(last)


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
    loss = recipe(options.method).loss
    if options.loss_weights and loss is not Hamming:
        raise IncompatibleError(
            f"loss weights are for methods with the Hamming loss, {options.method} has another"
        )
    weighted = WeightedHamming(options.loss_weights)
    return tabulate(weighted if options.loss_weights else loss(), structure.choices(corpus.labels))


def _resolved(templates: TemplateSet, corpus: Corpus, options: Options) -> TemplateSet:
    """The templates as the data call their columns, lines that expand alike made one if so asked."""
    templates = templates.resolved(corpus.names)
    if options.share_identical:
        templates = templates.shared()
    if options.task == "multiclass":
        _check_rows(templates)
    return templates


def _structure(corpus: Corpus, options: Options) -> Structure:
    structure = structure_for(options.task, options.structure)
    if len(corpus.labels) < 2 and options.task != "dependency":
        only = corpus.labels[0] if corpus.labels else "none"
        raise IncompatibleError(f"the training data has one label only ({only!r}): there is nothing to learn")
    return structure(len(corpus.labels))


def _check_rows(templates: TemplateSet) -> None:
    """Items stand alone: a template that looks at another row would see nothing but the edge."""
    for template in templates:
        for term in template.terms:
            if abs(term.row) != int(term.absolute):
                raise templates.error(template, f"items stand alone: expected row 0, got {term.row}")


def _ensure_memory(corpus: Corpus, templates: TemplateSet) -> None:
    """Raise ResourceError for data whose features do not fit into memory."""
    if all(template.kind == "A" for template in templates):
        arcs = int(arc_starts(corpus.ptr)[-1])
        memory.ensure(16 * arcs + arc_bytes(arcs, templates), f"encoding {arcs:,} arcs")
        return
    readings = sum(len(template.readings) for template in templates)
    opened = sum(len(column.ids) for column in corpus.columns if column.ptr is not None)
    memory.ensure(corpus.tokens * (4 * readings + 64) + 24 * opened, f"encoding {corpus.tokens:,} tokens")
