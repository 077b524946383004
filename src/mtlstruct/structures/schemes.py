"""Label schemes: how labels of tokens mark chunks, and conversion from one scheme to another.

A label is outside all chunks (O), or it is a place in a chunk and the type of the chunk: B-PER. A
scheme names the places of the first, the last and the other tokens of a chunk. A sequence that is
not valid in its scheme is read as conlleval reads it: a chunk begins also after O and where the
type changes, and it ends where the next one begins. Letters: T tokens, L labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mtlstruct.errors import IncompatibleError
from mtlstruct.structures.base import Outputs, Ptr
from mtlstruct.structures.constraints import Constraints, Mask

OUTSIDE = "O"
"""The label of tokens outside all chunks."""

OTHER = "<other>"
"""The type of GROBID's chunks that are no fields."""


class Scheme(NamedTuple):
    """Places of the tokens of a chunk.

    title      the name in the literature
    places     of tokens that are neither first nor last, the last only, the first only, and both
    touching   whether first and last tokens are marked only where a chunk of the same type is next
    """

    title: str
    places: tuple[str, ...]
    touching: bool = False

    def split(self, label: str) -> tuple[str, str] | None:
        """Return place and type of a label, which is not O; None for a label of another form."""
        place, hyphen, kind = label.partition("-")
        if "" in self.places:
            place, kind = ("I", label[2:]) if label.startswith("I-") else ("", label)
            return (place, kind) if kind.startswith("<") and kind.endswith(">") else None
        return (place, kind) if place in self.places and bool(kind) == bool(hyphen) else None

    def fits(self, labels: Sequence[str]) -> bool:
        """Return whether all labels have the form of the scheme, either all with a type or none."""
        found = [self.split(label) for label in labels if label != OUTSIDE]
        if None in found:
            return False
        types = {tag[1] for tag in found if tag is not None}
        if "" in types:
            return types == {""} and (set("BIO").issuperset(labels) or set("BE").issubset(labels))
        return "" not in self.places or any(tag is not None and tag[0] for tag in found)


SCHEMES = {
    "grobid": Scheme("GROBID", ("", "", "I", "I")),
    "io": Scheme("IO", (*"IIII",)),
    "bio": Scheme("BIO (IOB2)", (*"IIBB",)),
    "iob1": Scheme("IOB1", (*"IIBB",), touching=True),
    "ioe2": Scheme("IOE2", (*"IEIE",)),
    "ioe1": Scheme("IOE1", (*"IEIE",), touching=True),
    "bioes": Scheme("BIOES", (*"IEBS",)),
    "bilou": Scheme("BILOU", (*"ILBU",)),
    "bmes": Scheme("BMES", (*"MEBS",)),
}
"""All schemes. Where labels fit several, the first that needs no change of the data is taken."""


