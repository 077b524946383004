"""`evaluate`, `score` and `calibrate`: scores of models and files, calibrated probabilities."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from mtlstruct.cli import common
from mtlstruct.cli.command import argument, option
from mtlstruct.cli.constraints import FORBID, VALID_BIO, constraints_of
from mtlstruct.cli.engine import Engine
from mtlstruct.cli.errors import NEGATIVE, print_message
from mtlstruct.cli.outputs import Kind, check_outputs
from mtlstruct.evaluation.scores import printed
from mtlstruct.model.calibration import calibration_report, fit_temperature, report_of
from mtlstruct.tasks import FileOptions, OutputOptions, task_of
from mtlstruct.training.options import Task

Scheme = Literal[
    "bio", "iob1", "ioe1", "ioe2", "io", "bioes", "bilou", "bmes", "grobid", "conlleval", "classes"
]
SCHEME = option(None, "How labels mark chunks, for their scores.", shown="recognised by the labels")

MIN_LOG_LOSS = 1e-6
"""A smaller mean log loss means that the data are those of the training."""


def evaluate(
    model: Path = common.MODEL,
    gold: Path = argument(..., "GOLD", "Labelled data in the format of the training data."),
    scheme: Scheme | None = SCHEME,
    words: Path | None = common.WORDS,
    json: bool = common.JSON,
    forbid: list[str] | None = FORBID,
    valid_bio: bool = VALID_BIO,
    threads: int | None = common.THREADS,
    engine: common.Workers = common.ENGINE,
    address: str | None = common.ADDRESS,
    workers: int | None = common.WORKERS,
    encoding: str | None = common.MODEL_ENCODING,
) -> None:
    """Label a file with gold labels and print the scores.

    Chunks (labels of IOB1, IOB2, IOE1, IOE2, BIOES, BILOU, BMES or GROBID's I-<x> and <x>) are
    scored as by conlleval, words as by SIGHAN's script, trees as by CoNLL-X's; classes and other
    labels by accuracy and by precision, recall and F1 per class and averaged over classes (macro).
    Also printed: for labels their scheme and the share of sequences without an error, and how
    reliable the probabilities are (expected calibration error, log loss; `report` draws them).

    Example: mtlstruct evaluate ner.mtl test.txt
    """
    where = Engine(engine, address, workers)
    where.check()
    loaded, task = common.load_model(model, threads)
    task = task.with_scheme(scheme)
    vocabulary = task.vocabulary(words, encoding or loaded.encoding)
    corpus = task.read_for(loaded, gold, encoding)
    limits = constraints_of(loaded.labels, forbid, valid_bio)
    parts = [corpus]
    if engine == "ray" and loaded.first is None:  # else labels depend on the sentences around
        runs = np.array_split(np.arange(len(corpus)), min(len(corpus), 4 * where.size))
        parts = [corpus.take(run) for run in runs]
    with where.labellers(loaded, model, str(gold), limits, OutputOptions()) as pool:
        outputs, arcs, probabilities, times = zip(*pool.map("evaluated", parts), strict=True)
        seconds = sum(times) / pool.size
    predictions = np.concatenate(outputs)
    relations = None if arcs[0] is None else np.concatenate(arcs)
    common.warn_unknown_characters(loaded, corpus, str(gold))
    found = task.score_model(loaded, corpus, predictions, vocabulary, relations)
    calibration = None
    if probabilities[0] is not None:
        common.warn_uncalibrated(loaded, model)
        calibration = report_of(probabilities, loaded.temperature, calibrated=loaded.calibrated)
    speed = corpus.tokens / seconds
    if json:
        figures = calibration.as_dict() if calibration else {}
        common.print_json(found.as_dict() | figures | {"seconds": seconds, "tokens_per_second": speed})
    else:
        print(printed(found), end="")
        if calibration:
            print(calibration.line())
        print(f"predicted {corpus.tokens:,} {task.token_unit} in {seconds:.2f} s, {speed:,.0f} per second")


def score(
    gold: Path = argument(..., "GOLD", "File with gold labels."),
    predicted: Path = argument(..., "PREDICTED", "The same text with predicted labels or word boundaries."),
    task: Task = option("sequence", "Labels or classes in the last column, segmented text, or CoNLL trees."),
    scheme: Scheme | None = SCHEME,
    words: Path | None = common.WORDS,
    json: bool = common.JSON,
    least: float | None = option(
        None, "Exit with code 1 if F1 (trees: UAS) is below this.", "--min", metavar="F1", range=(0.0, 100.0)
    ),
    separator: str = common.SEPARATOR,
    ragged: common.Ragged = common.RAGGED,
    encoding: str = common.ENCODING,
) -> None:
    """Score a file of predictions against a gold file.

    The scores are those of `evaluate`: conlleval's for chunks, SIGHAN's for words, CoNLL-X's for
    trees, accuracy and F1 per class for other labels. --min compares F1; for classes their average,
    the macro F1.

    Example: mtlstruct score test.txt labelled.txt --min 75
    """
    chosen = task_of(task).with_scheme(scheme)
    form = FileOptions(encoding, cells=common.cell_format(separator, ragged))
    found = chosen.score_files(gold, predicted, chosen.vocabulary(words, encoding), form)
    if json:
        common.print_json(found.as_dict())
    else:
        print(printed(found), end="")
    name = chosen.minimum
    reached = float(found.as_dict()[name])
    if least is not None and not reached >= least:  # so written, nan is never enough
        print_message(f"{name.upper()} is {reached:.2f}, below --min {least:g}")
        sys.exit(NEGATIVE)


def calibrate(
    model: Path = common.MODEL,
    data: Path = argument(..., "HELDOUT", "Labelled data that the model was not trained on."),
    out: Path | None = option(None, "Model file to write.", "-o", "--out", shown="MODEL"),
    force: bool = common.FORCE,
    json: bool = common.JSON,
    threads: int | None = common.THREADS,
    encoding: str | None = common.MODEL_ENCODING,
) -> None:
    """Calibrate a model's probabilities on held-out data.

    Fits the temperature, by which scores are divided before they become probabilities, and stores
    it in the model. Predicted labels do not change. `train --valid` calibrates, too; models of the
    methods that maximise the likelihood need no calibration.

    Example: mtlstruct calibrate ner.mtl dev.txt
    """
    loaded, task = common.load_model(model, threads)
    check_outputs([(out or model, Kind.MODEL)], inputs=[data], force=force)
    corpus = task.read_for(loaded, data, encoding)
    lattice, gold = loaded.lattice(corpus), loaded.gold(corpus)
    before = calibration_report(lattice, gold, loaded.temperature, calibrated=loaded.calibrated)
    temperature = fit_temperature(lattice, gold)
    after = calibration_report(lattice, gold, temperature)
    if after.nll < MIN_LOG_LOSS:
        print_message(f"note: {model} makes no error on {data}: was it trained on these data?")
    replace(loaded, facts=loaded.facts | {"temperature": temperature}).save(out or model)
    if json:
        common.print_json(after.as_dict() | {"before": before.as_dict()})
    else:
        print(f"before: {before.line()}\nafter:  {after.line()}\nsaved {out or model}")
