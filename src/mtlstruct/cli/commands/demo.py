"""`demo`: the commands from templates to report, run on the corpus of the package."""

import shlex
import shutil
import sys
import textwrap
import time
from pathlib import Path

from mtlstruct.cli import common
from mtlstruct.cli.command import option
from mtlstruct.cli.outputs import Kind, check_outputs
from mtlstruct.errors import MtlError
from mtlstruct.model.model import Model
from mtlstruct.report.plots import figure_class
from mtlstruct.samples import recipes

FILES = {
    "ingredients.tpl": Kind.TEMPLATES,
    "train.txt": Kind.TABLE,
    "test.txt": Kind.TABLE,
    "model.mtl": Kind.MODEL,
    "model.mtl.log.jsonl": Kind.LOG,
    "weights.png": Kind.PNG,
    "report.html": Kind.PAGE,
}

DATA = (
    "{0} lines from recipes, labelled by hand; {1} are held out. The columns of a token are the word, the word in "
    "lower case, its last three letters, its shape, its position in the line and whether it is in parentheses. "
    "Two more columns are noise: a random letter per token, and one per line."
)
TRAIN = (
    "The model learns a weight for every feature and for every template; templates that do not help get weight "
    "zero and are dropped. (The first run on a machine compiles the kernels, which takes half a minute.)"
)


def demo(
    out: Path = option(Path("demo"), "Folder of the files.", metavar="DIR"),
    force: bool = common.FORCE,
) -> None:
    """Run all main commands on a small corpus.

    Writes data, then prints and runs the commands that generate templates, train, evaluate, show
    and draw the weights of templates, and write a report. It takes less than a minute; all files
    are in DIR.

    Example: mtlstruct demo --out demo
    """
    began = time.perf_counter()
    if not force and out.is_dir() and any(out.iterdir()) and not (out / next(iter(FILES))).is_file():
        expected = "expected a new folder or that of an earlier demo, got one with files"
        raise MtlError(f"{out}: {expected}; --force writes there")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MtlError(f"{out}: cannot make the folder: {error.strerror}") from None
    check_outputs([(out / name, kind) for name, kind in FILES.items()], force=force)
    templates, train, test, model, _, plot, report = (str(out / name) for name in FILES)
    forced = ["--force"] if force else []
    parts = recipes.split(recipes.bundled())
    for seed, (path, lines) in enumerate(zip((train, test), parts, strict=True), 1):
        Path(path).write_text(recipes.column_file(lines, seed), encoding="utf-8")
    _print("1. The data", DATA.format(sum(map(len, parts)), len(parts[1])))
    print(f"The first line of {train}:")
    print(textwrap.indent(Path(train).read_text("utf-8").partition("\n\n")[0], "    "), flush=True)
    _print("2. The templates: all cells up to two tokens away, pairs and triples of them, and B")
    grams = ["--columns", "0,1,2,3,4,5,6,7", "--bigrams", "--trigrams", "1,3,4"]
    _run("templates", "generate", "--window", "-2:2", *grams, "-o", templates, *forced)
    _print("3. Training", TRAIN)
    _run("train", templates, train, model, *forced)
    _print("4. Evaluation on lines that were not used for training")
    _run("evaluate", model, test)
    _print("5. The weights of the templates, relative to their average")
    try:
        figure_class()
        drawing = ["--plot", plot]
    except MtlError as error:
        print(f"No picture: {error}")
        drawing = []
    _run("weights", model, "--top", "15", *drawing, *forced)
    weights = Model.load(model).template_weights()
    noise = [w for w in weights if any(f",{column}]" in w.text for column in recipes.NOISE_COLUMNS)]
    dropped, share = sum(w.features == 0 for w in noise), sum(w.mu for w in noise)
    print(
        f"{dropped} of the {len(noise)} noise templates were dropped; the others have {share:.2%} of the weight."
    )
    _print("6. The report: all of this and more on one page, for a browser")
    _run("report", model, report, "--data", test, *forced)
    print(f"\nDone in {time.perf_counter() - began:.0f} s. Next: mtlstruct predict {model} {test} | head")


def _print(title: str, text: str = "") -> None:
    """Print a title, and text filled to the width of the terminal."""
    print(f"\n{title}", flush=True)
    if text:
        print(textwrap.fill(text, min(100, shutil.get_terminal_size().columns)), flush=True)


def _run(*arguments: str) -> None:
    """Print a command and run it; exit if it fails."""
    from mtlstruct.cli import run

    print(f"$ mtlstruct {shlex.join(arguments)}", flush=True)
    if code := run(arguments):
        sys.exit(code)
