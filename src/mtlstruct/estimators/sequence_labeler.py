"""SequenceLabeler: one label per token."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtlstruct.estimators.base import StructuredEstimator, Templates
from mtlstruct.estimators.parameters import documented
from mtlstruct.formats.sentences import Grouping, data_for
from mtlstruct.model.model import nbest_labels
from mtlstruct.training.options import Options


@documented
class SequenceLabeler(StructuredEstimator):
    """Label the tokens of sentences from feature dicts or templates, with a weight per template.

    X is an iterable of sentences, or `Sentences` to share one encoding among many fits. Without
    `templates` a sentence is a list of feature dicts, as in sklearn-crfsuite, and each key is a
    template. With templates it is a list of rows (one cell per column) or of dicts from column
    names to cells. X may also be the path of a column file, or a Corpus.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Notes
    -----
    `score` returns the F1 of chunks, counted as conlleval does, if labels have a scheme (IOB1,
    IOB2, IOE, BIOES, BILOU, BMES, GROBID's); otherwise the accuracy of tokens.

    Examples
    --------
    >>> from mtlstruct import SequenceLabeler
    >>> X = [[{"word": "Ann", "title": True}, {"word": "runs"}], [{"word": "Oslo", "title": True}]]
    >>> y = [["NAME", "O"], ["NAME"]]
    >>> SequenceLabeler().fit(X, y).predict([[{"word": "Bo", "title": True}]])
    [['NAME']]
    """

    _task = "sequence"

    def __init__(
        self,
        templates: Templates = None,
        *,
        method: str = Options.method,
        loss: str | None = Options.loss,
        c: float | None = Options.c,
        p: float | None = Options.p,
        l1: float | None = Options.l1,
        l2: float | None = Options.l2,
        solver: str | None = Options.solver,
        gap: float | None = Options.gap,
        epsilon: float | None = Options.epsilon,
        eta: float | None = Options.eta,
        max_iter: int | None = Options.max_iter,
        min_count: int = Options.min_count,
        normalize: str = Options.normalize,
        scaling: str = Options.scaling,
        label_support: str = Options.label_support,
        transition_support: str = Options.transition_support,
        context: bool = Options.context,
        scheme: str = Options.scheme,
        share_identical: bool = Options.share_identical,
        loss_weights: Mapping[Any, float] | None = None,
        group_by: Grouping = None,
        columns: Sequence[str] | None = None,
        structure: str = "sequence",
        random_state: int | None = 0,
        patience: int | None = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        threads: int | None = None,
    ) -> None:
        self._set(locals())

    def predict_marginals(self, X: Any) -> list[list[dict[Any, float]]]:
        """Return the probability of each label of each token.

        Probabilities are calibrated if the loss is the log loss, the default of most methods, or if
        `fit` was given X_val, on which it then fits a temperature. Otherwise an UncalibratedWarning
        is given.

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
            The sentences to label.

        Returns
        -------
        list of lists of dicts
            For each token of each sentence, from label to probability.
        """
        return self._model().predict_marginals(X, self.classes_)

    def predict_nbest(self, X: Any, n: int) -> list[list[tuple[list[Any], float]]]:
        """Return the n best labellings of each sentence with their probabilities.

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
            The sentences to label.
        n : int
            The number of labellings.

        Returns
        -------
        list of lists of (labels, probability)
            For each sentence, best first; fewer than n if it has fewer labellings.
        """
        model = self._model()
        data, names = data_for(model, X), dict(zip(model.labels, self.classes_, strict=True))
        ranked = iter(nbest_labels(model, data.corpus, model.lattice(data.corpus), n))
        return [
            [([names[label] for label in labels], p) for labels, p in next(ranked)] if full else [([], 1.0)]
            for full in data.nonempty.tolist()
        ]

    def sequence_probability(self, X: Any, y: Any = None) -> list[float]:
        """Return the probability of a whole labelling of each sentence.

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
            The sentences.
        y : iterable of iterables or None, default None
            A label for each token. None: the best labels, those that `predict` returns.

        Returns
        -------
        list of float
            One probability per sentence; 0 if a label is unknown to the model.
        """
        model = self._model()
        model.warn_uncalibrated()
        data = data_for(model, X)
        lattice = model.lattice(data.corpus)
        outputs = lattice.best()
        if y is not None:
            given = self._labelled(data, y)[0].relabelled(model.labels).outputs
            assert given is not None
            outputs = given
        known = np.minimum.reduceat(outputs, data.corpus.ptr[:-1]) >= 0 if len(data.corpus) else np.zeros(0)
        values = lattice.evaluate(np.maximum(outputs, 0))
        found = np.ones(len(data.nonempty))
        found[data.nonempty] = lattice.marginals(model.temperature).sequence(values) * known
        return [float(p) for p in found]
