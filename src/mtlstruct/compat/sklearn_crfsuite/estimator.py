"""CRF: the estimator of sklearn-crfsuite on top of `compat.pycrfsuite`."""

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from mtlstruct.compat import pycrfsuite
from mtlstruct.compat.sklearn_crfsuite import metrics
from mtlstruct.errors import IncompatibleError

PARAMETERS = {"min_freq": "feature.minfreq", "pa_type": "type"} | {
    f"all_possible_{name}": f"feature.possible_{name}" for name in ("states", "transitions")
}
"""Parameters whose name in python-crfsuite is another; calibration_x is calibration.x there."""


class LinePerIterationTrainer(pycrfsuite.Trainer):
    """Trainer that prints a line per iteration."""

    def on_iteration(self, log: str, info: Any = None) -> None:
        """Print the figures of an iteration."""
        text = f"Iter {info['num']:<3} time={info['time']:<5.2f} loss={info['loss']:<8.2f}"
        if "active_features" in info:
            text += f" active={info['active_features']:<5} feature_norm={info['feature_norm']:<8.2f}"
        if "avg_f1" in info:
            text += f" precision={info['avg_precision']:.3f} recall={info['avg_recall']:.3f}"
            text += f" F1={info['avg_f1']:.3f} accuracy={info['item_accuracy_float']:.3f}"
        print(text.rstrip())


