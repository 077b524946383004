"""Estimators for scikit-learn: SequenceLabeler, DependencyParser, StructuredClassifier.

An estimator holds what it was given and nothing else until `fit`, which turns X and y into a corpus, trains, and
keeps the model: the same `Model` that `mtlstruct train` writes. docs/python.md shows how they are used.

May import: `report` and the layers below.
Start reading at `base` and `sequence_labeler`.
"""

from mtlstruct.estimators.base import Progress
from mtlstruct.estimators.dependency_parser import DependencyParser
from mtlstruct.estimators.sequence_labeler import SequenceLabeler
from mtlstruct.estimators.structured_classifier import StructuredClassifier

__all__ = ["DependencyParser", "Progress", "SequenceLabeler", "StructuredClassifier"]
