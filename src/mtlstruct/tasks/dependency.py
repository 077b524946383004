"""Dependency trees: CoNLL-X and CoNLL-U files."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from mtlstruct.corpus import Corpus
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.evaluation.attachment import attachment_scores
from mtlstruct.evaluation.scores import Scores
from mtlstruct.formats import conll, text
from mtlstruct.model.lattice import Lattice, Outputs
from mtlstruct.model.model import Model
from mtlstruct.structures.base import Sites
from mtlstruct.structures.constraints import Constraints
from mtlstruct.structures.tree import TreeStructure
from mtlstruct.tasks.base import FileOptions, Names, OnBlanks, OutputOptions, Task, Words
from mtlstruct.tasks.sequence import check_same_words

TOKEN = re.compile(r"[0-9]+(?:\t[^\t]+){5}")
NO_TOKEN = re.compile(r"#|[0-9]+[-.][0-9]+\t")
"""The line of a CoNLL token; other lines: comments, ranges, empty nodes."""


class Dependency(Task):
    """A head for each token, and a relation if the model has a second stage."""

    minimum = "uas"
    scores = ("uas",)
    divisible = False
    longest_request = 500  # a tree has a score for every pair of words

    def read_file(self, path: Path | text.Part, options: FileOptions) -> Corpus:
        assert isinstance(path, Path)
        return conll.read(path, single_root=options.single_root, encoding=options.encoding)

    def _stream(
        self, model: Model, lines: BinaryIO, output: OutputOptions, note: OnBlanks, how: dict[str, Any]
    ) -> Iterator[Corpus]:
        return conll.stream(lines, **how)

    def check_options(self, output: OutputOptions, model: Model, path: Path) -> None:
        """Raise for options that are for labels."""
        super().check_options(output, model, path)
        if output.raw:
            raise IncompatibleError(f"--raw is for labels and words: {path} is for trees, of rows of columns")
        if output.partial:
            raise IncompatibleError(f"--partial is for labels and words: {path} is for trees")
        if output.scores == "all" or output.nbest is not None:
            raise IncompatibleError("all labels and N best are for labels: the model is one for trees")

    def sites(self, corpus: Corpus) -> tuple[Sites, ...]:
        return TreeStructure().sites(corpus.ptr)

    def format(self, model: Model, batch: Corpus, limits: Constraints | None, output: OutputOptions) -> str:
        """Return the lines of a batch with new heads, and new relations if there is a second stage.

        Probabilities are comments, "# probability = P" of a tree and "# head_probabilities = P P
        ..." of its heads.
        """
        if output.json:
            return super().format(model, batch, limits, output)
        lattice = model.lattice(batch, limits)
        heads, relations = lattice.best(), None
        if model.relations is not None:
            relations = text.named(model.relate(batch, heads), model.relations.labels)
        comments = _comments(model, lattice, heads) if output.scores else ()
        return conll.format_trees(batch, heads, relations, comments)

    def records(self, model: Model, batch: Corpus, outputs: Outputs) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [{"heads": outputs[span].tolist()} for span in batch.sentences()]
        if model.relations is not None:
            relations = text.named(model.relate(batch, outputs), model.relations.labels)
            for record, span in zip(found, batch.sentences(), strict=True):
                record["relations"] = relations[span]
        return found

    def score(
        self, gold: Corpus, outputs: Outputs, labels: Sequence[str], words: Words = None, arcs: Names = None
    ) -> Scores:
        both = None if arcs is None else (conll.relations(gold).cells(), arcs)
        return attachment_scores(gold, outputs, both)

    def score_files(self, gold: Path, predicted: Path, words: Words, options: FileOptions) -> Scores:
        right = conll.read(gold, encoding=options.encoding)
        ours = conll.read(predicted, trees=False, encoding=options.encoding)
        check_same_words(right, ours, gold, predicted, lambda token: int(ours.extra.tokens[token]) + 1)
        if right.ptr.tolist() != ours.ptr.tolist():
            problem = f"expected {len(right)} sentences of the lengths in {gold}, got {len(ours)} of others"
            raise FormatError(predicted, None, problem)
        assert ours.outputs is not None
        relations = conll.relations(right).cells(), conll.relations(ours).cells()
        return attachment_scores(right, ours.outputs, relations)

    def cells(self, lines: Sequence[str]) -> Iterator[list[str] | None]:
        """Yield the cells of each line, which may be a CoNLL line."""
        if not any(map(TOKEN.match, lines)):
            yield from super().cells(lines)
            return
        for line in lines:
            if TOKEN.match(line):
                yield line.split("\t")[1 : conll.HEAD]
            elif NO_TOKEN.match(line):
                yield None
            else:
                yield from super().cells([line])


def _comments(model: Model, lattice: Lattice, heads: Outputs) -> list[dict[str, str]]:
    """Return for each sentence the probabilities of its tree and of its heads."""
    marginals = lattice.marginals(model.temperature)
    trees = marginals.sequence(lattice.evaluate(heads)).tolist()
    chosen = [f"{p:.4f}" for p in marginals.chosen(heads).tolist()]
    spans = pairwise(lattice.ptr.tolist())
    return [
        {"probability": f"{tree:f}", "head_probabilities": " ".join(chosen[slice(*span)])}
        for tree, span in zip(trees, spans, strict=True)
    ]
