"""The model file: a header and arrays. Loading checks every number before it is used."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import archive
from mtlstruct.corpus import MOST_COLUMNS
from mtlstruct.errors import ModelFileError, MtlError
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.arcs.as_items import ArcItems
from mtlstruct.features.arcs.index import KIND
from mtlstruct.features.arcs.kernels import EMPTY, MASK_BITS
from mtlstruct.features.arcs.plan import CLASSES, make_plan
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.vocabulary import PairTable, Vocabulary
from mtlstruct.formats.normalization import NORMALIZERS
from mtlstruct.formats.segmented import TAGS
from mtlstruct.linear.label_support import LabelSupport
from mtlstruct.model.context import COLUMNS
from mtlstruct.model.model import Index, Model
from mtlstruct.structures import STRUCTURES, TreeStructure, structures_of
from mtlstruct.structures.schemes import SCHEMES, Conversion
from mtlstruct.templates import TemplateSet

FORMAT = "mtlstruct model"
VERSION = 2
STAGES = ("relations", "first")
"""Attributes of a model that are models: entries of the header, and folders of arrays."""

Arrays = Mapping[str, NDArray[Any]]


def write(model: Model, path: str | Path) -> None:
    """Write a model file atomically."""
    archive.write(path, {"format": FORMAT, "version": VERSION} | _header(model), _arrays(model))


def read(source: str | Path | bytes) -> Model:
    """Load a model file or its content; raise ModelFileError for damage or another version."""
    (header, arrays), path = archive.read(source), archive.name_of(source)
    if header.get("format") != FORMAT:
        raise ModelFileError(f"{path}: not a model file of mtlstruct")
    if header.get("version") != VERSION:
        raise ModelFileError(
            f"{path}: model format version {header.get('version')!r}, this mtlstruct reads {VERSION}"
        )
    if (name := header.get("structure")) not in list(STRUCTURES):  # a list: the name may not be hashable
        raise ModelFileError(
            f"{path}: a model for {name!r}, this program has the structures {', '.join(STRUCTURES)}"
        )
    try:
        return _model(header, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: the model file is damaged: {error}") from None
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, MtlError) as error:
        raise ModelFileError(f"{path}: the model file is damaged: {type(error).__name__}: {error}") from None


def _header(model: Model) -> dict[str, Any]:
    """Return the header of a model, with that of its second stage."""
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
    return header | {name: _header(other) for name, other in _stages(model).items()}


def _arrays(model: Model) -> dict[str, NDArray[Any]]:
    arrays = {f"templates/{name}": getattr(model, name) for name in ("mu", "norm", "features")}
    arrays |= {f"weights/{n}": weights for n, weights in enumerate(model.weights)}
    for stage, other in _stages(model).items():
        arrays |= {f"{stage}/{name}": array for name, array in _arrays(other).items()}
    return arrays | index_arrays(model.index)


def _stages(model: Model) -> dict[str, Model]:
    """Return the models inside a model."""
    return {name: getattr(model, name) for name in STAGES if getattr(model, name) is not None}


def _model(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]], columns: list[str] | None = None
) -> Model:
    """Return the model of a header and all its arrays.

    columns: of a second stage, the names of the columns of the first
    """
    require(_are_strings(header["labels"]), "labels must be a list of strings")
    labels = tuple(header["labels"])
    require(len(set(labels)) == len(labels), "labels repeat")
    facts = _checked_facts(header)
    learned = len(_load_conversion(facts, labels) or labels)
    structure = STRUCTURES[header["structure"]](learned)
    require(bool(labels) or isinstance(structure, TreeStructure), "no labels")
    lists = {name: tuple(entries) for name, entries in header.get("lists", {}).items()}
    templates = TemplateSet.parse(header["templates"], path="the model's templates", lists=lists)
    templates = templates.resolved(facts.get("names", []) if columns is None else columns)
    if facts.get("share_identical"):
        templates = templates.shared()
    live = tuple(header["live"])
    require(all(type(j) is int and 0 <= j < len(templates) for j in live), "live templates out of range")
    require(list(live) == sorted(set(live)), "live templates out of order")
    require(header["normalize"] in NORMALIZERS, f"unknown normalisation {header['normalize']!r}")
    kind_of = {site.letter: site.kind for site in structure.sites(np.array([0, 1], np.int64))}
    seen = templates if columns is None else ArcItems(templates).templates
    index = load_index(arrays, seen.select(live), kind_of, header["normalize"])
    if facts.get("label_support") == "seen":
        index = load_support(arrays, index, next(iter(kind_of.values())), learned)
    index.templates.check_columns(facts["columns"])
    shapes = [
        (attributes_of(index, kind) + 1, width)
        for kind, width in zip(kind_of.values(), structure.widths(), strict=True)
    ]
    if isinstance(index, FeatureIndex) and index.support is not None:
        shapes[0] = index.support.features + 1, 1
    model = Model(
        structure=structure,
        labels=labels,
        templates=templates,
        live=live,
        index=index,
        weights=tuple(_checked_weights(arrays[f"weights/{n}"], shape) for n, shape in enumerate(shapes)),
        mu=vector(arrays["templates/mu"], len(templates), np.float64),
        norm=vector(arrays["templates/norm"], len(templates), np.float64),
        features=vector(arrays["templates/features"], len(templates), np.int64),
        facts=facts,
        **_load_stages(header, arrays, facts, labels),
    )
    known = set(_arrays(model))
    require(known == set(arrays), f"unexpected entries {sorted(set(arrays) - known)[:3]}")
    return model


def _load_conversion(facts: dict[str, Any], labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels of a scheme that was learned in place of that of the data, if any."""
    if (names := facts.get("scheme")) is None:
        return ()
    require(facts["task"] == "sequence" and set(names.values()) <= set(SCHEMES), "unknown label scheme")
    found = Conversion(names["given"], names["learned"], labels)
    require(found.labels == labels, "labels that do not fit the label scheme")
    return found.learned_labels