class Recoding:
    """Labels of one scheme as labels of another.

    A target label is code[label, first[before, label], last[label, after]]. The edge of a sentence
    is the label L, which is also the row of an unknown label, -1.

    first, last   int64[L+1, L+1]: whether the target scheme marks a first (last) token here
    code          int32[L+1, 2, 2]: indices of `targets`; -1 for a label that is not among them
    """

    def __init__(
        self, labels: Sequence[str], source: Scheme, target: Scheme, targets: Sequence[str] = ()
    ) -> None:
        tags = [*(_Reading.parse(label, source, labels) for label in labels), _EDGE]
        self.targets = tuple(targets) or _completed(tags, labels, target)
        number = {label: i for i, label in enumerate(self.targets)}
        begins, ends = np.array([tag.begins for tag in tags]), np.array([tag.ends for tag in tags])
        kind = np.array([tag.kind for tag in tags])
        same, inside = kind[:, None] == kind, kind != None  # noqa: E711 (of each element)
        starts = inside & (begins | ends[:, None] | ~same)
        stops = inside[:, None] & (starts | ~inside)
        shown = same if target.touching else np.ones_like(same)
        self.first, self.last = ((marks & shown).astype(np.int64) for marks in (starts, stops))
        self.code = np.full((len(tags), 2, 2), -1, np.int32)
        for i, (tag, label) in enumerate(zip(tags, labels, strict=False)):
            names = [label] * 4 if tag.kind is None else [_text(p, tag.kind) for p in target.places]
            self.code[i] = np.reshape([number.get(name, -1) for name in names], (2, 2))

    def __call__(self, outputs: Outputs, ptr: Ptr) -> Outputs:
        """Return the target labels of all tokens. int32[T]"""
        before, after = np.empty_like(outputs), np.empty_like(outputs)
        before[1:], after[:-1] = outputs[:-1], outputs[1:]
        before[ptr[:-1]] = after[ptr[1:] - 1] = len(self.code) - 1
        return np.asarray(self.code[outputs, self.first[before, outputs], self.last[outputs, after]])

    @cached_property
    def valid(self) -> Mask:
        """The pairs of labels in valid sequences, if the target scheme is that of the labels.

        bool[L+1, L+1] as in `Constraints.pairs`: neither label of a valid pair would be changed.
        """
        n = np.arange(len(self.code))
        own = np.append(n[:-1], -1)
        right = (self.code[n, self.first] == own[:, None]).any(axis=2)
        left = (self.code[n[:, None], :, self.last] == own[:, None, None]).any(axis=2)
        return np.asarray(right & left)


class _Reading(NamedTuple):
    """A label: whether a chunk always begins at it, or ends at it, and the type; None outside."""

    begins: bool
    ends: bool
    kind: str | None

    @classmethod
    def parse(cls, label: str, scheme: Scheme, labels: Sequence[str]) -> _Reading:
        """Parse a label. GROBID's <other> is outside all chunks if there is no I-<other>."""
        if label == OUTSIDE or (label == OTHER and f"I-{OTHER}" not in labels):
            return _EDGE
        split = scheme.split(label)
        if split is None:
            raise IncompatibleError(f"expected labels of the scheme {scheme.title}, got {label!r}")
        where = [n for n, place in enumerate(scheme.places) if place == split[0]]
        return cls(all(n & 2 for n in where), all(n & 1 for n in where), split[1])


_EDGE = _Reading(False, False, None)
"""What is before and after a sentence."""


def _completed(tags: Sequence[_Reading], labels: Sequence[str], target: Scheme) -> tuple[str, ...]:
    """Return all labels of a scheme for the types of some labels, sorted."""
    pairs = list(zip(tags, labels, strict=False))
    found = {label for tag, label in pairs if tag.kind is None}
    found |= {_text(place, tag.kind) for tag, _ in pairs if tag.kind is not None for place in target.places}
    return tuple(sorted(found, key=str.encode))


def _text(place: str, kind: str) -> str:
    return "-".join(filter(None, (place, kind)))


