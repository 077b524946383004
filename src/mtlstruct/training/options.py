"""Options of a training: names, defaults, ranges, help texts, and which methods and tasks use each.

`Options` is the only place where a training option is declared. The command lines of `train` and
`tune`, the checks, the defaults of the estimators and the table in the documentation are made from
its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from mtlstruct.errors import IncompatibleError, MtlError, shortened

if TYPE_CHECKING:
    from mtlstruct.solvers.base import Stop

Task = Literal["sequence", "segmentation", "dependency", "multiclass"]
FixedMethod = Literal[
    "mtl", "svm", "mira", "pmtl", "mixed", "group-lasso", "crf-l2", "crf-l1", "crf", "irw-crf", "online-mkl"
]
Method = Literal[FixedMethod, "auto"]
SolverName = Literal["coordinate", "cutting-plane", "mira", "lbfgs", "owl-qn", "reweighted", "proximal"]
Loss = Literal["hinge", "log", "softmax-margin"]
Tags = Literal["bie", "bmes", "six"]
Scheme = Literal["keep", "bio", "bioes", "io", Tags]
LossWeights = tuple[tuple[str, float], ...]
"""The cost of missing a label, for the labels whose cost is not 1."""

TASK_SCHEMES: dict[str, tuple[str, ...]] = {
    "sequence": ("keep", "bio", "bioes", "io"),
    "segmentation": ("keep", *get_args(Tags)),
}
"""The label schemes that a task can learn."""

LABELLED = ("sequence", "segmentation", "multiclass")
"""The tasks whose features combine attributes with labels."""

MAX_PASSES = 1000
MAX_COUNT = 2**31 - 1
GAP = 0.01
LOG_C = 20.0
"""The default c of mtl with a smooth loss; that of all other methods is 1."""


@dataclass(frozen=True)
class Declaration:
    """What the command line, the checks and the documentation know of one option.

    metavar, shown   how the command line shows the value and the default
    range            the smallest and the largest value allowed
    users            which tasks or methods use the option; empty for all
    used             whether these options use this one
    """

    help: str
    group: str = "Method"
    metavar: str | None = None
    shown: str | None = None
    range: tuple[float, float] | None = None
    command_line: bool = True
    users: str = ""
    used: Callable[[Options], bool] | None = None


def _option(default: Any, help: str, **more: Any) -> Any:
    return field(default=default, metadata={"declaration": Declaration(help, **more)})


def _for_tasks(*tasks: str) -> Callable[[Options], bool]:
    return lambda options: options.task in tasks


_trees, _labels, _sequences = _for_tasks("dependency"), _for_tasks(*LABELLED), _for_tasks("sequence")
_segments = _for_tasks("segmentation")
_TREES: dict[str, Any] = {"group": "Trees", "users": "--task dependency", "used": _trees}
_PENALTY: dict[str, Any] = {"shown": "0.1", "users": "crf", "range": (0.0, 1e9)}
_SOFTMAX_MARGIN: dict[str, Any] = {
    "range": (1e-6, 1e6),
    "users": "--loss softmax-margin",
    "used": lambda options: options.loss == "softmax-margin",
}


def _table() -> Any:
    """Return the module of methods, which loads the solvers: the help does without them."""
    from mtlstruct.training import methods

    return methods


@dataclass(frozen=True)
class Options:
    """How to train. Field names and defaults are those of the command line."""

    task: Task = _option(
        "sequence", "What to predict: labels, word boundaries, trees, or one class per line.", group="Common"
    )
    method: Method = _option(
        "mtl",
        "mtl learns a weight per template and drops templates; svm weights all alike; pmtl is between; "
        "crf-l2, crf-l1 and crf (both norms) maximise the likelihood; mira and online-mkl are online; "
        "auto chooses the loss, the norm and c on held-out data.",
        group="Common",
    )
    loss: Loss | None = _option(
        None,
        "Loss of a sentence: hinge (margin), log (likelihood, as in CRFs), or softmax-margin (both).",
        shown="log; hinge for trees, very many labels, svm and online methods",
        group="Common",
    )
    temperature: float = _option(
        1.0, "Temperature of the softmax-margin; towards 0 it becomes the hinge.", **_SOFTMAX_MARGIN
    )
    cost_weight: float = _option(
        1.0, "Weight of the cost in the softmax-margin; towards 0 it becomes the log loss.", **_SOFTMAX_MARGIN
    )
    c: float | None = _option(
        None,
        "Cost of training errors: a larger value fits the training data more closely.",
        group="Common",
        shown=f"{LOG_C:g} for mtl with the log loss or softmax-margin, else 1",
        range=(1e-9, 1e6),
    )
    p: float | None = _option(
        None,
        "Exponent of the norm, greater than 1.",
        shown="4/3 for pmtl, 2 for mixed",
        users="pmtl and mixed",
        range=(1.0, 1000.0),
    )
    l1: float | None = _option(None, "Weight of the sum of absolute weights, CRFsuite's c1.", **_PENALTY)
    l2: float | None = _option(None, "Weight of the sum of squared weights, CRFsuite's c2.", **_PENALTY)
    solver: SolverName | None = _option(
        None,
        "Algorithm; for margin methods coordinate, or cutting-plane as in the paper.",
        shown="depends on --method",
    )
    gap: float | None = _option(
        None, "Stop at this relative duality gap.", shown=str(GAP), range=(1e-15, 100.0)
    )
    epsilon: float | None = _option(
        None, "Stop at this difference of empirical risk and its bound, as in the paper.", range=(1e-15, 1e9)
    )
    eta: float | None = _option(
        None,
        "Stop when the objective changes by less than this share in three passes, as CRF++ does.",
        shown="1e-4 for crf-l1, crf, irw-crf",
        range=(1e-15, 1.0),
        users="the log loss",
        used=lambda options: options.loss_name == "log",
    )
    max_iter: int | None = _option(
        None,
        "Stop after N passes.",
        metavar="N",
        shown=f"{MAX_PASSES}; mira 10, online-mkl 20",
        range=(1, MAX_COUNT),
    )
    line_search: bool = _option(
        False,
        "Choose cuts by a line search (--solver cutting-plane).",
        users="--solver cutting-plane",
        used=lambda options: _table().solver_name(options) == "cutting-plane",
    )
    dense_prox: bool = _option(
        False,
        "Update every weight at every step, as the paper counts the cost.",
        command_line=False,
        users="--method online-mkl",
        used=lambda options: options.method == "online-mkl",
    )
    loss_weights: LossWeights = _option(
        (),
        "Cost of getting a label wrong, e.g. B-PER=2,O=0.5.",
        metavar="LABEL=COST,...",
        shown="all 1",
        range=(0.0, 1e6),
        users="--loss hinge and --loss softmax-margin",
        used=lambda options: options.loss_name != "log",
    )
    min_count: int = _option(
        1, "Drop attributes that occur less than N times.", group="Data", metavar="N", range=(1, MAX_COUNT)
    )
    normalize: Literal["none", "nfkc"] = _option(
        "none", "Unicode normalization of cells before lookup.", group="Data"
    )
    scaling: Literal["unit", "none"] = _option(
        "unit", "Scale real-valued features to mean square 1 per template, or not.", group="Data"
    )
    label_support: Literal["all", "seen"] = _option(
        "all",
        "Features for all pairs of attribute and label, or only for pairs seen in training.",
        users=f"the tasks {', '.join(LABELLED)}, not for mira and online-mkl",
        used=lambda options: options.labelled and _table().method_spec(options.method).epochs is None,
    )
    transition_support: Literal["all", "seen"] = _option(
        "all",
        "Features for all pairs of labels, or only for pairs seen in training.",
        users="sequences with the log loss by lbfgs, owl-qn and reweighted",
        used=lambda options: _for_tasks(*LABELLED[:2])(options) and options.loss_name == "log",
    )
    share_identical: bool = _option(
        False,
        "Template lines with the same expansion share weights, as in CRF++.",
        group="Data",
        users=f"the tasks {', '.join(LABELLED)}",
        used=_labels,
    )
    context: bool = _option(
        False,
        "Train twice: the second model also sees the labels of the first around a token and nearby.",
        group="Data",
        users="--task sequence",
        used=_sequences,
    )
    scheme: Scheme = _option(
        "keep",
        "Labels to learn in place of those of the data, which predictions have: bio, bioes or io; for "
        "segmentation bie, bmes, or six (B B2 B3 M E S).",
        group="Data",
        shown="keep; for segmentation bie",
        users="label sequences (bio, bioes, io) and segmentation (bie, bmes, six)",
        used=lambda options: options.scheme in TASK_SCHEMES.get(options.task, ()),
    )
    projective: bool = _option(False, "Trees without crossing arcs.", **_TREES)
    single_root: bool = _option(False, "Exactly one token under the root.", **_TREES)
    labels: bool = _option(False, "Also learn the labels of arcs.", **_TREES)
    seed: int = _option(
        0, "Seed for the order of sentences, folds and held-out parts.", metavar="N", range=(0, MAX_COUNT)
    )
    shards: int = _option(
        1, "Number of parts of the data, one per worker.", group="Cluster", metavar="K", range=(1, 1000)
    )

    def checked(self, spell: Callable[[str], str] | None = None) -> Options:
        """Return these options with plain Python numbers, or raise an error that names the option.

        Parameters
        ----------
        spell : callable, optional
            How messages call an option, given the name of its field; None for its flag on the
            command line.
        """
        from mtlstruct.structures import STRUCTURES, TASK_STRUCTURES

        spell = spell or flag
        for row in fields(self):
            _check_value(spell(row.name), getattr(self, row.name), row)
        if not isinstance(self.task, str) or self.structure not in STRUCTURES:  # which has the user's own
            known = ", ".join(dict.fromkeys([*STRUCTURES, *TASK_STRUCTURES]))
            raise IncompatibleError(f"{spell('task')} must be one of {known}, got {self.task!r}")
        _table().regularizer(self)
        _table().solver_name(self)
        for row in fields(self):
            self._check_use(spell(row.name), row)
        if self.shards > 1:
            self._check_shards()
        values = {row.name: getattr(self, row.name) for row in fields(self)}
        return replace(self, **{n: v.item() for n, v in values.items() if hasattr(v, "item")})

    def _check_use(self, name: str, row: Field[Any]) -> None:
        known, value = declaration(row), getattr(self, row.name)
        if known.used is None or value == row.default or known.used(self):
            return
        users = known.users
        if not name.startswith("-"):  # in Python
            users = users.replace("--", "").replace("solver ", "solver=").replace("loss ", "loss=")
        raise IncompatibleError(f"{name}{f' {value}' if isinstance(value, str) else ''} is for {users}")

    def _check_shards(self) -> None:
        """Raise an error for what cannot be trained in shards."""
        problem = None
        if _table().method_spec(self.method).epochs is not None:
            problem = f"is for batch methods: {self.method} updates its weights after each sentence"
        elif self.solver == "coordinate":
            problem = "is for batch solvers: expected --solver cutting-plane, got coordinate"
        elif self.context or (self.scheme != "keep" and _sequences(self)):
            problem = f"does not support {'--context' if self.context else '--scheme'}"
        if problem is not None:
            raise IncompatibleError(f"--shards {problem}")

    def as_dict(self) -> dict[str, Any]:
        """Return the options by name, with the default of c."""
        return {row.name: getattr(self, row.name) for row in fields(self)} | {"c": self.c_value}

    @property
    def c_value(self) -> float:
        """c as given, or the default, which depends on the method, the loss and the task."""
        if self.c is not None:
            return self.c
        smooth = self.method == "mtl" and self.labelled and self.loss_name != "hinge"
        return LOG_C if smooth else 1.0

    @property
    def loss_name(self) -> str:
        """The loss as given, or the default of the method."""
        name: str = _table().loss_name(self)
        return name

    @property
    def tags(self) -> str:
        """The labels of characters, for segmentation."""
        return self.scheme if self.segments and self.scheme != "keep" else "bie"

    @property
    def labelled(self) -> bool:
        """Whether outputs are labels of tokens; those of trees are heads."""
        return _labels(self)

    @property
    def segments(self) -> bool:
        """Whether text is cut into words."""
        return _segments(self)

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

        row = _table().method_spec(self.method)
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
    known, allowed = declaration(row), TYPES[row.name]
    if row.name == "loss_weights":
        for label, weight in value:
            check_number(f"{name} of {label!r}", weight, float, known.range)
    if row.name in ("task", "loss_weights") or (value is None and type(None) in get_args(allowed)):
        return
    kind = allowed if get_origin(allowed) is Literal else (get_args(allowed) or (allowed,))[0]
    words = tuple(_table().METHODS) if row.name == "method" else get_args(kind)
    if not words:
        check_number(name, value, kind, known.range)
    elif not isinstance(value, str) or value not in words:
        raise MtlError(f"{name} must be one of {', '.join(words)}, got {value!r}")


_NAMES: dict[type, tuple[Any, str]] = {
    float: (Real, "a number"),
    int: (Integral, "a whole number"),
    bool: (bool, "True or False"),
}
"""The type of a field -> what its values are instances of, and what messages call them."""


def check_number(name: str, value: Any, kind: type, limits: tuple[float, float] | None = None) -> None:
    """Raise an error for a value that is no float, int or bool, or not within the limits."""
    types, words = _NAMES[kind]
    if limits is not None:
        words += " from {} to {}".format(*(f"{n:,}" if isinstance(n, int) else f"{n:g}" for n in limits))
    wrong = not isinstance(value, types) or (kind is not bool and isinstance(value, bool))
    if wrong or (limits is not None and not limits[0] <= value <= limits[1]):
        raise MtlError(f"{name} must be {words}, got {shortened(repr(value), 40)}")


TYPES: dict[str, Any] = get_type_hints(Options)
"""The type of each field."""
