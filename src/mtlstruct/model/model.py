"""What is kept after training: predict, save, load. Imports no learner.

A model is a compacted feature index, the weights of its attributes in float32, and the table of all templates
with what they turned out to weigh, the dropped ones included. Predictions are made from the compacted form only,
so they are the same before saving and after loading.
"""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import archive
from mtlstruct.corpus import MOST_COLUMNS, Corpus
from mtlstruct.errors import IncompatibleError, ModelFileError, MtlError, UncalibratedWarning
from mtlstruct.features.arcs.as_items import ArcItems
from mtlstruct.features.index import FeatureIndex
from mtlstruct.formats.normalization import NORMALIZERS
from mtlstruct.formats.sentences import Data, data_for
from mtlstruct.model import index_arrays as stored
from mtlstruct.model.index_arrays import Index
from mtlstruct.model.lattice import Lattice, Marginals, Ranked
from mtlstruct.structures import STRUCTURES, MulticlassStructure, Structure, TreeStructure, structures_of
from mtlstruct.structures.constraints import Constraints
from mtlstruct.templates import TemplateSet

FORMAT = "mtlstruct model"
VERSION = 2
TAGS = ("bie", "bmes")
UNCALIBRATED = (
    "probabilities are not calibrated: the model was trained for a margin, so they are not reliable; fit a "
    "temperature on held-out data by X_val and y_val of fit, by train --valid or by mtlstruct calibrate"
)
RELATIONS = "relations"
"""Where a model file keeps the second stage: this entry of the header, and arrays in a folder of this name."""


