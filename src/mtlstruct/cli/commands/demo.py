"""`demo`: the whole journey on the corpus that comes with the package, told as it goes."""

from __future__ import annotations

import shutil
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.cli.common import log_beside
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs
from mtlstruct.cli.training_run import TrainingRun
from mtlstruct.errors import MtlError
from mtlstruct.training.run_log import RunLog

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.model.model import Model, TemplateWeight
    from mtlstruct.samples.recipes import Line

WINDOW, COLUMNS, TRIGRAMS = (-2, 2), range(8), (1, 3, 4)
"""The choice of templates; `_by_hand` says it as a command."""

SHOWN = 15
"""Templates in the table."""


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files of the demo go.")] = Path(
        "demo"
    ),
    force: ForceOption = False,
) -> None:
    """Try it all on a small corpus, in under a minute.

    Makes data and templates, trains, tests and draws what each template is worth; leaves all files in DIR,
    with the commands to do the same by hand.
    """
    began = time.perf_counter()
    place = Files(out)
    place.prepare(force=force)
    _data(place)
    _templates(place)
    model = _train(place, force=force)
    _test(place, model)
    _weights(place, model)
    _report(place, model)
    _by_hand(place)
    print(f"\nDone in {time.perf_counter() - began:.0f} seconds.")


class Files:
    """What the demo leaves behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.train, self.test = folder / "train.txt", folder / "test.txt"
        self.templates, self.model = folder / "ingredients.tpl", folder / "model.mtl"
        self.plot, self.report = folder / "weights.png", folder / "report.html"

    def prepare(self, *, force: bool) -> None:
        """Makes the folder; one with other things in it is not ours to write to."""
        if not force and self.folder.is_dir() and any(self.folder.iterdir()) and not self.templates.is_file():
            raise MtlError(
                f"{self.folder}: expected a new folder or that of an earlier demo, got one with files; "
                "--force writes there"
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MtlError(f"{self.folder}: cannot make the folder: {error.strerror}") from None
        kinds = (Kind.TABLE, Kind.TABLE, Kind.TEMPLATES, Kind.MODEL, Kind.PNG, Kind.PAGE, Kind.LOG)
        files = (self.train, self.test, self.templates, self.model, self.plot, self.report)
        check_outputs(zip((*files, log_beside(self.model)), kinds, strict=True), force=force)


def _data(place: Files) -> None:
    from mtlstruct.samples import recipes as demo

    lines = demo.bundled()
    train, test = demo.split(lines)
    _write(place.train, demo.column_file(train, seed=1))
    _write(place.test, demo.column_file(test, seed=2))
    _step(f"1. The data: {len(lines)} lines from recipes, labelled by hand; {len(test)} are held out")
    _show(train[:3])
    _tell(
        "A token has six columns a labeller may want: the word, the word in lower case, its last three "
        "letters, its shape, its position in the line, and whether it stands in parentheses. Two more "
        "columns are noise: a random letter for each token, and one for each line."
    )


def _templates(place: Files) -> None:
    from mtlstruct.templates import generate

    templates = generate(WINDOW, COLUMNS, bigrams=True, trigrams=TRIGRAMS)
    _write(place.templates, templates.text())
    noise = sum(_is_noise(template.text) for template in templates)
    _step(f"2. The templates: {len(templates)}, generated rather than chosen")
    _tell(
        "All cells up to two tokens away, all pairs of them within a column, triples of words, shapes and "
        "positions, and B, the pair of neighbouring labels. Nobody has asked which of them are any good; "
        f"{noise} look at nothing but noise."
    )


def _train(place: Files, *, force: bool) -> Model:
    from mtlstruct.training.options import Options

    _step("3. Training: a weight for every feature, and one for every template")
    _tell(
        "All templates draw on one budget: what a model pays for is the sum of the norms of their weights, "
        "squared. So a template keeps a weight only if it lowers the error as much, for its norm, as the "
        "best ones do; the others go to zero and are dropped. (The first run on a machine compiles the "
        "kernels, which takes half a minute; they are kept.)"
    )
    log = log_beside(place.model)
    arguments = ("train", *map(str, (place.templates, place.train, place.model)))
    files = place.templates, place.train, place.model
    run = TrainingRun(Options(), *files, log=log, arguments=arguments, force=force)
    run.check()
    result = run.run(quiet=False)
    result.warn()
    _print(result.summary())
    return result.training.model


def _test(place: Files, model: Model) -> None:
    from mtlstruct.formats import text
    from mtlstruct.tasks import base as scoring

    test = scoring.read_for(model, place.test, "utf-8")
    predictions = model.predict(test)
    _step("4. The test: lines the model has not seen, as it reads them")
    _show(_lines(test, text.named(predictions, model.labels))[:5])
    _print(scoring.scores(model.task, test, predictions, model.labels).table().rstrip())


def _weights(place: Files, model: Model) -> None:
    from mtlstruct.report.tables import print_weights

    weights = model.template_weights()
    _step("5. What the templates are worth: relative to the average, which is 1")
    print_weights(weights, SHOWN)
    _tell(_noise_sentence(weights))
    _draw(weights, place.plot)


def _noise_sentence(weights: list[TemplateWeight]) -> str:
    from mtlstruct.report.tables import dropped

    noise = [weight for weight in weights if _is_noise(weight.text)]
    gone = sum(map(dropped, noise))
    share = sum(weight.mu for weight in noise)
    rest = f"; the rest hold {share:.2%} of all weight, the best is number {noise[0].rank} of {len(weights)}"
    return (
        f"The noise: {gone} of its {len(noise)} templates were dropped{rest if gone < len(noise) else ''}. "
        "Nobody had to say which columns were noise."
    )


def _draw(weights: list[TemplateWeight], path: Path) -> None:
    """The picture needs matplotlib, which the demo can do without."""
    from mtlstruct.report.plots import plot_weights

    try:
        plot_weights(weights, path)
    except MtlError as error:
        _print(f"No picture: {error}")
    else:
        _print(f"All {len(weights)} in a picture: {path}")


def _report(place: Files, model: Model) -> None:
    from mtlstruct.evaluation.error_analysis import assess
    from mtlstruct.report.html_report import make_report
    from mtlstruct.tasks import base as scoring

    _step("6. The report: all of this and more on one page")
    page = make_report(
        model,
        name=place.model.name,
        size=place.model.stat().st_size,
        trace=RunLog.read(log_beside(place.model)),
        assessment=assess(model, scoring.read_for(model, place.test, "utf-8"), str(place.test)),
    )
    page.save(place.report)
    _print(f"Open {place.report} in a browser: convergence, scores, confusions, the most telling features.")


def _by_hand(place: Files) -> None:
    columns, trigrams = (",".join(map(str, numbers)) for numbers in (COLUMNS, TRIGRAMS))
    _step(f"7. The same by hand; all files are in {place.folder}")
    _print(
        f"mtlstruct templates generate --window {WINDOW[0]}:{WINDOW[1]} --columns {columns} \\",
        f"    --bigrams --trigrams {trigrams} -o {place.templates}",
        f"mtlstruct train {place.templates} {place.train} {place.model}",
        f"mtlstruct evaluate {place.model} {place.test}",
        f"mtlstruct weights {place.model} --top {SHOWN} --plot {place.plot}",
        f"mtlstruct report {place.model} {place.report} --data {place.test}",
        f"mtlstruct predict {place.model} {place.test} | head",
    )


def _step(title: str) -> None:
    from rich.console import Console
    from rich.text import Text

    print()
    Console(highlight=False).print(Text(title, style="bold"), soft_wrap=True)


def _tell(paragraph: str) -> None:
    """Prose, filled to the width of the terminal."""
    _print(textwrap.fill(paragraph, min(100, shutil.get_terminal_size().columns)))


def _print(*lines: str) -> None:
    """Lines as they are; out at once, since the progress on stderr follows them."""
    print("\n".join(lines), flush=True)


def _show(lines: list[Line]) -> None:
    from mtlstruct.samples.recipes import bracketed

    for line in lines:
        print(f"    {bracketed(line.tokens, line.labels)}")


def _lines(corpus: Corpus, labels: list[str]) -> list[Line]:
    from mtlstruct.samples.recipes import Line

    words = corpus.columns[0].cells()
    return [Line(tuple(words[span]), tuple(labels[span])) for span in corpus.sentences()]


def _write(path: Path, content: str) -> None:
    from mtlstruct._system.atomic_write import replacing

    with replacing(path) as out:
        out.write(content.encode())


def _is_noise(text: str) -> bool:
    from mtlstruct.samples.recipes import NOISE

    return any(f",{column}]" in text for column in NOISE)
