"""`export` and `import`: write models for other programs, and read theirs."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

from mtlstruct.cli import common
from mtlstruct.cli.command import argument, option
from mtlstruct.cli.errors import print_message
from mtlstruct.cli.outputs import Kind, beginning, check_outputs, kind_of
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.formats.segmented import tag_labels
from mtlstruct.formats.text import check_encoding
from mtlstruct.interop import crfpp, crfsuite, standalone, wapiti
from mtlstruct.model.model import Model
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Tags, Task

Format = Literal["crfpp-text", "wapiti-text", "crfsuite", "standalone"]

KINDS = {"crfpp-text": Kind.CRFPP, "wapiti-text": Kind.WAPITI, "crfsuite": Kind.CRFSUITE}


def export(
    model: Path = common.MODEL,
    out: Path = argument(..., "OUT", "File (standalone: folder) to write."),
    form: Format = option(
        "crfpp-text",
        "Model of CRF++, Wapiti or CRFsuite, or a tagger that needs nothing but Python.",
        "--format",
    ),
    rename: bool = option(False, "Number the names of templates, which the other program mixes up."),
    data: Path | None = option(None, "standalone: labelled data; 16-bit weights if no label changes."),
    encoding: str | None = option(None, "Encoding of the file.", shown="that of the training data"),
    force: bool = common.FORCE,
) -> None:
    """Write a model for CRF++, Wapiti, CRFsuite, or stand-alone.

    `crf_learn -C OUT BINARY` turns crfpp-text into a model for `crf_test`; `wapiti label -m OUT`
    reads wapiti-text, python-crfsuite reads crfsuite. standalone writes OUT/tagger.py and
    OUT/tagger.bin: `python OUT/tagger.py FILE` labels as `predict` does. A model that the other
    program cannot represent is an error.

    Example: mtlstruct export ner.mtl ner.crfpp --format crfpp-text
    """
    if data is not None and form != "standalone":
        raise MtlError("expected --data together with --format standalone, and with no other format")
    if form == "standalone":
        written = [(out / "tagger.py", Kind.PROGRAM), (out / "tagger.bin", Kind.WEIGHTS)]
        check_outputs(written if out.is_dir() else [], inputs=[model, data], force=force)
        print(_standalone(Model.load(model), out, data, encoding), file=sys.stderr)
        return
    check_outputs([(out, KINDS[form])], inputs=[model], force=force)
    loaded = Model.load(model)
    encoding = encoding or loaded.encoding
    check_encoding(encoding, out)
    if form == "crfpp-text":
        found = crfpp.write(loaded, out, rename=rename, encoding=encoding)
        count = sum(map(len, found.weights.values()))
        size = f"{len(found.patterns)} templates, {len(found.weights):,} features, {count:,} weights"
    elif form == "crfsuite":
        size = f"{len(crfsuite.write(loaded, out, rename=rename).attributes):,} attributes"
    else:
        found = wapiti.observations(loaded, rename=rename)
        _warn(wapiti.differences(loaded.index.templates))
        wapiti.write_model(found, out, encoding)
        size = f"{len(found.patterns)} patterns, {len(found.weights):,} observations"
    print(f"wrote {out}: {len(loaded.labels)} labels, {size}", file=sys.stderr)


def _standalone(model: Model, folder: Path, data: Path | None, encoding: str | None) -> str:
    """Write a stand-alone tagger; return what was written."""
    corpus = None if data is None else task_of(model.task).read_for(model, data, encoding)
    found = standalone.write(model, folder, corpus)
    checked = "" if corpus is None or found.bits == 32 else f", no label of {corpus.tokens:,} tokens changes"
    return f"wrote {found.program} and {found.weights}: {found.size / 1e6:.2f} MB, {found.bits}-bit weights{checked}"


def import_(
    source: Path = argument(..., "FILE", "Model file of the other program."),
    out: Path = argument(..., "OUT", "Model file to write."),
    task: Task = option("sequence", "Task of the model: column data, or segmented text."),
    tags: Tags = option("bie", "Labels of characters (--task segmentation).", "--scheme"),
    force: bool = common.FORCE,
    encoding: str = common.ENCODING,
) -> None:
    """Read a model of CRF++, Wapiti or CRFsuite.

    The file tells which program wrote it. The result works with `predict`, `evaluate`, `weights`
    and `explain`. A model of CRFsuite takes JSON lines of feature dicts; attributes with the same
    name are a template.

    Example: mtlstruct import ner.wapiti ner.mtl
    """
    check_outputs([(out, Kind.MODEL)], inputs=[source], force=force)
    kind = _kind(source)
    if kind is Kind.CRFSUITE:
        if task != "sequence":
            raise IncompatibleError(f"CRFsuite has label sequences only: the task is {task}")
        model = crfsuite.to_model(crfsuite.read(source))
    elif kind is Kind.WAPITI:
        found = wapiti.read_model(source, encoding)
        templates = TemplateSet.parse("\n".join(found.patterns), source, dialect="wapiti")
        _warn(wapiti.differences(templates))
        if found.skipped:
            _warn([f"{found.skipped:,} observations are not {encoding} text and were left out"])
        model = wapiti.to_model(found, templates, source, task=task, tags=tags)
    else:
        model = crfpp.to_model(crfpp.read(source, encoding), source, task=task, tags=tags)
    foreign = sorted(set(model.labels) - set(tag_labels(tags)))
    if model.characters and foreign:
        expected = ", ".join(tag_labels(tags))
        raise IncompatibleError(f"{source}: --scheme {tags} has the labels {expected}, got {foreign[0]!r}")
    if encoding != "utf-8":
        model = replace(model, facts=model.facts | {"encoding": encoding})
    model.save(out)
    print(
        f"saved {out}: {len(model.labels)} labels, {len(model.live)} of {len(model.templates)} templates "
        f"with weights, {int(model.features.sum()):,} features",
        file=sys.stderr,
    )


def _kind(source: Path) -> Kind:
    """Return the kind of a model file; raise for one that is no model of another program."""
    try:
        kind = kind_of(beginning(source))
    except OSError as error:
        raise MtlError(f"{source}: cannot read it: {error.strerror or error}") from None
    if kind in KINDS.values():
        return kind
    hint = ", which needs no import" if kind is Kind.MODEL else ""
    raise MtlError(
        f"{source}: expected a text model of CRF++, or a model of Wapiti or CRFsuite, got {kind.value}{hint}"
    )


def _warn(sentences: list[str]) -> None:
    for sentence in sentences:
        print_message(f"warning: {sentence}")
