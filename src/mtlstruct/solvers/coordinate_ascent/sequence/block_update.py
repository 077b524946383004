"""One visit of the coordinate learner to a span of a sequence.

A visit gathers the part scores of the span's tokens, then moves mass from the worst path that carries flow to the
best path. The two are cut where they agree, and each maximal segment where they differ gets its own exact step:
moving mass θ gains θ·df − ½cθ²·quad, most at θ = df/(c·quad), clipped at the segment's bottleneck flow. `quad`,
and what the step does to the scores of the span, come from small kernels K[t, u] = Σ_j mu_j ⟨x_tj, x_uj⟩ that are
made only for tokens that move. At the end the change of the token marginals is added to V, and N_j = ‖v_j‖²
follows exactly. Templates whose weight has all but vanished are not gathered, but V and N include them, so they
can come back.

Where attributes have features with some labels only (support.py), V is a list, the kernel of a token is that of a
token with a label, and attributes without a feature for the label have no part in it.

Gathering, steps and adding are three jobs, and two threads can share them: while one takes the steps of a span, the
other adds to V what the span before has changed, then gathers for the span after. The scores it gathers lack the
changes of the span that is being worked on; these are made up for exactly, by the kernels between the tokens of the
two spans. One thread does the same in turn, so the bits are the same. Where attributes may stand anywhere in a row or
have features with some labels only, such kernels are dear, and every span waits for the one before.

The kernels of these jobs have files of their own, `sequence_gather`, `sequence_steps` (with `sequence_paths` and
`sequence_products`) and `sequence_adding`; here is the one that calls them.

Words used in all: `em` node scores with the cost added, `tr` edge scores on the distinct edge rows of the span, `er`
which of those a position uses, `high` and `low` the best and the worst path, `own` where the features of each
attribute begin, `of` the label of each (both None where every attribute has all labels), `lag` 1 where spans are
gathered ahead, `mark` the room that rows need in which an attribute may stand anywhere (None where it may not).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel, make_meeting
from mtlstruct._system import threads
from mtlstruct.linear.design import LOOKAHEAD, Design, padded, prefetch
from mtlstruct.linear.label_support import NEAR, lists
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import Flow
from mtlstruct.solvers.coordinate_ascent.sequence.gather import DEAD, catch_up, edge_scores, gather
from mtlstruct.solvers.coordinate_ascent.sequence.joint_step import NOTHING, Segments
from mtlstruct.solvers.coordinate_ascent.sequence.pairwise_step import improve
from mtlstruct.solvers.coordinate_ascent.sequence.scatter import commit
from mtlstruct.solvers.coordinate_ascent.sequence.workspace import Edges, make_room

FEW = 8
"""Spans for which a second thread is not worth waking."""

MANY = 40
"""Templates from which on it pays to gather ahead: what has changed since then is found by comparing tokens."""

tell, wait = make_meeting()
_BOTH, _STEPS = threads.BOTH, threads.FIRST
_GATHERED, _DONE = np.int64(0), np.int64(1)


def visit(
    spans: NDArray[np.int64],
    starts: NDArray[np.bool_],
    gold: NDArray[np.int32],
    cost: NDArray[np.float32],
    flow: Flow,
    edge_row: NDArray[np.int32],
    node: Design,
    edge: Design,
    node_V: NDArray[Any],
    edge_V: NDArray[Any],
    N: NDArray[np.float64],
    mu: NDArray[np.float64],
    c: float,
    rounds: int,
    tolerance: float,
    enough: float,
    notes: Segments = NOTHING,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Visits spans [k, 3] in order; updates flow, V and N. Returns gaps before, gains, change of the loss.

    What was moved is written down in `notes`, as far as it has room.
    """
    flow.make_room(rounds)  # a round brings a token at most one edge
    lengths = spans[:, 1] - spans[:, 0]
    piped = node.slotwise and node.support is None and len(node.values) == 0 and len(node.blocks) >= MANY
    # spans of about the same length follow each other, so that two threads seldom wait
    order = np.argsort(lengths, kind="stable") if piped else np.arange(len(spans))
    spans, came = spans[order], np.zeros((len(spans), 2))
    scales = node.scales(mu)
    alive = scales > DEAD
    far = LOOKAHEAD if node.support is None else NEAR
    ahead = np.ones(len(alive), np.bool_) if node.ragged else np.roll(alive, -far % max(1, len(alive)))
    places = (2, int(lengths.max(initial=1)), padded(cost.shape[1]))
    em, delta = np.zeros(places, np.float32), np.zeros(places, np.float32)
    # what a corpus has nothing of is None: the kernel that is compiled for it has no part for that
    own, of = (None, None) if node.support is None else lists(node.support)
    values = node.values if len(node.values) > 0 else None
    turned = np.zeros((len(node.blocks) if node.slotwise else 0, places[1]), node.ids.dtype)
    turned_values = None if values is None else np.zeros(turned.shape, np.float32)
    mark = None if node.slotwise else np.zeros(node.null + 1, np.float32)
    edges = Edges(edge_row, edge.ids, edge.ptr, edge.blocks, edge.slotwise, edge.null, edge_V)

    def work(role: int, meeting: NDArray[np.int64]) -> float:
        longest = places[1] if role <= _STEPS else 1
        room = make_room(longest, cost.shape[1], len(turned), rounds, edge.rows, own is None)
        change: float = _visit(
            role, meeting, int(piped), spans, starts, gold, cost, flow.arrays,
            node.ids, node.ptr, node.ragged, node.blocks, values, node_V, node.null, node.own,
            own, of, em, delta, turned, turned_values, mark, edges, room,
            scales, ahead, mu, N, float(c), int(rounds), float(tolerance), float(enough),
            notes.rows, notes.gains, came,
        )  # fmt: skip
        return change

    shared = piped and len(spans) >= FEW
    loss = threads.in_step(work) if shared else work(threads.BOTH, threads.NO_MEETING)
    found = np.empty_like(came)
    found[order] = came
    return found[:, 0], found[:, 1], float(loss)


