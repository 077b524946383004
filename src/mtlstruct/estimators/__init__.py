"""The scikit-learn face: SequenceLabeler, DependencyParser, StructuredClassifier.

An estimator holds what it was given and nothing else until `fit`, which turns X and y into a corpus, trains, and
keeps the model: the same `Model` that `mtlstruct train` writes. docs/python.md shows how they are used.
"""

from .base import Progress
from .classes import StructuredClassifier
from .sequences import SequenceLabeler
from .trees import DependencyParser

__all__ = ["DependencyParser", "Progress", "SequenceLabeler", "StructuredClassifier"]
