"""Training on shards: each worker holds a part of the sentences, and batch solvers sum over the workers."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
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
    pieces = pieces_of(corpus, min(options.shards, len(corpus)))
    with closing(Pool([Shard(k, partial(_same, piece)) for k, piece in enumerate(pieces)])) as pool:
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
        return facts_of(data, corpus.names, templates, asdict(options) | {"workers": pool.size}, found.init)

    found.open_checkpoint(facts)
    began = time.perf_counter()
    lines, structure = resolved_templates(templates, corpus, options), structure_of(corpus, options)
    index, maps = build_index(
        pool, lines, structure, min_count=options.min_count, normalize=options.normalize
    )
    oracle = sharded_oracle(pool, index, maps, structure, outlines, cost_table(corpus, structure, options))
    dataset = EncodedDataset(structure, oracle.encoded, index, time.perf_counter() - began)
    # the weights of both ends of a line, of a cut, those of each worker, and their sums
    pool.ensure_room((2 * pool.size + 3) * table_bytes(oracle), "training")
    summary = summarize(dataset, oracle, options)
    fit = run_solver(corpus, index, oracle, summary, options, found)
    return finish(corpus, index, structure, oracle.encoded, fit, summary, options)


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
    return ShardedOracle(
        pool,
        [View(coding) for coding in codings],
        ends,
        structure,
        layout(index, structure, corpus.ptr),
        cost,
    )


def with_batch_solver(options: Options) -> Options:
    """Return the options with the cutting-plane solver where the default would be coordinate ascent."""
    if options.solver is None and solver_of(options.method, None) == "coordinate":
        return replace(options, solver="cutting-plane", line_search=True)
    return options


def _same(corpus: Corpus) -> Corpus:
    return corpus
