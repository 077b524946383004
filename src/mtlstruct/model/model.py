"""The trained model: predict, save, load. Imports no solver.

A model has a pruned feature index, float32 weights of its attributes, and mu, norm and size of all
templates, dropped ones included. It predicts in this pruned form also before it is saved, so saving
and loading do not change predictions.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, overload

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import small_work
from mtlstruct.corpus import Corpus, LazyColumns
from mtlstruct.errors import IncompatibleError, UncalibratedWarning
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.arcs.as_items import ArcItems
from mtlstruct.features.direct import Unusual, direct_encoder, first_attributes
from mtlstruct.features.index import FeatureIndex
from mtlstruct.formats import segmented
from mtlstruct.formats.columns import CellFormat
from mtlstruct.formats.key_groups import NamedGroups
from mtlstruct.formats.sentences import InputData, data_for
from mtlstruct.formats.text import named
from mtlstruct.model.context import first_pass, with_context
from mtlstruct.model.direct import MAX_SENTENCES, DirectScorer
from mtlstruct.model.lattice import Lattice, Marginals, Ranked, joined
from mtlstruct.structures import MulticlassStructure, SequenceStructure, Structure, TreeStructure
from mtlstruct.structures.constraints import Constraints
from mtlstruct.structures.schemes import Conversion
from mtlstruct.templates import TemplateSet

UNCALIBRATED = (
    "probabilities are not calibrated: the model was trained for a margin, so they are not reliable; fit a "
    "temperature on held-out data by X_val and y_val of fit, by train --valid or by mtlstruct calibrate"
)

Index = FeatureIndex | ArcIndex
"""The feature index of tokens or of arcs."""


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
    """A trained model, made by training or by `load`.

    Attributes
    ----------
    structure : Structure
        The structure of the outputs.
    labels : tuple of str
        The labels of the data, sorted; empty for trees.
    templates : TemplateSet
        All templates of the training, dropped ones included.
    live : tuple of int
        The indices of the templates that have weights.
    index : FeatureIndex or ArcIndex
        The features of the live templates.
    weights : tuple of float32 arrays
        For each kind of site [attributes + 1, parts]; the last row, of unknown attributes, is 0.
        With observed label support the first has the shape [features + 1, 1].
    mu, norm, features : arrays over `templates`
        Weight, norm of the block of weights, and number of weights other than 0 of each template.
    facts : dict
        Metadata of the training: task, method, c, gap, objective and others.
    relations : Model, optional
        Of trees with labels: the second stage, which classifies arcs.
    first : Model, optional
        Of models with context: the model of the first pass, whose labels become columns.
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
    first: Model | None = None

    def __repr__(self) -> str:
        kept = f"{len(self.live)} of {len(self.templates)} templates"
        return f"<Model: {self.task}, {self.facts.get('method')}, {len(self.labels)} labels, {kept}>"

    @property
    def task(self) -> str:
        """The name of the task: sequence, segmentation, multiclass, dependency."""
        return str(self.facts["task"])

    @property
    def alone(self) -> bool:
        """Whether each token is an item, independent of the others."""
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
        """`alone`, `trees` and `characters`, for HTML pages."""
        return {"alone": self.alone, "trees": self.trees, "characters": self.characters}

    @property
    def columns(self) -> int:
        """The number of observation columns of the training data."""
        return int(self.facts["columns"]) if self.first is None else self.first.columns

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, if they have any."""
        return tuple(self.facts.get("names", ())[: self.columns])

    @property
    def tags(self) -> str:
        """The labels of characters in segmented text: bie or bmes."""
        return str(self.facts["tags"])

    @cached_property
    def conversion(self) -> Conversion | None:
        """The conversion of labels, of a model that learned another label scheme."""
        names = self.facts.get("scheme")
        return None if names is None else Conversion(names["given"], names["learned"], self.labels)

    @property
    def learned_labels(self) -> tuple[str, ...]:
        """The labels that weights are for: `labels`, or those of the scheme that was learned."""
        return self.labels if self.conversion is None else self.conversion.learned_labels

    @property
    def encoding(self) -> str:
        """The encoding of the files that the model was trained on."""
        return str(self.facts.get("encoding", "utf-8"))

    @property
    def cell_format(self) -> CellFormat:
        """The division of rows into cells in the files that the model was trained on."""
        return CellFormat(self.facts.get("separator", ""), self.facts.get("ragged", False))

    @property
    def takes_dicts(self) -> bool:
        """Whether the model was trained on feature dicts, whose keys or groups are the columns."""
        return bool(self.facts.get("dicts"))

    @property
    def groups(self) -> dict[str, str] | None:
        """The column of each key of a feature dict; None where a key is its own column."""
        return NamedGroups(self.facts["nested"]) if "nested" in self.facts else self.facts.get("groups")

    @property
    def temperature(self) -> float:
        """The divisor of scores in probabilities; 1 without calibration."""
        return float(self.facts.get("temperature", 1.0))

    @property
    def calibrated(self) -> bool:
        """Whether the temperature is known: from held-out data, or 1 of a likelihood model."""
        return "temperature" in self.facts

    def lattice(self, X: Any, constraints: Constraints | None = None) -> Lattice:
        """Return the part scores of a corpus, for inference.

        Parameters
        ----------
        X : Corpus, or X of `predict` without empty sentences
        constraints : Constraints, optional
            Which outputs are allowed; all by default.

        Returns
        -------
        Lattice
        """
        if (found := self._directly(X, DirectScorer.lattice)) is not None:
            return self._as_valid(joined(found), constraints)
        corpus = self.observed(X if isinstance(X, Corpus) else self._data(X).corpus)
        with self._small_work(corpus.tokens, sum(len(column.ids) for column in corpus.columns)):
            lattice = None if self._direct is None else self._direct.corpus_lattice(corpus)
            if lattice is None:
                parts, rows = self.index.score(corpus, self.structure.sites(corpus.ptr), self.weights)
                lattice = Lattice(self.structure, parts, rows, corpus.ptr)
            return self._as_valid(lattice, constraints)

    def _small_work(self, tokens: int, entries: int = 0) -> AbstractContextManager[None]:
        """Return a context for kernels that score so many tokens; for trees they are compiled."""
        labels = self.structure.labels or math.inf
        return small_work(max(tokens * len(self.index.templates), entries) * labels)

    def observed(self, corpus: Corpus) -> Corpus:
        """Return the columns that templates refer to: of the data and of the first pass, if any.

        Parameters
        ----------
        corpus : Corpus

        Returns
        -------
        Corpus
        """
        if len(corpus.columns) < self.columns:
            raise IncompatibleError(
                f"the model was trained on {self.columns} observation columns, the input has {len(corpus.columns)}"
            )
        if self.first is None:
            return corpus
        return with_context(
            replace(corpus, columns=corpus.columns[: self.columns]), first_pass(self.first, corpus)
        )

    @overload
    def predict(self, X: Corpus, constraints: Constraints | None = None) -> NDArray[np.int32]: ...
    @overload
    def predict(self, X: Any, constraints: Constraints | None = None, names: Any = None) -> Any: ...
    def predict(self, X: Any, constraints: Constraints | None = None, names: Any = None) -> Any:
        """Return the best outputs of each sentence.

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
            Sentences of feature dicts if the model was trained on feature dicts, else of rows (one
            cell per column, or a dict from names of columns to cells); items instead of sentences
            for classes; strings for segmentation; the path of a data file of the task.
        constraints : Constraints, optional
        names : sequence, optional
            What to return for each of `labels`; by default these.

        Returns
        -------
        list of lists, or ndarray
            A label (a head for trees) for each token of each sentence, or an array with the class
            of each item. Of a Corpus int32[T]: indices of `labels`, or heads.

        Raises
        ------
        FormatError
            If X cannot be read.
        IncompatibleError
            If X has fewer columns than the training data.
        InfeasibleError
            If the constraints leave a sentence without outputs.
        """
        direct = self._directly(X, self._best) if constraints is None else None
        if isinstance(X, Corpus) and names is None:
            if direct is not None:
                return np.array([y for outputs in direct for y in outputs], np.int32)
            return self.lattice(X, constraints).best()
        names = self.labels if names is None else names
        if direct is not None:
            return [[names[i] for i in outputs] for outputs in direct]
        data = self._data(X)
        return data.named(self.lattice(data.corpus, constraints).best(), names)

    def predict_marginals(self, X: Any, names: Sequence[Any] | None = None) -> list[list[dict[Any, float]]]:
        """Return the probability of each label for each token; warn if not `calibrated`.

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
        names : sequence, optional
            What to return for each of `labels`; by default these.

        Returns
        -------
        list of lists of dicts
            For each token of each sentence a dict from labels to probabilities.
        """
        if self.trees:
            raise IncompatibleError("predict_marginals is for labels: the model is one for trees")
        names = self.labels if names is None else names
        self.warn_uncalibrated()
        direct = self._directly(X, self._marginals)
        if direct is not None:
            return [[dict(zip(names, row, strict=True)) for row in found] for found in direct]
        data = self._data(X)
        return data.named_marginals(self.lattice(data.corpus).marginals(self.temperature).node, names)

    @cached_property
    def _direct(self) -> DirectScorer | None:
        """The scorer of single sentences; None if the structure or a template needs a corpus."""
        index, structure, encoder = self.index, self.structure, None
        if type(structure) is not SequenceStructure or isinstance(index, ArcIndex) or self.first is not None:
            return None
        encoder = direct_encoder(index, self.columns, self.names, self.takes_dicts, self.groups)
        return None if encoder is None else DirectScorer(structure, index, self.weights, encoder)

    def _directly(self, X: Any, infer: Callable[[DirectScorer, Any], Any]) -> list[Any] | None:
        """Return what is inferred for each of a few sentences, None if X needs a corpus."""
        if isinstance(X, Corpus) and isinstance(X.columns, LazyColumns):
            X = X.columns.sentences
        if type(X) is not list or not 0 < len(X) <= MAX_SENTENCES:
            return None
        if self.characters:
            X = [segmented.rows(line) if type(line) is str else line for line in X]
        if not all(type(sentence) in (list, tuple) for sentence in X):
            return None
        try:
            with self._small_work(sum(map(len, X))):
                return None if self._direct is None else [infer(self._direct, sentence) for sentence in X]
        except (Unusual, TypeError):  # TypeError: a cell that cannot be a key of a dict
            return None

    def _best(self, scorer: DirectScorer, sentence: Any) -> Any:
        """Return the best labels of a sentence."""
        if self.conversion is None or not len(sentence):
            return scorer.best(sentence)
        return self._as_valid(scorer.lattice(sentence)).best().tolist()

    def _marginals(self, scorer: DirectScorer, sentence: Any) -> Any:
        """Return the probability of each label of each token of a sentence."""
        if not len(sentence):
            return []
        return self._as_valid(scorer.lattice(sentence)).marginals(self.temperature).node.tolist()

    def _as_valid(self, lattice: Lattice, constraints: Constraints | None = None) -> Lattice:
        """Return the lattice without sequences that a constraint or the label scheme forbids."""
        return replace(lattice, conversion=self.conversion).restricted(constraints)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the scorer of single sentences, which holds addresses."""
        return {name: value for name, value in vars(self).items() if name != "_direct"}

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, with an UncalibratedWarning if not `calibrated`.

        Parameters
        ----------
        X : iterable of items, Sentences, path or Corpus

        Returns
        -------
        float64[items, L]
            Probabilities; columns are in the order of `labels`.
        """
        if not self.alone:
            raise IncompatibleError(f"predict_proba is for classes: the model is one for {self.task}")
        return self.marginals(self._data(X).corpus).node

    def _data(self, X: Any) -> InputData:
        return data_for(self, X, alone=self.alone)

    def arcs(self, corpus: Corpus, heads: NDArray[np.int32]) -> Corpus:
        """Return arcs as items of the second stage.

        Parameters
        ----------
        corpus : Corpus
        heads : int32[T]

        Returns
        -------
        Corpus
        """
        assert self.relations is not None
        return self._arc_items.corpus(corpus, heads, self.relations.index.templates.columns())

    def relate(self, corpus: Corpus, heads: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the relation of each token to its head.

        Parameters
        ----------
        corpus : Corpus
        heads : int32[T]

        Returns
        -------
        int32[T]
            Indices of `relations.labels`.
        """
        if self.relations is None:
            raise IncompatibleError("the model has no labels of arcs: it was trained without them")
        return self.relations.predict(self.arcs(corpus, heads))

    @cached_property
    def _arc_items(self) -> ArcItems:
        assert self.relations is not None
        return ArcItems(self.relations.templates, self.index.normalize)

    def nbest(self, corpus: Corpus, count: int, constraints: Constraints | None = None) -> Ranked:
        """Return the best labelings of each sentence, best first.

        Parameters
        ----------
        corpus : Corpus
        count : int
            The number of labelings, fewer where a sentence has fewer.
        constraints : Constraints, optional

        Returns
        -------
        Ranked
        """
        return self.lattice(corpus, constraints).nbest(count)

    def marginals(self, corpus: Corpus, constraints: Constraints | None = None) -> Marginals:
        """Return the marginals at the temperature of the model; warn if it is not `calibrated`.

        Parameters
        ----------
        corpus : Corpus
        constraints : Constraints, optional

        Returns
        -------
        Marginals
            The probability of each label of each token, or of each arc.
        """
        self.warn_uncalibrated()
        return self.lattice(corpus, constraints).marginals(self.temperature)

    def warn_uncalibrated(self) -> None:
        """Give an UncalibratedWarning unless `calibrated`."""
        if not self.calibrated:
            warnings.warn(UNCALIBRATED, UncalibratedWarning, stacklevel=_level_outside())

    def gold(self, corpus: Corpus) -> NDArray[np.int32]:
        """Return the outputs of labelled data.

        Parameters
        ----------
        corpus : Corpus

        Returns
        -------
        int32[T]
            Indices of `labels`, negative if unknown, or heads.
        """
        known = corpus if self.trees else corpus.relabelled(self.labels)
        assert known.outputs is not None
        return known.outputs

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of sites, in the order of `weights`."""
        return [site.kind for site in self.structure.sites(np.array([0, 1], np.int64))]

    def block(self, number: int) -> NDArray[np.float32]:
        """Return the weights of a live template.

        Parameters
        ----------
        number : int

        Returns
        -------
        float32[attributes, parts]
        """
        kind = self.kinds.index(self.index.kinds[number])
        first = first_attributes(self.index)[number]
        last = first + int(self.index.sizes[number])
        if kind == 0 and isinstance(self.index, FeatureIndex) and self.index.support is not None:
            return self.index.support.dense(self.weights[0], np.arange(first, last))
        rows: NDArray[np.float32] = self.weights[kind][first:last]
        return rows

    def template_weights(self) -> list[TemplateWeight]:
        """Return the weights of all templates, largest first; ties in file order.

        Returns
        -------
        list of TemplateWeight
        """
        heavy = self.mu if self.facts["sparse"] else self.norm
        mean = float(self.mu.mean()) or 1.0
        found = []
        for rank, j in enumerate(np.argsort(-heavy, kind="stable").tolist(), start=1):
            template, mu = self.templates[j], float(self.mu[j])
            figures = mu, mu / mean, float(self.norm[j]), int(self.features[j])
            found.append(TemplateWeight(rank, j, template.name, template.title, *figures))
        return found

    def report(
        self,
        *,
        name: str = "model",
        log: str | Path | None = None,
        data: Corpus | None = None,
        source: str = "held-out data",
    ) -> Any:
        """Return the page of `mtlstruct report`, to be saved or shown in a notebook.

        A log adds convergence and the command, labelled data scores, confusions and calibration.

        Parameters
        ----------
        name : str, default "model"
        log : path, optional
        data : Corpus, optional
        source : str, default "held-out data"

        Returns
        -------
        Page
        """
        # The only import from a higher layer: prediction must not load reports.
        from mtlstruct.report.html_report import report_of

        return report_of(self, name=name, log=log, data=data, source=source)

    def save(self, path: str | Path) -> None:
        """Write the model file atomically.

        Parameters
        ----------
        path : path
        """
        from mtlstruct.model import serialization

        serialization.write(self, path)

    @classmethod
    def load(cls, path: str | Path | bytes | IO[bytes]) -> Model:
        """Load a model file.

        Parameters
        ----------
        path : str, Path, bytes or binary file
            A file that `Model.save` or `mtlstruct train` has written, whose arrays are
            memory-mapped; or its bytes, or a file object.

        Returns
        -------
        Model

        Raises
        ------
        ModelFileError
            If the file is damaged, is no model file, or has another version.
        """
        from mtlstruct.model import serialization

        return serialization.read(path if isinstance(path, str | Path | bytes) else path.read())


load = Model.load


def nbest_labels(
    model: Model, corpus: Corpus, lattice: Lattice, count: int
) -> list[list[tuple[list[str], float]]]:
    """Return for each sentence its `count` best labellings with their probabilities."""
    ranked = lattice.nbest(count)
    chances = lattice.marginals(model.temperature).sequence(ranked.values).tolist()
    labels = [named(outputs, model.labels) for outputs in ranked.outputs]
    return [
        [(labels[k][span], chances[s][k]) for k in range(count) if ranked.values[s, k] > -np.inf]
        for s, span in enumerate(corpus.sentences())
    ]


def _level_outside() -> int:
    """Return the stack level for `warnings.warn` of the first caller outside this package."""
    package, frame, level = __name__.partition(".")[0], sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level
