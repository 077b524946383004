"""Encode sentences once for many fits: the encoding of each fold is cut out of that of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.subsets import subset
from mtlstruct.formats.sentences import Data, Sentences
from mtlstruct.structures import structure_for
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import EncodedDataset, encode
from mtlstruct.tuning.study import ENCODING


def shared_material(
    data: Data, templates: TemplateSet, options: Options, labels: int
) -> EncodedDataset | None:
    """Return the encoding of a part of some Sentences; None where there is none to share."""
    if data.whole is None or data.chosen is None or not task_of(options.task).divisible:
        return None
    if np.any(np.diff(data.chosen) <= 0):  # drawn with replacement, or in another order
        return None
    structure = structure_for(options.task, options.structure)(labels)
    return replace(_material(data.whole, templates, options, data.chosen), structure=structure)


def _material(
    whole: Sentences, templates: TemplateSet, options: Options, chosen: NDArray[np.int64]
) -> EncodedDataset:
    """Return the encoding of the chosen sentences; the whole keeps the encoding that was used last."""
    key = (templates, *(getattr(options, name) for name in ENCODING))
    corpus = whole.corpus
    if whole.encoded is None or whole.encoded[0] != key:
        whole.encoded = None  # free the old encoding before the new one is made
        labelled = replace(corpus, outputs=np.zeros(corpus.tokens, np.int32), labels=("a", "b"))
        whole.encoded = key, encode(labelled, templates, options)
    material: EncodedDataset = whole.encoded[1]
    if len(chosen) == len(corpus):
        return material
    sites = structure_for(options.task, options.structure)(2).sites(corpus.ptr)
    return replace(material, encoded=subset(material.encoded, chosen, sites, options.min_count))
