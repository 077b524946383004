"""StructuredClassifier: one class per item."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from mtlstruct.estimators.base import StructuredEstimator, Templates
from mtlstruct.estimators.parameters import documented
from mtlstruct.formats.sentences import Grouping, data_for
from mtlstruct.training.options import Options


@documented
class StructuredClassifier(ClassifierMixin, StructuredEstimator):  # type: ignore[misc]
    """Classify items from feature dicts, templates or numbers, with a weight per group of features.

    X is a list of items: feature dicts, in which each key is a template; rows of cells, with
    `templates`; or a matrix of numbers (array, sparse or data frame), which is one group. y has one
    class per item.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Notes
    -----
    `score` returns the accuracy. Templates may look at row 0 only.
    """

    _task = "multiclass"
    _alone = True

    def __init__(
        self,
        templates: Templates = None,
        *,
        method: str = Options.method,
        loss: str | None = Options.loss,
        c: float | None = Options.c,
        p: float | None = Options.p,
        l1: float | None = Options.l1,
        l2: float | None = Options.l2,
        solver: str | None = Options.solver,
        gap: float | None = Options.gap,
        epsilon: float | None = Options.epsilon,
        eta: float | None = Options.eta,
        max_iter: int | None = Options.max_iter,
        min_count: int = Options.min_count,
        normalize: str = Options.normalize,
        scaling: str = Options.scaling,
        label_support: str = Options.label_support,
        share_identical: bool = Options.share_identical,
        loss_weights: Mapping[Any, float] | None = None,
        group_by: Grouping = None,
        columns: Sequence[str] | None = None,
        random_state: int | None = 0,
        patience: int | None = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        threads: int | None = None,
    ) -> None:
        self._set(locals())

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class of each item.

        Probabilities are calibrated if the loss is the log loss, the default of most methods, or if
        `fit` was given X_val, on which it then fits a temperature. Otherwise an UncalibratedWarning
        is given.

        Parameters
        ----------
        X : iterable of items, matrix, Sentences, path or Corpus
            The items to classify.

        Returns
        -------
        ndarray of shape (n_items, n_classes)
            Columns in the order of `classes_`.
        """
        model = self._model(X)
        return model.marginals(data_for(model, X, alone=True).corpus).node[:, np.argsort(self._names)]

    score = StructuredEstimator.score
