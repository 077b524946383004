"""Structured prediction from feature templates, with learned template weights.

The root has the public names, `errors` and `corpus`; docs/explanation/architecture.md lists the
packages and what each may import. Start reading at `training.train` and `model.model`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtlstruct.errors import MtlError, UncalibratedWarning
    from mtlstruct.estimators import DependencyParser, SequenceLabeler, StructuredClassifier
    from mtlstruct.formats.sentences import Sentences
    from mtlstruct.model.model import Model, load
    from mtlstruct.templates import TemplateSet

__version__ = "0.1.0"

__all__ = [
    "DependencyParser",
    "Model",
    "MtlError",
    "Sentences",
    "SequenceLabeler",
    "StructuredClassifier",
    "TemplateSet",
    "UncalibratedWarning",
    "__version__",
    "load",
]

_HOMES = {
    "Model": "model.model",
    "load": "model.model",
    "MtlError": "errors",
    "UncalibratedWarning": "errors",
    "DependencyParser": "estimators",
    "SequenceLabeler": "estimators",
    "StructuredClassifier": "estimators",
    "Sentences": "formats.sentences",
    "TemplateSet": "templates",
}


def __getattr__(name: str) -> Any:
    """Public names are imported when first asked for: predicting never imports a solver."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mtlstruct' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    """Return the public names, which tab completion then offers before they are imported."""
    return __all__
