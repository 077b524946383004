"""`templates select`: the template file that training says would have been enough."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtlstruct.cli.commands.templates import check_template_output, write_templates
from mtlstruct.cli.common import EncodingOption, ThreadsOption, use_threads
from mtlstruct.cli.outputs import ForceOption
from mtlstruct.errors import IncompatibleError, MtlError

if TYPE_CHECKING:
    from mtlstruct.model.model import Model
    from mtlstruct.templates import TemplateSet


Format = Literal["mtlstruct", "crfpp", "wapiti"]


def select(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Where to write.", show_default="stdout")
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="The N heaviest templates.")
    ] = None,
    above: Annotated[
        float | None,
        typer.Option("--above", metavar="X", help="Templates with mu above X (svm: with a norm above X)."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option("--budget", metavar="LOSS", help="As few as cost at most LOSS points of F1 on --valid."),
    ] = None,
    valid: Annotated[Path | None, typer.Option("--valid", help="Labelled data for --budget.")] = None,
    source: Annotated[
        Path | None,
        typer.Option("--templates", help="The file that was trained with: its comments are kept."),
    ] = None,
    dialect: Annotated[
        Format, typer.Option("--dialect", help="The template language of --templates.")
    ] = "mtlstruct",
    form: Annotated[Format, typer.Option("--format", help="The template language.")] = "mtlstruct",
    force: ForceOption = False,
    threads: ThreadsOption = None,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Write the smaller template file: the lines worth keeping, in their order.

    A model keeps template lines but no comments; give the original by --templates to have them too. --budget
    trains nothing: it predicts with the weights of the other templates removed, so a model trained again on
    the chosen ones can be expected to lose less. What --format cannot express is refused with its line.
    """
    from mtlstruct.explain.selection import lines_kept
    from mtlstruct.model.model import Model

    _check_choice(top, above, budget, valid)
    check_template_output(out, [model, valid, source], force=force)
    use_threads(threads)
    loaded = Model.load(model)
    templates = loaded.templates if source is None else _original(source, dialect, loaded, model)
    kept, remark = _chosen(loaded, top, above, budget, valid, encoding)
    write_templates(lines_kept(templates, kept, form), out)
    print(f"{remark}{_savings(loaded, kept, model)}", file=sys.stderr)


def _check_choice(top: int | None, above: float | None, budget: float | None, valid: Path | None) -> None:
    if sum(choice is not None for choice in (top, above, budget)) != 1:
        raise IncompatibleError("expected one of --top, --above and --budget")
    if (budget is None) != (valid is None):
        raise IncompatibleError("--budget and --valid go together: expected both or neither")
    if budget is not None and not 0 <= budget <= 100:
        raise MtlError(f"--budget: expected points of F1 from 0 to 100, got {budget}")


def _original(path: Path, dialect: str, model: Model, name: Path) -> TemplateSet:
    """The user's own file, if it is the one of the model."""
    from mtlstruct.templates import TemplateSet

    templates = TemplateSet.read(path, dialect=dialect)
    if model.facts.get("share_identical"):
        templates = templates.shared()
    if templates.text() != model.templates.text():
        raise IncompatibleError(f"{path}: these are not the templates that {name} was trained with")
    return templates


def _chosen(
    model: Model,
    top: int | None,
    above: float | None,
    budget: float | None,
    valid: Path | None,
    encoding: str,
) -> tuple[list[int], str]:
    """The templates to keep, and a remark on how they were found."""
    from mtlstruct.explain import selection

    if top is not None:
        return selection.top(model, top), ""
    if above is not None:
        return selection.above(model, above), ""
    assert budget is not None
    assert valid is not None
    return _within_budget(model, budget, valid, encoding)


def _within_budget(model: Model, budget: float, valid: Path, encoding: str) -> tuple[list[int], str]:
    from mtlstruct.explain.selection import Trial, within
    from mtlstruct.tasks import base as scoring

    corpus = scoring.read_for(model, valid, encoding)
    trial = Trial.of(model, corpus)
    full = scoring.scores(model.task, corpus, trial.predict(model.live), model.labels)
    name = "accuracy" if scoring.without_chunks(full) else "f1"

    def score(kept: Sequence[int]) -> float:
        found = scoring.scores(model.task, corpus, trial.predict(kept), model.labels)
        return float(found.as_dict()[name])

    kept, reached = within(model, score, budget)
    best = float(full.as_dict()[name])
    return kept, (
        f"{valid}: {name} {reached:.2f} with {len(kept)} templates, {best:.2f} with all {len(model.live)} "
        "(weights removed, not trained again)\n"
    )


def _savings(model: Model, kept: Sequence[int], path: Path) -> str:
    """What the smaller file saves, measured on a model with the other weights removed."""
    from mtlstruct._system.memory import gigabytes
    from mtlstruct.explain.selection import without

    with tempfile.TemporaryDirectory() as folder:
        without(model, kept).save(Path(folder) / "small")
        small = (Path(folder) / "small").stat().st_size
    whole, left = int(model.features.sum()), int(model.features[list(kept)].sum())
    return (
        f"kept {len(kept)} of {len(model.templates)} templates: {left:,} of {whole:,} features, "
        f"{whole - left:,} saved; model {gigabytes(small)} of {gigabytes(path.stat().st_size)}, "
        f"{path.stat().st_size - small:,} bytes saved"
    )
