"""Random part scores of sequences, and their tables."""

import numpy as np
from hypothesis import strategies as st


def problem(seed, L, lengths, rows, coarse):
    """Return starts, part scores, their rows and gold labels; coarse scores have many ties."""
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    draw = (lambda *s: rng.integers(-1, 2, s)) if coarse else (lambda *s: rng.normal(size=s))
    nodes = draw(int(ptr[-1]), L).astype(np.float32)
    edges = draw(rows, L * L).astype(np.float32)
    row = rng.integers(0, rows, int(ptr[-1]) - len(lengths)).astype(np.int32)
    gold = rng.integers(0, L, int(ptr[-1])).astype(np.int32)
    return ptr, (nodes, edges), (None, row), gold


def tables(parts, rows, ptr, i, L):
    """Return the scores of labels and of pairs of labels of sentence i."""
    a, b = ptr[i], ptr[i + 1]
    edges = np.zeros((b - a, L, L))
    for t in range(1, b - a):
        edges[t] = parts[1][rows[1][a + t - i - 1]].reshape(L, L)
    return parts[0][a:b].astype(float), edges


shapes = st.tuples(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 3),
    st.booleans(),
)
"""Arguments of `problem`."""