@dataclass(frozen=True)
class TemplateWeight:
    """One template as training left it. `relative` is mu over its mean: 1 is the average."""

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
        """What pages must know of tokens and outputs."""
        return {"alone": self.alone, "trees": self.trees, "characters": self.characters}

    @property
    def columns(self) -> int:
        """How many observation columns the training data had."""
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
        """Whether it was trained on feature dicts, so that its columns are their keys, or groups of keys."""
        return bool(self.facts.get("dicts"))

    @property
    def groups(self) -> dict[str, str] | None:
        """The column of each key of a feature dict; None where a key is its own column."""
        found: dict[str, str] | None = self.facts.get("groups")
        return found

    @property
    def temperature(self) -> float:
        """What scores are divided by before they become probabilities; 1 where none is known."""
        return float(self.facts.get("temperature", 1.0))

    @property
    def calibrated(self) -> bool:
        """Whether the temperature is known: from held-out data, or 1 of a model that maximises a likelihood."""
        return "temperature" in self.facts

    def lattice(self, corpus: Corpus, constraints: Constraints | None = None) -> Lattice:
        """Encodes and scores a corpus, for any number of questions."""
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
            Anything that `predict` of an estimator takes: sentences of feature dicts if the model was trained on
            feature dicts, else of rows (a cell for each column, or a dict from names of columns to cells); items
            instead of sentences for classes; strings for segmentation; the path of a data file of the task.
        constraints : Constraints, optional
            Which outputs are allowed.

        Returns
        -------
        list of lists, ndarray for classes
            What `predict` of an estimator returns: a label (a head for trees) for each token of each sentence,
            or an array with the class of each item. Labels are strings, as the model file stores them.
            Of a Corpus, which numbers everything, int32[T]: numbers into `labels`, or heads.
        """
        if isinstance(X, Corpus):
            return self.lattice(X, constraints).best()
        data = self._data(X)
        return data.named(self.lattice(data.corpus, constraints).best(), self.labels)

    def predict_marginals(self, X: Any) -> list[list[dict[str, float]]]:
        """Return for each token of each sentence the probability of each label; for X see `predict`.

        Warns with UncalibratedWarning unless the model is `calibrated`.
        """
        if self.trees:
            raise IncompatibleError("predict_marginals is for labels: the model is one for trees")
        data = self._data(X)
        return data.named_marginals(self.marginals(data.corpus).node, self.labels)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class for each item, float64[items, L], columns as in `labels`.

        Warns with UncalibratedWarning unless the model is `calibrated`.
        """
        if not self.alone:
            raise IncompatibleError(f"predict_proba is for classes: the model is one for {self.task}")
        return self.marginals(self._data(X).corpus).node

    def _data(self, X: Any) -> Data:
        return data_for(self, X, alone=self.alone)

    def arcs(self, corpus: Corpus, heads: NDArray[np.int32]) -> Corpus:
        """The arcs to these heads int32[T] as the second stage sees them: an item a token."""
        assert self.relations is not None
        return self._arc_items.corpus(corpus, heads, self.relations.index.templates.columns())

    def relate(self, corpus: Corpus, heads: NDArray[np.int32]) -> NDArray[np.int32]:
        """The relation of each token to its head, as numbers into `relations.labels`. int32[T]."""
        if self.relations is None:
            raise IncompatibleError("the model has no labels of arcs: it was trained without them")
        return self.relations.predict(self.arcs(corpus, heads))

    @cached_property
    def _arc_items(self) -> ArcItems:
        assert self.relations is not None
        return ArcItems(self.relations.templates, self.index.normalize)

    def nbest(self, corpus: Corpus, count: int, constraints: Constraints | None = None) -> Ranked:
        """The `count` best labelings of each sentence, best first."""
        return self.lattice(corpus, constraints).nbest(count)

    def marginals(self, corpus: Corpus, constraints: Constraints | None = None) -> Marginals:
        """Return how probable each label is at each token, at the model's temperature.

        Warns with UncalibratedWarning unless the model is `calibrated`.
        """
        if not self.calibrated:
            warnings.warn(UNCALIBRATED, UncalibratedWarning, stacklevel=_level_outside())
        return self.lattice(corpus, constraints).marginals(self.temperature)

    def gold(self, corpus: Corpus) -> NDArray[np.int32]:
        """The outputs of labelled data in the numbers of the model; negative where it does not know a label."""
        known = corpus if self.trees else corpus.relabelled(self.labels)
        assert known.outputs is not None
        return known.outputs

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of sites, in the order of `weights`."""
        return [site.kind for site in self.structure.sites(np.array([0, 1], np.int64))]

    def attributes(self, number: int) -> tuple[int, int]:
        """The range of attributes, within its kind, of a template of the index."""
        kinds, sizes = self.index.kinds, self.index.sizes
        first = sum(int(sizes[k]) for k in range(number) if kinds[k] == kinds[number])
        return first, first + int(sizes[number])

    def block(self, number: int) -> NDArray[np.float32]:
        """The weights of a template of the index, a row an attribute and a column a part."""
        kind = self.kinds.index(self.index.kinds[number])
        first, last = self.attributes(number)
        if kind == 0 and isinstance(self.index, FeatureIndex) and self.index.support is not None:
            return self.index.support.dense(self.weights[0], np.arange(first, last))
        rows: NDArray[np.float32] = self.weights[kind][first:last]
        return rows

    def template_weights(self) -> list[TemplateWeight]:
        """All templates, heaviest first; ties (the dropped ones) in file order."""
        order = (
            np.argsort(-self.mu, kind="stable")
            if self.facts["sparse"]
            else np.argsort(-self.norm, kind="stable")
        )
        mean = float(self.mu.mean()) or 1.0
        return [
            TemplateWeight(
                rank=rank,
                index=int(j),
                name=self.templates[int(j)].name,
                text=self.templates[int(j)].title,
                mu=float(self.mu[j]),
                relative=float(self.mu[j]) / mean,
                norm=float(self.norm[j]),
                features=int(self.features[j]),
            )
            for rank, j in enumerate(order.tolist(), start=1)
        ]

    @property
    def left_out(self) -> dict[int, int | None]:
        """Templates that brought nothing in training: the number of the one that each equals, None if it is constant.

        Empty where templates were not compared, as those of tokens are not.
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
        """A page about the model, to be saved or shown in a notebook: see `mtlstruct report`.

        log      what training has left beside the model, for convergence and the command
        data     labelled data, called `source` in the page, for scores, confusions and calibration
        """
        # The one import upwards: reports know models, and predicting must not load them.
        from mtlstruct.report.html_report import report_of

        return report_of(self, name=name, log=log, data=data, source=source)

    def save(self, path: str | Path) -> None:
        """Writes the model file: whole, or not at all."""
        header = {"format": FORMAT, "version": VERSION} | _header(self)
        archive.write(path, header, _arrays(self))

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Maps a model file. Refuses what is damaged, of another version, or not consistent in itself."""
        header, arrays = archive.read(path)
        if header.get("format") != FORMAT:
            raise ModelFileError(f"{path}: not a model file of mtlstruct")
        if header.get("version") != VERSION:
            raise ModelFileError(
                f"{path}: model format version {header.get('version')!r}, this mtlstruct reads {VERSION}"
            )
        name = header.get("structure")
        if not isinstance(name, str) or name not in STRUCTURES:
            raise ModelFileError(
                f"{path}: a model for {name!r}, this program has the structures {', '.join(STRUCTURES)}"
            )
        try:
            return _assemble(header, arrays)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: the model file is damaged: {error}") from None
        except (
            KeyError,
            ValueError,
            TypeError,
            IndexError,
            AttributeError,
            OverflowError,
            MtlError,
        ) as error:
            raise ModelFileError(
                f"{path}: the model file is damaged: {type(error).__name__}: {error}"
            ) from None


load = Model.load


def _level_outside() -> int:
    """Return the stack level for `warnings.warn` of the first caller outside this package."""
    package, frame, level = __name__.partition(".")[0], sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


def _header(model: Model) -> dict[str, Any]:
    """What model.json says of a model, and of its second stage."""
    header: dict[str, Any] = {
        "structure": model.structure.name,
        "labels": list(model.labels),
        "templates": model.templates.text(),
        "live": list(model.live),
        "normalize": model.index.normalize,
        "facts": model.facts,
    }
    if model.templates.lists:
        header["lists"] = {name: list(entries) for name, entries in model.templates.lists.items()}
    if model.relations is not None:
        header[RELATIONS] = _header(model.relations)
    return header


def _arrays(model: Model) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        "templates/mu": model.mu,
        "templates/norm": model.norm,
        "templates/features": model.features,
    }
    for n, weights in enumerate(model.weights):
        arrays[f"weights/{n}"] = weights
    if model.relations is not None:
        second = _arrays(model.relations)
        arrays |= {f"{RELATIONS}/{name}": array for name, array in second.items()}
    return arrays | stored.arrays(model.index)


# ---------------------------------------------------------------- loading: every number is checked before use


def _assemble(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]], columns: list[str] | None = None
) -> Model:
    """The model of a header and all its arrays; `columns` are the names of the first stage's, if it is the second."""
    stored.require(isinstance(header["labels"], list), "labels must be a list of strings")
    labels = tuple(header["labels"])
    stored.require(all(isinstance(x, str) for x in labels), "labels must be a list of strings")
    stored.require(len(set(labels)) == len(labels), "labels repeat")
    structure = STRUCTURES[header["structure"]](len(labels))
    facts = header["facts"]
    stored.require(isinstance(facts, dict) and isinstance(facts.get("sparse"), bool), "facts are missing")
    task = facts.get("task")
    stored.require(
        isinstance(task, str) and header["structure"] in structures_of(task), "task and structure disagree"
    )
    stored.require(facts.get("tags") in TAGS, "unknown tags")
    stored.require(bool(labels) or isinstance(structure, TreeStructure), "no labels")
    stored.require(
        type(facts.get("columns")) is int and 1 <= facts["columns"] <= MOST_COLUMNS,
        f"columns must be a number from 1 to {MOST_COLUMNS}",
    )
    templates = TemplateSet.parse(
        header["templates"], path="the model's templates", lists=_load_lists(header)
    ).resolved(_load_names(facts) if columns is None else columns)
    if facts.get("share_identical"):
        templates = templates.shared()
    _check_left_out(facts, len(templates))
    _check_groups(facts)
    live = tuple(header["live"])
    stored.require(
        all(type(j) is int and 0 <= j < len(templates) for j in live), "live templates out of range"
    )
    stored.require(list(live) == sorted(set(live)), "live templates out of order")
    stored.require(header["normalize"] in NORMALIZERS, f"unknown normalisation {header['normalize']!r}")
    kind_of = {site.letter: site.kind for site in structure.sites(np.array([0, 1], np.int64))}
    seen = templates if columns is None else ArcItems(templates).templates
    index = stored.load(arrays, seen.select(live), kind_of, header["normalize"])
    if facts.get("label_support") == "seen":
        index = stored.load_support(arrays, index, next(iter(kind_of.values())), len(labels))
    _check_temperature(facts.get("temperature", 1.0))
    index.templates.check_columns(facts["columns"])
    model = Model(
        structure=structure,
        labels=labels,
        templates=templates,
        live=live,
        index=index,
        weights=_load_weights(arrays, index, structure),
        mu=stored.vector(arrays["templates/mu"], len(templates), np.float64),
        norm=stored.vector(arrays["templates/norm"], len(templates), np.float64),
        features=stored.vector(arrays["templates/features"], len(templates), np.int64),
        facts=facts,
        relations=_load_relations(header, arrays, facts),
    )
    known = set(_arrays(model))
    stored.require(known == set(arrays), f"unexpected entries {sorted(set(arrays) - known)[:3]}")
    return model


