"""Labels of arcs: the second stage of parsing, a classifier of the arcs of gold trees.

It is trained as any classifier is, by the same methods, with weights of templates. Its templates
are the preset `dependency-labels` or the user's own. Data with one relation only raise
IncompatibleError.
"""

from dataclasses import replace
from typing import Any, cast

from mtlstruct.corpus import Column, Corpus, label_outputs
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.arcs.as_items import ArcItems
from mtlstruct.solvers import Callback
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Loss, Options
from mtlstruct.training.train import Training, train


def train_labels(
    corpus: Corpus,
    relations: Column,
    templates: TemplateSet,
    options: Options,
    callback: Callback | None = None,
    **hooks: Any,
) -> Training:
    """Train a classifier of the relations of tokens to their gold heads, by templates of arcs.

    The options are those of the trees; c is the cost of one wrong label.
    """
    assert corpus.outputs is not None
    templates = check_labels(corpus, relations, templates)
    items = ArcItems(templates, options.normalize)
    outputs, labels = label_outputs(relations)
    arcs = replace(items.corpus(corpus, corpus.outputs), outputs=outputs, labels=labels)
    # The loss is that of the trees; cells are in their normal form already.
    options = replace(options, task="multiclass", loss=cast(Loss, options.loss_name), normalize="none")
    options = replace(options, labels=False, projective=False, single_root=False, loss_weights=(), shards=1)
    training = train(arcs, items.templates, options, callback, **hooks)
    return replace(training, model=replace(training.model, templates=templates))


def check_labels(corpus: Corpus, relations: Column, templates: TemplateSet) -> TemplateSet:
    """Return the templates with columns by number; raise an error if they do not fit the corpus."""
    if len(relations.strings) < 2:
        raise IncompatibleError(
            f"the training data has one relation only ({relations.strings[0]!r}): there are no labels to learn"
        )
    templates = templates.resolved(corpus.names)
    templates.check_columns(len(corpus.columns))
    return ArcItems(templates).arcs
