"""Corpora of trees, arc templates and a naive definition of their features."""

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st
from support.naive import Arc, column, expand_arc

from mtlstruct.corpus import Corpus

NAMES = ("FORM", "LEMMA", "CPOSTAG", "POSTAG", "FEATS")
SITE = "/%direction[h,m]/%distance[h,m]"

LINES = (
    "A:%x[h,pos]/%x[m,pos]",
    "A:%x[h,pos]/%x[m,pos]" + SITE,
    "A:%x[m,pos]/%x[h,pos]/%direction[h,m]",
    "A:%x[h,form]",
    "A:%x[h,form]" + SITE,
    "A:%x[m,form]",
    "A:%x[m,form]/%distance[h,m]",
    "A:%x[l-1,pos]/%x[l,pos]/%x[r,pos]/%x[r+1,pos]",
    "A:%x[l,pos]/%x[l+1,pos]/%x[r-1,pos]/%x[r,pos]" + SITE,
    "A:%x[l+2,pos]/%x[l+1,pos]",
    "A:%x[h+1,pos]/%x[h-1,pos]",
    "A:%x[m-2,form]/%x[h+1,pos]",
    "A:%x[l,pos]/%x[b@1,pos]/%x[r,pos]",
    "A:%x[l,pos]/%x[b@2,pos]/%x[r,pos]" + SITE,
    "A:%x[b@-1,form]",
    "A:%x[h,pos]/%x[b,pos]",
    "A:%x[h,pos]/%x[b,pos]/%x[m,pos]/%direction[h,m]",
    "A:%x[b-1,pos]/%x[b,pos]/%position[b]",
    "A:%position[b]",
    "A" + SITE,
    "A",
    "A:%prefix[h,form,1]/%lower[m,form]",
    "A:%first[h,feats]/%x[m,4]",
    "A:%num[m,form]/%x[h,lemma]",
)


def corpus_of(sentences):
    """Sentences of (form, pos, feats, head)."""
    rows = [row for sentence in sentences for row in sentence]
    cells = [(form, "_", pos[:1], pos, feats) for form, pos, feats, _ in rows]
    ptr = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    columns = tuple(column(some) for some in zip(*cells, strict=True))
    return Corpus(columns, ptr, np.array([row[3] for row in rows], np.int32), names=NAMES)


@st.composite
def corpora(draw, most=4):
    sentences = []
    for _ in range(draw(st.integers(1, most))):
        n = draw(st.integers(1, 7))
        words = [
            (
                draw(st.sampled_from(["a", "B", "7", "abc"])),
                draw(st.sampled_from(["N1", "N2", "V"])),
                draw(st.sampled_from(["_", "x|y", "x"])),
                draw(st.integers(0, n).filter(lambda h, m=m: h != m)),
            )
            for m in range(1, n + 1)
        ]
        sentences.append(words)
    return corpus_of(sentences)


def all_arcs(corpus):
    """(row, head, modifier, sentence, gold?) of every arc that is not a word's to itself, in row order."""
    row = 0
    for i, (start, stop) in enumerate(pairwise(corpus.ptr.tolist())):
        for m in range(1, stop - start + 1):
            for h in range(stop - start + 1):
                if h != m:
                    yield row, h, m, i, corpus.outputs is not None and corpus.outputs[start + m - 1] == h
                row += 1


def strings_of(corpus, template, h, m, i):
    start, stop = corpus.ptr[i : i + 2].tolist()
    cells = [column.cells() for column in corpus.columns]
    return expand_arc(
        template, Arc(h, m, stop - start), lambda place, column: cells[column][start + place - 1]
    )


def naive_features(corpus, templates, *, min_count=1):
    """For each template the strings that are features."""
    found = []
    for template in templates:
        counts = Counter(
            string
            for _, h, m, i, gold in all_arcs(corpus)
            if gold
            for string in strings_of(corpus, template, h, m, i)
        )
        found.append({string for string, count in counts.items() if count >= min_count})
    return found
