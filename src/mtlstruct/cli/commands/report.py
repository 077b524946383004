"""`report`: everything about a model on one page, or the main figures as a model card."""

from pathlib import Path
from typing import Literal

from mtlstruct._system.atomic_write import replacing
from mtlstruct.cli import common
from mtlstruct.cli.command import argument, option
from mtlstruct.cli.errors import print_message
from mtlstruct.cli.outputs import Kind, check_outputs
from mtlstruct.errors import IncompatibleError
from mtlstruct.report.html_report import report_figures, report_page
from mtlstruct.report.model_card import model_card
from mtlstruct.training.run_log import RunLog


def report(
    model: Path = common.MODEL,
    out: Path = argument(..., "OUT", "File to write."),
    data: Path | None = option(None, "Labelled data for scores, confusions and calibration.", metavar="GOLD"),
    form: Literal["html", "markdown"] = option(
        "html", "A page with everything, or a short model card.", "--format"
    ),
    log: Path | None = option(None, "Training log.", shown=f"MODEL{common.LOG_SUFFIX}, if it exists"),
    force: bool = common.FORCE,
    threads: int | None = common.THREADS,
    encoding: str | None = common.MODEL_ENCODING,
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
    trace, place = None, log or common.log_beside(model)
    problem = f"there is no {place}"
    if log is not None or place.is_file():
        trace = RunLog.read(place)
        if not trace.is_of(loaded):
            trace, problem = None, f"{place} is not the log of the training of {model}"
    if trace is None and log is not None:
        raise IncompatibleError(problem)
    if trace is None:
        print_message(f"note: {problem}: the page will not show the training")
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
