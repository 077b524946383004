"""Dependency trees: CoNLL-X and CoNLL-U files."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from mtlstruct.corpus import Corpus
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.evaluation.scores import Scores, tree_scores
from mtlstruct.formats import conll, text
from mtlstruct.model.lattice import Lattice, Outputs
from mtlstruct.model.model import Model
from mtlstruct.structures.base import Sites
from mtlstruct.structures.tree import TreeStructure
from mtlstruct.tasks.base import UTF8, Form, Names, Note, Rows, Task, Wanted, Words
from mtlstruct.tasks.sequence import different

TOKEN = re.compile(r"[0-9]+(?:\t[^\t]+){5}")
NO_TOKEN = re.compile(r"#|[0-9]+[-.][0-9]+\t")
"""A line of a CoNLL token; lines among such that are no tokens: comments, ranges, empty nodes."""

OBSERVED = 6
"""The cells of a CoNLL line up to the last that templates may look at; the first is a number."""


class Dependency(Task):
    """A head for each token, and a relation if the model has a second stage."""

    minimum = "uas"
    scores = ("uas", "accuracy")
    divisible = False
    longest_request = 500  # a tree has a score for every pair of words

    def read(self, path: Path, form: Form = UTF8) -> Corpus:
        """Read a file of trees; folders are rejected."""
        if path.is_dir():
            raise IncompatibleError(f"{path}: expected a file: trees are not read from folders")
        return self.read_file(path, form)

    def read_file(self, path: Path | text.Part, form: Form) -> Corpus:
        assert isinstance(path, Path)
        return conll.read(path, single_root=form.single_root, encoding=form.encoding)

    def _stream(
        self, model: Model, lines: BinaryIO, wanted: Wanted, note: Note, how: dict[str, Any]
    ) -> Iterator[Corpus]:
        return conll.stream(lines, **how)

    def check(self, wanted: Wanted, model: Model, path: Path) -> None:
        """Raise an error for options that are for labels."""
        super().check(wanted, model, path)
        if wanted.partial:
            raise IncompatibleError(f"--partial is for labels and words: {path} is for trees")
        if wanted.scores == "all" or wanted.nbest is not None:
            raise IncompatibleError("all labels and N best are for labels: the model is one for trees")

    def sites(self, corpus: Corpus) -> tuple[Sites, ...]:
        return TreeStructure().sites(corpus.ptr)

    def format(self, model: Model, batch: Corpus, lattice: Lattice, wanted: Wanted) -> str:
        """Return the lines of a batch with new heads, and new relations if the model has a second stage.

        Probabilities are comments, "# probability = P" of a tree and "# head_probabilities = P P ..." of its heads.
        """
        out = io.StringIO()
        heads, relations = lattice.best(), None
        if model.relations is not None:
            relations = text.named(model.relate(batch, heads), model.relations.labels)
        comments = _comments(model, lattice, heads) if wanted.scores else ()
        conll.write(out, batch, None, heads, relations, comments)
        return out.getvalue()

    def score(
        self, gold: Corpus, outputs: Outputs, labels: Sequence[str], words: Words = None, arcs: Names = None
    ) -> Scores:
        both = None if arcs is None else (conll.relations(gold).cells(), arcs)
        return tree_scores(gold, outputs, both)

    def score_files(self, gold: Path, predicted: Path, words: Words, encoding: str) -> Scores:
        right = conll.read(gold, encoding=encoding)
        ours = conll.read(predicted, trees=False, encoding=encoding)
        _check_same_words(right, ours, gold, predicted)
        assert ours.outputs is not None
        relations = conll.relations(right).cells(), conll.relations(ours).cells()
        return tree_scores(right, ours.outputs, relations)

    def cells(self, lines: Sequence[str]) -> Iterator[list[str] | None]:
        """Yield the cells of each line, which may be a CoNLL line."""
        if not any(map(TOKEN.match, lines)):
            yield from super().cells(lines)
            return
        for line in lines:
            if TOKEN.match(line):
                yield line.split("\t")[1:OBSERVED]
            elif NO_TOKEN.match(line):
                yield None
            else:
                yield from super().cells([line])

    def answer(self, model: Model, rows: Rows, runs: Sequence[int], outputs: Outputs) -> dict[str, Any]:
        pairs = zip(rows, outputs.tolist(), strict=True)
        tokens = [
            {"cells": list(row), "head": head, "head_word": rows[head - 1][0] if head else "ROOT"}
            for row, head in pairs
        ]
        return {"tokens": tokens}


def _comments(model: Model, lattice: Lattice, heads: Outputs) -> list[dict[str, str]]:
    """Return for each sentence how probable its tree is, and each of its heads."""
    marginals = lattice.marginals(model.temperature)
    trees = marginals.sequence(lattice.evaluate(heads)).tolist()
    chosen = [f"{p:.4f}" for p in marginals.chosen(heads).tolist()]
    spans = pairwise(lattice.ptr.tolist())
    return [
        {"probability": f"{tree:f}", "head_probabilities": " ".join(chosen[slice(*span)])}
        for tree, span in zip(trees, spans, strict=True)
    ]


def _check_same_words(right: Corpus, ours: Corpus, gold: Path, predicted: Path) -> None:
    """Raise an error unless both have the same words in the same sentences."""
    token = different(right, ours)
    if token is not None:
        expected, got = (corpus.columns[0].cells()[token] for corpus in (right, ours))
        problem = f"expected the word {expected!r} as in {gold}, got {got!r}"
        raise FormatError(predicted, int(ours.extra.tokens[token]) + 1, problem)
    if right.ptr.tolist() != ours.ptr.tolist():
        problem = f"expected {len(right)} sentences of the lengths in {gold}, got {len(ours)} of others"
        raise FormatError(predicted, None, problem)