def _load_relations(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]], facts: dict[str, Any]
) -> Model | None:
    if RELATIONS not in header:
        return None
    stored.require(facts["task"] == "dependency", "a second stage is for trees")
    stored.require(RELATIONS not in header[RELATIONS], "a second stage has no second stage")
    inside = f"{RELATIONS}/"
    own = {name.removeprefix(inside): a for name, a in arrays.items() if name.startswith(inside)}
    second = _assemble(header[RELATIONS], own, _load_names(facts))
    stored.require(second.alone, "a second stage must be for classes")
    second.templates.check_columns(facts["columns"])
    stored.require(second.columns == len(ArcItems(second.templates).terms), "a second stage of other columns")
    return second


def _check_temperature(value: Any) -> None:
    number = isinstance(value, float | int) and not isinstance(value, bool)
    stored.require(number and 0 < value < math.inf, "the temperature must be a positive number")


def _check_left_out(facts: dict[str, Any], templates: int) -> None:
    constant, identical = facts.get("constant", []), facts.get("identical", [])
    stored.require(isinstance(constant, list) and isinstance(identical, list), "lists of templates expected")
    stored.require(all(isinstance(pair, list) and len(pair) == 2 for pair in identical), "pairs expected")
    numbers = [*constant, *(j for pair in identical for j in pair)]
    stored.require(
        all(type(j) is int and 0 <= j < templates for j in numbers), "templates left out are out of range"
    )


