"""Share one encoding among the fits on parts of the same `Sentences`, as in a grid search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mtlstruct.features.encoded import subset
from mtlstruct.formats.in_memory import InputData
from mtlstruct.structures import structure_for
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import EncodedDataset, encode
from mtlstruct.tuning.study import ENCODING


def shared_encoding(
    data: InputData, templates: TemplateSet, options: Options, n_labels: int
) -> EncodedDataset | None:
    """Return the encoding of a part of some `Sentences`, cut out of the encoding of the whole.

    None where X is no such part, or repeats or reorders sentences. The whole stores the encoding
    that was used last.
    """
    whole, chosen = data.whole, data.chosen
    if whole is None or chosen is None or not task_of(options.task).divisible:
        return None
    if np.any(np.diff(chosen) <= 0):
        return None
    key = (templates, *(getattr(options, name) for name in ENCODING))
    corpus, structure = whole.corpus, structure_for(options.task, options.structure)
    if whole.encoded is None or whole.encoded[0] != key:
        whole.encoded = None  # free the old encoding before the new one is made
        labelled = replace(corpus, outputs=np.zeros(corpus.tokens, np.int32), labels=("a", "b"))
        whole.encoded = key, encode(labelled, templates, options)
    dataset: EncodedDataset = whole.encoded[1]
    encoded = dataset.encoded
    if len(chosen) < len(corpus):
        encoded = subset(encoded, chosen, structure(2).sites(corpus.ptr), options.min_count)
    return replace(dataset, encoded=encoded, structure=structure(n_labels))
