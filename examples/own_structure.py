"""A structure of your own: a sentence has at most one token with the label MAIN, all others are REST.

It says where templates may look, which parts an output has, and how the best output is searched;
docs/howto/extend.md has the contract. Training, all regularizers, prediction, saving and the estimator come with it.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from made_up import sentences

from mtlstruct import SequenceLabeler
from mtlstruct.structures import STRUCTURES, Sites
from mtlstruct.structures.base import Triplets

MAIN, REST = 0, 1  # labels are sorted


@dataclass(frozen=True)
class AtMostOne:
    """Each token has a label, and MAIN is given once or not at all."""

    labels: int
    name: ClassVar[str] = "at-most-one"

    def widths(self):
        return (self.labels,)

    def sites(self, ptr):
        return (Sites("token", "U", tokens=None, shared=False),)

    def choices(self, labels):
        return labels

    def losses(self, outputs, gold, cost, ptr):
        return np.add.reduceat(cost[gold, outputs].astype(float), ptr[:-1])

    def evaluate(self, batch, outputs):
        scores = batch.parts[0][np.arange(len(outputs)), outputs].astype(float)
        return np.add.reduceat(scores, batch.ptr[:-1])

    def indicator(self, outputs, against, rows, ptr):
        where = np.flatnonzero(outputs != against).astype(np.int32)
        part = np.stack([outputs[where], against[where]], axis=1).ravel()
        return (Triplets(np.repeat(where, 2), part, np.tile(np.float32([1, -1]), len(where))),)

    def decode(self, batch, span, outputs, values, *, scale=1.0, gold=None, cost=None):
        (parts,), ptr = batch.parts, batch.ptr
        for i in range(*span):
            own = slice(ptr[i], ptr[i + 1])
            scores = (scale * parts[own] + (0 if gold is None else cost[gold[own]])).astype(float)
            gain = scores[:, MAIN] - scores[:, REST]
            best = int(gain.argmax())
            outputs[own], values[i] = REST, scores[:, REST].sum() + max(0.0, gain[best])
            if gain[best] > 0:
                outputs[ptr[i] + best] = MAIN


STRUCTURES["at-most-one"] = AtMostOne  # in every program that trains or loads such a model


def data(count, seed):
    """The token to find is the one that everything hangs on."""
    found = sentences(count, seed)
    X = [
        [{"word": w, "pos": tag, "before": s[t - 1][1] if t else "<"} for t, (w, tag, *_) in enumerate(s)]
        for s in found
    ]
    return X, [["MAIN" if head == 0 else "REST" for *_, head in s] for s in found]


X, y = data(100, seed=1)
X_new, y_new = data(50, seed=2)
for method in ("mtl", "svm"):
    tagger = SequenceLabeler(structure="at-most-one", method=method, c=0.1).fit(X, y)
    ones = max(labels.count("MAIN") for labels in tagger.predict(X_new))
    print(
        f"{method}: accuracy {tagger.score(X_new, y_new):.2f}, gap {tagger.gap_:.2%}, at most {ones} a sentence"
    )