def _check_groups(facts: dict[str, Any]) -> None:
    groups = facts.get("groups", {})
    stored.require(
        isinstance(groups, dict) and all(isinstance(name, str) for name in groups.values()),
        "groups of keys must be strings",
    )


def _load_names(facts: dict[str, Any]) -> list[str]:
    """The names of the columns, as many as there are columns or none."""
    names = facts.get("names", [])
    stored.require(
        isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and len(names) in (0, facts["columns"]),
        "names of columns must be a list of strings",
    )
    return list(names)


def _load_lists(header: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    lists = header.get("lists", {})
    stored.require(isinstance(lists, dict), "lists must be an object")
    for entries in lists.values():
        stored.require(
            isinstance(entries, list) and all(isinstance(e, str) for e in entries),
            "a list must be a list of strings",
        )
    return {name: tuple(entries) for name, entries in lists.items()}


def _load_weights(
    arrays: dict[str, NDArray[Any]], index: Index, structure: Structure
) -> tuple[NDArray[np.float32], ...]:
    out = []
    kinds = [site.kind for site in structure.sites(np.array([0, 1], np.int64))]
    for n, (kind, width) in enumerate(zip(kinds, structure.widths(), strict=True)):
        shape = (stored.attributes_of(index, kind) + 1, width)
        if n == 0 and isinstance(index, FeatureIndex) and index.support is not None:
            shape = (index.support.features + 1, 1)
        weights = arrays[f"weights/{n}"]
        stored.require(weights.dtype == np.float32 and weights.shape == shape, "weights of a wrong shape")
        stored.require(bool(np.isfinite(weights).all()), "weights that are not finite")
        out.append(weights)
    return tuple(out)
