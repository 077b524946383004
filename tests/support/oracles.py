"""Small oracles for the tests of solvers."""

import numpy as np
from support.naive import random_corpus

from mtlstruct.features.index import encode_training
from mtlstruct.objective.losses import Hamming, tabulate
from mtlstruct.objective.oracle import Oracle
from mtlstruct.structures import SequenceStructure
from mtlstruct.templates import TemplateSet

TEMPLATES = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]\nU3:%x[2,1]\nB\nB1:%x[0,1]"


def make_oracle(
    data, templates=TEMPLATES, structure=SequenceStructure, loss=None, *, shared=False, min_count=1
):
    """Encode a corpus by templates, or by their text, and return its oracle."""
    lines = TemplateSet.parse(templates) if isinstance(templates, str) else templates
    made, lines = structure(len(data.labels)), lines.shared() if shared else lines
    encoded, _ = encode_training(data, lines, made.sites(data.ptr), min_count=min_count)
    return Oracle(made, encoded, data.outputs, tabulate(loss or Hamming(), data.labels))


def random_oracle(seed, *sizes, **options):
    """Return the oracle of a random corpus: sentences, longest, words, labels."""
    return make_oracle(random_corpus(np.random.default_rng(seed), *sizes), **options)


def blocks_of(oracle, weights):
    """Return the weights of each template."""
    return [oracle.block(weights, j) for j in range(oracle.templates)]


def features(oracle, outputs):
    """Return Aᵀ(outputs − gold)."""
    counts = [np.zeros(shape, np.float32) for shape in oracle.part_shapes()]
    for triplets, table in zip(oracle.indicator(outputs), counts, strict=True):
        triplets.add_to(table, 1.0)
    out = oracle.zeros()
    oracle.count(counts, out)
    return out
