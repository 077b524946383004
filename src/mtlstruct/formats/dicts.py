"""JSON lines of feature dicts: a sentence a line, a list of tokens as `features` describes them.

    [{"word": "Ann", "title": true}, {"word": "sleeps"}]
    {"tokens": [{"word": "Ann", "title": true}, {"word": "sleeps"}], "labels": ["B-PER", "O"]}

The second form has labels. Where items stand alone, each token is one, and a line may be one token. A list of
numbers in place of strings is a vector. Blank lines mean nothing. Refused: lines that are no JSON, or JSON of
another shape; lines without labels where they are wanted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus, label_outputs
from mtlstruct.errors import FormatError
from mtlstruct.formats import columns as rows
from mtlstruct.formats import text
from mtlstruct.formats.features import FeatureError, Features, Group

BYTES_A_TOKEN = 400
"""About; turns a batch size in tokens into one in bytes."""


def read(
    path: str | Path,
    *,
    labelled: bool = True,
    encoding: str = "utf-8",
    names: Sequence[str] | None = None,
    groups: Mapping[str, str] | None = None,
    alone: bool = False,
) -> Corpus:
    """A whole file. `names` and `groups` are a model's: the columns to look for, the column of each key."""
    lines = text.load(path, encoding).split("\n")
    found = _corpus(lines, 1, str(path), names, groups, labelled=labelled, alone=alone)
    if found is None:
        raise FormatError(
            path, None, "no sentences: expected a JSON list of tokens a line, got only blank lines"
        )
    return found


def stream(
    lines: BinaryIO,
    *,
    source: str,
    encoding: str = "utf-8",
    batch_tokens: int = 20000,
    names: Sequence[str] | None = None,
    groups: Mapping[str, str] | None = None,
    alone: bool = False,
) -> Iterator[Corpus]:
    """Batches of whole lines, as soon as they have been read; see text.blocks for when that is."""
    for first, block in text.blocks(lines, source, encoding, batch_tokens * BYTES_A_TOKEN):
        found = _corpus(block.split("\n"), first, source, names, groups, labelled=False, alone=alone)
        if found is not None:
            yield found


def write(out: TextIO, corpus: Corpus, labels: Sequence[str] | None, predictions: NDArray[np.int32]) -> None:
    """A token a line, as JSON, with its label behind a tab; a blank line after each sentence."""
    rows.write(out, corpus, labels, predictions)


def _corpus(
    lines: Iterable[str],
    first: int,
    source: str,
    names: Sequence[str] | None,
    groups: Mapping[str, str] | None,
    *,
    labelled: bool,
    alone: bool,
) -> Corpus | None:
    group: Group = (lambda key: key) if groups is None else groups.get
    features = Features(group, names)
    lengths, starts, labels, echo = [0], [], [], []
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        tokens, own = _sentence(line, source, number, labelled=labelled, alone=alone)
        for token in tokens:
            try:
                features.add(_with_vectors(token))
            except FeatureError as error:
                raise FormatError(source, number, str(error)) from None
            echo.append(json.dumps(token, ensure_ascii=False))
        sizes = [1] * len(tokens) if alone else [len(tokens)] * bool(tokens)
        lengths += sizes
        starts += [number] * len(sizes)
        labels += own or []
    if not starts:
        return None
    try:
        columns, found = features.finished()
    except FeatureError as error:
        raise FormatError(source, None, str(error)) from None
    outputs, classes = label_outputs(text.column(labels)) if labelled else (None, ())
    ptr = np.cumsum(lengths, dtype=np.int64)
    return Corpus(columns, ptr, outputs, classes, found, np.array(starts), "\n".join(echo))


def _sentence(
    line: str, source: str, number: int, *, labelled: bool, alone: bool
) -> tuple[list[Any], list[str] | None]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise FormatError(source, number, f"expected JSON, a list of tokens a line: {error}") from None
    if alone and isinstance(value, dict) and "tokens" not in value:
        value = [value]
    tokens, labels = (value.get("tokens"), value.get("labels")) if isinstance(value, dict) else (value, None)
    if not isinstance(tokens, list):
        got = type(tokens).__name__
        raise FormatError(source, number, f'expected a list of tokens, or {{"tokens": [...]}}, got {got}')
    if not labelled:
        return tokens, None
    if not isinstance(labels, list) or len(labels) != len(tokens):
        got = "none" if not isinstance(labels, list) else str(len(labels))
        problem = f'expected {{"tokens": [...], "labels": [...]}} with {len(tokens)} labels, got {got}'
        raise FormatError(source, number, problem)
    if not all(isinstance(label, str) for label in labels):
        raise FormatError(source, number, "expected labels that are strings")
    return tokens, labels


def _with_vectors(token: Any) -> Any:
    """JSON has no arrays of its own: a list of numbers is one."""
    if not isinstance(token, dict):
        return token
    return {key: _vector(value) if isinstance(value, list) else value for key, value in token.items()}


def _vector(value: list[Any]) -> Any:
    numbers = value and all(isinstance(x, int | float) and not isinstance(x, bool) for x in value)
    return np.array(value, np.float64) if numbers else value
