"""Metrics of scikit-learn on the labels of all tokens, and the share of whole sequences right."""

from collections.abc import Callable, Sequence
from typing import Any

from sklearn import metrics

from mtlstruct.compat.sklearn_crfsuite.utils import flatten


def _flat(metric: Callable[..., Any]) -> Callable[..., Any]:
    """Return a metric of lists of lists of labels."""

    def flat(y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:
        return metric(flatten(y_true), flatten(y_pred), *args, **kwargs)

    flat.__name__ = flat.__qualname__ = f"flat_{metric.__name__}"
    flat.__doc__ = f"Return `sklearn.metrics.{metric.__name__}` of the labels of all tokens."
    return flat


flat_accuracy_score = _flat(metrics.accuracy_score)
flat_precision_score = _flat(metrics.precision_score)
flat_recall_score = _flat(metrics.recall_score)
flat_f1_score = _flat(metrics.f1_score)
flat_fbeta_score = _flat(metrics.fbeta_score)
flat_classification_report = _flat(metrics.classification_report)


def sequence_accuracy_score(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Return the share of sequences whose labels are all right; 0 if there are none."""
    right = sum(1 for gold, found in zip(y_true, y_pred, strict=False) if gold == found)
    return right / len(y_true) if len(y_true) else 0
