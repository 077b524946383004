"""What this machine makes of a training: rates of each step, and how near they are to what its memory allows.

Gathering weights and adding to them is nearly all that learning and predicting do, and the weights do not fit into
a cache. So two figures of the machine say what can be hoped for: how long one access takes that waits for the last
one (latency), and how many bytes a second pass in a row (bandwidth).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct._system import memory, threads
from mtlstruct.corpus import Corpus
from mtlstruct.formats import columns
from mtlstruct.model.model import Model
from mtlstruct.objective.oracle import Oracle
from mtlstruct.samples import recipes as demo
from mtlstruct.templates import TemplateSet, generate
from mtlstruct.training.options import Options
from mtlstruct.training.train import EncodedDataset, encode, oracle_of, train

REPEAT = 3
"""Each step is timed so often, and the best is taken: what disturbs a machine only ever adds."""

COPIES = 12
"""How often the bundled corpus is laid end to end, each time with other noise."""

HOPS, CELLS = 1_000_000, 1 << 23


@dataclass(frozen=True)
class Figure:
    """A figure of a step: how much of what, and what stands beside it."""

    step: str
    value: float
    unit: str
    note: str = ""


def bundled() -> tuple[Corpus, TemplateSet]:
    """A corpus of some size, made of the demo's, and the templates of the demo."""
    text = "".join(demo.column_file(demo.bundled(), seed) for seed in range(COPIES))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ingredients.txt"
        path.write_text(text, "utf-8")
        return columns.read(path), generate((-2, 2), range(8), bigrams=True, trigrams=(1, 3, 4))


def figures(corpus: Corpus, templates: TemplateSet, options: Options) -> Iterator[Figure]:
    """Step by step, each as soon as it is known."""
    yield Figure("threads", threads.get_threads(), "")
    yield Figure("memory, latency", 1e9 * latency(), "ns", "one access after the other")
    stream = bandwidth()
    yield Figure("memory, bandwidth", stream / 1e9, "GB/s", "one thread, in a row")
    train(corpus.take(np.arange(min(50, len(corpus)))), templates, options, lambda record: False)  # compiles
    seconds, material = _best(lambda: encode(corpus, templates, options))
    entries = sum(int(design.ptr[-1]) for design in material.encoded.designs)
    yield Figure("encode", entries / seconds / 1e6, "M attributes/s", f"{seconds:.2f} s")
    yield from _oracle(oracle_of(corpus, material.structure, material.encoded, options), stream)
    yield from _training(corpus, templates, options, material)


def _oracle(oracle: Oracle, stream: float) -> Iterator[Figure]:
    """The three parts of a pass over all sentences: scores by gathering, decoding, counts by scattering."""
    rng = np.random.default_rng(0)
    weights = oracle.zeros()
    for table in weights:
        table[:] = rng.normal(size=table.shape[1])
    scale = np.full(oracle.templates, 1.0 / oracle.templates)
    row = weights[0].shape[1] * weights[0].itemsize
    entries = int(oracle.encoded.designs[0].ptr[-1])
    touched = entries * (row + oracle.encoded.designs[0].ids.itemsize)
    seconds, parts = _best(lambda: oracle.score(weights, scale))
    yield Figure("gather", entries / seconds / 1e6, "M rows/s", _share(touched, seconds, stream))
    seconds, hinge = _best(lambda: oracle.hinge(parts))
    yield Figure("decode", len(oracle.gold) / seconds / 1e6, "M tokens/s", f"{seconds:.2f} s")
    counts = _counts(oracle, hinge.outputs)
    seconds, _ = _best(lambda: oracle.count(counts, weights))
    yield Figure("scatter", entries / seconds / 1e6, "M rows/s", _share(2 * touched, seconds, stream))


def _counts(oracle: Oracle, outputs: NDArray[np.int32]) -> list[NDArray[np.float32]]:
    tables = [np.zeros(shape, np.float32) for shape in oracle.part_shapes()]
    for table, t in zip(tables, oracle.indicator(outputs), strict=True):
        np.add.at(table, (t.row, t.part), t.count)
    tables[0] += np.float32(1e-3)  # all rows: a row of zeros would be passed over
    return tables


def _training(
    corpus: Corpus, templates: TemplateSet, options: Options, material: EncodedDataset
) -> Iterator[Figure]:
    began = time.perf_counter()
    trained = train(corpus, templates, options, lambda record: False, dataset=material)
    seconds = time.perf_counter() - began
    fit, model = trained.fit, trained.model
    live = sum(weight.mu > 1e-5 for weight in model.template_weights())
    note = f"{fit.passes} passes to a gap of {fit.gap:.2%}, {live} of {len(templates)} templates left"
    yield Figure("train", seconds, "s", note)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mtl"
        model.save(path)
        size = path.stat().st_size
        seconds, loaded = _best(lambda: Model.load(path))
        yield Figure("load", seconds * 1e3, "ms", f"{size / 1e6:.1f} MB")
        seconds, _ = _best(lambda: loaded.predict(corpus))
        yield Figure("predict", corpus.tokens / seconds / 1e3, "k tokens/s", "attributes found on the way")
    yield Figure("memory, peak", memory.peak() / 1e6, "MB")


def _share(touched: int, seconds: float, stream: float) -> str:
    """Bytes that were asked for, against what one thread could read in a row."""
    rate = touched / seconds
    return (
        f"{rate / 1e9:.1f} GB/s, {rate / stream / threads.get_threads():.0%} of the bandwidth of its threads"
    )


def latency() -> float:
    """Seconds of an access to memory whose address is known only when the last one is done."""
    order = np.random.default_rng(0).permutation(CELLS)
    ring = np.empty(CELLS, np.int64)
    ring[order] = np.roll(order, -1)
    _chase(ring, 1)
    return _best(lambda: _chase(ring, HOPS))[0] / HOPS


def bandwidth() -> float:
    """Bytes a second that one thread reads in a row."""
    cells = np.ones(CELLS * 4, np.float32)
    _total(cells)
    return float(cells.nbytes / _best(lambda: _total(cells))[0])


def _best(work: Callable[[], Any], repeat: int = REPEAT) -> tuple[float, Any]:
    """The shortest of a few runs, and what the last one gave."""
    shortest, result = np.inf, None
    for _ in range(repeat):
        result = None  # giving back what the last run made is no part of this one
        began = time.perf_counter()
        result = work()
        shortest = min(shortest, time.perf_counter() - began)
    return float(shortest), result


@kernel
def _chase(ring, hops):  # type: ignore[no-untyped-def]
    at = 0
    for _ in range(hops):
        at = ring[at]
    return at


@kernel
def _total(cells):  # type: ignore[no-untyped-def]
    sums = np.zeros(32, np.float32)
    for i in range(0, len(cells) - 31, 32):
        for k in range(32):
            sums[k] += cells[i + k]
    return sums.sum()
