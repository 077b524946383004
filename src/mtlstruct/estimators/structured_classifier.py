"""StructuredClassifier: a class for each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from mtlstruct.corpus import Corpus
from mtlstruct.estimators.base import Labelling, Structured, Templates
from mtlstruct.formats.sentences import Grouping, data_for


class StructuredClassifier(ClassifierMixin, Labelling):  # type: ignore[misc]
    """A class for each of many items, from feature dicts, templates or numbers, with groups that weigh themselves.

    X is a list of items: feature dicts, in which each key is a template; rows of cells, with `templates`; or a
    matrix of numbers, all of which are one group. y has a class for each. `score` is the share that is right.

    Parameters
    ----------
    templates : TemplateSet, path, list of lines or None
        Where to look, in rows 0 only; None for feature dicts.
    method, c, p, solver, gap, epsilon, max_iter, min_count, normalize, scaling, label_support
        See SequenceLabeler.
    share_identical, loss_weights
        See SequenceLabeler.
    group_by, columns, random_state, patience, threads
        See SequenceLabeler.

    Attributes
    ----------
    model_, template_weights_, gap_, objective_, n_iter_, validation_scores_
        See SequenceLabeler.
    classes_ : ndarray
        The classes.
    """

    _task = "multiclass"
    _alone = True

    def __init__(
        self,
        templates: Templates = None,
        *,
        method: str = "mtl",
        c: float = 1.0,
        p: float | None = None,
        solver: str | None = None,
        gap: float | None = None,
        epsilon: float | None = None,
        max_iter: int | None = None,
        min_count: int = 1,
        normalize: str = "none",
        scaling: str = "unit",
        label_support: str = "all",
        share_identical: bool = False,
        loss_weights: Mapping[Any, float] | None = None,
        group_by: Grouping = None,
        columns: Sequence[str] | None = None,
        random_state: int | None = 0,
        patience: int | None = None,
        threads: int | None = None,
    ) -> None:
        self._set(locals())

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return how probable each class of each item is.

        Probabilities are calibrated if the method is a likelihood (crf-l2 and others), or if `fit` was given X_val,
        on which it then fitted a temperature. Otherwise an UncalibratedWarning says that they are not reliable.

        Returns
        -------
        ndarray of shape (items, classes)
            Columns in the order of `classes_`.
        """
        model = self._model()
        return model.marginals(data_for(model, X, alone=True).corpus).node

    score = Structured.score

    def _quality(self, gold: Corpus, found: NDArray[np.int32], labels: Sequence[str]) -> float:
        assert gold.outputs is not None
        names, ours = np.array(gold.labels), np.array(labels)
        return float(np.mean(names[gold.outputs] == ours[found])) if len(found) else 0.0
