"""The trained model: predict, save, load. Imports no solver.

A model has a pruned feature index, float32 weights of its attributes, and mu, norm and size of all
templates, dropped ones included. Only the pruned form predicts, so saving and loading do not change
predictions.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, UncalibratedWarning
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.arcs.as_items import ArcItems
from mtlstruct.features.index import FeatureIndex
from mtlstruct.formats.sentences import Data, data_for
from mtlstruct.model.lattice import Lattice, Marginals, Ranked
from mtlstruct.structures import MulticlassStructure, Structure, TreeStructure
from mtlstruct.structures.constraints import Constraints
from mtlstruct.templates import TemplateSet

UNCALIBRATED = (
    "probabilities are not calibrated: the model was trained for a margin, so they are not reliable; fit a "
    "temperature on held-out data by X_val and y_val of fit, by train --valid or by mtlstruct calibrate"
)

Index = FeatureIndex | ArcIndex
"""What turns text into features, of tokens or of arcs."""


@dataclass(frozen=True)
class TemplateWeight:
    """The weight of one template after training; `relative` is mu divided by its mean."""

    rank: int
    index: int
    name: str
    text: str
    mu: float
    relative: float
    norm: float
    features: int


@dataclass(frozen=True)
class Model:
    """A trained model.

    templates   all templates that took part; mu, norm, features are arrays over them
    live        the templates that are left in `index`
    weights     for each kind float32[attributes + 1, parts], the null attribute's zero row last; of the first kind
                float32[features + 1, 1] where the index has a support
    facts       method, c, gap, objective ... as model.json keeps them
    relations   of trees with labels: the second stage, a model of items (arcs/items.py) with templates of arcs
    """

    structure: Structure
    labels: tuple[str, ...]
    templates: TemplateSet
    live: tuple[int, ...]
    index: Index
    weights: tuple[NDArray[np.float32], ...]
    mu: NDArray[np.float64]
    norm: NDArray[np.float64]
    features: NDArray[np.int64]
    facts: dict[str, Any] = field(default_factory=dict)
    relations: Model | None = None

    @property
    def task(self) -> str:
        """sequence, segmentation, multiclass ..."""
        return str(self.facts["task"])

    @property
    def alone(self) -> bool:
        """Whether each token is an item that stands alone."""
        return isinstance(self.structure, MulticlassStructure)

    @property
    def trees(self) -> bool:
        """Whether outputs are heads rather than labels."""
        return isinstance(self.structure, TreeStructure)

    @property
    def characters(self) -> bool:
        """Whether tokens are the characters of text to be segmented."""
        return self.task == "segmentation"

    @property
    def kind(self) -> dict[str, bool]:
        """The kind of tokens and outputs, for pages."""
        return {"alone": self.alone, "trees": self.trees, "characters": self.characters}

    @property
    def columns(self) -> int:
        """The number of observation columns of the training data."""
        return int(self.facts["columns"])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, if they have any."""
        return tuple(self.facts.get("names", ()))

    @property
    def tags(self) -> str:
        """How characters of segmented text are labelled: bie or bmes."""
        return str(self.facts["tags"])

    @property
    def takes_dicts(self) -> bool:
        """Whether it was trained on feature dicts: columns are their keys, or groups of keys."""
        return bool(self.facts.get("dicts"))

    @property
    def groups(self) -> dict[str, str] | None:
        """The column of each key of a feature dict; None where a key is its own column."""
        return self.facts.get("groups")

    @property
    def temperature(self) -> float:
        """The divisor of scores in probabilities; 1 without calibration."""
        return float(self.facts.get("temperature", 1.0))

    @property
    def calibrated(self) -> bool:
        """Whether the temperature is known: from held-out data, or 1 of a likelihood model."""
        return "temperature" in self.facts

    def lattice(self, corpus: Corpus, constraints: Constraints | None = None) -> Lattice:
        """Encode and score a corpus."""
        if len(corpus.columns) < self.columns:
            raise IncompatibleError(
                f"the model was trained on {self.columns} observation columns, the input has {len(corpus.columns)}"
            )
        parts, rows = self.index.score(corpus, self.structure.sites(corpus.ptr), self.weights)
        return Lattice(self.structure, parts, rows, corpus.ptr).restricted(constraints)

    @overload
    def predict(self, X: Corpus, constraints: Constraints | None = None) -> NDArray[np.int32]: ...
    @overload
    def predict(self, X: Any, constraints: Constraints | None = None) -> Any: ...
    def predict(self, X: Any, constraints: Constraints | None = None) -> Any:
        """Return the best outputs of each sentence.

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
            Anything that `predict` of an estimator takes: sentences of feature dicts if the model
            was trained on feature dicts, else of rows (a cell for each column, or a dict from names
            of columns to cells); items instead of sentences for classes; strings for segmentation;
            the path of a data file of the task.
        constraints : Constraints, optional
            Which outputs are allowed.

        Returns
        -------
        list of lists, ndarray for classes
            What `predict` of an estimator returns: a label (a head for trees) for each token of
            each sentence, or an array with the class of each item. Labels are strings, as the model
            file stores them. Of a Corpus, which numbers everything, int32[T]: numbers into
            `labels`, or heads.
        """
        if isinstance(X, Corpus):
            return self.lattice(X, constraints).best()
        data = self._data(X)
        return data.named(self.lattice(data.corpus, constraints).best(), self.labels)

    def predict_marginals(self, X: Any) -> list[list[dict[str, float]]]:
        """Return the probability of each label for each token of each sentence; for X see `predict`.

        Warns with UncalibratedWarning unless the model is `calibrated`.
        """
        if self.trees:
            raise IncompatibleError("predict_marginals is for labels: the model is one for trees")
        data = self._data(X)
        return data.named_marginals(self.marginals(data.corpus).node, self.labels)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, float64[items, L], columns as in `labels`.

        Warns with UncalibratedWarning unless the model is `calibrated`.
        """
        if not self.alone:
            raise IncompatibleError(f"predict_proba is for classes: the model is one for {self.task}")
        return self.marginals(self._data(X).corpus).node

    def _data(self, X: Any) -> Data:
        return data_for(self, X, alone=self.alone)

    def arcs(self, corpus: Corpus, heads: NDArray[np.int32]) -> Corpus:
        """Return the arcs to these heads, int32[T], as items of the second stage."""
        assert self.relations is not None
        return self._arc_items.corpus(corpus, heads, self.relations.index.templates.columns())

    def relate(self, corpus: Corpus, heads: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the relation of each token to its head, int32[T], into `relations.labels`."""
        if self.relations is None:
            raise IncompatibleError("the model has no labels of arcs: it was trained without them")
        return self.relations.predict(self.arcs(corpus, heads))

    @cached_property
    def _arc_items(self) -> ArcItems:
        assert self.relations is not None
        return ArcItems(self.relations.templates, self.index.normalize)

    def nbest(self, corpus: Corpus, count: int, constraints: Constraints | None = None) -> Ranked:
        """Return the `count` best labelings of each sentence, best first."""
        return self.lattice(corpus, constraints).nbest(count)

    def marginals(self, corpus: Corpus, constraints: Constraints | None = None) -> Marginals:
        """Return how probable each label is at each token, at the model's temperature.

        Warns with UncalibratedWarning unless the model is `calibrated`.
        """
        if not self.calibrated:
            warnings.warn(UNCALIBRATED, UncalibratedWarning, stacklevel=_level_outside())
        return self.lattice(corpus, constraints).marginals(self.temperature)

    def gold(self, corpus: Corpus) -> NDArray[np.int32]:
        """Return the outputs of labelled data as numbers of the model, negative for unknown labels."""
        known = corpus if self.trees else corpus.relabelled(self.labels)
        assert known.outputs is not None
        return known.outputs

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of sites, in the order of `weights`."""
        return [site.kind for site in self.structure.sites(np.array([0, 1], np.int64))]

    def attributes(self, number: int) -> tuple[int, int]:
        """Return the range of attributes, within its kind, of a template of the index."""
        kinds, sizes = self.index.kinds, self.index.sizes
        first = sum(int(sizes[k]) for k in range(number) if kinds[k] == kinds[number])
        return first, first + int(sizes[number])

    def block(self, number: int) -> NDArray[np.float32]:
        """Return the weights of a template of the index: rows are attributes, columns parts."""
        kind = self.kinds.index(self.index.kinds[number])
        first, last = self.attributes(number)
        if kind == 0 and isinstance(self.index, FeatureIndex) and self.index.support is not None:
            return self.index.support.dense(self.weights[0], np.arange(first, last))
        rows: NDArray[np.float32] = self.weights[kind][first:last]
        return rows

    def template_weights(self) -> list[TemplateWeight]:
        """Return all templates, heaviest first; ties (the dropped ones) in file order."""
        heavy = self.mu if self.facts["sparse"] else self.norm
        mean = float(self.mu.mean()) or 1.0
        found = []
        for rank, j in enumerate(np.argsort(-heavy, kind="stable").tolist(), start=1):
            template, mu = self.templates[j], float(self.mu[j])
            figures = mu, mu / mean, float(self.norm[j]), int(self.features[j])
            found.append(TemplateWeight(rank, j, template.name, template.title, *figures))
        return found

    @property
    def left_out(self) -> dict[int, int | None]:
        """Redundant templates: the number of the one that each equals, None if it is constant.

        Templates of tokens are not compared, so it is empty for them.
        """
        out: dict[int, int | None] = dict.fromkeys(self.facts.get("constant", ()))
        out.update(self.facts.get("identical", ()))
        return out

    def report(
        self,
        *,
        name: str = "model",
        log: str | Path | None = None,
        data: Corpus | None = None,
        source: str = "held-out data",
    ) -> Any:
        """Return the page of `mtlstruct report`, to be saved or shown in a notebook.

        log      the log of the training, for convergence and the command
        data     labelled data, called `source` in the page, for scores, confusions and calibration
        """
        # The one import upwards: reports know models, and predicting must not load them.
        from mtlstruct.report.html_report import report_of

        return report_of(self, name=name, log=log, data=data, source=source)

    def save(self, path: str | Path) -> None:
        """Write the model file: whole, or not at all."""
        from mtlstruct.model import serialization

        serialization.write(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Map a model file; raise ModelFileError if it is damaged or of another version."""
        from mtlstruct.model import serialization

        return serialization.read(path)


load = Model.load


def _level_outside() -> int:
    """Return the stack level for `warnings.warn` of the first caller outside this package."""
    package, frame, level = __name__.partition(".")[0], sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level
