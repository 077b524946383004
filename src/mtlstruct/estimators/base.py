"""Base classes of the estimators: from X and y to a model, and from X to predictions."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mtlstruct._system import threads as pool
from mtlstruct.corpus import Corpus, label_outputs
from mtlstruct.errors import FormatError, IncompatibleError, MtlError
from mtlstruct.evaluation.scores import without_chunks
from mtlstruct.features.encoded import subset
from mtlstruct.formats.sentences import Grouping, InputData, aligned, data_for, data_of, label_column
from mtlstruct.model.calibration import with_temperature
from mtlstruct.model.model import Model
from mtlstruct.model.model import load as load_model
from mtlstruct.solvers import Record
from mtlstruct.structures import structure_for
from mtlstruct.structures.constraints import Constraints
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.generate import of_keys
from mtlstruct.training.methods import check_groups
from mtlstruct.training.options import MAX_COUNT, Options, check_number
from mtlstruct.training.train import EncodedDataset, encode, train
from mtlstruct.tuning.search import searched
from mtlstruct.tuning.study import ENCODING

Templates = TemplateSet | str | Path | Sequence[str] | None
"""A template set, the path of a template file, its lines, or None for the default templates."""


@dataclass(frozen=True)
class Progress:
    """State of a training after one pass, as callbacks get it.

    Attributes
    ----------
    record : Record
        Passes so far, objective, dual, gap, risk, active templates, and whether the bounds are
        proved.
    seconds : float
        Time since `fit` began.
    score : float or None
        Score of the current model on the validation data, if there are any.
    """

    record: Record
    seconds: float
    score: float | None

    def __str__(self) -> str:
        score = "" if self.score is None else f", score {self.score:.4f}"
        found, sure = self.record, "" if self.record.certified else "~"
        bounds = f"objective {found.objective:.6g}, gap {sure}{found.gap:.2%}"
        return f"pass {found.passes}: {bounds}{score}, {self.seconds:.1f} s"


Callback = Callable[[Progress], Any]
"""Called after each pass; training ends if it returns a true value."""

RENAMED = {"seed": "random_state", "task": "structure"}
"""The parameters that set options of training of another name."""

TEMPLATES = "a TemplateSet, the path of a file or a list of lines"


class StructuredEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the three estimators."""

    _task: ClassVar[str]
    _alone: ClassVar[bool] = False
    _outputs: ClassVar[str] = "labels"

    templates: Templates
    patience: int | None
    random_state: int | None
    threads: int | None
    verbose: bool | int
    warm_start: bool

    def fit(
        self,
        X: Any,
        y: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        callback: Callback | None = None,
        init: Model | None = None,
    ) -> Self:
        """Train on labelled data.

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
            The training data, in one of the forms that the class describes. Iterated once.
        y : iterable of iterables or None, default None
            The outputs of each sentence, one per token. None if the file or corpus X has them.
        X_val, y_val : like X and y, default None
            Validation data. The model is scored on them after each pass and the best one is kept;
            training ends after `patience` passes without a better one. Probabilities are calibrated
            on them, too.
        callback : callable or None, default None
            Called with a `Progress` after each pass; training ends if it returns a true value.
        init : Model or None, default None
            A model to start from, as `train --from` does: `load` or `model_` gives one. None: with
            `warm_start` the model of the last fit.

        Returns
        -------
        self
        """
        self._check_parameters()
        options = self._options()
        if options.method != "auto":
            options = options.checked(lambda name: RENAMED.get(name, name))
        if init is None and self.warm_start:
            init = getattr(self, "model_", None)
        if self.threads is not None:
            pool.set_threads(self.threads)
        began = time.perf_counter()
        data = self._data(X)
        if self._alone and (width := _width(X)):
            self.n_features_in_ = width
        if not data.corpus.tokens:
            unit = "item" if self._alone else "token"
            raise FormatError("X", None, f"expected at least one {unit}, got none")
        corpus, originals = self._labelled(data, y)
        templates = self._template_set(data)
        if data.dicts and options.context:
            raise IncompatibleError("context needs rows of cells with the word first: X has feature dicts")
        validation = None
        if X_val is not None:
            validation, _ = self._labelled(self._data(X_val), y_val)
            if data.corpus.names:  # the columns of the training data
                validation = aligned(validation, data.corpus.names)
        facts: dict[str, Any] = {}
        if options.method == "auto":
            found = searched(corpus, templates, options, task_of(options.task), validation)
            options, facts = replace(found.chosen.options, context=options.context), {"search": found.facts()}
        self.validation_scores_: list[float] = []
        latest: float | None = None

        def validate(model: Model) -> float:
            nonlocal latest
            assert validation is not None
            latest = self._score(validation, model.predict(validation), model.labels)
            return latest

        def on_pass(record: Record) -> bool:
            if latest is not None:
                self.validation_scores_.append(latest)
            progress = Progress(record, time.perf_counter() - began, latest)
            if self.verbose:
                print(progress)
            return bool(callback and callback(progress))

        training = train(
            corpus,
            templates,
            options,
            on_pass,
            dataset=shared_encoding(data, templates, options, len(corpus.labels)),
            validate=None if validation is None else validate,
            patience=self.patience,
            init=init,
        )
        if data.dicts:
            facts |= {"dicts": True} | ({} if data.groups is None else {"groups": data.groups})
        model = replace(training.model, facts=training.model.facts | facts)
        model = self._completed(model, corpus, options)
        if validation is not None:
            with suppress(MtlError):  # data without a known label give no temperature
                model = with_temperature(model, validation)
        self._set_model(model, [originals.get(label, label) for label in model.labels])
        return self

    def predict(self, X: Any, constraints: Constraints | None = None) -> Any:
        """Return the best outputs of each sentence, or the class of each item.

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
            The sentences or items to predict, in one of the forms that `fit` takes.
        constraints : Constraints or None, default None
            Which labels, or pairs of labels, are allowed, such as
            `Constraints.valid_chunks(model_.labels)`; all by default.

        Returns
        -------
        list of lists, or ndarray
            One output per token of each sentence. StructuredClassifier: one class per item.
        """
        return self._model(X).predict(X, constraints, names=self._names)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the quality of predictions; the notes of the class name the measure.

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
            The sentences or items to predict, in one of the forms that `fit` takes.
        y : iterable of iterables or None, default None
            The right outputs. None if the file or corpus X has them.

        Returns
        -------
        float
            From 0 to 1.
        """
        model = self._model(X)
        data = data_for(model, X, alone=self._alone)
        gold, _ = self._labelled(data, y)
        return self._score(gold, model.predict(gold), model.labels)

    def save(self, path: str | Path) -> None:
        """Write the model file, which `load`, `mtlstruct.load` and the command line read.

        Parameters
        ----------
        path : str or Path
            The file to write.
        """
        self._model().save(path)

    @classmethod
    def load(cls, path: str | Path | bytes | IO[bytes]) -> Self:
        """Return an estimator with the model of a file.

        Parameters
        ----------
        path : str, Path, bytes or binary file
            A model file, its bytes, or a file object.

        Returns
        -------
        estimator
            A fitted estimator; parameters that the file does not have are at their defaults.

        Raises
        ------
        IncompatibleError
            If the model is for another task.
        """
        model = load_model(path)
        if cls._task not in (model.task, "multiclass" if model.alone else "sequence" if model.labels else ""):
            name = path if isinstance(path, str | Path) else "the model"
            raise IncompatibleError(f"{name}: a model for {model.task}, expected one for {cls._task}")
        found = cls(method=model.facts["method"], c=model.facts["c"])
        if "loss" in found.get_params():
            found.set_params(loss=model.facts.get("loss"))
        if model.first is not None:
            found.set_params(templates=model.first.templates, context=True)
        elif not model.takes_dicts:
            found.set_params(templates=model.templates)
        found._set_model(model, list(model.labels))
        return found

    @property
    def template_weights_(self) -> list[dict[str, Any]]:
        """The templates, largest weight first, as dicts.

        The keys are name, text, mu, relative, norm, features, rank and index. The name of a
        template of feature dicts is its key. `pandas.DataFrame` makes a table of the list.
        """
        model = self._model()
        rows = [dict(vars(weight)) for weight in model.template_weights()]
        for row in rows:
            terms = model.templates[row["index"]].terms
            if model.takes_dicts and terms:
                row["name"] = model.names[terms[0].column]
        return rows

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that X is no matrix and that y is required."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.no_validation = True
        return tags

    def _labelled(self, data: InputData, y: Any) -> tuple[Corpus, Mapping[str, Any]]:
        """Return the corpus with its outputs, and the labels that were no text, by their text."""
        if y is None:
            if data.corpus.outputs is None:
                raise FormatError("y", None, f"expected {self._outputs}, got none")
            return data.corpus, {}
        check_iterable("y", y, self._outputs)
        return self._with_outputs(data, y)

    def _with_outputs(self, data: InputData, y: Any) -> tuple[Corpus, Mapping[str, Any]]:
        if self._alone:
            y = [[label] for label in (column_or_1d(y, warn=True).tolist() if hasattr(y, "shape") else y)]
        texts, originals = _label_texts(y)
        outputs, labels = label_outputs(label_column(texts, data.lengths))
        return replace(data.corpus, outputs=outputs, labels=labels), originals

    def _completed(self, model: Model, corpus: Corpus, options: Options) -> Model:
        """Return the model with a second stage, if it has one."""
        return model

    def _score(self, gold: Corpus, outputs: NDArray[np.int32], labels: Sequence[str]) -> float:
        """Return the main score of the task, from 0 to 1: the accuracy if there are no chunks."""
        task = task_of(self._task)
        scores = task.score(gold, outputs, labels)
        return float(scores.as_dict()["accuracy" if without_chunks(scores) else task.scores[0]]) / 100

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
        values["task"] = given.get("structure", self._task)
        return Options(**values, seed=0 if self.random_state is None else self.random_state)

    def _check_parameters(self) -> None:
        """Raise an error for a wrong value of a parameter that is no option of training."""
        for name in ("patience", "threads"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), int, (1, MAX_COUNT))
        check_number("warm_start", self.warm_start, bool)
        if type(self.verbose) is not bool:  # 0 and 1 as elsewhere in scikit-learn
            check_number("verbose", self.verbose, int, (0, MAX_COUNT))
        weights = getattr(self, "loss_weights", None)
        if weights is not None and not isinstance(weights, Mapping):
            raise IncompatibleError(f"loss_weights: expected a dict from labels to numbers, got {weights!r}")
        for name, kinds, expected in (
            ("columns", (), "a list of names"),
            ("templates", (TemplateSet, str, Path), TEMPLATES),
            ("label_templates", (TemplateSet, str, Path), TEMPLATES),
        ):
            given = getattr(self, name, None)
            if given is not None and not isinstance(given, kinds) and not _are_words(given):
                raise IncompatibleError(f"{name}: expected {expected}, got {given!r}")

    def _set_model(self, model: Model, names: list[Any]) -> None:
        """Store a model and what its labels stand for; classes of items are sorted by value."""
        self.model_, self._names = model, names
        self.classes_: Any = np.unique(names) if self._alone else names
        for name, fact in (("gap_", "gap"), ("objective_", "objective"), ("n_iter_", "passes")):
            if fact in model.facts:  # models of other programs have none
                setattr(self, name, model.facts[fact])

    def _model(self, X: Any = None) -> Model:
        """Return the model; raise if there is none, or if X is a matrix of another width."""
        if not hasattr(self, "model_"):  # the check takes longer than the prediction of a sentence
            check_is_fitted(self, "model_")
        if self._alone and _width(X) not in (0, expected := getattr(self, "n_features_in_", _width(X))):
            raise IncompatibleError(f"X: expected a matrix of {expected} columns, got {_width(X)}")
        model: Model = self.model_
        return model

    def _data(self, X: Any) -> InputData:
        columns = getattr(self, "columns", None) or (None if self.templates is None else True)
        grouping: Grouping = getattr(self, "group_by", None)
        return data_of(X, columns=columns, group_by=grouping, alone=self._alone, task=self._task)

    def _template_set(self, data: InputData) -> TemplateSet:
        """Return the templates, by default one per key of the feature dicts."""
        if self.templates is not None:
            return template_set(self.templates)
        if not data.dicts:
            raise IncompatibleError("templates: expected some, since X has no feature dicts")
        if not data.corpus.names:
            raise FormatError("X", None, "expected feature dicts with at least one feature, got none")
        options = self._options()
        check_groups(data.corpus.names, options.method)
        return of_keys(data.corpus.names, transitions=options.structure == "sequence")


def _label_texts(y: Iterable[Iterable[Any]]) -> tuple[list[list[str]], dict[str, Any]]:
    """Return labels as text, and the labels that are no text, by their text."""
    originals: dict[str, Any] = {}
    texts = []
    for number, sentence in enumerate(y, 1):
        check_iterable("y", sentence, f"a list of labels for sentence {number}")
        labels = sentence.tolist() if isinstance(sentence, np.ndarray) else list(sentence)
        texts.append([label if type(label) is str else str(label) for label in labels])
        for text, label in zip(texts[-1], labels, strict=True):
            if text is not label and originals.setdefault(text, label) != label:
                got = f"{originals[text]!r} and {label!r}"
                raise FormatError("y", None, f"expected labels that differ as text, got {got}")
    return texts, originals


def template_set(given: TemplateSet | str | Path | Sequence[str]) -> TemplateSet:
    """Return a template set, that of a file, or that of lines."""
    if isinstance(given, TemplateSet):
        return given
    return TemplateSet.read(given) if isinstance(given, str | Path) else TemplateSet.parse("\n".join(given))


def _are_words(value: Any) -> bool:
    words = isinstance(value, Iterable) and not isinstance(value, str | Iterator)
    return words and all(isinstance(word, str) for word in value)


def _width(X: Any) -> int:
    """Return the number of columns of a matrix, 0 for other data."""
    return int(X.shape[1]) if len(getattr(X, "shape", ())) == 2 else 0


def check_iterable(name: str, value: Any, what: str) -> None:
    """Raise an error for data that are not iterable; `what` names the expected contents."""
    if not isinstance(value, Iterable):
        raise FormatError(name, None, f"expected {what}, got {value!r}")


def shared_encoding(
    data: InputData, templates: TemplateSet, options: Options, n_labels: int
) -> EncodedDataset | None:
    """Return the encoding of a part of some `Sentences`, cut out of the encoding of the whole.

    None where X is no such part, or repeats or reorders sentences. The whole stores the encoding
    that was used last.
    """
    whole, chosen = data.whole, data.chosen
    if whole is None or chosen is None or not task_of(options.task).divisible or np.any(np.diff(chosen) <= 0):
        return None
    key = (templates, *(getattr(options, name) for name in ENCODING))
    corpus, structure = whole.corpus, structure_for(options.task, options.structure)
    if whole.encoded is None or whole.encoded[0] != key:
        whole.encoded = None  # free the old encoding before the new one is made
        labelled = replace(corpus, outputs=np.zeros(corpus.tokens, np.int32), labels=("a", "b"))
        whole.encoded = key, encode(labelled, templates, options)
    dataset: EncodedDataset = whole.encoded[1]
    encoded = dataset.encoded
    if len(chosen) < len(corpus):
        encoded = subset(encoded, chosen, structure(2).sites(corpus.ptr), options.min_count)
    return replace(dataset, encoded=encoded, structure=structure(n_labels))
