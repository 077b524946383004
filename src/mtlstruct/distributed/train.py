"""Training on shards of the sentences: batch solvers sum over the workers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.digest import digest
from mtlstruct.corpus import Corpus
from mtlstruct.distributed.index import build_index, merged_outline, runs_of
from mtlstruct.distributed.oracle import ShardedOracle, layout
from mtlstruct.distributed.pool import Pool
from mtlstruct.distributed.shard import Coding, Int32, Shard, View
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.index import FeatureIndex
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers import Callback
from mtlstruct.structures import Structure
from mtlstruct.templates import TemplateSet
from mtlstruct.training.checkpoints import facts_of
from mtlstruct.training.methods import solver_name
from mtlstruct.training.options import Options
from mtlstruct.training.train import (
    EncodedDataset,
    Hooks,
    Ready,
    Training,
    cost_table,
    encode,
    fitted,
    oracle_of,
    resolved_templates,
    structure_of,
)


def train_local_shards(
    corpus: Corpus,
    templates: TemplateSet,
    options: Options,
    callback: Callback | None = None,
    *,
    pool: Pool | None = None,
    dataset: EncodedDataset | None = None,
    **hooks: Any,
) -> Training:
    """Encode a corpus unless it is encoded, and train on its shards; parameters as in `train`.

    The shards are those of a pool whose workers read no data, or in this process.
    """
    options = with_batch_solver(options).checked()
    found = Hooks(callback, **hooks)
    facts = options.as_dict()
    found.open_checkpoint(lambda: facts_of(corpus.digest(), corpus.names, templates, facts, found.init))

    def ready() -> Ready:
        made = encode(corpus, templates, options) if dataset is None else dataset
        oracle = split(oracle_of(corpus, made.structure, made.encoded, options), options.shards, pool)
        oracle.ensure_capacity()
        return oracle, made.index, made.seconds

    return fitted(corpus, options, found, ready)


def split(oracle: Oracle, count: int, pool: Pool | None = None) -> ShardedOracle:
    """Return the oracle over equal shards: those of a pool, or at most `count` here."""
    pool = pool or Pool([Shard(k) for k in range(min(count, oracle.sentences))])
    if pool.size > oracle.sentences:
        raise IncompatibleError(f"--shards {pool.size} needs as many sentences, got {oracle.sentences}")
    site_ptr, ptr = oracle.structure.site_ptr(oracle.encoded.ptr), oracle.encoded.ptr
    runs = runs_of(site_ptr[0], pool.size)
    parts = [
        replace(
            oracle, encoded=oracle.encoded.span(*run, site_ptr), gold=oracle.gold[ptr[run[0]] : ptr[run[1]]]
        )
        for run in runs
    ]
    views, ends = [View(pool.store(part)) for part in parts], ptr[[last for _, last in runs[:-1]]]
    return ShardedOracle(pool, views, ends, oracle.structure, oracle.encoded.outline(), oracle.cost)


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
    oracle.ensure_capacity()
    seconds = time.perf_counter() - began
    return fitted(corpus, options, found, lambda: (oracle, index, seconds))


def sharded_oracle(
    pool: Pool,
    index: FeatureIndex,
    maps: Iterable[list[Int32]],
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
