"""Labels of arcs: the second stage of parsing, a classifier of the arcs of gold trees.

It is learned as any classes are, by the same methods, so its templates weigh themselves too. What it sees of an arc
is data, like all templates: the set `dependency-labels`, or the user's own. Refused: data without relations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mtlstruct.corpus import Column, Corpus, label_outputs
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.arcs.as_items import ArcItems
from mtlstruct.model.model import Model
from mtlstruct.solvers import Callback
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import Training, train


def train_labels(
    corpus: Corpus,
    relations: Column,
    templates: TemplateSet,
    options: Options,
    callback: Callback | None = None,
    **hooks: Any,
) -> Training:
    """Learns to tell the relations of tokens to their gold heads, by templates of arcs.

    The options are those of the trees: method, p, c, solver, gap and the like; c is what one wrong label costs.
    """
    assert corpus.outputs is not None
    templates = check_labels(corpus, relations, templates)
    items = ArcItems(templates, options.normalize)
    outputs, labels = label_outputs(relations)
    arcs = replace(items.corpus(corpus, corpus.outputs), outputs=outputs, labels=labels)
    training = train(arcs, items.templates, _of_items(options), callback, **hooks)
    return replace(training, model=replace(training.model, templates=templates))


def check_labels(corpus: Corpus, relations: Column, templates: TemplateSet) -> TemplateSet:
    """The templates with columns by number, if they can look at the arcs of a corpus and there is what to learn."""
    if len(relations.strings) < 2:
        raise IncompatibleError(
            f"the training data has one relation only ({relations.strings[0]!r}): there are no labels to learn"
        )
    templates = templates.resolved(corpus.names)
    templates.check_columns(len(corpus.columns))
    return ArcItems(templates).arcs


def with_labels(trees: Model, labels: Model) -> Model:
    """The model of trees with its second stage."""
    return replace(trees, relations=labels)


def _of_items(options: Options) -> Options:
    """The same options for classes. Cells are in their normal form already."""
    return replace(
        options,
        task="multiclass",
        normalize="none",
        labels=False,
        projective=False,
        single_root=False,
        loss_weights=(),
    )
