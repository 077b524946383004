"""How template weights move along c or p: from models, or from the cells that `tune` keeps.

Weights are set side by side after each mu is divided by its mean (the paper's normalisation by the l1 norm): 1 is the
average, for every method and every p. Several cells with equal options (folds) become their mean. Along p the methods
that are members of the family stand in their place: mtl is p = 1, svm is p = 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.digest import digest
from mtlstruct.errors import IncompatibleError
from mtlstruct.model.model import Model
from mtlstruct.tuning.result_store import Store

FAMILY = {"mtl": 1.0, "svm": 2.0}
"""The methods that are a p-block norm of a fixed p."""


@dataclass(frozen=True)
class Point:
    """The weights of one training, and the options that a path can run along."""

    source: str
    method: str
    p: float | None
    c: float
    texts: tuple[str, ...]
    mu: NDArray[np.float64]

    @property
    def exponent(self) -> float | None:
        """p, or the p that the method stands for."""
        return FAMILY.get(self.method, self.p)


@dataclass(frozen=True)
class WeightPath:
    """Weights along one option, all others held. mu, relative: float64[values, m]."""

    held: dict[str, Any]
    along: str
    values: tuple[float, ...]
    texts: tuple[str, ...]
    mu: NDArray[np.float64]

    @property
    def relative(self) -> NDArray[np.float64]:
        """1 is the average."""
        total = self.mu.sum(axis=1, keepdims=True)
        found: NDArray[np.float64] = self.mu * self.mu.shape[1] / np.where(total > 0, total, 1.0)
        return found

    def heaviest(self) -> list[int]:
        """Template numbers by the largest weight they have anywhere, falling."""
        order: list[int] = np.argsort(-self.relative.max(axis=0), kind="stable").tolist()
        return order

    @property
    def title(self) -> str:
        """What is held, in words."""
        given = {name: value for name, value in self.held.items() if value is not None}
        return ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in given.items()
        )


def read_points(paths: Iterable[Path]) -> list[Point]:
    """The trainings in model files and in folders of cells."""
    return [point for path in paths for point in (_cells(path) if path.is_dir() else [_model(path)])]


def weight_paths(points: Sequence[Point], along: str | None = None) -> list[WeightPath]:
    """The paths that these trainings make; None takes the option that varies, c before p.

    Refused: trainings with different templates, and those that make no path because nothing varies. A path on which
    all templates weigh the same throughout (svm) is left out.
    """
    for point in points[1:]:
        if point.texts != points[0].texts:
            raise IncompatibleError(
                f"{point.source} has other templates than {points[0].source}: their weights make no path"
            )
    if along is None:
        along = "c" if len({point.c for point in points}) > 1 else "p"
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for point in points:
        if getattr(point, _coordinate(along)) is not None:
            groups.setdefault(tuple(_held(point, along).items()), []).append(point)
    found = [_path(dict(held), along, group) for held, group in sorted(groups.items(), key=repr)]
    longer = [path for path in found if len(path.values) > 1]
    if not longer:
        raise IncompatibleError(
            f"expected trainings that differ in {along} alone, got none among {len(points)}"
        )
    learned = [path for path in longer if not np.allclose(path.relative, 1.0)]
    if not learned:
        raise IncompatibleError(f"{longer[0].title}: all templates weigh the same, there is no path to show")
    return learned


def _coordinate(along: str) -> str:
    return "exponent" if along == "p" else along


def _held(point: Point, along: str) -> dict[str, Any]:
    """What must agree on one path. Along p the family is one; other methods with a p stay apart."""
    if along == "c":
        return {"method": point.method, "p": point.p}
    return {"method": "pmtl" if point.method in (*FAMILY, "pmtl") else point.method, "c": point.c}


def _path(held: dict[str, Any], along: str, points: Sequence[Point]) -> WeightPath:
    at: dict[float, list[NDArray[np.float64]]] = {}
    for point in points:
        at.setdefault(getattr(point, _coordinate(along)), []).append(point.mu)
    values = tuple(sorted(at))
    mu = np.stack([np.mean([_unit(mu) for mu in at[value]], axis=0) for value in values])
    return WeightPath(held, along, values, points[0].texts, mu)


def _unit(mu: NDArray[np.float64]) -> NDArray[np.float64]:
    total = float(mu.sum())
    return mu / total if total > 0 else mu


def _model(path: Path) -> Point:
    model = Model.load(path)
    facts = model.facts
    if not isinstance(facts.get("c"), float | int):
        raise IncompatibleError(f"{path}: the model does not say its c (method {facts.get('method')!r})")
    texts = tuple(template.title for template in model.templates)
    return Point(str(path), facts["method"], facts.get("p"), float(facts["c"]), texts, model.mu)


def _cells(folder: Path) -> list[Point]:
    cells = [(facts, result) for facts, result in Store(folder) if "mu" in result and "options" in facts]
    if not cells:
        raise IncompatibleError(f"{folder}: expected cells that `mtlstruct tune` has kept, found none")
    studies = {_study(facts) for facts, _ in cells}
    if len(studies) > 1:
        raise IncompatibleError(
            f"{folder}: expected the cells of one study, got those of {len(studies)} (other data, templates, "
            "options or folds): give each a folder of its own"
        )
    return [_cell(folder, facts, result) for facts, result in cells]


def _study(facts: Mapping[str, Any]) -> str:
    """What all cells of one study have in common: everything but the option varied, and which fold it is."""
    options = {name: value for name, value in facts["options"].items() if name not in ("method", "p", "c")}
    split = {name: value for name, value in facts.get("split", {}).items() if name != "fold"}
    return digest({**facts, "options": options, "split": split})


def _cell(folder: Path, facts: Mapping[str, Any], result: Mapping[str, Any]) -> Point:
    options, mu = facts["options"], np.array(result["mu"], np.float64)
    texts = tuple(facts["templates"])
    return Point(f"a cell of {folder}", options["method"], options.get("p"), options["c"], texts, mu)
