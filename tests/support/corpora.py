"""The corpora of tests on real data: those of MTLSTRUCT_DATA, or of ../shared/data."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mtlstruct.corpus import Column, Corpus
from mtlstruct.formats import columns, conll, segmented

DATA = Path(os.environ.get("MTLSTRUCT_DATA") or Path(__file__).parents[3] / "shared" / "data")


def found(*parts: str) -> Path:
    """Return the path of a file; skip the test if it is missing."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} not found; set MTLSTRUCT_DATA to the folder of the corpora")
    return path


def ner(language: str, part: str) -> Corpus:
    """Return a part of CoNLL-2002."""
    return columns.read(found("ner", f"conll2002_{language}", f"{part}.conll"))


def pku() -> Corpus:
    """Return the training text of PKU."""
    return segmented.read(found("cws", "pku", "train.txt"))


def danish(part: str) -> Corpus:
    """Return a part of the Danish treebank."""
    return conll.read(found("parsing", "danish_ddt_conllx", f"{part}.conll"))


def head(corpus: Corpus, n: int) -> Corpus:
    """Return the first n sentences."""
    stop = int(corpus.ptr[n])
    assert corpus.outputs is not None
    cells = tuple(Column(c.ids[:stop], c.strings) for c in corpus.columns)
    return replace(corpus, columns=cells, ptr=corpus.ptr[: n + 1], outputs=corpus.outputs[:stop])
