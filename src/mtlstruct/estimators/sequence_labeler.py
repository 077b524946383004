"""SequenceLabeler: a label for each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.estimators.base import Labelling, Templates
from mtlstruct.evaluation.scores import sequence_scores, without_chunks
from mtlstruct.formats.sentences import Data, Grouping, data_for
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options, Task


class SequenceLabeler(Labelling):
    """Labels for the tokens of sentences, from feature dicts or from templates, which weigh themselves.

    X is a list (or any iterable) of sentences; `Sentences` where one encoding is to serve many fits. Without
    `templates` a sentence is a list of feature dicts as sklearn-crfsuite takes them, and each key is a template. With
    templates it is a list of rows, a cell for each column, or of dicts from column names to cells. `fit`,
    `predict` and `score` also take the path of a column file, or a Corpus.

    Parameters
    ----------
    templates : TemplateSet, path, list of lines or None
        Where to look; None for feature dicts.
    method : str
        mtl weighs and drops templates, svm takes all alike, crf-l2 and crf-l1 maximise the likelihood; any row of
        `training.methods.METHODS`.
    c : float
        What errors cost against the norm of the weights.
    p : float, optional
        The exponent of pmtl and mixed.
    solver : str, optional
        None for the method's first.
    gap : float, optional
        Training ends at this relative duality gap; None for 0.01, or for what the method likes better.
    epsilon : float, optional
        Or at this R_emp − R_s, as the paper does.
    max_iter : int, optional
        Or after so many passes; None for 1,000, for mira 10, for online-mkl 20.
    min_count : int
        Attributes that are seen less often are left out.
    normalize : {"none", "nfkc"}
        The Unicode form in which cells are looked up.
    scaling : {"unit", "none"}
        Whether the real values of each template are brought to a mean square of 1 before training.
    label_support : {"all", "seen"}
        Whether an attribute has features with all labels, or with those it was seen with in training only.
    share_identical : bool
        Whether template lines that expand alike share their parameters.
    loss_weights : dict, optional
        What it costs to miss a label; 1 for labels that are not named.
    group_by : str, callable or None
        Puts keys of feature dicts into groups, each of which is then one template: a regular expression (its first
        group, or what it matches) or a function of the key.
    columns : sequence of str, optional
        The names of the columns of rows.
    structure : str
        The name of a structure of `structures.STRUCTURES` with one label a token; for structures of your own.
    random_state : int, optional
        Orders the visits of sentences; None is 0.
    patience : int, optional
        With validation data: so many passes without a better score end training; None: they do not.
    threads : int, optional
        How many threads to use from now on; None leaves that as it is.

    Attributes
    ----------
    model_ : Model
        What was learned; `save` writes it.
    classes_ : list
        The labels.
    template_weights_ : list of dict
        What each template is worth.
    gap_, objective_ : float
        The certificate.
    n_iter_ : int
        Passes.
    validation_scores_ : list of float
        The score after each pass, if there were validation data.

    Notes
    -----
    `score` is the F1 of chunks as conlleval counts them where all labels are O or begin with B-, I-, E-, S- and the
    like (BIO, IOB, BIOES), else the share of tokens that are right.

    Examples
    --------
    >>> from mtlstruct import SequenceLabeler
    >>> X = [[{"word": "Ann", "title": True}, {"word": "sleeps"}], [{"word": "Oslo", "title": True}]]
    >>> y = [["NAME", "O"], ["NAME"]]
    >>> SequenceLabeler().fit(X, y).predict([[{"word": "Bo", "title": True}]])
    [['NAME']]
    """

    _task = "sequence"

    def __init__(
        self,
        templates: Templates = None,
        *,
        method: str = "mtl",
        c: float = 1.0,
        p: float | None = None,
        solver: str | None = None,
        gap: float | None = None,
        epsilon: float | None = None,
        max_iter: int | None = None,
        min_count: int = 1,
        normalize: str = "none",
        scaling: str = "unit",
        label_support: str = "all",
        share_identical: bool = False,
        loss_weights: Mapping[Any, float] | None = None,
        group_by: Grouping = None,
        columns: Sequence[str] | None = None,
        structure: str = "sequence",
        random_state: int | None = 0,
        patience: int | None = None,
        threads: int | None = None,
    ) -> None:
        self._set(locals())

    def predict_marginals(self, X: Any) -> list[list[dict[Any, float]]]:
        """Return how probable each label of each token is.

        Probabilities are calibrated if the method is a likelihood (crf-l2 and others), or if `fit` was given X_val,
        on which it then fitted a temperature. Otherwise an UncalibratedWarning says that they are not reliable.

        Parameters
        ----------
        X : like that of `fit`

        Returns
        -------
        list of lists of dicts
            For each token, from label to probability.
        """
        model = self._model()
        data = data_for(model, X)
        return data.named_marginals(model.marginals(data.corpus).node, self.classes_)

    def _options(self) -> Options:
        return replace(super()._options(), task=cast(Task, self.structure))

    def _lines(self, data: Data) -> TemplateSet:
        nodes = super()._lines(data)
        return TemplateSet.parse(nodes.text() + "B") if self.structure == "sequence" else nodes

    def _quality(self, gold: Corpus, found: NDArray[np.int32], labels: Sequence[str]) -> float:
        assert gold.outputs is not None
        right = [[gold.labels[i] for i in gold.outputs[span].tolist()] for span in gold.sentences()]
        ours = [[labels[i] for i in found[span].tolist()] for span in gold.sentences()]
        scores = sequence_scores(right, ours, (*labels, *gold.labels))
        return float(scores.as_dict()["accuracy" if without_chunks(scores) else "f1"]) / 100
