"""`report`: everything about a model on one page, or the main figures as a model card."""

from pathlib import Path
from typing import Annotated, Literal

from mtlstruct._system.atomic_write import replacing
from mtlstruct.cli import common
from mtlstruct.cli.common import argument, option
from mtlstruct.cli.errors import print_message
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs
from mtlstruct.errors import IncompatibleError
from mtlstruct.model.model import Model
from mtlstruct.report.html_report import report_figures, report_page
from mtlstruct.report.model_card import model_card
from mtlstruct.training.run_log import RunLog


def report(
    model: common.ModelArgument,
    out: Annotated[Path, argument("OUT", "File to write.")],
    data: Annotated[
        Path | None, option("Labelled data for scores, confusions and calibration.", metavar="GOLD")
    ] = None,
    form: Annotated[
        Literal["html", "markdown"], option("A page with everything, or a short model card.", "--format")
    ] = "html",
    log: Annotated[
        Path | None, option("Training log.", shown=f"MODEL{common.LOG_SUFFIX}, if it exists")
    ] = None,
    force: ForceOption = False,
    threads: common.ThreadsOption = None,
    encoding: common.ModelEncodingOption = None,
) -> None:
    """Write an HTML page or a model card about a model.

    The page shows kept and dropped templates, convergence, scores by type, confusions, calibration,
    the features with the largest weights, sizes, and the training command. It takes them from the
    model, from the log beside it and from --data (or from the data of `train --valid`). It needs no
    network and no other file. The card has what the model is, its data, method, scores, largest
    templates and limits.

    Example: mtlstruct report ner.mtl report.html --data test.txt
    """
    kind = Kind.PAGE if form == "html" else Kind.CARD
    check_outputs([(out, kind)], inputs=[model, data, log, common.log_beside(model)], force=force)
    loaded, task = common.load_model(model, threads)
    trace = _trace(loaded, model, log)
    assessment = None
    if data is not None:
        assessment = task.assess(loaded, task.read_for(loaded, data, encoding), str(data))
        if assessment["calibration"] is not None:
            common.warn_uncalibrated(loaded, model)
    size = model.stat().st_size
    figures = report_figures(loaded, name=model.name, size=size, trace=trace, assessment=assessment)
    if form == "html":
        report_page(figures).save(out)
    else:
        with replacing(out) as file:
            file.write(model_card(figures).encode())
    print(f"wrote {out}")


def _trace(model: Model, path: Path, log: Path | None) -> RunLog | None:
    """Return the training log. Without --log it may be missing or belong to another training."""
    place = log or common.log_beside(path)
    problem = f"there is no {place}"
    if log is not None or place.is_file():
        trace = RunLog.read(place)
        if trace.is_of(model):
            return trace
        problem = f"{place} is not the log of the training of {path}"
    if log is not None:
        raise IncompatibleError(problem)
    print_message(f"note: {problem}: the page will not show the training")
    return None
