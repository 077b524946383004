"""Estimators for scikit-learn: SequenceLabeler, DependencyParser, StructuredClassifier.

`fit` turns X and y into a corpus, trains, and stores a `Model`, which is equal to the one that
`mtlstruct train` writes. docs/howto/python.md shows how to use them.

May import: `report` and the layers below.
Start reading at `base` and `sequence_labeler`.
"""

from mtlstruct.estimators.base import Progress
from mtlstruct.estimators.dependency_parser import DependencyParser
from mtlstruct.estimators.sequence_labeler import SequenceLabeler
from mtlstruct.estimators.structured_classifier import StructuredClassifier

__all__ = ["DependencyParser", "Progress", "SequenceLabeler", "StructuredClassifier"]
