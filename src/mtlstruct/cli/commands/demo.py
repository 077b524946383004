"""`demo`: the commands from templates to report, run on the corpus that comes with the package."""

from __future__ import annotations

import shlex
import shutil
import textwrap
import time
from pathlib import Path
from typing import Annotated

import typer

from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs
from mtlstruct.errors import MtlError

FILES = {
    "ingredients.tpl": Kind.TEMPLATES,
    "train.txt": Kind.TABLE,
    "test.txt": Kind.TABLE,
    "model.mtl": Kind.MODEL,
    "model.mtl.log.jsonl": Kind.LOG,
    "weights.png": Kind.PNG,
    "report.html": Kind.PAGE,
}

SPLIT = (
    "{0} lines from recipes, labelled by hand; {1} are held out. A token has six columns a labeller may "
    "want: the word, the word in lower case, its last three letters, its shape, its position in the line, "
    "and whether it stands in parentheses. Two more columns are noise: a random letter for each token, "
    "and one for each line."
)
GENERATE = (
    "All cells up to two tokens away, all pairs of them within a column, triples of words, shapes and "
    "positions, and B, the pair of neighbouring labels. Nobody has chosen among them, and many look at "
    "nothing but noise."
)
TRAIN = (
    "The model learns a weight for every feature and for every template. The penalty is the square of the "
    "sum of the norms of the templates, so a template keeps a weight only if it lowers the error as much, "
    "for its norm, as the best ones do; the others are dropped. (The first run on a machine compiles the "
    "kernels, which takes half a minute; they are kept.)"
)
REPORT = "Open the page in a browser: convergence, scores, confusions, the features with the largest weights."


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files of the demo go.")] = Path(
        "demo"
    ),
    force: ForceOption = False,
) -> None:
    """Try it all on a small corpus, in under a minute.

    Makes data, then runs the commands that make templates, train, test, show and draw what each template is
    worth, and write the report. All files stay in DIR.
    """
    began = time.perf_counter()
    _prepare(out, force=force)
    templates, train, test, model, _, plot, report = (str(out / name) for name in FILES)
    forced = ["--force"] if force else []
    _say("1. The data")
    _data(Path(train), Path(test))
    _say("2. The templates: generated rather than chosen", GENERATE)
    grams = ["--columns", "0,1,2,3,4,5,6,7", "--bigrams", "--trigrams", "1,3,4"]
    _run("templates", "generate", "--window", "-2:2", *grams, "-o", templates, *forced)
    _say("3. Training", TRAIN)
    _run("train", templates, train, model, *forced)
    _say("4. The test, on lines that the model has not seen")
    _run("evaluate", model, test)
    _say("5. What the templates are worth, relative to the average, which is 1")
    _run("weights", model, "--top", "15", *_drawing(plot), *forced)
    _say("", _noise(Path(model)))
    _say("6. The report: all of this and more on one page", REPORT)
    _run("report", model, report, "--data", test, *forced)
    print(
        f"\nDone in {time.perf_counter() - began:.0f} seconds. Go on with: mtlstruct predict {model} {test} | head"
    )


def _prepare(folder: Path, *, force: bool) -> None:
    """Make the folder; raise if it has other files than those of an earlier demo."""
    templates, *_ = FILES
    if not force and folder.is_dir() and any(folder.iterdir()) and not (folder / templates).is_file():
        expected = "expected a new folder or that of an earlier demo, got one with files"
        raise MtlError(f"{folder}: {expected}; --force writes there")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MtlError(f"{folder}: cannot make the folder: {error.strerror}") from None
    check_outputs([(folder / name, kind) for name, kind in FILES.items()], force=force)


def _data(train: Path, test: Path) -> None:
    from mtlstruct.samples import recipes

    lines = recipes.bundled()
    parts = recipes.split(lines)
    for seed, (path, part) in enumerate(zip((train, test), parts, strict=True), 1):
        path.write_text(recipes.column_file(part, seed), encoding="utf-8")
    _say("", SPLIT.format(len(lines), len(parts[1])))
    print(f"The first line of {train}:")
    print(textwrap.indent(train.read_text(encoding="utf-8").partition("\n\n")[0], "    "), flush=True)


def _drawing(path: str) -> list[str]:
    """Return the option that draws; without matplotlib say why there is no picture."""
    from mtlstruct.report.plots import check_drawing

    try:
        check_drawing()
    except MtlError as error:
        print(f"No picture: {error}")
        return []
    return ["--plot", path]


def _noise(path: Path) -> str:
    from mtlstruct.model.model import Model
    from mtlstruct.samples.recipes import NOISE

    noise = [
        w for w in Model.load(path).template_weights() if any(f",{column}]" in w.text for column in NOISE)
    ]
    gone, share = sum(weight.features == 0 for weight in noise), sum(weight.mu for weight in noise)
    return (
        f"The noise: {gone} of its {len(noise)} templates were dropped, the others have {share:.2%} of all weight. "
        "Nobody had to say which columns were noise."
    )


def _say(title: str, text: str = "") -> None:
    """Print a title and text that is filled to the width of the terminal."""
    from rich.console import Console
    from rich.text import Text

    if title:
        print()
        Console(highlight=False).print(Text(title, style="bold"), soft_wrap=True)
    if text:
        print(textwrap.fill(text, min(100, shutil.get_terminal_size().columns)), flush=True)


def _run(*arguments: str) -> None:
    """Print a command and run it; end where it fails."""
    from mtlstruct.cli import run

    print(f"$ mtlstruct {shlex.join(arguments)}", flush=True)
    if code := run(arguments):
        raise typer.Exit(code)
