"""Template weights along c or p, of models or of the trainings of `tune`, as rows and as a plot.

Each mu is divided by its mean (the paper normalises by the l1 norm), so 1 is the average for every
method and every p. Trainings with equal options (folds) are averaged. Along p, mtl is p = 1, and
svm and crf-l2 are p = 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.digest import digest
from mtlstruct.errors import IncompatibleError
from mtlstruct.model.model import Model
from mtlstruct.report import plots
from mtlstruct.tuning.result_store import Store
from mtlstruct.tuning.study import VARIED

FIXED_P = {"mtl": 1.0, "svm": 2.0, "crf-l2": 2.0}
"""The methods that are a p-block norm of a fixed p."""


class TrainedWeights(NamedTuple):
    """Template weights of one training, and the options that a path can run along."""

    source: str
    method: str
    loss: str
    p: float | None
    c: float
    texts: tuple[str, ...]
    mu: NDArray[np.float64]


@dataclass(frozen=True)
class WeightPath:
    """Relative weights, float64[values, m], along one option; `fixed` are the other options."""

    fixed: dict[str, Any]
    along: str
    values: tuple[float, ...]
    texts: tuple[str, ...]
    relative: NDArray[np.float64]

    @property
    def title(self) -> str:
        """The fixed options in words."""
        return ", ".join(f"{k} {f'{v:.4g}' if isinstance(v, float) else v}" for k, v in self.fixed.items())

    def heaviest(self, count: int | None = None) -> list[int]:
        """Return template indices by the largest weight they have anywhere, falling."""
        order: list[int] = np.argsort(-self.relative.max(axis=0), kind="stable").tolist()
        return order[:count]

    def rows(self, top: int | None) -> list[dict[str, Any]]:
        """Return one row for each training and template."""
        return [
            self.fixed | {self.along: value, "index": j, "text": self.texts[j], "relative": float(weights[j])}
            for value, weights in zip(self.values, self.relative, strict=True)
            for j in self.heaviest(top)
        ]


def weight_paths(trainings: Sequence[TrainedWeights], along: str | None = None) -> list[WeightPath]:
    """Return the paths along c or p (None: c if it varies, else p) on which weights are learned."""
    for other in trainings[1:]:
        if other.texts != trainings[0].texts:
            raise IncompatibleError(f"{other.source} has other templates than {trainings[0].source}")
    along = along or ("c" if len({training.c for training in trainings}) > 1 else "p")
    groups: dict[tuple[Any, ...], dict[float, list[Any]]] = {}
    for training in trainings:
        fixed, value = _place(training, along)
        if value is not None:
            relative = training.mu * len(training.mu) / (training.mu.sum() or 1.0)
            groups.setdefault(tuple(fixed.items()), {}).setdefault(value, []).append(relative)
    paths = []
    for held, at in sorted(groups.items(), key=repr):
        values = tuple(sorted(at))
        means = np.stack([np.mean(at[value], axis=0) for value in values])
        if len(values) > 1 and not np.allclose(means, 1.0):
            paths.append(WeightPath(dict(held), along, values, trainings[0].texts, means))
    if not paths:
        what = f"trainings that learn template weights and differ in {along} alone"
        raise IncompatibleError(f"expected {what}, got none among {len(trainings)}")
    return paths


def _place(training: TrainedWeights, along: str) -> tuple[dict[str, Any], float | None]:
    """Return the fixed options of a training and its place along the other one."""
    if along == "c":
        p = {} if training.p is None else {"p": training.p}
        return {"method": training.method, "loss": training.loss, **p}, training.c
    method = "pmtl" if training.method in FIXED_P else training.method
    return {"method": method, "loss": training.loss, "c": training.c}, FIXED_P.get(
        training.method, training.p
    )


def read_trainings(path: Path) -> list[TrainedWeights]:
    """Read a model file, or the results that `tune` keeps in a folder."""
    if not path.is_dir():
        model = Model.load(path)
        method, loss, p, c = map(model.facts.get, VARIED)
        if not isinstance(c, float | int):
            raise IncompatibleError(f"{path}: the model does not say its c (method {method!r})")
        texts = tuple(template.title for template in model.templates)
        return [TrainedWeights(str(path), str(method), str(loss), p, float(c), texts, model.mu)]
    found, studies = [], set()
    for facts, result in Store(path):
        if "mu" in result and "options" in facts:
            options, texts = facts["options"], tuple(facts["templates"])
            method, loss, p, c = (options[name] for name in VARIED)
            shared = {name: value for name, value in options.items() if name not in VARIED}
            split = {name: value for name, value in facts.get("split", {}).items() if name != "fold"}
            studies.add(digest({**facts, "options": shared, "split": split}))
            mu = np.array(result["mu"], np.float64)
            found.append(TrainedWeights(str(path), method, loss, p, c, texts, mu))
    if len(studies) != 1:
        got = f"{len(studies)} (other data, templates, options or folds)" if found else "none"
        raise IncompatibleError(f"{path}: expected the results of one `mtlstruct tune`, got {got}")
    return found


def plot_paths(paths: Sequence[WeightPath], file: Path) -> None:
    """Draw a panel per path and a line per template; a legend names the largest."""
    figure = plots.new_figure(file, (8.6, 0.4 + 4.4 * len(paths)))
    for axes, path in zip(figure.subplots(len(paths), 1, squeeze=False)[:, 0], paths, strict=True):
        _panel(axes, path)
    plots.save(figure, file)


def _panel(axes: Any, path: WeightPath) -> None:
    heaviest, low = path.heaviest(plots.MAX_NAMED), plots.MIN_RELATIVE
    places, lines = np.arange(len(path.values)), path.relative.clip(low)
    rest = np.delete(lines, heaviest, axis=1)
    axes.plot(places, rest, color="#7d8f9b", lw=0.7, alpha=min(0.8, 60 / len(path.texts)), zorder=1)
    for rank, j in enumerate(heaviest):
        colour = plots.COLOURS[rank % len(plots.COLOURS)]
        dashes = "-" if rank < len(plots.COLOURS) else "--"
        label = plots.short_label(path.texts[j])
        axes.plot(places, lines[:, j], lw=1.6, marker="o", ms=3, color=colour, ls=dashes, label=label)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}" if value > 1.01 * low else f"≤ {value:g}")
    axes.set_xticks(places, labels=[f"{value:.4g}" for value in path.values])
    axes.set_xlabel(path.along, color=plots.INK)
    axes.set_ylabel("relative weight", color=plots.INK)
    first, *_, last = (path.relative > low).sum(axis=1).tolist()
    above = f"{first} of {len(path.texts)} templates above {low:g} at {path.along} = {path.values[0]:.4g}"
    heading = f"{path.title}: {above}, {last} at {path.values[-1]:.4g}"
    axes.set_title(heading, loc="left", fontsize=9, color=plots.INK)
    plots.style(axes)
    plots.mark_average(axes)
    plots.legend(axes, "upper left", title="heaviest", bbox_to_anchor=(1.1, 1.0))
