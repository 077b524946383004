"""Training in two passes: the labels of a first model become columns of a second one.

The first model labels its own training data too well. So the columns of the training data come from
models of the other folds, as in cross-validation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.encoded import subset
from mtlstruct.model.context import Labelling, context_templates, first_pass, with_context
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet
from mtlstruct.training.build_model import build_model
from mtlstruct.training.options import Options

if TYPE_CHECKING:
    from mtlstruct.training.train import EncodedDataset, Hooks, Training

FOLDS = 5
"""Parts of consecutive sentences, each labelled by a model of the others."""


def train_with_context(
    corpus: Corpus, templates: TemplateSet, options: Options, dataset: EncodedDataset | None, hooks: Hooks
) -> Training:
    """Train the first pass, label the data by cross-validation, and train the second pass."""
    from mtlstruct.training.train import encode, structure_of, train

    _check(corpus, hooks)
    options = replace(options, context=False)
    made = encode(corpus, templates, options) if dataset is None else dataset
    made = replace(made, structure=structure_of(corpus, options))
    hooks.tell(f"first pass: training on all {len(corpus):,} sentences")
    first = train(corpus, templates, options, dataset=made).model
    parts: list[Labelling] = []
    bounds = np.linspace(0, len(corpus), FOLDS + 1).astype(np.int64)
    for k in range(FOLDS):
        hooks.tell(f"first pass: labelling part {k + 1} of {FOLDS} by a model of the others")
        fold = np.arange(bounds[k], bounds[k + 1])
        rest = np.delete(np.arange(len(corpus)), fold)
        parts.append(first_pass(_train_on(rest, corpus, made, options), corpus.take(fold)))
    del made
    outputs, probabilities = (np.concatenate([part[n] for part in parts]) for n in (1, 2))
    hooks.tell("second pass: training with columns of first-pass labels")
    if (validate := hooks.validate) is not None:
        hooks = replace(hooks, validate=lambda model: validate(replace(model, first=first)))
    training = train(
        with_context(corpus, Labelling(parts[0].labels, outputs, probabilities)),
        context_templates(len(corpus.columns)),
        options,
        **vars(hooks),
    )
    model = replace(training.model, first=first, facts=training.model.facts | {"context": True})
    return replace(training, model=model)


def _check(corpus: Corpus, hooks: Hooks) -> None:
    """Raise an error for what training in two passes does not support."""
    if hooks.checkpointer is not None or hooks.init is not None:
        raise IncompatibleError("context supports neither checkpoints nor a start from another model")
    if len(corpus) < FOLDS:
        raise IncompatibleError(f"context needs at least {FOLDS} sentences, the data have {len(corpus)}")


def _train_on(
    sentences: np.ndarray[tuple[int], np.dtype[np.int64]],
    corpus: Corpus,
    dataset: EncodedDataset,
    options: Options,
) -> Model:
    """Return a model of some of the sentences of encoded data."""
    from mtlstruct.training.train import learn, oracle_of

    structure, index = dataset.structure, dataset.index
    encoded = subset(dataset.encoded, sentences, structure.sites(corpus.ptr), options.min_count)
    part = corpus.take(sentences)
    oracle = oracle_of(part, structure, encoded, options)
    fit = learn(oracle, options)
    return build_model(part, structure, oracle.encoded.outline(), index, fit, options)