def _load_stages(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]], facts: dict[str, Any], labels: tuple[str, ...]
) -> dict[str, Model]:
    """Return the second stage of trees, which classifies arcs, and the first pass of context."""
    found = {}
    for name in (name for name in STAGES if name in header):
        require(not set(STAGES) & set(header[name]), "a stage of a model has no other stage")
        inside = f"{name}/"
        own = {n.removeprefix(inside): array for n, array in arrays.items() if n.startswith(inside)}
        found[name] = _model(header[name], own, facts.get("names", []) if name == "relations" else None)
    if (second := found.get("relations")) is not None:
        require(facts["task"] == "dependency" and second.alone, "a second stage is for classes of arcs")
        second.templates.check_columns(facts["columns"])
        require(second.columns == len(ArcItems(second.templates).terms), "a second stage of other columns")
    if (first := found.get("first")) is not None:
        require((facts["task"], labels) == (first.task, first.labels), "a first pass of other labels")
        require(first.columns + len(COLUMNS) == facts["columns"], "a first pass of other columns")
    return found


def _checked_facts(header: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = header["facts"]
    require(isinstance(facts, dict) and isinstance(facts.get("sparse"), bool), "facts are missing")
    task, columns = facts.get("task"), facts.get("columns")
    require(
        isinstance(task, str) and header["structure"] in structures_of(task), "task and structure disagree"
    )
    require(facts.get("tags") in TAGS, "unknown tags")
    most = f"columns must be a number from 1 to {MOST_COLUMNS}"
    require(type(columns) is int and 1 <= columns <= MOST_COLUMNS, most)
    strings = _are_strings([facts.get("encoding", ""), facts.get("separator", "")])
    require(strings and isinstance(facts.get("ragged", False), bool), "unknown format of data files")
    groups, temperature = facts.get("groups", {}), facts.get("temperature", 1.0)
    require(isinstance(groups, dict) and _are_strings([*groups.values()]), "groups of keys must be strings")
    nested = facts.get("nested")
    require(nested is None or _are_strings(nested), "nested names must be strings")
    names, lists = facts.get("names", []), header.get("lists", {})
    known = _are_strings(names) and len(names) in (0, columns)
    require(known, "names of columns must be a list of strings")
    known = isinstance(lists, dict) and all(map(_are_strings, lists.values()))
    require(known, "lists must be an object of lists of strings")
    positive = type(temperature) in (int, float) and 0 < temperature < math.inf
    require(positive, "the temperature must be a positive number")
    return facts


def _checked_weights(weights: NDArray[Any], shape: tuple[int, int]) -> NDArray[np.float32]:
    require(weights.dtype == np.float32 and weights.shape == shape, "weights of a wrong shape")
    require(bool(np.isfinite(weights).all()), "weights that are not finite")
    return weights


def index_arrays(index: Index) -> dict[str, NDArray[Any]]:
    """Return the arrays of an index in a model file, by name."""
    if isinstance(index, FeatureIndex):
        some = index.support
        listed: Arrays = {} if some is None else {"support/ptr": some.ptr, "support/labels": some.labels}
        return {"index/sizes": index.sizes, **listed} | _token_arrays(index)
    own = {"index/sizes": index.sizes, "arcs/table": index.table, "arcs/first": index.first}
    return own | {"words/sizes": index.words.sizes} | _token_arrays(index.words)


def load_index(found: Arrays, templates: TemplateSet, kind_of: Mapping[str, str], normalize: str) -> Index:
    """Return the index of these templates; raise ModelFileError for arrays that do not fit them.

    kind_of    the kinds of sites by the letter of their templates
    """
    kinds = tuple(kind_of[template.kind] for template in templates)
    sizes = vector(found["index/sizes"], len(templates), np.int64)
    require(bool((sizes >= 0).all()), "sizes of templates below 0")
    if KIND in kind_of.values():
        return _load_arcs(found, templates, normalize, sizes)
    return _load_tokens(found, templates, kinds, normalize, sizes)


def load_support(found: Arrays, index: Index, kind: str, width: int) -> FeatureIndex:
    """Return the index with the labels for which attributes of its first kind have weights."""
    if not isinstance(index, FeatureIndex):
        raise ModelFileError("arcs have no labels")
    attributes = attributes_of(index, kind)
    ptr = vector(found["support/ptr"], attributes + 2, np.int64)
    labels = vector(found["support/labels"], None, np.int32)
    require(ptr[0] == 0 and ptr[-2] == ptr[-1] == len(labels), "labels of attributes out of place")
    require(bool((np.diff(ptr) >= 0).all()), "labels of attributes out of place")
    _check_range(labels, width)
    attribute = np.repeat(np.arange(attributes + 1), np.diff(ptr))
    rises = np.diff(attribute * np.int64(width) + labels) > 0
    require(bool(rises.all()), "labels of an attribute do not rise")
    return replace(index, support=LabelSupport(ptr, labels, width))


def attributes_of(index: Index, kind: str) -> int:
    """Return the number of attributes of the templates of a kind."""
    return sum(int(size) for size, own in zip(index.sizes, index.kinds, strict=True) if own == kind)


def _token_arrays(index: FeatureIndex) -> dict[str, NDArray[Any]]:
    out: dict[str, NDArray[Any]] = {}
    for n, found in enumerate(index.vocabularies):
        out |= {f"streams/{n}/bytes": found.bytes_, f"streams/{n}/ptr": found.ptr}
        out[f"streams/{n}/slots"] = found.slots
    for n, table in enumerate(index.tables):
        out |= {f"joins/{n}/pairs": table.pairs, f"joins/{n}/slots": table.slots}
    return out | {f"maps/{n}": map_ for n, map_ in enumerate(index.maps)}


def _load_tokens(
    arrays: Arrays,
    templates: TemplateSet,
    kinds: tuple[str, ...],
    normalize: str,
    attributes: NDArray[np.int64],
) -> FeatureIndex:
    index = FeatureIndex(templates, kinds, normalize, (), (), (), attributes)
    plan = index.plan
    vocabularies = tuple(_load_vocabulary(arrays, n) for n in range(len(plan.streams)))
    counts = [len(v) for v in vocabularies]
    tables = []
    for n, join in enumerate(plan.joins):
        pairs, slots = arrays[f"joins/{n}/pairs"], arrays[f"joins/{n}/slots"]
        table = PairTable(vector(pairs, None, np.int64), vector(slots, None, np.int32))
        _check_slots(table.slots, len(table))
        _check_range(table.left(), counts[join.left])
        _check_range(table.right(), counts[join.stream])
        tables.append(table)
        counts.append(len(table))
    sizes = [1 if use.node < 0 else counts[use.node] for use in plan.uses]
    maps = tuple(
        _load_map(arrays[f"maps/{r}"], sizes[r], int(attributes[j])) for r, j in enumerate(plan.template_of)
    )
    return FeatureIndex(templates, kinds, normalize, vocabularies, tuple(tables), maps, attributes)


def _load_vocabulary(arrays: Arrays, n: int) -> Vocabulary:
    blob = vector(arrays[f"streams/{n}/bytes"], None, np.uint8)
    ptr = vector(arrays[f"streams/{n}/ptr"], None, np.int64)
    slots = vector(arrays[f"streams/{n}/slots"], None, np.int32)
    require(len(ptr) >= 1 and ptr[0] == 0 and ptr[-1] == len(blob), "vocabulary offsets do not fit its text")
    require(bool(np.all(np.diff(ptr) >= 0)), "vocabulary offsets fall")
    _check_slots(slots, len(ptr) - 1)
    bytes(blob).decode()  # must be text
    inner = ptr[(ptr > 0) & (ptr < len(blob))]
    require(bool(np.all(blob[inner] & 0xC0 != 0x80)), "vocabulary offsets cut a character in two")
    return Vocabulary(blob, ptr, slots)


def _load_map(map_: NDArray[Any], values: int, attributes: int) -> NDArray[np.int32]:
    map_ = vector(map_, values + 1, np.int32)
    known = attributes >= 0 and int(map_.min()) >= -1 and int(map_.max()) < attributes
    require(known, "attribute out of range")
    require(map_[-1] == -1, "the map of a template does not end with 'unknown'")
    return map_


def _load_arcs(found: Arrays, templates: TemplateSet, normalize: str, sizes: NDArray[np.int64]) -> ArcIndex:
    slots = make_plan(templates).words
    word_sizes = vector(found["words/sizes"], len(slots), np.int64)
    words = _load_tokens(found, slots, ("node",) * len(slots), normalize, word_sizes)
    table = found["arcs/table"]
    require(table.dtype == np.int64 and table.ndim == 2, "expected a table of int64")
    index = ArcIndex(templates, words, table, vector(found["arcs/first"], None, np.int64), sizes)
    _check_tables(index)
    return index


def _check_tables(index: ArcIndex) -> None:
    plan, first = index.plan, index.first
    count = len(plan.bases) + len(plan.sources)
    most = max((len(js) for js in plan.templates_of), default=1)
    in_place = len(first) == count + 1 and first[0] == 0 and first[-1] == len(index.table)
    require(in_place, "tables out of place")
    require(index.table.shape[1] == 1 + max(1, most), "tables of a wrong width")
    sizes = np.diff(first)
    require(bool((sizes >= 8).all() and (sizes & (sizes - 1) == 0).all()), "hash table of an odd size")
    for node in range(count):
        rows = index.table[first[node] : first[node + 1]]
        keys = rows[:, 0]
        require(bool((keys == EMPTY).any() and (keys >= EMPTY).all()), "hash table without a free row")
        if node >= len(plan.bases):
            numbers = rows[keys != EMPTY, 1]
            require(bool(((numbers >= 0) & (numbers < 2**31)).all()), "numbers of pairs out of range")
            continue
        for k, j in enumerate(plan.templates_of[node]):
            _check_records(rows[keys != EMPTY, 1 + k], int(index.sizes[j]))


def _check_records(records: NDArray[np.int64], size: int) -> None:
    """Raise if a record leads to an attribute that its template does not have."""
    seen, start = records & ((1 << MASK_BITS) - 1), records >> MASK_BITS
    require(bool((seen < 1 << CLASSES).all()), "classes out of range")
    ones = sum((seen >> c & 1 for c in range(CLASSES)), np.zeros(len(records), np.int64))
    require(bool((start >= 0).all() and (start + ones <= size).all()), "attribute out of range")


def vector(array: NDArray[Any], length: int | None, dtype: Any) -> NDArray[Any]:
    """Return the array; raise unless it is a finite vector of that type, and length if given."""
    require(array.dtype == dtype and array.ndim == 1, f"expected a vector of {np.dtype(dtype)}")
    require(length in (None, len(array)), f"expected {length} entries, got {len(array)}")
    require(dtype != np.float64 or bool(np.isfinite(array).all()), "numbers that are not finite")
    return array


def _check_slots(slots: NDArray[np.int32], entries: int) -> None:
    """Raise unless a hash table has a power-of-two size, valid entries and a free slot."""
    size = len(slots)
    require(size >= 8 and size & (size - 1) == 0, "hash table of an odd size")
    require(int(slots.min()) == -1 and int(slots.max()) < entries, "hash table out of range")


def _check_range(numbers: NDArray[np.int64], limit: int) -> None:
    if len(numbers):
        require(int(numbers.min()) >= 0 and int(numbers.max()) < limit, "join out of range")


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def require(truth: bool, problem: str) -> None:
    """Raise ModelFileError unless a condition holds."""
    if not truth:
        raise ModelFileError(problem)
