"""How to train: what may be chosen, the defaults, and which choices do not go together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.objective.losses import LossWeights
from mtlstruct.solvers import Stop
from mtlstruct.structures import structures_of
from mtlstruct.training.methods import recipe, regularizer, solver_of

SCALINGS = ("unit", "none")
"""What is done to real values before training: each template's brought to a mean square of 1, or nothing."""

LABEL_SUPPORTS = ("all", "seen")
"""Which labels an attribute has features with: all, or those it was seen with in the training data."""

LABELLED = ("sequence", "segmentation", "multiclass")
"""The tasks whose attributes have features with labels."""


@dataclass(frozen=True)
class Options:
    """How to train; the names and defaults of the command line."""

    task: str = "sequence"
    method: str = "mtl"
    c: float = 1.0
    p: float | None = None
    solver: str | None = None
    gap: float | None = None
    epsilon: float | None = None
    eta: float | None = None
    max_iter: int | None = None
    min_count: int = 1
    normalize: str = "none"
    seed: int = 0
    line_search: bool = False
    epochs: int | None = None
    all_arcs: bool = False
    projective: bool = False
    single_root: bool = False
    dense_prox: bool = False
    labels: bool = False
    tags: str = "bie"
    loss_weights: LossWeights = ()
    share_identical: bool = False
    scaling: str = "unit"
    label_support: str = "all"
    shards: int = 1

    def checked(self) -> Options:
        """The same, if the numbers make sense."""
        for name in ("c", "gap", "epsilon", "eta"):
            if getattr(self, name) is not None:
                _positive(name, getattr(self, name))
        for name, least in (("max_iter", 1), ("min_count", 1), ("epochs", 1), ("shards", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise MtlError(f"--{name.replace('_', '-')} must be at least {least}, got {value}")
        if self.scaling not in SCALINGS:
            raise MtlError(f"--scaling must be one of {', '.join(SCALINGS)}, got {self.scaling}")
        if self.label_support not in LABEL_SUPPORTS:
            known = ", ".join(LABEL_SUPPORTS)
            raise MtlError(f"--label-support must be one of {known}, got {self.label_support}")
        regularizer(self.method, self.p)
        self._check_owners()
        if self.share_identical and self.task == "dependency":
            raise IncompatibleError("--share-identical is for templates of labels: the task is dependency")
        if self.shards > 1:
            self._check_shards()
        return self

    def _check_shards(self) -> None:
        """Refuses what cannot be learned in shards."""
        if recipe(self.method).epochs is not None:
            raise IncompatibleError(
                f"--shards is for methods that see all sentences at once: {self.method} visits one after the other"
            )
        if self.method == "group-lasso" and solver_of(self.method, self.solver) == "coordinate":
            raise IncompatibleError(
                "--shards with group-lasso needs --solver cutting-plane: the weights of templates would run ahead of "
                "what shards know of each other"
            )
        if self.seen_only:
            raise IncompatibleError("--shards is for features with all labels: --label-support seen is not")
        if self.task == "dependency":
            raise IncompatibleError(
                "--shards is for labels and classes: trees cannot be trained in shards yet"
            )

    @property
    def seen_only(self) -> bool:
        """Whether attributes have features only with labels they were seen with."""
        return self.label_support == "seen"

    @property
    def structure(self) -> str:
        """The name of the structure in structures.STRUCTURES."""
        if self.task == "dependency":
            return "single-root-" * self.single_root + "projective-" * self.projective + "tree"
        return structures_of(self.task)[0]

    def stop(self) -> Stop:
        """When to stop: by the gap if nothing is said, or as the method likes it."""
        row = recipe(self.method)
        unsaid = self.gap is None and self.epsilon is None
        eta = row.eta if self.eta is None and unsaid else self.eta
        most = self.max_iter or 1000
        passes = most if row.epochs is None else min(most, self.epochs or row.epochs)
        return Stop(0.01 if self.gap is None else self.gap, self.epsilon, passes, eta)

    def _check_owners(self) -> None:
        """Refuses an option that the method, the solver or the task would not look at."""
        row, chosen = recipe(self.method), solver_of(self.method, self.solver)
        trees = self.task == "dependency"
        for option, given, fits, owner in (
            ("--line-search", self.line_search, chosen == "cutting-plane", "--solver cutting-plane"),
            ("--dense-prox", self.dense_prox, chosen == "proximal", "--method online-mkl"),
            ("--eta", self.eta is not None, row.likelihood, "crf-l2, crf-l1 and irw-crf"),
            ("--epochs", self.epochs is not None, row.epochs is not None, "mira and online-mkl"),
            ("--projective", self.projective, trees, "--task dependency"),
            ("--single-root", self.single_root, trees, "--task dependency"),
            ("--all-arcs", self.all_arcs, trees, "--task dependency"),
            ("--labels", self.labels, trees, "--task dependency"),
            (
                "--label-support seen",
                self.seen_only,
                self.task in LABELLED,
                f"the tasks {', '.join(LABELLED)}",
            ),
            (
                "--label-support seen",
                self.seen_only,
                row.epochs is None,
                "methods that learn from all sentences at once, not for mira and online-mkl",
            ),
        ):
            if given and not fits:
                raise IncompatibleError(f"{option} is for {owner}")


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise MtlError(f"-{'-' * (len(name) > 1)}{name} must be a positive number, got {value}")