class ModelFile:
    """The model file of an estimator: one with a name, or a temporary one with the contents."""

    def __init__(self, name: str | None, keep: bool) -> None:
        self.name, self.auto, self.keep = name, name is None, keep

    def refresh(self) -> None:
        """Take a new temporary file, unless the file has a name."""
        if self.auto:
            handle, self.name = tempfile.mkstemp(suffix=".mtl", prefix="model")
            os.close(handle)
            if not self.keep:
                weakref.finalize(self, _remove, self.name)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if self.auto and self.name is not None:
            with open(self.name, "rb") as file:
                state |= {"name": None, "content": file.read()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        content = state.pop("content", None)
        vars(self).update(state)
        if content is not None:
            self.refresh()
            assert self.name is not None
            with open(self.name, "wb") as file:
                file.write(content)


def _remove(name: str) -> None:
    with suppress(OSError):
        os.unlink(name)


def _of_dump(doc: str, value: Callable[[pycrfsuite.ParsedDump], Any]) -> Any:
    """Return a property of CRF that is computed from its dump; None before training."""
    return property(lambda crf: None if crf._info is None else value(crf._info), doc=doc)


class CRF(BaseEstimator):  # type: ignore[misc]
    """Conditional random field with the parameters and attributes of sklearn-crfsuite.

    Parameters
    ----------
    algorithm, c1, c2, c, max_iterations, period, delta : default None
        Algorithm and parameters of `pycrfsuite.Trainer`; None for CRFsuite's defaults.
    min_freq, all_possible_states, all_possible_transitions : default None
        Its parameters feature.minfreq, feature.possible_states and feature.possible_transitions.
    num_memories, epsilon, linesearch, max_linesearch, calibration_eta, calibration_rate,
    calibration_samples, calibration_candidates, calibration_max_trials, pa_type,
    error_sensitive, averaging, variance, gamma : default None
        Checked, but not used.
    verbose : bool, default False
        Whether training prints messages.
    model_filename : str, default None
        The model file to write, or to predict with; a temporary one if None.
    keep_tempfiles : bool, default False
        Whether temporary files stay.
    trainer_cls : class, default None
        A subclass of `pycrfsuite.Trainer`.
    """

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: int | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: type[pycrfsuite.Trainer] | None = None,
    ) -> None:
        given = locals()
        for name in self._get_param_names():
            setattr(self, name, given[name])
        self.modelfile = ModelFile(model_filename, keep_tempfiles)
        self.training_log_: pycrfsuite.TrainingLog | None = None
        self._tagger: pycrfsuite.Tagger | None = None
        self._dump: pycrfsuite.ParsedDump | None = None

    def fit(self, X: Iterable[Any], y: Iterable[Any], X_dev: Any = None, y_dev: Any = None) -> Self:
        """Train on sequences of feature dicts; X_dev and y_dev are scored after each iteration."""
        if (X_dev is None) != (y_dev is None):
            raise IncompatibleError("expected both X_dev and y_dev, or neither")
        trainer = self._trainer()
        for xseq, yseq in zip(X, y, strict=True):
            trainer.append(xseq, yseq)
        for xseq, yseq in () if X_dev is None else zip(X_dev, y_dev, strict=True):
            trainer.append(xseq, yseq, 1)
        self.modelfile.refresh()
        self._tagger = self._dump = None
        assert self.modelfile.name is not None
        trainer.train(self.modelfile.name, holdout=-1 if X_dev is None else 1)
        self.training_log_ = trainer.logparser
        return self

    def predict(self, X: Iterable[Any]) -> list[list[str]]:
        """Return the best labels of each sequence."""
        return [self.predict_single(xseq) for xseq in X]

    def predict_single(self, xseq: Sequence[Any]) -> list[str]:
        """Return the best labels of one sequence."""
        return self._fitted().tag(xseq)

    def predict_marginals(self, X: Iterable[Any]) -> list[list[dict[str, float]]]:
        """Return the probabilities of all labels at all positions of each sequence."""
        return [self.predict_marginals_single(xseq) for xseq in X]

    def predict_marginals_single(self, xseq: Sequence[Any]) -> list[dict[str, float]]:
        """Return the probabilities of all labels at all positions of one sequence."""
        self._fitted().set(xseq)
        return self._fitted().marginals()

    def score(self, X: Iterable[Any], y: Iterable[Any]) -> float:
        """Return the accuracy of labels."""
        return float(metrics.flat_accuracy_score(y, self.predict(X)))

    @property
    def tagger_(self) -> pycrfsuite.Tagger | None:
        """The tagger; None before training."""
        if self._tagger is None and self.modelfile.name is not None:
            tagger = pycrfsuite.Tagger()
            tagger.open(self.modelfile.name)
            self._tagger = tagger
        return self._tagger

    def __sklearn_is_fitted__(self) -> bool:
        """Tell `check_is_fitted`, which would take the attributes that are None for fitted ones."""
        return self.tagger_ is not None

    @property
    def classes_(self) -> list[str] | None:
        """The labels."""
        return None if self.tagger_ is None else self.tagger_.labels()

    size_ = _of_dump("Size of the model in bytes.", lambda found: int(found.header["size"]))
    num_attributes_ = _of_dump("Number of attributes with a weight.", lambda found: len(found.attributes))
    attributes_ = _of_dump("The attributes with a weight.", lambda found: list(found.attributes))
    state_features_ = _of_dump(
        "Weight of each pair of attribute and label.", lambda found: found.state_features
    )
    transition_features_ = _of_dump("Weight of each pair of labels.", lambda found: found.transitions)

    @property
    def _info(self) -> pycrfsuite.ParsedDump | None:
        if self._dump is None and self.tagger_ is not None:
            self._dump = self.tagger_.info()
        return self._dump

    def _fitted(self) -> pycrfsuite.Tagger:
        if (tagger := self.tagger_) is None:
            raise NotFittedError("the estimator has no model: call fit first, or give model_filename")
        return tagger

    def _trainer(self) -> pycrfsuite.Trainer:
        own = ("algorithm", "verbose", "model_filename", "keep_tempfiles", "trainer_cls")
        values = {
            PARAMETERS.get(name, name.replace("calibration_", "calibration.")): value
            for name, value in self.get_params(deep=False).items()
            if name not in own and value is not None
        }
        made = self.trainer_cls or LinePerIterationTrainer
        return made(algorithm=self.algorithm, params=values, verbose=self.verbose)

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self)) | {"_tagger": None, "_dump": None}