class Conversion:
    """Labels as given, and the labels of another scheme that a model learns in their place.

    given, learned          the names of the two schemes
    labels, learned_labels  all labels of either scheme, sorted
    encode, decode          from labels as given to learned ones, and back
    """

    def __init__(self, given: str, learned: str, labels: Sequence[str]) -> None:
        self.given, self.learned = given, learned
        source, target = SCHEMES[given], SCHEMES[learned]
        self.learned_labels = Recoding(labels, source, target).targets
        self.decode = Recoding(self.learned_labels, target, source)
        self.labels = self.decode.targets
        self.encode = Recoding(self.labels, source, target, self.learned_labels)

    @property
    def facts(self) -> dict[str, str]:
        """The metadata of a model that, with its labels, restores the conversion."""
        return {"given": self.given, "learned": self.learned}

    @cached_property
    def valid(self) -> Mask:
        """The valid pairs of learned labels, as in `Constraints.pairs`."""
        scheme = SCHEMES[self.learned]
        return Recoding(self.learned_labels, scheme, scheme, self.learned_labels).valid

    def constraints(self, given: Constraints | None) -> Constraints:
        """Return constraints on learned labels: valid sequences, and what the given ones allow."""
        found = Constraints(self.valid)
        if given is None:
            return found
        decode, valid, shown = self.decode, self.valid, []
        for y in range(len(self.learned_labels)):
            marks = np.unique(decode.first[valid[:, y], y]), np.unique(decode.last[y, valid[y]])
            shown.append(np.unique(decode.code[y][np.ix_(*marks)]))
        label = np.array([some[0] for some in shown])
        if any(len(some) > 1 for some in shown):
            raise IncompatibleError(
                f"constraints on labels of {SCHEMES[self.given].title} do not support a model that learns "
                f"{SCHEMES[self.learned].title}: expected training with --scheme keep"
            )
        pairs = None if given.pairs is None else given.pairs[np.ix_(*[np.append(label, -1)] * 2)]
        return found & Constraints(pairs, None if given.labels is None else given.labels[:, label])


def recognised(labels: Sequence[str], outputs: Outputs, ptr: Ptr) -> str | None:
    """Return the scheme that needs the fewest changes of sentences; None for classes."""
    changes = {}
    for name, scheme in SCHEMES.items():
        if scheme.fits(labels):
            changes[name] = int((Recoding(labels, scheme, scheme, labels)(outputs, ptr) != outputs).sum())
    return min(changes, key=changes.__getitem__, default=None)


def chunk_spans(labels: Sequence[str], outputs: Outputs, ptr: Ptr) -> list[list[tuple[int, int, str]]] | None:
    """Return first token, end and type of the chunks of each sentence; None for classes.

    GROBID's <other> is no chunk. Labels of BIO are read as those of IOB1, too.
    """
    if (to_bio := _to_bio(tuple(labels))) is None:
        return None
    found, every = [], [to_bio.targets[y] for y in to_bio(outputs, ptr).tolist()]
    for a, b in pairwise(ptr.tolist()):
        tags = every[a:b]
        starts = [n for n, tag in enumerate(tags) if tag.startswith("B") and tag[2:] != OTHER]
        stops = [next((m for m in range(n + 1, b - a) if not tags[m].startswith("I")), b - a) for n in starts]
        found.append([(n, m, tags[n][2:]) for n, m in zip(starts, stops, strict=True)])
    return found


@lru_cache(maxsize=8)
def _to_bio(labels: tuple[str, ...]) -> Recoding | None:
    """Return the conversion of labels that mark chunks to BIO; None for classes."""
    known = ("grobid", "bio", "ioe2", "bioes", "bilou", "bmes")
    name = next((name for name in known if SCHEMES[name].fits(labels)), None)
    return None if name is None else Recoding(labels, SCHEMES[name], SCHEMES["bio"])


def numbered(
    sentences: Sequence[Sequence[str]], labels: Sequence[str] = ()
) -> tuple[list[str], Outputs, Ptr]:
    """Return the sorted labels of sentences and `labels`, the index of each token, the starts."""
    known = sorted({*labels, *(label for sentence in sentences for label in sentence)}, key=str.encode)
    number = {label: i for i, label in enumerate(known)}
    outputs = np.array([number[label] for sentence in sentences for label in sentence], np.int32)
    ptr = np.cumsum([0, *filter(None, map(len, sentences))])
    return known, outputs, ptr.astype(np.int64)


def converted(sentences: Sequence[Sequence[str]], source: str, target: str) -> list[list[str]]:
    """Return labelled sentences in another scheme; raise if a label does not fit the first one."""
    labels, outputs, ptr = numbered(sentences)
    recode = Recoding(labels, SCHEMES[source], SCHEMES[target])
    names = iter([recode.targets[y] for y in recode(outputs, ptr).tolist()])
    return [[next(names) for _ in sentence] for sentence in sentences]
