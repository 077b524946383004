"""Options of a training: names, defaults, ranges, help texts, and which methods and tasks use each.

`Options` is the only place where a training option is declared. The command lines of `train` and `tune`, the
checks, the defaults of the estimators and the table in the documentation are made from its fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from mtlstruct.errors import IncompatibleError, MtlError

if TYPE_CHECKING:
    from mtlstruct.solvers.base import Stop

Task = Literal["sequence", "segmentation", "dependency", "multiclass"]
Method = Literal[
    "mtl", "svm", "mira", "pmtl", "mixed", "group-lasso", "crf-l2", "crf-l1", "irw-crf", "online-mkl"
]
Solver = Literal["coordinate", "cutting-plane", "mira", "lbfgs", "owl-qn", "reweighted", "proximal"]
Tags = Literal["bie", "bmes"]
LossWeights = tuple[tuple[str, float], ...]
"""The cost of missing a label, for the labels whose cost is not 1."""

LABELLED = ("sequence", "segmentation", "multiclass")
"""The tasks whose features combine attributes with labels."""

MAX_PASSES = 1000
MAX_COUNT = 2**31 - 1
GAP = 0.01


@dataclass(frozen=True)
class Declaration:
    """What the command line, the checks and the documentation know of one option.

    Attributes
    ----------
    help : str
        One sentence.
    metavar, shown : str or None
        How the command line shows the value and the default.
    least : int or None
        The smallest value allowed.
    positive : bool
        Whether the value must be finite and greater than 0.
    command_line : bool
        Whether the command line has the option.
    users : str
        Which tasks or methods use the option; empty for all.
    used : callable or None
        Whether these options use this one.
    """

    help: str
    metavar: str | None = None
    shown: str | None = None
    least: int | None = None
    positive: bool = False
    command_line: bool = True
    users: str = ""
    used: Callable[[Options], bool] | None = None


def _option(default: Any, help: str, **more: Any) -> Any:
    return field(default=default, metadata={"declaration": Declaration(help, **more)})


def _trees(options: Options) -> bool:
    return options.task == "dependency"


def _labels(options: Options) -> bool:
    return options.task in LABELLED


def _seen_labels(options: Options) -> bool:
    from mtlstruct.training.methods import method_spec

    return _labels(options) and method_spec(options.method).epochs is None


def _likelihood(options: Options) -> bool:
    from mtlstruct.training.methods import method_spec

    return method_spec(options.method).likelihood


def _cutting_plane(options: Options) -> bool:
    from mtlstruct.training.methods import solver_of

    return solver_of(options.method, options.solver) == "cutting-plane"


@dataclass(frozen=True)
class Options:
    """How to train. Field names and defaults are those of the command line."""

    task: Task = _option("sequence", "What to predict: labels, segmented text, trees, or one class per line.")
    method: Method = _option(
        "mtl",
        "mtl learns a weight per template and drops templates; svm weighs all alike; pmtl is between; "
        "crf-l2 and crf-l1 maximise the likelihood; mira and online-mkl are online.",
    )
    c: float = _option(
        1.0, "Cost of training errors: larger fits the training data more closely.", positive=True
    )
    p: float | None = _option(
        None,
        "Exponent of the norm, greater than 1.",
        shown="4/3 for pmtl, 2 for mixed",
        users="pmtl and mixed",
    )
    solver: Solver | None = _option(
        None,
        "For margin methods: coordinate, or cutting-plane, the paper's algorithm.",
        shown="the method's first",
    )
    gap: float | None = _option(None, "Stop at this relative duality gap.", shown=str(GAP), positive=True)
    epsilon: float | None = _option(
        None, "Stop at this R_emp - R_s instead, as the paper does.", positive=True
    )
    eta: float | None = _option(
        None,
        "Stop when three objectives in a row changed by less than this share instead, as CRF++ does.",
        shown="1e-4 for crf-l1, irw-crf",
        positive=True,
        users="crf-l2, crf-l1 and irw-crf",
        used=_likelihood,
    )
    max_iter: int | None = _option(
        None,
        "Stop after so many passes.",
        metavar="N",
        shown=f"{MAX_PASSES}; mira 10, online-mkl 20",
        least=1,
    )
    line_search: bool = _option(
        False,
        "Cut near the best point so far (--solver cutting-plane).",
        users="--solver cutting-plane",
        used=_cutting_plane,
    )
    dense_prox: bool = _option(
        False,
        "Update every weight at every step, as the paper counts the cost.",
        command_line=False,
        users="--method online-mkl",
        used=lambda options: options.method == "online-mkl",
    )
    loss_weights: LossWeights = _option(
        (), "Cost of missing a label, 1 where not given.", metavar="LABEL=COST,...", shown="all 1"
    )
    min_count: int = _option(1, "Leave out attributes that occur less often.", metavar="N", least=1)
    normalize: Literal["none", "nfkc"] = _option("none", "Look cells up in this Unicode normal form.")
    scaling: Literal["unit", "none"] = _option(
        "unit", "Scale the real values of each template to mean square 1, or leave them as they are."
    )
    label_support: Literal["all", "seen"] = _option(
        "all",
        "Combine attributes with all labels, or only with labels seen together in training.",
        users=f"the tasks {', '.join(LABELLED)}, not for mira and online-mkl",
        used=_seen_labels,
    )
    share_identical: bool = _option(
        False,
        "Template lines that expand alike share their parameters, as in CRF++.",
        users=f"the tasks {', '.join(LABELLED)}",
        used=_labels,
    )
    tags: Tags = _option("bie", "Labels of characters (--task segmentation).")
    projective: bool = _option(
        False, "Trees without crossing arcs (--task dependency).", users="--task dependency", used=_trees
    )
    single_root: bool = _option(
        False, "One token under the root (--task dependency).", users="--task dependency", used=_trees
    )
    labels: bool = _option(
        False, "Learn the labels of arcs too (--task dependency).", users="--task dependency", used=_trees
    )
    seed: int = _option(0, "Seed of the order of sentences, folds and held-out parts.", metavar="N", least=0)
    shards: int = _option(1, "Split the data into K parts.", metavar="K", least=1)

    def checked(self, spell: Callable[[str], str] | None = None) -> Options:
        """Return these options with plain Python numbers, or raise an error that names the option.

        Parameters
        ----------
        spell : callable, optional
            How messages call an option, given the name of its field; None for its flag on the command line.
        """
        from mtlstruct.training.methods import regularizer, solver_of

        spell = spell or flag
        for row in fields(self):
            _check_value(spell(row.name), getattr(self, row.name), row)
        self._check_task(spell("task"))
        regularizer(self.method, self.p)
        solver_of(self.method, self.solver)
        for row in fields(self):
            self._check_use(spell(row.name), row)
        if self.shards > 1:
            self._check_shards()
        values = {row.name: getattr(self, row.name) for row in fields(self)}
        return replace(self, **{n: v.item() for n, v in values.items() if hasattr(v, "item")})

    def _check_task(self, name: str) -> None:
        """Raise an error for an unknown task; a structure of the user's is a task, too."""
        from mtlstruct.structures import STRUCTURES, TASKS

        if not isinstance(self.task, str) or self.structure not in STRUCTURES:
            known = ", ".join(dict.fromkeys([*STRUCTURES, *TASKS]))
            raise IncompatibleError(f"{name} must be one of {known}, got {self.task!r}")

    def _check_use(self, name: str, row: Field[Any]) -> None:
        known, value = declaration(row), getattr(self, row.name)
        if known.used is None or value == row.default or known.used(self):
            return
        users = (
            known.users
            if name.startswith("-")
            else known.users.replace("--", "").replace("solver ", "solver=")
        )
        raise IncompatibleError(f"{name}{f' {value}' if isinstance(value, str) else ''} is for {users}")

    def _check_shards(self) -> None:
        """Raise an error for what cannot be trained in shards."""
        from mtlstruct.training.methods import method_spec

        if method_spec(self.method).epochs is not None:
            raise IncompatibleError(
                f"--shards is for batch methods: {self.method} updates its weights after each sentence"
            )
        if self.solver == "coordinate":
            raise IncompatibleError(
                "--shards is for batch solvers: expected --solver cutting-plane, got coordinate"
            )
        if self.seen_only:
            raise IncompatibleError("--shards does not support --label-support seen")
        if _trees(self):
            raise IncompatibleError("--shards does not support trees yet")

    @property
    def seen_only(self) -> bool:
        """Whether attributes have features only with the labels they were seen with."""
        return self.label_support == "seen"

    @property
    def structure(self) -> str:
        """The name of the structure in structures.STRUCTURES."""
        from mtlstruct.structures import structures_of

        if _trees(self):
            return "single-root-" * self.single_root + "projective-" * self.projective + "tree"
        return structures_of(self.task)[0]

    def stop(self) -> Stop:
        """Return the stopping rule: by the gap if nothing is given, or the method's own."""
        from mtlstruct.solvers.base import Stop
        from mtlstruct.training.methods import method_spec

        row = method_spec(self.method)
        unsaid = self.gap is None and self.epsilon is None
        eta = row.eta if self.eta is None and unsaid else self.eta
        passes = self.max_iter or row.epochs or MAX_PASSES
        return Stop(GAP if self.gap is None else self.gap, self.epsilon, passes, eta)