# ---------------------------------------------------------------- kernels


@fast_kernel
def _visit(  # type: ignore[no-untyped-def]
    role, meeting, lag, spans, starts, gold, cost, flow,
    ids, ptr, ragged, blocks, values, V, null, alone, own, of, all_em, all_delta, turned, turned_values, mark,
    edges, room, scales, ahead, mu, N, c, rounds, tolerance, enough, segments, gains, came,
):  # fmt: skip
    """Both jobs, or one: steps, or all that has to do with V. Spans take turns at the two places of em and delta.

    What came of each span, its gap before and its gain, goes to came[spans, 2]. Returns the change of the loss.
    """
    if len(edges.ptr) == 2 and role <= _STEPS:
        edge_scores(np.int64(0), edges, mu, room.tr[0], room.most[0])
    loss = 0.0
    for s in range(len(spans) + 1 + lag):
        if role != _STEPS:
            late = s - 1 - lag
            if late >= 0:
                if role != _BOTH:
                    wait(meeting, _DONE, late + 1)
                start, n = spans[late, 0], spans[late, 1] - spans[late, 0]
                late_delta = all_delta[late % 2]
                commit(start, n, late_delta, ids, ptr, ragged, blocks, values, V, null, alone, own, of, N)
            if s < len(spans):
                start, n, em = spans[s, 0], spans[s, 1] - spans[s, 0], all_em[s % 2]
                gather(start, n, ids, ptr, ragged, values, scales, ahead, V, own, of, gold, cost, em)
                _look_ahead(s, spans, flow, ids, ptr, V, own)
                if role != _BOTH:
                    tell(meeting, _GATHERED, s + 1)
        if role <= _STEPS and s < len(spans):
            if role == _STEPS:
                wait(meeting, _GATHERED, s + 1)
            start, n = spans[s, 0], spans[s, 1] - spans[s, 0]
            em, delta = all_em[s % 2], all_delta[s % 2]
            for t in range(n):
                delta[t, :] = 0
            if lag > 0 and s > 0:
                before = spans[s - 1, 0]
                done = all_delta[(s - 1) % 2, : spans[s - 1, 1] - before]
                catch_up(start, n, before, done, ids, len(turned), scales, null, room.mine, em)
            came[s, 0], came[s, 1], change = improve(
                start, n, starts, gold, cost, flow, ids, ptr, ragged, values, null, own, of, em, delta, turned,
                turned_values, mark, edges, room, scales, mu, N, c, rounds, tolerance, enough, segments, gains,
            )  # fmt: skip
            loss += change
            if role == _STEPS:
                tell(meeting, _DONE, s + 1)
    return loss


@inner_kernel
def _look_ahead(s, spans, flow, ids, ptr, V, own):  # type: ignore[no-untyped-def]
    """Asks the cache for what the next spans begin with, one stage a span: `ptr`, then `ids`, then weights and flow.

    Gathering asks ahead within a span only, and active spans are short and lie anywhere.
    """
    if s + 3 < len(spans):
        prefetch(ptr, spans[s + 3, 0])
    if s + 2 < len(spans):
        prefetch(ids, ptr[spans[s + 2, 0]])
    if s + 1 < len(spans):
        start = spans[s + 1, 0]
        prefetch(flow.mass, start)
        prefetch(flow.head, start)
        prefetch(flow.tail, start)
        for k in range(ptr[start], ptr[start] + LOOKAHEAD):
            if own is None:
                prefetch(V, np.int64(ids[k]))
            else:
                prefetch(own, np.int64(ids[k]))
