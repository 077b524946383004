"""Training on shards of the sentences: batch solvers sum over the workers."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.digest import digest
from mtlstruct.corpus import Corpus
from mtlstruct.distributed.index import build_index, merged_outline, pieces_of
from mtlstruct.distributed.oracle import ShardedOracle, layout
from mtlstruct.distributed.pool import Pool
from mtlstruct.distributed.shard import Coding, Int32, Shard, View
from mtlstruct.features.index import FeatureIndex
from mtlstruct.solvers import Callback
from mtlstruct.solvers.base import table_bytes
from mtlstruct.structures import Structure
from mtlstruct.templates import TemplateSet
from mtlstruct.training.checkpoints import facts_of
from mtlstruct.training.methods import solver_name
from mtlstruct.training.options import Options
from mtlstruct.training.train import (
    Hooks,
    PreparedTraining,
    Training,
    cost_table,
    ensure_memory,
    resolved_templates,
    structure_of,
)


def train_local_shards(
    corpus: Corpus, templates: TemplateSet, options: Options, callback: Callback | None = None, **hooks: Any
) -> Training:
    """Train on shards of a corpus in this process, with the parameters of `train`."""
    ensure_memory(corpus, resolved_templates(templates, corpus, options))
    pieces = pieces_of(corpus, min(options.shards, len(corpus)))
    pool = Pool([Shard(k, lambda piece=piece: piece) for k, piece in enumerate(pieces)])  # type: ignore[misc]
    return train_shards(pool, templates, options, callback, **hooks)


def train_shards(
    pool: Pool, templates: TemplateSet, options: Options, callback: Callback | None = None, **hooks: Any
) -> Training:
    """Train on the sentences of the workers of a pool."""
    options = with_batch_solver(options).checked()
    found = Hooks(callback, **hooks)
    outlines: list[Corpus] = pool.call("outline")
    corpus = merged_outline(outlines)

    def facts() -> dict[str, Any]:
        data = digest(pool.call("digest"))
        return facts_of(data, corpus.names, templates, options.as_dict() | {"workers": pool.size}, found.init)

    found.open_checkpoint(facts)
    began = time.perf_counter()
    lines, structure = resolved_templates(templates, corpus, options), structure_of(corpus, options)
    index, maps = build_index(
        pool, lines, structure, min_count=options.min_count, normalize=options.normalize
    )
    oracle = sharded_oracle(pool, index, maps, structure, outlines, cost_table(corpus, structure, options))
    # weights at both ends of a line search and of a cut, those of each worker, and their sums
    pool.ensure_capacity((2 * pool.size + 3) * table_bytes(oracle), "training")
    return PreparedTraining(corpus, index, oracle, options, found, time.perf_counter() - began).fit()


def sharded_oracle(
    pool: Pool,
    index: FeatureIndex,
    maps: list[list[Int32]],
    structure: Structure,
    outlines: list[Corpus],
    cost: NDArray[np.float32],
) -> ShardedOracle:
    """Return the oracle of workers that encode their pieces by an index, each with its own maps."""
    corpus = merged_outline(outlines)
    bare = replace(index, vocabularies=(), tables=(), maps=())
    codings = [pool.store(Coding(bare, own, structure, corpus.labels, cost)) for own in maps]
    ends = np.cumsum([each.tokens for each in outlines])[:-1]
    views, encoded = [View(coding) for coding in codings], layout(index, structure, corpus.ptr)
    return ShardedOracle(pool, views, ends, structure, encoded, cost)


def with_batch_solver(options: Options) -> Options:
    """Return the options with a batch solver where the default would be coordinate ascent."""
    if options.solver is not None or solver_name(options) != "coordinate":
        return options
    if options.loss_name == "hinge":
        return replace(options, solver="cutting-plane", line_search=True)
    return replace(options, solver="lbfgs")
