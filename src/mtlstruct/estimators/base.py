"""What all estimators share: from X and y to a model, and from X to predictions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mtlstruct._system import threads as pool
from mtlstruct.corpus import Corpus, label_outputs
from mtlstruct.errors import FormatError, IncompatibleError, MtlError
from mtlstruct.estimators.folds import shared_material
from mtlstruct.formats import in_memory as gather
from mtlstruct.formats.sentences import Data, Grouping, aligned, data_for, data_of
from mtlstruct.model.calibration import with_temperature
from mtlstruct.model.model import Model
from mtlstruct.model.model import load as load_model
from mtlstruct.solvers import Record
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.terms import quoted
from mtlstruct.training.options import Options, check_count, check_type
from mtlstruct.training.train import train

Templates = TemplateSet | str | Path | Sequence[str] | None
"""A set, the path of a template file, or its lines; None: one template for each key of the feature dicts."""


@dataclass(frozen=True)
class Progress:
    """A pass of training, as a callback sees it.

    Attributes
    ----------
    record : Record
        Passes so far, objective, dual, gap, risk, active templates, and whether the bounds are proved.
    seconds : float
        Since `fit` began.
    score : float or None
        Of the model so far on X_val and y_val, if they were given.
    """

    record: Record
    seconds: float
    score: float | None


Callback = Callable[[Progress], Any]
"""Called after each pass; a true answer ends training."""


class Structured(BaseEstimator):  # type: ignore[misc]
    """The base of the three estimators."""

    _task: ClassVar[str]
    _alone: ClassVar[bool] = False

    templates: Templates
    patience: int | None
    threads: int | None

    def fit(
        self,
        X: Any,
        y: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train on labelled data.

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
            See the class. An iterable is consumed once.
        y : iterable of iterables
            The outputs of each sentence, one a token. May be left out where X is a file or corpus that has them.
        X_val, y_val : like X and y
            The model is scored on these after each pass; the best one is kept, and training ends after `patience`
            passes without a better one. They also serve to turn scores into probabilities.
        callback : callable, optional
            Called with a `Progress` after each pass; a true answer ends training.

        Returns
        -------
        self
        """
        self._check_parameters()
        options = self._options().checked(as_parameter)
        if self.threads is not None:
            pool.set_threads(self.threads)
        data = self._data(X)
        if not data.corpus.tokens:
            raise FormatError(
                "X", None, f"expected at least one {'item' if self._alone else 'token'}, got none"
            )
        corpus, originals = self._labelled(data, y)
        templates = self._template_set(data)
        held = None if X_val is None else self._held_out(data, X_val, y_val)
        monitor = _Monitor(self, callback, held)
        training = train(
            corpus,
            templates,
            options,
            monitor.on_pass,
            dataset=shared_material(data, templates, options, len(corpus.labels)),
            validate=None if held is None else monitor.score,
            patience=self.patience,
        )
        model = training.model
        if data.dicts:
            facts = {"dicts": True} | ({} if data.groups is None else {"groups": data.groups})
            model = replace(model, facts=model.facts | facts)
        if held is not None:
            with suppress(MtlError):  # held-out data without a known label give no temperature
                model = with_temperature(model, held)
        self.model_ = model
        classes = [originals.get(label, label) for label in corpus.labels]
        self.classes_: Any = np.array(classes) if self._alone else classes
        self.validation_scores_ = monitor.scores
        self.n_iter_ = training.fit.passes
        self.gap_, self.objective_ = training.fit.gap, training.fit.objective
        return self

    def predict(self, X: Any) -> Any:
        """Return the best outputs of each sentence, or the class of each item.

        Parameters
        ----------
        X : like that of `fit`

        Returns
        -------
        list of lists
            As many outputs as a sentence has tokens. StructuredClassifier returns an array, one class per item.
        """
        model = self._model()
        data = data_for(model, X, alone=self._alone)
        return data.named(model.predict(data.corpus), self.classes_)

    def score(self, X: Any, y: Any = None) -> float:
        """Return how good predictions are, from 0 to 1; the notes of the class name the measure.

        Parameters
        ----------
        X, y : like those of `fit`
        """
        model = self._model()
        data = data_for(model, X, alone=self._alone)
        gold, _ = self._labelled(data, y)
        return self._quality(gold, model.predict(gold), model.labels)

    def save(self, path: str | Path) -> None:
        """Write the model file, which `mtlstruct.load`, `load` of this class and the command line read."""
        self._model().save(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return an estimator with the model of a file."""
        model = load_model(path)
        if cls._task not in (model.task, _kind(model)):
            raise IncompatibleError(f"{path}: a model for {model.task}, expected one for {cls._task}")
        found = cls(method=model.facts["method"], c=model.facts["c"])
        if not model.takes_dicts:
            found.set_params(templates=model.templates)
        found.model_, found.classes_ = model, list(model.labels)
        return found

    @property
    def template_weights_(self) -> list[dict[str, Any]]:
        """The templates, heaviest first, a dict each: name, text, mu, relative, norm, features, rank, index.

        The name is that of the line, or the key where there are no lines. `pandas.DataFrame` makes a table of it.
        """
        model = self._model()
        rows = [dict(vars(weight)) for weight in model.template_weights()]
        if model.takes_dicts:
            for row in rows:
                row["name"] = _key(model, row["index"]) or row["name"]
        return rows

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that X is no matrix and that y is required."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.no_validation = True
        return tags

    def _labelled(self, data: Data, y: Any) -> tuple[Corpus, Mapping[str, Any]]:
        """Return the corpus with its outputs, and the labels that were no text, by their text."""
        raise NotImplementedError

    def _quality(self, gold: Corpus, found: NDArray[np.int32], labels: Sequence[str]) -> float:
        raise NotImplementedError

    def _lines(self, data: Data) -> TemplateSet:
        """Return the templates where none are given: one for each key of feature dicts."""
        if not data.dicts:
            raise IncompatibleError(
                "templates: expected some, since X has columns of cells and no feature dicts"
            )
        names = map(quoted, data.corpus.names)
        return TemplateSet.parse("\n".join(f"U{n:03}:%x[0,{name}]" for n, name in enumerate(names)))

    def _set(self, given: Mapping[str, Any]) -> None:
        """Store the parameters of a constructor under their names."""
        for name in self._get_param_names():
            setattr(self, name, given[name])

    def _options(self) -> Options:
        """Return the training options among the parameters."""
        given = self.get_params(deep=False)
        values = {row.name: given[row.name] for row in fields(Options) if row.name in given}
        weights = (given.get("loss_weights") or {}).items()
        values["loss_weights"] = tuple((str(label), weight) for label, weight in weights)
        seed = given["random_state"]
        return Options(**values | {"task": self._task, "seed": 0 if seed is None else seed})

    def _check_parameters(self) -> None:
        """Raise an error for a parameter that is no option of training and makes no sense."""
        for name in ("patience", "threads"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), 1)
        columns = getattr(self, "columns", None)
        if columns is not None and not _are_words(columns):
            raise IncompatibleError(f"columns: expected a list of names, got {columns!r}")
        given = self.templates
        if given is not None and not isinstance(given, TemplateSet | str | Path) and not _are_words(given):
            raise IncompatibleError(
                f"templates: expected a TemplateSet, the path of a file or a list of lines, got {given!r}"
            )

    def _model(self) -> Model:
        check_is_fitted(self, "model_")
        model: Model = self.model_
        return model

    def _data(self, X: Any) -> Data:
        named: Sequence[str] | None = getattr(self, "columns", None)
        grouping: Grouping = getattr(self, "group_by", None)
        columns = named or (None if self.templates is None else True)
        return data_of(X, columns=columns, group_by=grouping, alone=self._alone, task=self._task)

    def _held_out(self, training: Data, X: Any, y: Any) -> Corpus:
        """Return validation data with the columns of the training data."""
        corpus, _ = self._labelled(self._data(X), y)
        return aligned(corpus, training.corpus.names) if training.corpus.names else corpus

    def _template_set(self, data: Data) -> TemplateSet:
        given = self.templates
        if isinstance(given, TemplateSet):
            return given
        if isinstance(given, str | Path):
            return TemplateSet.read(given)
        if given is not None:
            return TemplateSet.parse("\n".join(given))
        if data.dicts and not data.corpus.names:
            raise FormatError("X", None, "expected feature dicts with at least one feature, got none")
        return self._lines(data)


class Labelling(Structured):
    """An estimator whose outputs are labels: strings, or anything with distinct text."""

    loss_weights: Mapping[Any, float] | None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.loss_weights
        if given is None:
            return
        if not isinstance(given, Mapping):
            raise IncompatibleError(f"loss_weights: expected a dict from labels to numbers, got {given!r}")
        for label, weight in given.items():
            check_type(f"loss_weights[{label!r}]", weight, float)
            if not 0 <= weight < math.inf:
                raise MtlError(f"loss_weights[{label!r}] must be finite and not negative, got {weight}")

    def _labelled(self, data: Data, y: Any) -> tuple[Corpus, Mapping[str, Any]]:
        if y is None:
            if data.corpus.outputs is None:
                raise FormatError("y", None, "expected labels, got none")
            return data.corpus, {}
        check_iterable("y", y, "labels")
        spelled = _Spelled(([label] for label in y) if self._alone else y)
        outputs, labels = label_outputs(gather.labels(spelled, data.lengths))
        return replace(data.corpus, outputs=outputs, labels=labels), spelled.originals


class _Spelled:
    """Labels as text, sentence by sentence; `originals` are those that were no text."""

    def __init__(self, y: Iterable[Iterable[Any]]) -> None:
        self.y = y
        self.originals: dict[str, Any] = {}

    def __iter__(self) -> Iterator[list[str]]:
        for number, sentence in enumerate(self.y, 1):
            check_iterable("y", sentence, f"a list of labels for sentence {number}")
            yield [label if type(label) is str else self._text(label) for label in sentence]

    def _text(self, label: Any) -> str:
        text = str(label)
        known = self.originals.setdefault(text, label)
        if known != label:
            raise FormatError("y", None, f"expected labels that differ as text, got {known!r} and {label!r}")
        return text


class _Monitor:
    """Score each pass on held-out data, if there are any, and call the callback."""

    def __init__(self, estimator: Structured, callback: Callback | None, held: Corpus | None) -> None:
        self.estimator, self.callback, self.held = estimator, callback, held
        self.began = time.perf_counter()
        self.latest: float | None = None
        self.scores: list[float] = []

    def score(self, model: Model) -> float:
        """Return the score of a model on the held-out data."""
        assert self.held is not None
        self.latest = self.estimator._quality(self.held, model.predict(self.held), model.labels)
        return self.latest

    def on_pass(self, record: Record) -> bool:
        """Call the callback with a pass that has been scored."""
        if self.latest is not None:
            self.scores.append(self.latest)
        if self.callback is None:
            return False
        return bool(self.callback(Progress(record, time.perf_counter() - self.began, self.latest)))


def as_parameter(name: str) -> str:
    """Return the name of an option of training as the estimators spell it."""
    return {"seed": "random_state", "task": "structure"}.get(name, name)


def _are_words(value: Any) -> bool:
    words = isinstance(value, Iterable) and not isinstance(value, str | Iterator)
    return words and all(isinstance(word, str) for word in value)


def check_iterable(name: str, value: Any, what: str) -> None:
    """Raise an error for data that are no collection; `what` says of what."""
    if not isinstance(value, Iterable):
        raise FormatError(name, None, f"expected {what}, got {value!r}")


def _key(model: Model, j: int) -> str:
    """Return the key, or the group of keys, of a template; "" for the transitions."""
    terms = model.templates[j].terms
    return model.names[terms[0].column] if terms else ""


def _kind(model: Model) -> str:
    """Return the task of the estimator that a model is for."""
    if model.alone:
        return "multiclass"
    return "sequence" if model.labels else "dependency"
