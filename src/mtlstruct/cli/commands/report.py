"""`report`: everything about a model on one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.cli.common import (
    LOG_SUFFIX,
    EncodingOption,
    ThreadsOption,
    log_beside,
    use_threads,
    warn_uncalibrated,
)
from mtlstruct.cli.errors import complain
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs
from mtlstruct.errors import IncompatibleError
from mtlstruct.training.run_log import RunLog

if TYPE_CHECKING:
    from mtlstruct.model.model import Model


def report(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.html", help="Where to write the page.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="GOLD", help="Labelled data: scores, confusions and calibration."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", help="The log of the training.", show_default=f"MODEL{LOG_SUFFIX}, if it is there"
        ),
    ] = None,
    force: ForceOption = False,
    threads: ThreadsOption = None,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Write one page with all there is to know about a model.

    Ranked templates and the cut between kept and dropped, convergence, scores by type, confusions, calibration, the
    highest-weighted features, sizes, and the command that made it. Figures are those of the model, of the log beside
    it and of --data (or of the data that `train --valid` had). The page needs no network and no other file.
    """
    from mtlstruct.model.model import Model
    from mtlstruct.report.html_report import make_report
    from mtlstruct.tasks import task_of

    use_threads(threads)
    check_outputs([(out, Kind.PAGE)], inputs=[model, data, log, log_beside(model)], force=force)
    loaded = Model.load(model)
    trace = _trace(loaded, model, log)
    assessment = None
    if data is not None:
        task = task_of(loaded.task)
        assessment = task.assess(loaded, task.read_for(loaded, data, encoding), str(data))
        if assessment.trust is not None:
            warn_uncalibrated(loaded, model)
    page = make_report(loaded, name=model.name, size=model.stat().st_size, trace=trace, assessment=assessment)
    page.save(out)
    print(f"wrote {out}")


def _trace(model: Model, path: Path, log: Path | None) -> RunLog | None:
    """The log of the training; one that was not asked for may be missing, or another's."""
    if log is None and not log_beside(path).is_file():
        complain(f"note: there is no {log_beside(path)}: the page will say nothing of the training")
        return None
    place = log or log_beside(path)
    trace = RunLog.read(place)
    if trace.is_of(model):
        return trace
    problem = f"{place} is the log of another training than that of {path}"
    if log is not None:
        raise IncompatibleError(problem)
    complain(f"note: {problem}: the page will say nothing of the training")
    return None
