"""Sections Parameters and Attributes of the estimators' docstrings, made from `Options`."""

import inspect
import re
import textwrap
from dataclasses import fields
from typing import Any, Literal, TypeVar, get_args, get_origin

from mtlstruct.training.options import TYPES, Options, declaration

Estimator = TypeVar("Estimator", bound=type)

OWN = {
    "templates": (
        "TemplateSet, path, list of str or None, default None",
        "A template set, the path of a template file, or its lines. None: one template per key of the "
        "feature dicts; DependencyParser takes the preset `dependency` instead.",
    ),
    "loss_weights": (
        "dict or None, default None",
        "Cost of missing a label, by label; 1 for labels that are not in the dict. Used by the losses "
        "'hinge' and 'softmax-margin'.",
    ),
    "group_by": (
        "str, callable or None, default None",
        "Groups the keys of feature dicts; each group is one template. A regular expression (its first "
        "group, or the whole match) or a function of the key. None: each key is a group.",
    ),
    "columns": ("sequence of str or None, default None", "Names of the columns of rows."),
    "structure": (
        'str, default "sequence"',
        "Name of a structure of `structures.STRUCTURES` with one label per token.",
    ),
    "random_state": (
        "int or None, default 0",
        "Seed of the order in which solvers visit sentences; None is 0.",
    ),
    "patience": (
        "int or None, default None",
        "Stop after so many passes without a better score on the validation data of `fit`; None: never.",
    ),
    "warm_start": ("bool, default False", "Start `fit` from the model of the last fit, if there is one."),
    "verbose": ("bool or int, default False", "Print a line per pass: objective, gap, score and time."),
    "label_templates": (
        "TemplateSet, path, list of str or None, default None",
        "Templates of the labels of arcs; None: the preset `dependency-labels`.",
    ),
    "threads": (
        "int or None, default None",
        "Number of threads, for the whole process; None leaves it unchanged.",
    ),
}
"""Parameters that are no options, or have another form there: type and description."""

ATTRIBUTES = """\
model_ : Model
    The trained model, as `mtlstruct train` writes it.
classes_ : list or ndarray
    The labels; empty for trees. Classes of items are sorted, as in scikit-learn.
n_features_in_ : int
    Number of columns, if the items of a StructuredClassifier are the rows of a matrix.
template_weights_ : list of dict
    The templates, largest weight first.
gap_, objective_ : float
    Relative duality gap and objective at the end of training.
n_iter_ : int
    Number of passes.
validation_scores_ : list of float
    Score on the validation data after each pass."""


def documented(estimator: Estimator) -> Estimator:
    """Replace {parameters} and {attributes} in the docstring of an estimator."""
    if estimator.__doc__ is not None:  # python -OO
        entries = "\n".join(map(_entry, list(inspect.signature(estimator).parameters)))
        text = inspect.cleandoc(estimator.__doc__)
        estimator.__doc__ = text.replace("{parameters}", entries).replace("{attributes}", ATTRIBUTES)
    return estimator


def _entry(name: str) -> str:
    kind, description = OWN.get(name) or _option_entry(name)
    return f"{name} : {kind}\n" + textwrap.indent(textwrap.fill(description, 96), "    ")


def _option_entry(name: str) -> tuple[str, str]:
    option = next(row for row in fields(Options) if row.name == name)
    known = declaration(option)
    description = re.sub(r" \(--[^)]*\)", "", known.help)
    if known.users and not known.users.startswith("--"):
        description += f" Used by {known.users}."
    default = repr(option.default) + (f" ({known.shown.replace('--', '')})" if known.shown else "")
    return f"{_type_name(TYPES[name])}, default {default}", description


def _type_name(kind: Any) -> str:
    choices = get_args(kind)
    if get_origin(kind) is Literal:
        return "{" + ", ".join(map(repr, choices)) + "}"
    if choices:
        return " or ".join(map(_type_name, choices))
    return "None" if kind is type(None) else str(kind.__name__)
