"""What is given hostile bytes. A row of TARGETS adds one: a function of bytes, and inputs to begin with.

A target may raise MtlError, which is how input is refused; anything else is a fault, and so is a refusal that is
longer than LONGEST. `refused` holds it to that.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.errors import MtlError
from mtlstruct.formats import columns, conll, segmented
from mtlstruct.formats import jsonl as dicts
from mtlstruct.formats.text import named
from mtlstruct.interop import crfpp, crfsuite, wapiti
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet, lint
from mtlstruct.templates.regex import MAX_CELL_LENGTH, RegexError, compiled
from mtlstruct.training.checkpoints import Checkpoint
from mtlstruct.training.run_log import RunLog
from qa.fuzz import models, seeds
from qa.fuzz.inputs import Taking, written

LONGEST = 3_000
"""Characters of a message: a sentence for a person, not the input given back."""

ENCODINGS = ("utf-8",) * 12 + ("latin-1", "gb18030", "utf-7", "unicode_escape", "shift_jis", "idna")


@dataclass(frozen=True)
class Target:
    """One thing to try: run(data), inputs to begin with, and the most bytes that a mutation may have."""

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    longest: int = 4096


def refused(run: Callable[[bytes], None], data: bytes) -> bool:
    """Whether a target refuses an input; a fault is raised."""
    try:
        run(data)
    except MtlError as error:
        sentence = str(error)
    else:
        return False
    assert len(sentence) <= LONGEST, f"a message of {len(sentence)} characters"
    return True


# ---------------------------------------------------------------- readers


def _columns(data: bytes) -> None:
    take = Taking(data)
    how, encoding = take.byte(), take.one_of(ENCODINGS)
    if how % 3 == 0:
        known = ("O", "B-PER", "?") if how & 64 else None
        _written(columns, *columns.stream(io.BytesIO(take.rest()), columns=2, source="x", encoding=encoding,
                                          batch_tokens=1 + how // 8, known=known))  # fmt: skip
        return
    path = written(take.rest())
    names = ("word", "tag") if how & 64 else ()
    _written(columns, columns.read(path, labelled=how % 3 == 1, encoding=encoding, names=names))


def _items(data: bytes) -> None:
    take = Taking(data)
    how, encoding = take.byte(), take.one_of(ENCODINGS)
    if how % 3 == 0:
        _written(columns, *columns.stream(io.BytesIO(take.rest()), columns=1, source="x", encoding=encoding,
                                          batch_tokens=1 + how // 8, alone=True))  # fmt: skip
        return
    _written(
        columns, columns.read(written(take.rest()), labelled=how % 3 == 1, encoding=encoding, alone=True)
    )


def _segmented(data: bytes) -> None:
    take = Taking(data)
    how, encoding = take.byte(), take.one_of(ENCODINGS)
    if how % 3 == 0:
        for corpus in segmented.stream(io.BytesIO(take.rest()), raw=how & 64 > 0, source="x", encoding=encoding,
                                       batch_tokens=1 + how // 8):  # fmt: skip
            _formatted(segmented, corpus, ["B"] * corpus.tokens)
        return
    path = written(take.rest())
    _written(segmented, segmented.read(path, tags="bmes" if how & 64 else "bie", encoding=encoding))
    segmented.vocabulary(path, encoding=encoding)


def _conll(data: bytes) -> None:
    take = Taking(data)
    how, encoding = take.byte(), take.one_of(ENCODINGS)
    if how % 3 == 0:
        for corpus in conll.stream(
            io.BytesIO(take.rest()), source="x", encoding=encoding, batch_tokens=1 + how // 8
        ):
            for span in corpus.sentences():
                conll.given_trees(corpus, span)
            conll.format_trees(corpus, np.zeros(corpus.tokens, np.int32)).encode()
        return
    corpus = conll.read(written(take.rest()), single_root=how & 64 > 0, trees=how % 3 == 1, encoding=encoding)
    conll.relations(corpus)
    _written(conll, corpus)


def _dicts(data: bytes) -> None:
    take = Taking(data)
    how, encoding = take.byte(), take.one_of(ENCODINGS)
    names = ("word", "in", "v") if how & 64 else None
    groups = {"word": "word", "v": "v"} if how & 128 else None
    if how % 3 == 0:
        for corpus in dicts.stream(io.BytesIO(take.rest()), source="x", encoding=encoding, batch_tokens=1 + how // 8,
                                   names=names, groups=groups, alone=how & 32 > 0):  # fmt: skip
            _formatted(dicts, corpus, ["O"] * corpus.tokens)
        return
    path = written(take.rest())
    _written(dicts, dicts.read(path, labelled=how % 3 == 1, encoding=encoding, names=names, groups=groups,
                               alone=how & 32 > 0))  # fmt: skip


def _written(form: Any, *corpora: Corpus) -> None:
    """What was read can be written, and is text."""
    for corpus in corpora:
        assert corpus.tokens == corpus.ptr[-1]
        assert all(len(column) == corpus.tokens for column in corpus.columns)
        if corpus.outputs is not None:
            _formatted(form, corpus, None)


def _formatted(form: Any, corpus: Corpus, labels: list[str] | None) -> None:
    if form is conll:
        conll.format_trees(corpus, corpus.outputs).encode()
        return
    labels = named(corpus.outputs, corpus.labels) if labels is None else labels
    if form is segmented:
        lines = segmented.format_lines(corpus, segmented.words_of(corpus, labels))
    else:
        lines = columns.format_sentences(corpus, labels)
    "".join(lines).encode()


# ---------------------------------------------------------------- templates


def _templates(dialect: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        take = Taking(data)
        text = take.rest().decode("utf-8", "surrogateescape" if len(data) % 2 else "replace")
        for finding in lint.check(text, dialect=dialect, columns=2):
            assert len(str(finding)) <= LONGEST
        found = TemplateSet.parse(text, dialect=dialect, lists={"names": ("Ana",)})
        again = TemplateSet.parse(found.text(), lists=found.lists)
        assert again == found, "what is written must read as it was"
        found.shared(), found.columns(), found.reach()

    return run


def _regex(data: bytes) -> None:
    text, _, cell = data.decode("utf-8", "replace").partition("\0")
    try:
        regex = compiled(text, wapiti=len(data) % 2 == 1)
    except RegexError:
        return
    found = regex.search(cell)
    assert found is None or found in cell[:MAX_CELL_LENGTH]


# ---------------------------------------------------------------- models


def _archive(data: bytes) -> None:
    """Load bytes, or a model with a few other bytes; in three of four cases the digest is made right again."""
    take = Taking(data)
    how = take.byte()
    base = models.bases()[take.one_of(list(models.SORTS))] if how % 2 == 0 else b""
    raw = models.scratched(base, take) if base else take.rest()
    _use(Model.load(written(raw if how % 8 > 5 else models.sealed(raw))))


def _model(data: bytes) -> None:
    header, arrays = models.damaged(Taking(data))
    _use(Model.load(written(models.zipped(header, arrays))))


def _checkpoint(data: bytes) -> None:
    """Resume a run from a checkpoint with other bytes or other values, and with a digest that is right."""
    take = Taking(data)
    if take.byte() % 2:
        raw = models.sealed(models.scratched(models.checkpoint(), take))
    else:
        raw = models.zipped(*models.edited(*models.parts_of(models.checkpoint()), take))
    checkpointer = Checkpoint(written(raw), every=0.0)
    checkpointer.open(models.FACTS)
    checkpointer.restore(models.Running())


def _use(model: Model) -> None:
    """What users do with a model that could be loaded."""
    corpus = models.probes()["dicts" if model.takes_dicts else model.task]
    outputs = model.predict(corpus)
    model.template_weights()
    if model.relations is not None:
        model.relate(corpus, outputs)
    if model.structure.name != "multiclass":
        model.lattice(corpus).marginals(model.temperature)


def _import_crfpp(data: bytes) -> None:
    path = written(data)
    _save(crfpp.to_model(crfpp.read(path), path))


def _import_wapiti(data: bytes) -> None:
    path = written(data)
    found = wapiti.read_model(path)
    _save(wapiti.to_model(found, TemplateSet.parse("\n".join(found.patterns), path, dialect="wapiti"), path))


def _import_crfsuite(data: bytes) -> None:
    model = crfsuite.to_model(crfsuite.read(data))
    model.predict([[{"word": "a", "next": "b"}, {"word": "b"}]])
    model.save(path := written(b"", "saved.mtl"))
    Model.load(path)


def _crfsuite_models() -> list[bytes]:
    """A model of three labels and four attributes, and its parts."""
    weights = np.arange(12.0).reshape(4, 3) - 5
    names = ("word:a", "word:b", "next:word:a", "first")
    whole = crfsuite.packed(crfsuite.Contents(("A", "B", "O"), names, weights, weights[:3] / 2))
    return [whole, whole[: len(whole) // 2], whole[:48]]


def _save(model: Model) -> None:
    """An imported model can label, and be saved and loaded."""
    if model.columns <= 2:
        model.predict(models.probes()["sequence"])
    model.save(path := written(b"", "saved.mtl"))
    Model.load(path)


def _log(data: bytes) -> None:
    RunLog.read(written(data))


def _server(data: bytes) -> None:
    from qa.fuzz import serving

    serving.ask(data)


# ---------------------------------------------------------------- the table


def _texts(*texts: str, prefixes: tuple[bytes, ...] = (b"",)) -> Callable[[], list[bytes]]:
    return lambda: [prefix + text.encode() for prefix in prefixes for text in texts]


_READ = (
    b"\x00\x00",
    b"\x01\x00",
    b"\x02\x00",
    b"\x40\x00",
    b"\x41\x0c",
    b"\x03\x0d",
    b"\x21\x00",
    b"\xc1\x00",
)

TARGETS: dict[str, Target] = {
    "columns": Target(_columns, _texts(seeds.COLUMNS, prefixes=_READ)),
    "items": Target(_items, _texts(seeds.ITEMS, prefixes=_READ)),
    "segmented": Target(_segmented, _texts(seeds.SEGMENTED, prefixes=_READ)),
    "conll": Target(_conll, _texts(seeds.CONLL, prefixes=_READ)),
    "dicts": Target(_dicts, _texts(seeds.DICTS, seeds.ITEM_DICTS, prefixes=_READ)),
    "templates": Target(_templates("mtlstruct"), _texts(seeds.OURS, seeds.ARCS)),
    "crfpp": Target(_templates("crfpp"), _texts(seeds.CRFPP, prefixes=(b"\0", b"\1"))),
    "wapiti": Target(_templates("wapiti"), _texts(seeds.WAPITI)),
    "regex": Target(_regex, _texts(*seeds.REGEXES), 400),
    "archive": Target(
        _archive,
        lambda: [
            b"\1" + models.bases()["multiclass"],
            *(bytes([0, n, 1, 0]) for n in range(len(models.SORTS))),
        ],
        16384,
    ),
    "model": Target(
        _model,
        lambda: [bytes([n, k, *range(k, k + 30)]) for n in range(len(models.SORTS)) for k in range(0, 60, 6)],
        256,
    ),
    "checkpoint": Target(
        _checkpoint,
        lambda: [bytes([how, k, *range(k, k + 30)]) for how in (0, 1) for k in range(0, 60, 6)],
        256,
    ),
    "import-crfpp": Target(_import_crfpp, _texts(seeds.CRFPP_MODEL)),
    "import-crfsuite": Target(_import_crfsuite, _crfsuite_models, 16384),
    "import-wapiti": Target(_import_wapiti, _texts(seeds.WAPITI_MODEL)),
    "log": Target(_log, _texts(seeds.LOG)),
    "server": Target(_server, lambda: _requests()),
}
"""Targets by name."""


def _requests() -> list[bytes]:
    bodies = (
        '{"text": "今天 x", "explain": 2, "probabilities": true}',
        '{"columns": "Ana N\\nen P\\n\\nxyz Q O", "explain": 3}',
        '{"rows": [[["Ana", "N"], ["x", "y"]]], "probabilities": true}',
        '{"columns": "1\\tthe\\t_\\tD\\tD\\t_\\t2\\n2\\tcat\\t_\\tN\\tN\\t_\\t0", "drawing": true}',
        '{"text": "a b"}\n\n{"text": 1}\n{"rows": [[["casa"]]]}',
    )
    kinds = ((0, 0, 1), (0, 3, 2))  # method, path, content type
    return [
        bytes([sort, *kind, 0, 1, 0, size]) + body.encode()
        for sort in range(len(models.SORTS)) for kind in kinds for body in bodies for size in (5, 63)
    ]  # fmt: skip
