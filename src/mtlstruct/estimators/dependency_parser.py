"""DependencyParser: one head per token."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus
from mtlstruct.errors import FormatError
from mtlstruct.estimators.base import StructuredEstimator, Templates, check_iterable, template_set
from mtlstruct.estimators.parameters import documented
from mtlstruct.formats import conll, text
from mtlstruct.formats.sentences import InputData, data_for, data_of
from mtlstruct.model.model import Model
from mtlstruct.structures.constraints import Constraints
from mtlstruct.templates import TemplateSet, preset
from mtlstruct.training.arc_labels import train_labels
from mtlstruct.training.options import Options


@documented
class DependencyParser(StructuredEstimator):
    """Predict dependency trees from templates of arcs, with a weight per template.

    X is a list of sentences. A token is a row of the CoNLL-X columns form, lemma, cpos, pos and
    feats (or of `columns`), or a dict from such names to cells, which may be numbers. y has the
    number of each token's head: 1 for the first token, 0 for the root; with `labels` it has pairs
    (head, relation), and so has the result of `predict`. X may also be the path of a CoNLL-X or
    CoNLL-U file, or a Corpus read from one.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Notes
    -----
    `score` returns the unlabelled attachment score: the share of tokens with the right head,
    punctuation left out.
    """

    _task = "dependency"
    _outputs = "heads"

    def __init__(
        self,
        templates: Templates = None,
        *,
        method: str = Options.method,
        c: float | None = Options.c,
        p: float | None = Options.p,
        solver: str | None = Options.solver,
        gap: float | None = Options.gap,
        epsilon: float | None = Options.epsilon,
        max_iter: int | None = Options.max_iter,
        min_count: int = Options.min_count,
        normalize: str = Options.normalize,
        scaling: str = Options.scaling,
        columns: Sequence[str] | None = None,
        projective: bool = Options.projective,
        single_root: bool = Options.single_root,
        labels: bool = Options.labels,
        label_templates: Templates = None,
        random_state: int | None = 0,
        patience: int | None = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        threads: int | None = None,
    ) -> None:
        self._set(locals())

    def _template_set(self, data: InputData) -> TemplateSet:
        return preset("dependency") if self.templates is None else template_set(self.templates)

    def _data(self, X: Any) -> InputData:
        found = data_of(X, columns=self.columns or True, task="dependency")
        corpus = found.corpus
        if not corpus.names and len(corpus.columns) == len(conll.OBSERVED):
            found = replace(found, corpus=replace(corpus, names=conll.OBSERVED))
        return found

    def predict(self, X: Any, constraints: Constraints | None = None) -> Any:
        """Return the head of each token, or with arc labels pairs (head, relation).

        Parameters
        ----------
        X : iterable of sentences, Sentences, path or Corpus
            The sentences to parse, in one of the forms that `fit` takes.
        constraints : None
            Trees have no constraints.

        Returns
        -------
        list of lists
            One head, or pair, per token of each sentence.
        """
        model = self._model()
        if model.relations is None:
            return super().predict(X, constraints)
        data = data_for(model, X)
        heads = model.lattice(data.corpus, constraints).best()
        relations = text.named(model.relate(data.corpus, heads), model.relations.labels)
        return data.by_sentence(list(zip(heads.tolist(), relations, strict=True)))

    def _with_outputs(self, data: InputData, y: Any) -> tuple[Corpus, Mapping[str, Any]]:
        heads, relations = _split_pairs(y)
        outputs = _heads(heads, data.lengths, self.single_root)
        return replace(data.corpus, outputs=outputs, extra=relations), {}

    def _completed(self, model: Model, corpus: Corpus, options: Options) -> Model:
        """Train the labels of arcs, if there are to be some."""
        if not options.labels:
            return model
        relations = conll.relations(corpus) if isinstance(corpus.extra, conll.Sheet) else corpus.extra
        if relations is None:
            raise FormatError("y", None, "expected pairs (head, relation), since labels is True")
        given = self.label_templates
        templates = preset("dependency-labels") if given is None else template_set(given)
        return replace(model, relations=train_labels(corpus, relations, templates, options).model)


def _split_pairs(y: Any) -> tuple[Any, Column | None]:
    """Return the heads of pairs (head, relation), and the relations; heads alone as they are."""
    sentences = [list(given) if isinstance(given, Iterable) else given for given in y]
    tokens = [token for given in sentences if isinstance(given, list) for token in given]
    if not tokens or not all(isinstance(token, tuple | list) and len(token) == 2 for token in tokens):
        return sentences, None
    relations = text.column([str(relation) for _, relation in tokens])
    return [[head for head, _ in given] for given in sentences], relations


def _heads(y: Sequence[Sequence[int]], lengths: NDArray[np.int64], single_root: bool) -> NDArray[np.int32]:
    """Return the heads of all tokens; raise if those of a sentence are no tree."""
    for number, heads in enumerate(y, 1):
        check_iterable("y", heads, f"a list of heads for sentence {number}")
    if len(y) != len(lengths):
        raise FormatError("y", None, f"expected heads for {len(lengths)} sentences, got {len(y)}")
    for number, (heads, length) in enumerate(zip(y, lengths.tolist(), strict=True), 1):
        if len(heads) != length:
            raise FormatError("y", None, f"sentence {number}: expected {length} heads, got {len(heads)}")
        for token, head in enumerate(heads, 1):
            if not isinstance(head, int | np.integer) or not 0 <= head <= length or head == token:
                problem = f"expected a head from 0 to {length} other than the token itself, got {head!r}"
                raise FormatError("y", None, f"sentence {number}, token {token}: {problem}")
        wrong = conll.tree_problem(heads, single_root)
        if wrong is not None:
            raise FormatError("y", None, f"sentence {number}, token {wrong[0]}: {wrong[1]}")
    return np.array([head for heads in y for head in heads], np.int32)
