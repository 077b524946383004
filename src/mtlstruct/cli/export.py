"""`export` and `import`: models for other programs, and theirs for ours."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mtlstruct.cli.common import EncodingOption, Tags, Task, refuse_overwriting
from mtlstruct.errors import IncompatibleError


class Format(StrEnum):
    """The model formats of other programs; one file each in exchange."""

    crfpp_text = "crfpp-text"


FormatOption = Annotated[Format, typer.Option("--format", help="CRF++'s text model.")]


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write.")],
    form: FormatOption = Format.crfpp_text,
    rename: Annotated[
        bool,
        typer.Option("--rename", help="Number the names of templates, so that none is taken for another."),
    ] = False,
) -> None:
    """Write a model for another program.

    `crf_learn -C OUT BINARY` makes a model for `crf_test` of it. What the other program cannot hold is refused.
    """
    from mtlstruct.exchange import crfpp
    from mtlstruct.files import check_writable
    from mtlstruct.model import Model

    refuse_overwriting([model], [out])
    check_writable(out)
    text = crfpp.write(Model.load(model), out, rename=rename)
    print(
        f"wrote {out}: {len(text.labels)} labels, {len(text.templates)} templates, "
        f"{len(text.features):,} features, {len(text.alpha):,} weights",
        file=sys.stderr,
    )


def import_(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A model of another program.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where to save the model.")],
    form: FormatOption = Format.crfpp_text,
    task: Annotated[
        Task, typer.Option("--task", help="What the labels are for: column data, or segmented text.")
    ] = Task.sequence,
    tags: Annotated[
        Tags, typer.Option("--tags", help="Labels of characters (--task segmentation).")
    ] = Tags.bie,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Read a model of another program, for `predict`, `weights` and `explain`."""
    from mtlstruct.exchange import crfpp
    from mtlstruct.files import check_writable

    refuse_overwriting([source], [out])
    check_writable(out)
    text = crfpp.read(source, encoding)
    if task == Task.segmentation:
        _check_tags(text.labels, tags, source)
    model = crfpp.to_model(text, source, task=task, tags=tags)
    model.save(out)
    print(
        f"saved {out}: {len(model.labels)} labels, {len(model.live)} of {len(model.templates)} templates "
        f"with weights, {int(model.features.sum()):,} features",
        file=sys.stderr,
    )


def _check_tags(labels: tuple[str, ...], tags: str, path: Path) -> None:
    from mtlstruct.formats.segmented import TAGS

    foreign = sorted(set(labels) - set(TAGS[tags]))
    if foreign:
        raise IncompatibleError(
            f"{path}: --tags {tags} has the labels {', '.join(sorted(set(TAGS[tags])))}, got {foreign[0]!r}"
        )
