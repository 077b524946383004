"""The interface of python-crfsuite: Trainer, Tagger and ItemSequence.

    from mtlstruct.compat import pycrfsuite         # was: import pycrfsuite

Features, objective and parameters are those of CRFsuite. Model files are those of mtlstruct. All
attributes form one group, so there may be any number of them. `lbfgs` and `l2sgd` minimise
Σ −log p + c1·‖w‖₁ + c2·‖w‖² by OWL-QN or L-BFGS; `pa`, `ap` and `arow` are MIRA (see ALGORITHMS).
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
import warnings
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mtlstruct._system.atomic_write import replacing
from mtlstruct.corpus import Corpus, label_outputs
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.evaluation.scores import by_sentence, label_scores
from mtlstruct.explain.top_features import spelled
from mtlstruct.formats.feature_dicts import OTHER_KEYS, FeatureError, Features
from mtlstruct.formats.sentences import label_column
from mtlstruct.formats.text import named
from mtlstruct.interop import crfsuite
from mtlstruct.model.lattice import Marginals
from mtlstruct.model.model import Model, load
from mtlstruct.structures import SequenceStructure

if TYPE_CHECKING:
    from mtlstruct.solvers import Record
    from mtlstruct.training.options import Options
    from mtlstruct.training.train import EncodedDataset

CRFSUITE_VERSION = "0.12.2"
"""The version of CRFsuite whose parameters these are."""

BROKEN_GROUP = -(2**31)
"""The group of sequences with an item that could not be read."""

COLUMN = "attributes"
_ITEM_TYPES = frozenset((dict, list, set, frozenset))
MIN_C2 = 5e-7
"""Least c2 without c1: with no penalty the weights of separable data are infinite."""

_FEATURES: dict[str, Any] = {
    "feature.minfreq": 0.0,
    "feature.possible_states": False,
    "feature.possible_transitions": False,
}
_EPOCHS: dict[str, Any] = {"max_iterations": 100, "epsilon": 0.0}
_STOP: dict[str, Any] = {"max_iterations": 2**31 - 1, "period": 10, "delta": 1e-5}
_SEARCH = {"num_memories": 6, "epsilon": 1e-5, "linesearch": "MoreThuente", "max_linesearch": 20}
_CALIBRATION = {"eta": 0.1, "rate": 2.0, "samples": 1000.0, "candidates": 10, "max_trials": 20}

ALGORITHMS: dict[str, dict[str, Any]] = {
    "lbfgs": _FEATURES | {"c1": 0.0, "c2": 1.0} | _STOP | _SEARCH,
    "l2sgd": _FEATURES
    | {"c2": 1.0, **_STOP, "max_iterations": 1000, "delta": 1e-6}
    | {f"calibration.{name}": value for name, value in _CALIBRATION.items()},
    "averaged-perceptron": _FEATURES | _EPOCHS,
    "passive-aggressive": _FEATURES
    | {"type": 1, "c": 1.0, "error_sensitive": True, "averaging": True}
    | _EPOCHS,
    "arow": _FEATURES | {"variance": 1.0, "gamma": 1.0} | _EPOCHS,
}
"""The parameters of each algorithm with CRFsuite's defaults."""

HELP = {
    "feature.minfreq": "Least frequency of a feature, an attribute with a label.",
    "feature.possible_states": "Features of all attributes with all labels, seen or not.",
    "feature.possible_transitions": "Features of all pairs of labels, seen or not.",
    "c1": "Coefficient of the L1 penalty, the sum of absolute weights.",
    "c2": "Coefficient of the L2 penalty, the sum of squared weights.",
    "c": "Largest step of an update.",
    "max_iterations": "Greatest number of iterations.",
    "period": "Iterations over which `delta` is measured.",
    "delta": "Stop when the objective improves by less than this share over `period` iterations.",
}
"""Descriptions of the parameters that are used; others are checked only."""

_ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}
_warned: set[str] = set()


class CRFSuiteError(Exception):
    """Error of training; never raised here, where errors are ValueErrors with a sentence."""


