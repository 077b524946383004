"""The interface of a task, with the implementation for tasks that predict labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.evaluation.scores import Scores
from mtlstruct.formats import jsonl, partition, text
from mtlstruct.formats.columns import SPACES, CellFormat
from mtlstruct.model.lattice import Lattice, Marginals, Outputs, Ranked
from mtlstruct.model.model import Model
from mtlstruct.structures.base import Sites
from mtlstruct.structures.constraints import Constraints
from mtlstruct.structures.schemes import chunk_spans
from mtlstruct.structures.sequence import SequenceStructure
from mtlstruct.tasks.plain_text import WORD, RawText, takes_text, used_columns

BATCH_TOKENS = 20_000
"""The default number of tokens per batch of `stream`."""

CONTEXT_TOKENS = 10_000_000
"""The number of tokens per batch where labels depend on the sentences around."""

OnBlanks = Callable[[int], None] | None
Words = Set[str] | None
Names = list[str] | None
Texts = list[str]
Scored = tuple[Lattice, Marginals]
Record = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class FileOptions:
    """The format of labelled files; `columns`: the number of observation columns, 0 if unknown."""

    encoding: str = "utf-8"
    tags: str = "bie"
    columns: int = 0
    single_root: bool = False
    cells: CellFormat = SPACES


@dataclass(frozen=True)
class OutputOptions:
    """The output of `predict`.

    scores    write probabilities: of the chosen labels (best), or of all labels of each token (all)
    nbest     the number of labelings of each sentence; None for the best without a rank
    raw       plain text is cut into tokens; blanks of text to be segmented stay boundaries
    partial   labels or blanks of the input are constraints
    json      one JSON object per sentence
    size      tokens per batch
    """

    scores: Literal["best", "all"] | None = None
    nbest: int | None = None
    raw: bool = False
    partial: bool = False
    json: bool = False
    size: int = BATCH_TOKENS

    @property
    def probabilities(self) -> bool:
        """Whether any probability is written."""
        return self.scores is not None or self.nbest is not None


@dataclass(frozen=True)
class Source:
    """An input of `predict`: its bytes, its name for messages, its encoding."""

    lines: BinaryIO
    name: str
    encoding: str = "utf-8"


class Task:
    """All differences between tasks other than the structure."""

    unit = "sentence"
    token_unit = "tokens"
    minimum = "f1"
    """The score that `score --min` compares."""
    scores: tuple[str, ...] = ("f1", "accuracy")
    """The scores by which models may be compared: the first that is not 0 for all."""
    divisible = True
    """Whether encoded data can be split into parts."""
    ends_at_blank_line = True
    """Whether a sentence of a file ends at a blank line, not at each line."""
    longest_request = 2_000
    """The largest number of tokens of a sentence that a server accepts."""

    def __init__(self, name: str) -> None:
        self.name = name

    # Reading -------------------------------------------------------------------------------------

    def read(self, path: Path, options: FileOptions = FileOptions()) -> Corpus:
        """Read a labelled file, or the files of a folder as one corpus."""
        if path.is_dir() and not self.divisible:
            raise IncompatibleError(f"{path}: expected a file: trees are not read from folders")
        return partition.read(partition.files_of(path), lambda file: self.read_file(file, options))

    def read_file(self, path: Path | text.Part, options: FileOptions) -> Corpus:
        """Read a labelled file."""
        raise NotImplementedError

    def read_for(self, model: Model, path: Path, encoding: str | None = None) -> Corpus:
        """Read a labelled file with the columns of a model; None: in the model's encoding."""
        encoding = encoding or model.encoding
        if model.takes_dicts:
            return jsonl.read(path, encoding=encoding, **dict_keys(model))
        form = FileOptions(encoding, model.tags, model.columns, cells=model.cell_format)
        return self.read_file(path, form)

    def stream(
        self,
        model: Model,
        source: Source,
        output: OutputOptions = OutputOptions(),
        on_blanks: Callable[[str, int], None] | None = None,
    ) -> Iterator[Corpus]:
        """Yield batches of whole sentences of an unlabelled input as they are read.

        `on_blanks` is called once with the name of the input and the first line whose blanks are
        dropped.
        """
        how: dict[str, Any] = {"source": source.name, "encoding": source.encoding}
        how["batch_tokens"] = output.size if model.first is None else CONTEXT_TOKENS
        if model.takes_dicts:
            return jsonl.stream(source.lines, **how, **dict_keys(model))
        note = None if on_blanks is None else partial(on_blanks, source.name)
        return self._stream(model, source.lines, output, note, how)

    def _stream(
        self, model: Model, lines: BinaryIO, output: OutputOptions, note: OnBlanks, how: dict[str, Any]
    ) -> Iterator[Corpus]:
        raise NotImplementedError

    def check_options(self, output: OutputOptions, model: Model, path: Path) -> None:
        """Raise for options of `predict` that the model of a file does not have."""
        if output.raw and not takes_text(model):
            names = [model.names[n] if model.names else f"column {n}" for n in used_columns(model)]
            more = "feature dicts" if model.takes_dicts else ", ".join(names)
            raise IncompatibleError(f"--raw is for models that use only the word: {path} uses {more}")
        if output.raw and output.partial:
            raise IncompatibleError("--raw, --partial: expected one of them")
        if output.partial and model.takes_dicts:
            raise IncompatibleError("--partial is for columns and text: the model takes JSON lines of dicts")

    def partial_constraints(self, model: Model, batch: Corpus) -> Constraints:
        """Return constraints that keep the labels, or the word ends, of the input."""
        outputs = batch.relabelled(model.labels).outputs
        assert outputs is not None
        return Constraints.from_labels(outputs, len(model.labels))

    def summary(self, corpus: Corpus) -> str:
        """Return the size of labelled data in a few words."""
        labels = f", {len(corpus.labels)} labels" if corpus.labels else ""
        return f"{len(corpus):,} sentences, {corpus.tokens:,} tokens{labels}"

    def warning(self, corpus: Corpus) -> str | None:
        """Return a warning about labelled data of another format, if they look like that."""
        return None

    def sites(self, corpus: Corpus) -> tuple[Sites, ...]:
        """Return where templates apply."""
        return SequenceStructure(max(2, len(corpus.labels))).sites(corpus.ptr)

    # Writing, in the format of crf_test. Before each labelling with a probability there is a line,
    # "# PROBABILITY" or, among N best, "# RANK PROBABILITY". A label becomes LABEL/PROBABILITY.

    def format(self, model: Model, batch: Corpus, limits: Constraints | None, output: OutputOptions) -> str:
        """Return the text of a batch with its predictions within limits."""
        if output.json:
            return json_lines(self, model, batch, limits, output)
        if not output.probabilities:
            return self.labelled(batch, model.predict(batch, limits), model.labels)
        lattice = model.lattice(batch, limits)
        marginals = lattice.marginals(model.temperature)
        if output.nbest is None:
            best = lattice.best()
            ranked = Ranked(best[None], lattice.evaluate(best)[:, None])
        else:
            ranked = lattice.nbest(output.nbest)
        counts = (ranked.values > -np.inf).sum(axis=1)
        others = [""] * batch.tokens
        if output.scores == "all":
            rows = (zip(model.labels, row, strict=True) for row in marginals.node.tolist())
            others = ["".join([f"\t{label}/{p:f}" for label, p in row]) for row in rows]
        found = []
        for outputs in ranked.outputs[: max(1, counts.max(initial=0))]:
            names = text.named(outputs, model.labels)
            if output.scores is None:
                found.append(self._blocks(batch, names))
            else:
                found.append(self._scored(batch, (lattice, marginals), outputs, names, others))
        headers = self._headers(marginals.sequence(ranked.values).tolist(), ranks=output.nbest is not None)
        return "".join(_interleaved(found, headers, counts.tolist()))

    def labelled(self, batch: Corpus, outputs: Outputs, labels: Sequence[str]) -> str:
        """Return the text of a batch with labels[outputs]."""
        return "".join(self._blocks(batch, text.named(outputs, labels)))

    def records(self, model: Model, batch: Corpus, outputs: Outputs) -> list[Record]:
        """Return the prediction for each sentence, without its text, as JSON has it.

        Labels, and entities if labels mark chunks: each with its type, its first token and the one
        after its last, and the same in characters of the text.
        """
        labels = [model.labels[y] for y in outputs.tolist()]
        found: list[Record] = [{"labels": labels[span]} for span in batch.sentences()]
        spans = chunk_spans(model.labels, outputs, batch.ptr)
        if spans is not None:
            for record, given, some in zip(found, inputs(model, batch), spans, strict=True):
                record["entities"] = [_entity(given, *span) for span in some]
        return found

    def _blocks(self, batch: Corpus, cells: list[str]) -> list[str]:
        """Return the text of each sentence (or line) with these labels."""
        raise NotImplementedError

    def _scored(self, batch: Corpus, by: Scored, outputs: Outputs, names: Texts, others: Texts) -> Texts:
        """Return the text of each sentence with names of labels, probabilities and other cells."""
        cells = zip(names, by[1].chosen(outputs).tolist(), others, strict=True)
        return self._blocks(batch, [f"{label}/{p:f}{other}" for label, p, other in cells])

    def _headers(self, probabilities: list[list[float]], *, ranks: bool) -> list[list[str]]:
        """Return for each sentence the lines before its labelings."""
        return [
            [f"# {rank} {p:f}\n" if ranks else f"# {p:f}\n" for rank, p in enumerate(row)]
            for row in probabilities
        ]

    # Scores --------------------------------------------------------------------------------------

    def with_scheme(self, scheme: str | None) -> Task:
        """Return the task with a label scheme for its scores; None: the scheme is recognised."""
        if scheme is not None:
            raise IncompatibleError(f"--scheme is for label sequences: the task is {self.name}")
        return self

    def score(
        self, gold: Corpus, outputs: Outputs, labels: Sequence[str], words: Words = None, arcs: Names = None
    ) -> Scores:
        """Return the official scores of predictions int32[T]: indices of `labels`, or heads.

        words   words that count as known, for segmentation
        arcs    the predicted labels of arcs, for trees
        """
        raise NotImplementedError

    def score_model(
        self, model: Model, gold: Corpus, outputs: Outputs, words: Words = None, arcs: Outputs | None = None
    ) -> Scores:
        """Return official scores of predictions; `arcs`: those of the second stage, if known."""
        found = None
        if model.relations is not None:
            numbers = model.relate(gold, outputs) if arcs is None else arcs
            found = text.named(numbers, model.relations.labels)
        return self.score(gold, outputs, model.labels, words, found)

    def score_files(self, gold: Path, predicted: Path, words: Words, options: FileOptions) -> Scores:
        """Return the official scores of one file against another of the same text."""
        raise NotImplementedError

    def assess(self, model: Model, gold: Corpus, source: str) -> dict[str, Any]:
        """Return scores, error counts and calibration of a model on labelled data."""
        from mtlstruct.evaluation import error_analysis  # predictions need none

        return error_analysis.assess(model, gold, source, self.score_model)

    def chosen_score(self, results: Sequence[Mapping[str, Any]]) -> str:
        """Return the name of the score by which results of `tune` are compared."""
        found = [result["scores"] for result in results]
        names = ("accuracy",) if any(s.get("scheme") == "classes" for s in found) else self.scores
        return next((name for name in names if any(s.get(name) for s in found)), names[0])

    def main_score(self, model: Model, gold: Corpus, outputs: Outputs) -> tuple[str, float]:
        """Return the score by which models are compared, its name and its value for predictions."""
        found = self.score(gold, outputs, model.labels).as_dict()
        name = self.chosen_score([{"scores": found}])
        return name, float(found[name])

    def vocabulary(self, path: Path | None, encoding: str) -> set[str] | None:
        """Return the words of a file, for the recall of known and unknown words."""
        if path is not None:
            raise IncompatibleError(f"--words is for segmentation: the task is {self.name}")
        return None

    def known_words(self, trained: Corpus, given: Words) -> Words:
        """Return the words that are known after training: those given, or those of the data."""
        return None

    # Requests to a server ------------------------------------------------------------------------

    def tokenize(self, line: str) -> list[tuple[list[str], tuple[int, ...]]]:
        """Return the sentences of a line of text, and the lengths of their runs between blanks."""
        return [(list(words), ()) for words in self.split_sentences(WORD.findall(line))]

    def cells(self, lines: Sequence[str]) -> Iterator[list[str] | None]:
        """Yield the cells of each line; None for a line that is neither blank nor a token."""
        return ([cell for cell in text.tidy(line)[0].split(" ") if cell] for line in lines)

    def split_sentences(self, rows: Sequence[T]) -> list[Sequence[T]]:
        """Return the sentences of consecutive rows."""
        return [rows] if rows else []


