"""What is kept after training: predict, save, load. Imports no learner.

A model is a compacted feature index, the weights of its attributes in float32, and the table of all templates
with what they turned out to weigh, the dropped ones included. Predictions are made from the compacted form only,
so they are the same before saving and after loading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import archive
from .constraints import Constraints
from .corpus import Corpus
from .encoding import FeatureIndex
from .errors import IncompatibleError, ModelFileError, MtlError
from .lattice import Lattice, Marginals, Ranked
from .normalizers import NORMALIZERS
from .numbering import PairTable, Vocabulary
from .structures import STRUCTURES, Structure, structures_of
from .templates import TemplateSet

FORMAT = "mtlstruct model"
VERSION = 1
TAGS = ("bie", "bmes")


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
    weights     for each kind float32[attributes + 1, parts], the null attribute's zero row last
    facts       method, c, gap, objective ... as model.json keeps them
    """

    structure: Structure
    labels: tuple[str, ...]
    templates: TemplateSet
    live: tuple[int, ...]
    index: FeatureIndex
    weights: tuple[NDArray[np.float32], ...]
    mu: NDArray[np.float64]
    norm: NDArray[np.float64]
    features: NDArray[np.int64]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """sequence, segmentation, multiclass ..."""
        return str(self.facts["task"])

    @property
    def columns(self) -> int:
        """How many observation columns the training data had."""
        return int(self.facts["columns"])

    @cached_property
    def _scale(self) -> NDArray[np.float64]:
        return np.ones(len(self.index.templates))

    @property
    def temperature(self) -> float:
        """What scores are divided by before they become probabilities; 1 where none is known."""
        return float(self.facts.get("temperature", 1.0))

    def lattice(self, corpus: Corpus, constraints: Constraints | None = None) -> Lattice:
        """Encodes and scores a corpus, for any number of questions."""
        if len(corpus.columns) < self.columns:
            raise IncompatibleError(
                f"the model was trained on {self.columns} observation columns, the input has {len(corpus.columns)}"
            )
        encoded = self.index.encode(corpus, self.structure.sites(corpus.ptr))
        return Lattice.of(encoded, self.structure, list(self.weights), self._scale).restricted(constraints)

    def predict(self, corpus: Corpus, constraints: Constraints | None = None) -> NDArray[np.int32]:
        """The best labels of each token, as numbers into `labels`. int32[T]."""
        return self.lattice(corpus, constraints).best()

    def nbest(self, corpus: Corpus, count: int, constraints: Constraints | None = None) -> Ranked:
        """The `count` best labelings of each sentence, best first."""
        return self.lattice(corpus, constraints).nbest(count)

    def marginals(self, corpus: Corpus, constraints: Constraints | None = None) -> Marginals:
        """How probable each label is at each token, at the model's temperature."""
        return self.lattice(corpus, constraints).marginals(self.temperature)

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

    def save(self, path: str | Path) -> None:
        """Writes the model file: whole, or not at all."""
        header: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "structure": self.structure.name,
            "labels": list(self.labels),
            "templates": self.templates.text(),
            "live": list(self.live),
            "normalize": self.index.normalize,
            "facts": self.facts,
        }
        if self.templates.lists:
            header["lists"] = {name: list(entries) for name, entries in self.templates.lists.items()}
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
        if (name := header.get("structure")) not in STRUCTURES:
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


def _arrays(model: Model) -> dict[str, NDArray[Any]]:
    index = model.index
    arrays: dict[str, NDArray[Any]] = {
        "templates/mu": model.mu,
        "templates/norm": model.norm,
        "templates/features": model.features,
        "index/sizes": index.sizes,
    }
    for n, vocabulary in enumerate(index.vocabularies):
        arrays[f"streams/{n}/bytes"] = vocabulary.bytes_
        arrays[f"streams/{n}/ptr"] = vocabulary.ptr
        arrays[f"streams/{n}/slots"] = vocabulary.slots
    for n, table in enumerate(index.tables):
        arrays[f"joins/{n}/pairs"] = table.pairs
        arrays[f"joins/{n}/slots"] = table.slots
    for n, map_ in enumerate(index.maps):
        arrays[f"maps/{n}"] = map_
    for n, weights in enumerate(model.weights):
        arrays[f"weights/{n}"] = weights
    return arrays


# ---------------------------------------------------------------- loading: every number is checked before use