class ItemSequence:
    """The features of one sequence of items, each a dict of features or an iterable of strings."""

    def __init__(self, pyseq: Iterable[Any]) -> None:
        self._seq = _items_of(pyseq)
        self.items()

    def items(self) -> list[dict[str, float]]:
        """Return the attributes of each item with their values."""
        found = Features(lambda key: COLUMN, (COLUMN,), zeros=True)
        _add_items(found, self._seq)
        column, out = found.columns[COLUMN], [dict[str, float]() for _ in self._seq]
        names = list(column.strings)
        for entry, (item, name) in enumerate(zip(column.tokens, column.ids, strict=True)):
            out[item][names[name]] = column.values.get(entry, 1.0)
        return out

    def __len__(self) -> int:
        return len(self._seq)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


def _items_of(xseq: Any) -> list[Any]:
    """Return the items of a sequence in the types that `Features` takes."""
    if type(xseq) is ItemSequence:
        return xseq._seq
    if not isinstance(xseq, Iterable) or isinstance(xseq, str | bytes):
        raise FormatError("xseq", None, f"expected a list of items, got {str(xseq)[:40]!r}")
    items = xseq if type(xseq) is list else list(xseq)
    if all(map(_ITEM_TYPES.__contains__, map(type, items))):
        return items
    for number, item in enumerate(items, 1):
        if not isinstance(item, Iterable) or isinstance(item, str | bytes):
            raise FormatError("xseq", None, f"item {number}: expected a dict or strings, got {item!r}")
    return [dict(item) if isinstance(item, Mapping) else list(item) for item in items]


def _add_items(features: Features, items: Sequence[Any]) -> None:
    for number, item in enumerate(items, 1):
        try:
            features.add(item)
        except FeatureError as error:
            raise FormatError("xseq", None, f"item {number}: {error}") from None


LabelScore = namedtuple("LabelScore", "match model ref precision recall f1")
"""Scores of one label on held-out data."""


@dataclass
class TrainingLog:
    """The log of a training: messages, events, and the figures of each iteration.

    Figures are num, time and loss; with messages or held-out data feature_norm and active_features;
    with held-out data scores, avg_precision, avg_recall, avg_f1, item_accuracy_float and
    instance_accuracy_float.
    """

    log: list[str] = field(default_factory=list)
    events: list[tuple[str, int, int]] = field(default_factory=list)
    iterations: list[dict[str, Any]] = field(default_factory=list)
    featgen_num_features: int | None = None
    featgen_seconds: float | None = None
    training_seconds: float | None = None
    storing_seconds: float | None = None

    @property
    def last_iteration(self) -> dict[str, Any]:
        """The figures of the last iteration."""
        return self.iterations[-1] if self.iterations else {}

    @property
    def last_log(self) -> str:
        """The messages of the last event."""
        _, start, end = self.events[-1]
        return "".join(self.log[start:end])


