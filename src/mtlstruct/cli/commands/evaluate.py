"""`evaluate` and `score`: how good a model is, how good a file is."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.cli.common import (
    EncodingOption,
    JsonOption,
    ThreadsOption,
    WordsOption,
    print_json,
    use_threads,
    warn_uncalibrated,
)
from mtlstruct.cli.constraints import ForbidOption, ValidOption, constraints_of, located, rule_files
from mtlstruct.cli.errors import NO, complain
from mtlstruct.cli.outputs import ForceOption, check_picture_output
from mtlstruct.errors import IncompatibleError
from mtlstruct.training.options import Task

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.model.calibration import Trust
    from mtlstruct.model.model import Model
    from mtlstruct.structures.constraints import Constraints


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    gold: Annotated[
        Path, typer.Argument(metavar="GOLD", help="Labelled data in the format of the training data.")
    ],
    words: WordsOption = None,
    json: JsonOption = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="F.png|.svg|.pdf", help="Draw how often labels of a probability are right."
        ),
    ] = None,
    forbid: ForbidOption = None,
    valid_bio: ValidOption = False,
    force: ForceOption = False,
    threads: ThreadsOption = None,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Predict labelled data and score the result.

    The figures are those of conlleval for chunk labels (all labels are O or begin with B-, I-, E-, S- and the like),
    of SIGHAN's script for words, of CoNLL-X's for trees; for classes and other labels the accuracy, and precision,
    recall and F1 of each class and averaged over classes (macro); for labels also whole sequences right. Beside them
    stands what the model's probabilities are worth: the expected calibration error, and how improbable they find the
    right labels.
    """
    from mtlstruct.cli.unknown import UnknownCharacters
    from mtlstruct.evaluation.scores import printed
    from mtlstruct.model.calibration import trust
    from mtlstruct.model.model import Model
    from mtlstruct.tasks import task_of

    use_threads(threads)
    check_picture_output(plot, inputs=[model, gold, words, *rule_files(forbid)], force=force)
    loaded = Model.load(model)
    task = task_of(loaded.task)
    vocabulary = task.vocabulary(words, encoding)
    corpus = task.read_for(loaded, gold, encoding)
    limits = constraints_of(loaded.labels, forbid, valid_bio)
    with located(str(gold), corpus):
        _warm_up(loaded, corpus, limits)
        began = time.perf_counter()
        lattice = loaded.lattice(corpus, limits)
        predictions = lattice.best()
        relations = None if loaded.relations is None else loaded.relate(corpus, predictions)
        seconds = time.perf_counter() - began
    unknown = UnknownCharacters(loaded, str(gold))
    unknown.see(corpus)
    unknown.finish()
    found = task.score_model(loaded, corpus, predictions, vocabulary, relations)
    worth = None
    if lattice.probable:
        warn_uncalibrated(loaded, model)
        worth = trust(lattice, loaded.gold(corpus), loaded.temperature, calibrated=loaded.calibrated)
    if plot is not None:
        _draw(worth, plot)
    if json:
        speed = {"seconds": seconds, "tokens_per_second": corpus.tokens / seconds}
        print_json(found.as_dict() | (worth.as_dict() if worth else {}) | speed)
    else:
        print(printed(found), end="")
        if worth:
            print(worth.line())
        count = f"{corpus.tokens:,} {task.token_unit}"
        print(f"predicted {count} in {seconds:.2f} s, {corpus.tokens / seconds:,.0f} a second")


def score(
    gold: Annotated[Path, typer.Argument(metavar="GOLD", help="The right answers.")],
    predicted: Annotated[
        Path, typer.Argument(metavar="PREDICTED", help="The same text with other labels, or cut otherwise.")
    ],
    task: Annotated[
        Task, typer.Option("--task", help="Labels or classes in the last column, words, or CoNLL trees.")
    ],
    words: WordsOption = None,
    json: JsonOption = False,
    least: Annotated[
        float | None,
        typer.Option(
            "--min", metavar="F1", help="Exit with code 1 if F1 (UAS of trees) is below this percent."
        ),
    ] = None,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Score one file against another.

    The figures are those of conlleval for chunk labels (all labels are O or begin with B-, I-, E-, S- and the like),
    of SIGHAN's script for words, of CoNLL-X's for trees; for classes and other labels the accuracy, and precision,
    recall and F1 of each class and averaged over classes (macro), which --min then looks at; for labels also whole
    sequences right.
    """
    from mtlstruct.evaluation.scores import printed
    from mtlstruct.tasks import task_of

    chosen = task_of(task)
    found = chosen.score_files(gold, predicted, chosen.vocabulary(words, encoding), encoding)
    if json:
        print_json(found.as_dict())
    else:
        print(printed(found), end="")
    name = chosen.minimum
    reached = float(found.as_dict()[name])
    if least is not None and not reached >= least:  # so written, nan is never enough
        complain(f"{name.upper()} is {reached:.2f}, below the {least:g} asked for by --min")
        raise typer.Exit(NO)


def _draw(worth: Trust | None, path: Path) -> None:
    from mtlstruct.report.reliability_plot import plot_reliability

    if worth is None:
        raise IncompatibleError("--plot draws probabilities, and models of this task have none")
    plot_reliability(worth, path)
    print(f"drew {path}", file=sys.stderr)


def _warm_up(model: Model, corpus: Corpus, constraints: Constraints | None) -> None:
    """Predicts a few sentences, so that loading the kernels is not counted as predicting."""
    import numpy as np

    few = corpus.take(np.arange(min(10, len(corpus))))
    predictions = model.predict(few, constraints)
    if model.relations is not None:
        model.relate(few, predictions)