def dict_keys(model: Model) -> dict[str, Any]:
    """Return the arguments for reading feature dicts for a model."""
    return {"names": model.names, "groups": model.groups, "alone": model.alone}


def _interleaved(found: Sequence[list[str]], headers: list[list[str]], counts: list[int]) -> Iterator[str]:
    """Yield all labelings of the first sentence, of the second, ..., and each empty line once.

    found[k][i]: the text of line i with its k-th labelling; sentence s has counts[s] labelings.
    """
    sentences = zip(headers, counts, strict=True)
    for texts in zip(*found, strict=True):
        if texts[0] == "\n":
            yield "\n"
            continue
        lines, count = next(sentences)
        yield from (header + text for header, text in zip(lines[:count], texts[:count], strict=True))


def json_lines(
    task: Task, model: Model, batch: Corpus, limits: Constraints | None, output: OutputOptions
) -> str:
    """Return a line per sentence: its text and tokens, the prediction, and what `output` adds."""
    lattice = model.lattice(batch, limits) if output.probabilities else None
    best = model.predict(batch, limits) if lattice is None else lattice.best()
    pairs = zip(inputs(model, batch), task.records(model, batch, best), strict=True)
    found: list[Record] = [given | made for given, made in pairs]
    if lattice is not None:
        marginals = lattice.marginals(model.temperature)
        chosen, whole = marginals.chosen(best).round(6), marginals.sequence(lattice.evaluate(best))
        for record, span, p in zip(found, batch.sentences(), whole.tolist(), strict=True):
            record |= {"probability": round(p, 6), "calibrated": model.calibrated}
            record["probabilities"] = chosen[span].tolist()
            if output.scores == "all":
                rows = marginals.node[span].round(6).tolist()
                record["marginals"] = [dict(zip(model.labels, row, strict=True)) for row in rows]
        if output.nbest is not None:
            ranked = lattice.nbest(output.nbest)
            chances = marginals.sequence(ranked.values).round(6).tolist()
            labelings = [task.records(model, batch, outputs) for outputs in ranked.outputs]
            for record, values, row, *made in zip(found, ranked.values, chances, *labelings, strict=True):
                triples = zip(made, values, row, strict=True)
                record["nbest"] = [one | {"probability": p} for one, value, p in triples if value > -np.inf]
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in found)


def inputs(model: Model, batch: Corpus) -> list[Record]:
    """Return text and tokens of each sentence; feature dicts have neither."""
    if model.takes_dicts:
        return [{} for _ in range(len(batch))]
    cells = batch.columns[0].cells()
    words = [cells[span] for span in batch.sentences()]
    if isinstance(batch.extra, RawText) and len(batch.extra.lines) == len(batch):
        lines = list(batch.extra.lines)
    else:
        lines = [("" if model.characters else " ").join(some) for some in words]
    return [{"text": line, "tokens": some} for line, some in zip(lines, words, strict=True)]


def _entity(given: Record, first: int, stop: int, kind: str) -> Record:
    found: Record = {"type": kind, "first": first, "stop": stop}
    if "text" not in given:
        return found
    places = [match.span() for match in WORD.finditer(given["text"])]
    if [given["text"][a:b] for a, b in places] != given["tokens"]:  # rows of cells, joined by blanks
        ends = [len(" ".join(given["tokens"][: n + 1])) for n in range(len(given["tokens"]))]
        places = [(end - len(word), end) for end, word in zip(ends, given["tokens"], strict=True)]
    start, end = places[first][0], places[stop - 1][1]
    return found | {"start": start, "end": end, "text": given["text"][start:end]}
