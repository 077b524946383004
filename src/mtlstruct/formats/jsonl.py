"""JSON lines of feature dicts: one sentence per line, a list of tokens as in `feature_dicts`.

    [{"word": "Ann", "title": true}, {"word": "sleeps"}]
    {"tokens": [{"word": "Ann", "title": true}, {"word": "sleeps"}], "labels": ["B-PER", "O"]}

With `alone`, each token is an item, and a line may be one token. A list of numbers is a vector.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mtlstruct.corpus import Column, Corpus, LazyColumns, label_outputs
from mtlstruct.errors import FormatError
from mtlstruct.formats import text
from mtlstruct.formats.feature_dicts import FeatureError, Features, group_of, shown

_NO_LABEL = re.compile(r"[ \t\r\n]|^$")

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

SUFFIXES = (".jsonl", ".jsonl.gz")
"""How the name of a training file ends that has feature dicts."""

BYTES_PER_TOKEN = 400
"""An estimate that turns the size of a batch in tokens into bytes."""


def read(
    path: str | Path,
    *,
    labelled: bool = True,
    encoding: str = "utf-8",
    names: Sequence[str] | None = None,
    groups: Mapping[str, str] | None = None,
    alone: bool = False,
) -> Corpus:
    """Read a whole file; `names` are its columns, `groups` the column of each key, if given."""
    lines = text.load(path, encoding).split("\n")
    found = _corpus(lines, 1, str(path), names, groups, labelled=labelled, alone=alone)
    if found is None:
        problem = "no sentences: expected a JSON list of tokens a line, got only blank lines"
        raise FormatError(path, None, problem)
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
    """Yield batches of whole lines as they are read (see `text.blocks`)."""
    for first, block in text.blocks(lines, source, encoding, batch_tokens * BYTES_PER_TOKEN):
        rows = block.split("\n")
        direct = bool(names) and not alone and len(rows) <= text.MAX_DIRECT_LINES
        found = _corpus(rows, first, source, names, groups, alone=alone, direct=direct)
        if found is not None:
            yield found


class _Echo(list[Any]):
    """Tokens; as a string each on a line of its own."""

    def __str__(self) -> str:
        return "\n".join([json.dumps(token, ensure_ascii=False) for token in self])


def _corpus(
    lines: Sequence[str],
    first: int,
    source: str,
    names: Sequence[str] | None,
    groups: Mapping[str, str] | None,
    *,
    alone: bool,
    labelled: bool = False,
    direct: bool = False,
) -> Corpus | None:
    """Return the sentences of lines; direct: without columns until these are used."""
    features = Features(None if groups is None else group_of(groups), names)
    lengths, starts, labels, sentences, echo = [0], [], [], [], []
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        tokens, own = _sentence(line, source, number, labelled=labelled, alone=alone)
        if direct:
            sentences += [tokens] * bool(tokens)
        else:
            _add(features, tokens, source, number)
            echo += [json.dumps(token, ensure_ascii=False) for token in tokens]
        sizes = [1] * len(tokens) if alone else [len(tokens)] * bool(tokens)
        lengths += sizes
        starts += [number] * len(sizes)
        labels += own or []

    def columns() -> Sequence[Column]:
        for tokens, number in zip(sentences, starts, strict=False):
            _add(features, tokens, source, number)
        try:
            return features.finish()[0]
        except FeatureError as error:
            raise FormatError(source, None, str(error)) from None

    if not starts:
        return None
    found = LazyColumns(sentences, len(features.columns), columns) if direct else columns()
    outputs, classes = label_outputs(text.column(labels)) if labelled else (None, ())
    ptr, shown = (
        np.cumsum(lengths, dtype=np.int64),
        _Echo(chain.from_iterable(sentences)) if direct else "\n".join(echo),
    )
    return Corpus(found, ptr, outputs, classes, tuple(features.columns), np.array(starts), shown)


def _add(features: Features, tokens: list[Any], source: str, number: int) -> None:
    """Add the tokens of a line."""
    for token in tokens:
        try:
            features.add(_with_vectors(token))
        except FeatureError as error:
            raise FormatError(source, number, str(error)) from None


def _sentence(
    line: str, source: str, number: int, *, labelled: bool, alone: bool
) -> tuple[list[Any], list[str] | None]:
    value = _parsed(line, source, number)
    if alone and isinstance(value, dict) and "tokens" not in value:
        value = [value]
    tokens, labels = (value.get("tokens"), value.get("labels")) if isinstance(value, dict) else (value, None)
    problem = None
    if not isinstance(tokens, list):
        problem = f'expected a list of tokens, or {{"tokens": [...]}}, got {type(tokens).__name__}'
    elif not labelled:
        return tokens, None
    elif not isinstance(labels, list) or len(labels) != len(tokens):
        got = "none" if not isinstance(labels, list) else len(labels)
        problem = f'expected {{"tokens": [...], "labels": [...]}} with {len(tokens)} labels, got {got}'
    else:
        bad = [label for label in labels if not isinstance(label, str) or _NO_LABEL.search(label)]
        if not bad:
            return tokens, labels
        problem = f"expected labels that are strings without blanks, got {shown(bad[0])}"
    raise FormatError(source, number, problem)


def _parsed(line: str, source: str, number: int) -> Any:
    try:
        value = json.loads(line)
        if _SURROGATE.search(line):  # it may be half of a pair
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise FormatError(source, number, "expected text, got half of a surrogate pair") from None
    except ValueError as error:
        problem = f"expected one JSON list of feature dicts per line, for a model trained on dicts: {error}"
        raise FormatError(source, number, problem) from None
    except RecursionError:
        raise FormatError(source, number, "expected JSON of tokens, got something nested too deep") from None
    return value


def _with_vectors(token: Any) -> Any:
    """Return the token with lists of numbers as arrays, which JSON does not have."""
    return {key: _vector(value) for key, value in token.items()} if isinstance(token, dict) else token


def _vector(value: Any) -> Any:
    numbers = value and isinstance(value, list) and all(type(x) in (int, float) for x in value)
    try:
        return np.array(value, np.float64) if numbers else value
    except OverflowError:  # rejected later, as all numbers that are not finite
        return np.full(len(value), np.inf)
