"""Training on shards: each worker holds a part of the sentences, and batch solvers sum over the workers."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

from mtlstruct._system.digest import digest
from mtlstruct.corpus import Corpus
from mtlstruct.distributed.sharded_index import Piece, build_index, pieces_of, whole
from mtlstruct.distributed.sharded_oracle import Shard, ShardedOracle, outline_of
from mtlstruct.distributed.team import Each, LocalTeam, Own, Team
from mtlstruct.solvers import Watch as Callback
from mtlstruct.solvers.base import table_bytes
from mtlstruct.templates import TemplateSet
from mtlstruct.training.checkpoints import facts_of
from mtlstruct.training.methods import solver_of
from mtlstruct.training.options import Options
from mtlstruct.training.train import (
    EncodedDataset,
    Hooks,
    Training,
    cost_table,
    ensure_memory,
    finish,
    resolved_templates,
    run_solver,
    structure_of,
    summarize,
)


def train_local_shards(
    corpus: Corpus, templates: TemplateSet, options: Options, callback: Callback | None = None, **hooks: Any
) -> Training:
    """Train on shards of a corpus in this process. Parameters are those of `training.train.train`."""
    ensure_memory(corpus, resolved_templates(templates, corpus, options))
    with closing(LocalTeam(min(options.shards, len(corpus)))) as team:
        team.make("piece", Piece, Each(pieces_of(corpus, team.size)))
        return train_shards(team, templates, options, callback, **hooks)


def train_shards(
    team: Team, templates: TemplateSet, options: Options, callback: Callback | None = None, **hooks: Any
) -> Training:
    """Train on the sentences that the workers of a team have read."""
    options = with_batch_solver(options).checked()
    found = Hooks(callback, **hooks)
    corpus = whole(team.ask("piece", "outline"))

    def facts() -> dict[str, Any]:
        data = digest(team.ask("piece", "digest"))
        return facts_of(data, corpus.names, templates, asdict(options) | {"workers": team.size}, found.init)

    found.open_checkpoint(facts)
    began = time.perf_counter()
    team.make("labelled", Piece.relabel, Own("piece"), corpus.labels)
    lines, structure = resolved_templates(templates, corpus, options), structure_of(corpus, options)
    index = build_index(team, lines, structure, min_count=options.min_count, normalize=options.normalize)
    cost = cost_table(corpus, structure, options)
    team.make("oracle", Shard.of, Own("piece"), Own("encoded"), structure, cost)
    encoded = outline_of(index, structure, corpus.ptr)
    dataset = EncodedDataset(structure, encoded, index, time.perf_counter() - began)
    oracle = ShardedOracle(team, structure, encoded, cost)
    # the weights, those of each worker, their sums, and copies in case a worker is lost
    team.ensure_room((2 * team.size + 3) * table_bytes(oracle), "training")
    summary = summarize(dataset, oracle, options)
    fit = run_solver(corpus, index, oracle, summary, options, found)
    return finish(corpus, index, structure, encoded, fit, summary, options)


def with_batch_solver(options: Options) -> Options:
    """Return the options with the cutting-plane solver where the default would be coordinate ascent."""
    if options.solver is None and solver_of(options.method, None) == "coordinate":
        return replace(options, solver="cutting-plane", line_search=True)
    return options