class BaseTrainer:
    """Trainer that passes all messages to `message`, which prints them if `verbose`."""

    verbose: bool = False
    logparser: TrainingLog | None = None
    """The log of the last training."""

    _event: str | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a trainer without data; a subclass need not call `__init__`."""
        self = super().__new__(cls)
        self.clear()
        BaseTrainer.select(self, "lbfgs")
        return self

    def __init__(
        self, algorithm: str | None = None, params: Mapping[str, Any] | None = None, verbose: bool = True
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        self.set_params(params or {})
        self.verbose = verbose

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose the algorithm (lbfgs, l2sgd, ap, pa or arow), with its default parameters.

        lbfgs and l2sgd find the same optimum of the likelihood with penalties. pa is MIRA with
        averaging, which also takes the place of ap and arow.
        """
        name = _ALIASES.get(algorithm.lower(), algorithm.lower())
        if name not in ALGORITHMS or type != "crf1d":
            known = ", ".join([*ALGORITHMS, *_ALIASES])
            raise IncompatibleError(f"expected crf1d and one of {known}, got {type!r} and {algorithm!r}")
        if name in ("averaged-perceptron", "arow") and name not in _warned:
            _warned.add(name)
            warnings.warn(f"{name} is trained by MIRA with averaging here, like pa", stacklevel=3)
        self._algorithm, self._values = name, dict(ALGORITHMS[name])

    def params(self) -> list[str]:
        """Return the names of the parameters of the algorithm."""
        return list(self._values)

    def set(self, name: str, value: Any) -> None:
        """Set a parameter; a value may be a number or its text."""
        kind = type(self.get(name))
        self._values[name] = bool(int(value)) if kind is bool else kind(value)

    def get(self, name: str) -> Any:
        """Return the value of a parameter."""
        if name not in self._values:
            known = ", ".join(self._values)
            raise IncompatibleError(f"expected a parameter of {self._algorithm} ({known}), got {name!r}")
        return self._values[name]

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set several parameters."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """Return all parameters of the algorithm."""
        return dict(self._values)

    def help(self, name: str) -> str:
        """Return the description of a parameter."""
        self.get(name)
        return HELP.get(name, "Not used here: the solver has no such parameter.")

    def clear(self) -> None:
        """Remove all data."""
        self._features = Features(lambda key: COLUMN, (COLUMN,), zeros=True)
        self._labels: list[list[str]] = []
        self._groups: list[int] = []

    def append(self, xseq: Any, yseq: Iterable[str], group: int = 0) -> None:
        """Add a sequence with a label for each item; `train` may hold out a group."""
        items, labels, begin = _items_of(xseq), list(yseq), self._features.tokens
        if len(items) != len(labels) or not all(isinstance(label, str) for label in labels):
            raise FormatError("yseq", None, f"expected {len(items)} strings, one per item, got {labels!r}")
        try:
            _add_items(self._features, items)
        except ValueError:  # leave out the items so far, and the one that was added in part
            self._features.tokens += 1
            labels, group = labels[: self._features.tokens - begin], BROKEN_GROUP
            raise
        finally:
            self._labels += [labels] if labels else []
            self._groups += [group] if labels else []

    def message(self, message: str) -> None:
        """Receive a message of the training; print it if `verbose`."""
        if self.verbose:
            print(message, end="")

    def train(self, model: str, holdout: int = -1) -> None:
        """Train on all data and write the model file, none if `model` is empty.

        The group `holdout` is scored after each iteration instead of being trained on.
        """
        self.logparser = self._log = TrainingLog()
        began = time.perf_counter()
        self._say("start", f"Holdout group: {holdout + 1}\n\n" * (holdout >= 0) + "Feature generation\n")
        groups, corpus = np.array(self._groups, np.int64), self._corpus()
        held = corpus.take(np.flatnonzero(groups == holdout)) if (groups == holdout).any() else None
        trained = self._train(
            corpus.take(np.flatnonzero((groups != holdout) & (groups != BROKEN_GROUP))), held
        )
        self._log.training_seconds = seconds = time.perf_counter() - began
        loss = self._log.last_iteration.get("loss", 0.0)
        self._say("optimization_end", f"Loss: {loss}\nTotal seconds required for training: {seconds:.3f}\n\n")
        if model:
            trained.save(model)
        self._log.storing_seconds = time.perf_counter() - began - seconds
        active = int(trained.features.sum())
        self._say("end", f"Storing the model\nNumber of active features: {active}\n\n")

    def _say(self, event: str, text: str) -> None:
        """Send the lines of an event to `message`, the last one as its end."""
        *lines, last = text.splitlines(keepends=True)
        for line in lines:
            self.message(line)
        self._event = event
        self.message(last)
        self._event = None

    def _corpus(self) -> Corpus:
        columns, names = self._features.finish()
        sizes = np.array([len(labels) for labels in self._labels], np.int64)
        outputs, labels = label_outputs(label_column(self._labels, sizes))
        return Corpus(columns, np.append(0, np.cumsum(sizes)).astype(np.int64), outputs, labels, names)

    def _train(self, corpus: Corpus, held: Corpus | None) -> Model:
        from mtlstruct.templates import TemplateSet
        from mtlstruct.training.build_model import build_model
        from mtlstruct.training.train import encode, train

        began, templates = time.perf_counter(), TemplateSet.parse("U:%x[0,0]\nB")
        if len(corpus.labels) < 2:
            return _constant_model(corpus.labels, templates)
        options = self._options().checked()
        data = encode(corpus, templates, options)
        data = _with_feature_set(data, corpus, options, self.get("feature.minfreq"))
        structure, outline = data.structure, data.encoded.outline()

        def on_encoded(found: Any) -> None:
            self._log.featgen_num_features = found.weights
            self._log.featgen_seconds = seconds = time.perf_counter() - began
            count = f"Number of features: {found.weights}\nSeconds required: {seconds:.3f}\n"
            self._say("featgen_end", f"type: CRF1d\n{count}")
            lines = "".join(f"{name}: {value}\n" for name, value in self._values.items())
            self._say("prepared", f"\n{self._algorithm} optimization\n{lines}\n")

        def on_pass(record: Record) -> bool:
            nonlocal began
            now = time.perf_counter()
            info: dict[str, Any] = {"num": record.passes, "loss": record.objective * scale, "scores": {}}
            info["time"], began = now - began, now
            text = f"***** Iteration #{record.passes} *****\nLoss: {info['loss']:.6f}\n"
            if record.now is not None and (self.verbose or held is not None):
                fit = record.now()
                info["active_features"] = sum(int(np.count_nonzero(w)) for w in fit.weights)
                info["feature_norm"] = math.sqrt(sum(float(np.square(w).sum()) for w in fit.weights))
                text += f"Feature norm: {info['feature_norm']:.6f}\n"
                if held is not None:
                    model = build_model(corpus, structure, outline, data.index, fit, options)
                    more, table = _held_out_scores(held, model)
                    info, text = info | more, text + table
            self._log.iterations.append(info)
            self._say("iteration", f"{text}Seconds required for this iteration: {info['time']:.3f}\n\n")
            return False

        scale = 1.0 if options.c is None else 1 / options.c  # Ω of crf-l2 is ½‖w‖²
        training = train(corpus, templates, options, on_pass, dataset=data, on_encoded=on_encoded)
        facts = {"dicts": True, "groups": {OTHER_KEYS: COLUMN}}
        return replace(training.model, facts=training.model.facts | facts)

    def _options(self) -> Options:
        """Return the options of training that correspond to the parameters."""
        from mtlstruct.training.options import Options

        values: dict[str, Any] = self._values
        common = Options(scaling="none", max_iter=values["max_iterations"])
        if self._algorithm not in ("lbfgs", "l2sgd"):
            least = max(1, math.ceil(values["feature.minfreq"]))
            return replace(common, method="mira", c=values.get("c", 1.0), min_count=least)
        if values["feature.minfreq"] > 0 or not values["feature.possible_states"]:
            common = replace(common, label_support="seen")
        if values["feature.minfreq"] > 0 or not values["feature.possible_transitions"]:
            common = replace(common, transition_support="seen")
        common = replace(common, eta=max(values["delta"] / max(1, values["period"]), 1e-12))
        c1, c2 = values.get("c1", 0.0), values["c2"]
        if c1 > 0:
            return replace(common, method="crf", l1=c1, l2=c2)
        return replace(common, method="crf-l2", solver="lbfgs", c=0.5 / max(c2, MIN_C2))


class Trainer(BaseTrainer):
    """Trainer with a method for each kind of message; all of them print.

    They are called if `verbose`. Parameters are those of BaseTrainer.
    """

    def message(self, message: str) -> None:
        """Add a message to the log; call the method of an event at its last message."""
        log = self._log
        log.log.append(message)
        if self._event is None:
            return
        log.events.append((self._event, log.events[-1][2] if log.events else 0, len(log.log)))
        if self.verbose:
            more = (log.last_iteration,) if self._event == "iteration" else ()
            getattr(self, f"on_{self._event}")(log.last_log, *more)

    def on_iteration(self, log: str, info: Any = None) -> None:
        """Print the messages of an event; of an iteration, `info` has the figures, too."""
        print(log, end="")

    on_start = on_featgen_end = on_prepared = on_prepare_error = on_optimization_end = on_end = on_iteration
    on_featgen_progress = on_iteration  # never called here, where features are made in one step


def _with_feature_set(data: EncodedDataset, corpus: Corpus, options: Options, least: float) -> EncodedDataset:
    """Return the data with CRFsuite's features: pairs whose values sum to at least `least`.

    An attribute with the value 0 counts, so that a bool has features with the labels of its Falses.
    """
    from mtlstruct.linear.label_support import LabelSupport

    (node, edge), gold, L = data.encoded.designs, corpus.outputs, len(corpus.labels)
    assert gold is not None
    if options.label_support == "seen":
        n = int(node.ptr[-1])
        key = node.ids[:n].astype(np.int64) * L + np.repeat(gold, np.diff(node.ptr))
        pairs, place = np.unique(key, return_inverse=True)
        sums = np.bincount(place, node.values if len(node.values) else None, len(pairs))
        pairs = pairs[(sums >= least) & (pairs < node.layout.attributes * L)]
        ptr = np.searchsorted(pairs, np.arange(node.layout.attributes + 2) * L)
        node = node.with_support(LabelSupport(ptr.astype(np.int64), (pairs % L).astype(np.int32), L))
    if options.transition_support == "seen" and edge.layout.attributes:
        tokens = data.structure.sites(corpus.ptr)[1].tokens
        assert tokens is not None
        counts = np.bincount(gold[tokens - 1] * L + gold[tokens], minlength=L * L)
        found = np.flatnonzero(counts >= max(1, least)).astype(np.int32)
        ends = np.array([0, len(found), len(found)], np.int64)
        edge = edge.with_support(LabelSupport(ends, found, L * L))
    return replace(data, encoded=replace(data.encoded, designs=(node, edge)))


def _constant_model(labels: tuple[str, ...], templates: Any) -> Model:
    """Return the model of data with less than two labels; without data the label is empty."""
    from mtlstruct.interop.feature_text import model_of

    labels = labels or ("",)
    facts = {"dicts": True, "groups": {OTHER_KEYS: COLUMN}, "names": [COLUMN]}
    zeros = [np.zeros((0, len(labels)), np.float32), np.zeros((0, len(labels) ** 2), np.float32)]
    return model_of("data with one label", templates, labels, [[], []], zeros, 1, **facts)


def _held_out_scores(held: Corpus, model: Model) -> tuple[dict[str, Any], str]:
    """Return the scores on held-out data, under the names of python-crfsuite, and their table."""
    assert held.outputs is not None
    gold, found = (
        by_sentence(held, named(some, model.labels)) for some in (held.outputs, model.predict(held))
    )
    scored = label_scores(gold, found)
    rates = {name: scored.as_dict()[name] / 100 for name in ("precision", "recall", "f1")}
    values = {f"avg_{name}": rate for name, rate in rates.items()} | {
        "item_accuracy_float": scored.accuracy / 100,
        "instance_accuracy_float": scored.sequence_accuracy / 100,
    }
    scores = {
        label: LabelScore(c.correct, c.predicted, c.gold, c.precision / 100, c.recall / 100, c.f1 / 100)
        for label, c in scored.types.items()
    }
    return values | {"scores": scores}, scored.table()


@dataclass
class ParsedDump:
    """Contents of a model: sizes and numbers as text, and the weights that are not 0."""

    header: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    transitions: dict[tuple[str, str], float] = field(default_factory=dict)
    state_features: dict[tuple[str, str], float] = field(default_factory=dict)


class Tagger:
    """Tagger with a model of feature dicts, trained by mtlstruct or by CRFsuite."""

    _model: Model | None = None
    _size = 0
    _items: list[Any] | None = None
    _found: Marginals | None = None

    def open(self, name: str) -> contextlib.closing[Self]:
        """Load a model file; the result closes the tagger at the end of a `with` block."""
        with open(name, "rb") as file:  # a missing file is an OSError, as in python-crfsuite
            return self._use(name, file.read(len(crfsuite.MAGIC)), file.seek(0, 2))

    def open_inmemory(self, value: bytes) -> contextlib.closing[Self]:
        """Load a model from the content of a file."""
        return self._use(bytes(value), value, len(value))

    def close(self) -> None:
        """Forget the model."""
        self._model = self._items = self._found = None

    def labels(self) -> list[str]:
        """Return the labels of the model."""
        return list(self._opened().labels)

    def set(self, xseq: Any) -> None:
        """Set the sequence of `tag`, `probability` and `marginal`."""
        self._opened()
        self._items, self._found = _items_of(xseq), None

    def tag(self, xseq: Any = None) -> list[str]:
        """Return the best labels of a sequence, by default of the current one."""
        if xseq is not None:
            self.set(xseq)
        model = self._opened()
        found: list[str] = model.predict([self._sequence()])[0]
        return found

    def probability(self, yseq: Sequence[str]) -> float:
        """Return the probability of labels for the current sequence."""
        model, items = self._opened(), self._sequence()
        if len(yseq) != len(items):
            raise FormatError("yseq", None, f"expected {len(items)} labels, one per item, got {len(yseq)}")
        if not items:
            return 1.0
        outputs = np.array([self._label(y) for y in yseq], np.int32)
        score = model.lattice([items]).evaluate(outputs)
        return float(self._marginals().sequence(score)[0])

    def marginal(self, y: str, pos: int) -> float:
        """Return the probability of a label at a position of the current sequence."""
        if not 0 <= pos < len(self._sequence()):
            raise IncompatibleError(f"expected a position below {len(self._sequence())}, got {pos}")
        return float(self._marginals().node[pos, self._label(y)])

    def marginals(self) -> list[dict[str, float]]:
        """Return the probabilities of all labels at all positions of the current sequence."""
        if not self._sequence():
            return []
        return [dict(zip(self.labels(), row, strict=True)) for row in self._marginals().node.tolist()]

    def info(self) -> ParsedDump:
        """Return labels, attributes and weights."""
        if (model := self._model) is None:
            raise RuntimeError("the tagger has no model: open one first")
        labels, L = model.labels, len(model.labels)
        found = ParsedDump(labels={label: str(n) for n, label in enumerate(labels)})
        for number, template in enumerate(model.index.templates):
            block = model.block(number)
            if template.kind == "U":
                for text, row in zip(spelled(model.index, number, np.arange(len(block))), block, strict=True):
                    found.attributes[text] = str(len(found.attributes))
                    for y in np.flatnonzero(row).tolist():
                        found.state_features[text, labels[y]] = float(row[y])
            else:
                table = block.sum(axis=0).reshape(L, L)
                for a, b in np.argwhere(table).tolist():
                    found.transitions[labels[a], labels[b]] = float(table[a, b])
        features = len(found.transitions) + len(found.state_features)
        numbers = (self._size, features, L, len(found.attributes))
        names = ("size", "num_features", "num_labels", "num_attrs")
        found.header = dict(zip(names, map(str, numbers), strict=True))
        return found

    def dump(self, filename: str | None = None) -> None:
        """Write the model as text, by default to standard output."""
        info = self.info()
        sections: list[tuple[str, list[str]]] = [
            ("FILEHEADER", [f"{name}: {value}" for name, value in info.header.items()]),
            ("LABELS", [f"{n:>5}: {name}" for name, n in info.labels.items()]),
            ("ATTRIBUTES", [f"{n:>5}: {name}" for name, n in info.attributes.items()]),
            ("TRANSITIONS", [f"(1) {a} --> {b}: {w:.6f}" for (a, b), w in info.transitions.items()]),
            ("STATE_FEATURES", [f"(0) {a} --> {y}: {w:.6f}" for (a, y), w in info.state_features.items()]),
        ]
        text = "\n".join("\n  ".join([f"{name} = {{", *lines]) + "\n}\n" for name, lines in sections)
        if filename is None:
            sys.stdout.write(text)
            return
        with replacing(filename) as out:
            out.write(text.encode())

    def _use(self, source: str | bytes, head: bytes, size: int) -> contextlib.closing[Self]:
        theirs = bytes(head).startswith(crfsuite.MAGIC)
        model = crfsuite.to_model(crfsuite.read(source)) if theirs else load(source)
        if type(model.structure) is not SequenceStructure or not model.takes_dicts:
            raise IncompatibleError("expected a model of sequences of feature dicts, got another one")
        self.close()
        self._model, self._size = model, size
        return contextlib.closing(self)

    def _opened(self) -> Model:
        if self._model is None:
            raise IncompatibleError("the tagger has no model: open one first")
        return self._model

    def _sequence(self) -> list[Any]:
        if self._items is None:
            raise IncompatibleError("the tagger has no sequence: set one first")
        return self._items

    def _label(self, y: str) -> int:
        labels = self._opened().labels
        if y not in labels:
            raise IncompatibleError(f"expected a label of the model, got {y!r}")
        return labels.index(y)

    def _marginals(self) -> Marginals:
        if self._found is None:
            model = self._opened()
            self._found = model.lattice([self._sequence()]).marginals(model.temperature)
        return self._found
