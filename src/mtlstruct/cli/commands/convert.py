"""`export` and `import`: models for other programs, and theirs for ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from mtlstruct.cli.common import EncodingOption
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.formats.segmented import TAGS
from mtlstruct.interop import crfpp, wapiti
from mtlstruct.interop import wapiti_io as wapiti_files
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Tags, Task

Format = Literal["crfpp-text", "wapiti-text", "wapiti-dump"]


WRITTEN = {"crfpp-text": Kind.CRFPP, "wapiti-text": Kind.WAPITI, "wapiti-dump": Kind.DUMP}

FormatOption = Annotated[
    Format,
    typer.Option("--format", help="CRF++'s text model, Wapiti's model, or the lines of `wapiti dump`."),
]


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write.")],
    form: FormatOption = "crfpp-text",
    rename: Annotated[
        bool,
        typer.Option("--rename", help="Number the names of templates, so that none is taken for another."),
    ] = False,
    force: ForceOption = False,
) -> None:
    """Write a model for another program.

    `crf_learn -C OUT BINARY` makes a model for `crf_test` of crfpp-text; `wapiti label -m OUT` reads wapiti-text.
    What the other program cannot hold is refused.
    """

    check_outputs([(out, WRITTEN[form])], inputs=[model], force=force)
    write = _write_crfpp if form == "crfpp-text" else _write_wapiti
    print(f"wrote {out}: {write(Model.load(model), out, form, rename)}", file=sys.stderr)


def _write_crfpp(model: Model, out: Path, form: Format, rename: bool) -> str:
    text = crfpp.write(model, out, rename=rename)
    return (
        f"{len(text.labels)} labels, {len(text.templates)} templates, "
        f"{len(text.features):,} features, {len(text.alpha):,} weights"
    )


def _write_wapiti(model: Model, out: Path, form: Format, rename: bool) -> str:
    found = wapiti.observations(model, rename=rename)
    _warn(wapiti.differences(model.index.templates))
    if form == "wapiti-dump":
        wapiti_files.write_dump(found, out)
    else:
        wapiti_files.write_model(found, out, max(model.index.templates.columns(), default=0))
    return f"{len(found.labels)} labels, {len(found.patterns)} patterns, {len(found):,} observations"


def import_(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A model of another program.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where to save the model.")],
    form: FormatOption = "crfpp-text",
    templates: Annotated[
        Path | None,
        typer.Option(
            "--templates", help="Wapiti's pattern file, which its dump does not hold (wapiti-dump)."
        ),
    ] = None,
    task: Annotated[
        Task, typer.Option("--task", help="What the labels are for: column data, or segmented text.")
    ] = "sequence",
    tags: Annotated[Tags, typer.Option("--tags", help="Labels of characters (--task segmentation).")] = "bie",
    force: ForceOption = False,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Read a model of another program, for `predict`, `weights` and `explain`."""
    if (templates is not None) != (form == "wapiti-dump"):
        raise MtlError("expected --templates together with --format wapiti-dump, and with no other format")
    check_outputs([(out, Kind.MODEL)], inputs=[source, templates], force=force)
    if form == "crfpp-text":
        model = crfpp.to_model(crfpp.read(source, encoding), source, task=task, tags=tags)
    else:
        model = _read_wapiti(source, templates, task, tags, encoding)
    if model.characters:
        _check_tags(model.labels, tags, source)
    model.save(out)
    print(
        f"saved {out}: {len(model.labels)} labels, {len(model.live)} of {len(model.templates)} templates "
        f"with weights, {int(model.features.sum()):,} features",
        file=sys.stderr,
    )


def _read_wapiti(source: Path, patterns: Path | None, task: str, tags: str, encoding: str) -> Model:
    if patterns is not None:
        found = wapiti_files.read_dump(source, encoding)
        templates = TemplateSet.read(patterns, dialect="wapiti")
    else:
        found = wapiti_files.read_model(source, encoding)
        templates = TemplateSet.parse("\n".join(found.patterns), source, dialect="wapiti")
    _warn(wapiti.differences(templates))
    if found.skipped:
        _warn([f"{found.skipped:,} observations are not {encoding} text and were left out"])
    return wapiti.to_model(found, templates, source, task=task, tags=tags)


def _warn(sentences: list[str]) -> None:
    for sentence in sentences:
        print(f"warning: {sentence}", file=sys.stderr)


def _check_tags(labels: tuple[str, ...], tags: str, path: Path) -> None:
    foreign = sorted(set(labels) - set(TAGS[tags]))
    if foreign:
        raise IncompatibleError(
            f"{path}: --tags {tags} has the labels {', '.join(sorted(set(TAGS[tags])))}, got {foreign[0]!r}"
        )