def declaration(row: Field[Any]) -> Declaration:
    """Return what is declared of a field of `Options`."""
    found: Declaration = row.metadata["declaration"]
    return found


def flag(name: str) -> str:
    """Return the flag of an option on the command line."""
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


def _check_value(name: str, value: Any, row: Field[Any]) -> None:
    """Raise an error if a value has the wrong type or is out of range."""
    from mtlstruct.training.methods import METHODS

    known, allowed = declaration(row), TYPES[row.name]
    kinds = [kind for kind in get_args(allowed) if kind is not type(None)] or [allowed]
    if row.name in ("task", "loss_weights"):
        return
    if value is None and type(None) in get_args(allowed):
        return
    words = tuple(METHODS) if row.name == "method" else _words(allowed)
    if words:
        if not isinstance(value, str) or value not in words:
            raise MtlError(f"{name} must be one of {', '.join(words)}, got {value!r}")
        return
    check_type(name, value, kinds[0])
    if known.positive and not (math.isfinite(value) and value > 0):
        raise MtlError(f"{name} must be a positive number, got {value}")
    if known.least is not None:
        check_count(name, value, known.least)


def _words(allowed: Any) -> tuple[str, ...]:
    """Return the words of a Literal, or of the Literal in a union with None."""
    if get_origin(allowed) is Literal:
        return get_args(allowed)
    return next((get_args(kind) for kind in get_args(allowed) if get_origin(kind) is Literal), ())


_NAMES: dict[type, tuple[Any, str]] = {
    float: (Real, "a number"),
    int: (Integral, "a whole number"),
    bool: (bool, "True or False"),
}
"""The type of a field -> what its values are instances of, and what messages call them."""


def check_type(name: str, value: Any, kind: type) -> None:
    """Raise an error for a value that is no float, int or bool, whichever is expected."""
    types, words = _NAMES[kind]
    if not isinstance(value, types) or (kind is not bool and isinstance(value, bool)):
        raise MtlError(f"{name} must be {words}, got {value!r}")


def check_count(name: str, value: Any, least: int) -> None:
    """Raise an error for anything but a whole number from `least` to 2³¹ − 1."""
    check_type(name, value, int)
    if not least <= value <= MAX_COUNT:
        bound = f"at least {least}" if value < least else f"at most {MAX_COUNT}"
        raise MtlError(f"{name} must be {bound}, got {value}")


TYPES: dict[str, Any] = get_type_hints(Options)
"""The type of each field."""