def _assemble(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    labels = tuple(header["labels"])
    _require(bool(labels) and all(isinstance(x, str) for x in labels), "labels must be a list of strings")
    _require(len(set(labels)) == len(labels), "labels repeat")
    structure = STRUCTURES[header["structure"]](len(labels))
    templates = TemplateSet.parse(
        header["templates"], path="the model's templates", lists=_load_lists(header)
    )
    if header["facts"].get("share_identical"):
        templates = templates.shared()
    live = tuple(header["live"])
    _require(all(type(j) is int and 0 <= j < len(templates) for j in live), "live templates out of range")
    _require(list(live) == sorted(set(live)), "live templates out of order")
    facts = header["facts"]
    _require(isinstance(facts, dict) and isinstance(facts.get("sparse"), bool), "facts are missing")
    task = facts.get("task")
    _require(
        isinstance(task, str) and header["structure"] in structures_of(task), "task and structure disagree"
    )
    _require(facts.get("tags") in TAGS, "unknown tags")
    _require(type(facts.get("columns")) is int and facts["columns"] >= 1, "columns must be a positive number")
    _check_temperature(facts.get("temperature", 1.0))
    index = _load_index(header, arrays, templates.select(live), structure)
    index.templates.check_columns(facts["columns"])
    model = Model(
        structure=structure,
        labels=labels,
        templates=templates,
        live=live,
        index=index,
        weights=_load_weights(arrays, index, structure),
        mu=_vector(arrays["templates/mu"], len(templates), np.float64),
        norm=_vector(arrays["templates/norm"], len(templates), np.float64),
        features=_vector(arrays["templates/features"], len(templates), np.int64),
        facts=facts,
    )
    known = set(_arrays(model))
    _require(known == set(arrays), f"unexpected entries {sorted(set(arrays) - known)[:3]}")
    return model


def _check_temperature(value: Any) -> None:
    number = isinstance(value, float | int) and not isinstance(value, bool)
    _require(number and 0 < value < math.inf, "the temperature must be a positive number")


def _load_index(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]], templates: TemplateSet, structure: Structure
) -> FeatureIndex:
    _require(header["normalize"] in NORMALIZERS, f"unknown normalisation {header['normalize']!r}")
    kind_of = {site.letter: site.kind for site in structure.sites(np.array([0, 1], np.int64))}
    index = FeatureIndex(
        templates=templates,
        kinds=tuple(kind_of[t.kind] for t in templates),
        normalize=header["normalize"],
        vocabularies=(),
        tables=(),
        maps=(),
        sizes=_vector(arrays["index/sizes"], len(templates), np.int64),
    )
    plan = index.plan
    vocabularies = tuple(_load_vocabulary(arrays, n) for n in range(len(plan.streams)))
    counts = [len(v) for v in vocabularies]
    tables = []
    for n, join in enumerate(plan.joins):
        table = PairTable(
            _array(arrays[f"joins/{n}/pairs"], np.int64), _array(arrays[f"joins/{n}/slots"], np.int32)
        )
        _check_slots(table.slots, len(table))
        _check_range(table.left(), counts[join.left])
        _check_range(table.right(), counts[join.stream])
        tables.append(table)
        counts.append(len(table))
    sizes = [1 if use.node < 0 else counts[use.node] for use in plan.uses]
    maps = tuple(
        _load_map(arrays[f"maps/{r}"], sizes[r], int(index.sizes[j])) for r, j in enumerate(plan.owners)
    )
    return FeatureIndex(
        index.templates, index.kinds, index.normalize, vocabularies, tuple(tables), maps, index.sizes
    )


def _load_lists(header: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    lists = header.get("lists", {})
    _require(isinstance(lists, dict), "lists must be an object")
    for entries in lists.values():
        _require(
            isinstance(entries, list) and all(isinstance(e, str) for e in entries),
            "a list must be a list of strings",
        )
    return {name: tuple(entries) for name, entries in lists.items()}


def _load_vocabulary(arrays: dict[str, NDArray[Any]], n: int) -> Vocabulary:
    blob = _array(arrays[f"streams/{n}/bytes"], np.uint8)
    ptr = _array(arrays[f"streams/{n}/ptr"], np.int64)
    slots = _array(arrays[f"streams/{n}/slots"], np.int32)
    _require(len(ptr) >= 1 and ptr[0] == 0 and ptr[-1] == len(blob), "vocabulary offsets do not fit its text")
    _require(bool(np.all(np.diff(ptr) >= 0)), "vocabulary offsets fall")
    _check_slots(slots, len(ptr) - 1)
    bytes(blob).decode()  # must be text
    return Vocabulary(blob, ptr, slots)


def _load_map(map_: NDArray[Any], values: int, attributes: int) -> NDArray[np.int32]:
    map_ = _vector(map_, values + 1, np.int32)
    _require(
        attributes >= 0 and int(map_.min()) >= -1 and int(map_.max()) < attributes, "attribute out of range"
    )
    _require(map_[-1] == -1, "the map of a template does not end with 'unknown'")
    return map_


def _load_weights(
    arrays: dict[str, NDArray[Any]], index: FeatureIndex, structure: Structure
) -> tuple[NDArray[np.float32], ...]:
    out = []
    kinds = [site.kind for site in structure.sites(np.array([0, 1], np.int64))]
    for n, (kind, width) in enumerate(zip(kinds, structure.widths(), strict=True)):
        attributes = sum(int(s) for s, k in zip(index.sizes, index.kinds, strict=True) if k == kind)
        weights = arrays[f"weights/{n}"]
        _require(
            weights.dtype == np.float32 and weights.shape == (attributes + 1, width),
            "weights of a wrong shape",
        )
        _require(bool(np.isfinite(weights).all()), "weights that are not finite")
        out.append(weights)
    return tuple(out)


def _array(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    _require(array.dtype == dtype and array.ndim == 1, f"expected a vector of {np.dtype(dtype)}")
    return array


def _vector(array: NDArray[Any], length: int, dtype: Any) -> NDArray[Any]:
    _require(len(_array(array, dtype)) == length, f"expected {length} entries, got {len(array)}")
    _require(dtype != np.float64 or bool(np.isfinite(array).all()), "numbers that are not finite")
    return array


def _check_slots(slots: NDArray[np.int32], entries: int) -> None:
    """A hash table must have a power-of-two size, point at its entries, and have a free slot to end a search."""
    size = len(slots)
    _require(size >= 8 and size & (size - 1) == 0, "hash table of an odd size")
    _require(int(slots.min()) == -1 and int(slots.max()) < entries, "hash table out of range")


def _check_range(numbers: NDArray[np.int64], limit: int) -> None:
    if len(numbers):
        _require(int(numbers.min()) >= 0 and int(numbers.max()) < limit, "join out of range")


def _require(truth: bool, problem: str) -> None:
    if not truth:
        raise ModelFileError(problem)
