"""Trains, saves, loads, predicts, reports and fails, again and again in this process: FOLDER SECONDS PAUSE.

Prints the number of rounds of each kind at the end, as JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from collections import Counter
from pathlib import Path

from mtlstruct import cli

COLUMNS = (
    "Ana N B-PER\nPaz N I-PER\nvive V O\nen P O\nLima N B-LOC\n\nen P O\nQuito N B-LOC\ncanta V O\nEva N B-PER\n\n"
    "Eva N B-PER\nSol N I-PER\ncanta V O\n\nLima N B-LOC\ncanta V O\nen P O\nCusco N B-LOC\n"
)
WORDS = "今天  天气  好\n我们  今天  去  北京\n\n北京  天气  好\n我  去  图书馆\n"
CLASSES = "casa N\nperro N\ncome V\ncorre V\nalto A\nbajo A\n"
TREES = "".join(
    "".join(f"{n}\t{w}\t_\t{t}\t{t}\t_\t{h}\trel\t_\t_\n" for n, (w, t, h) in enumerate(s, 1)) + "\n"
    for s in (
        [("the", "D", 2), ("cat", "N", 3), ("sleeps", "V", 0)],
        [("dogs", "N", 2), ("see", "V", 0), ("a", "D", 4), ("man", "N", 2)],
    )
)
TEMPLATES = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%lower[0,0]\nU3:%suffix[1,0,2]\n"
ARCS = "A0:%x[h,FORM]/%x[m,FORM]\nA1:%x[h,POSTAG]/%x[m,POSTAG]/%direction[h,m]\n"

KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "mtl": (TEMPLATES + "B\n", COLUMNS, ()),
    "cutting-plane": (TEMPLATES + "B\n", COLUMNS, ("--solver", "cutting-plane")),
    "svm": (TEMPLATES + "B\n", COLUMNS, ("--method", "svm")),
    "pmtl": (TEMPLATES + "B\n", COLUMNS, ("--method", "pmtl", "-p", "1.5")),
    "crf-l2": (TEMPLATES + "B\n", COLUMNS, ("--method", "crf-l2")),
    "segmentation": (TEMPLATES + "B\n", WORDS, ("--task", "segmentation")),
    "multiclass": ("U0:%x[0,0]\nU1:%suffix[0,0,1]\n", CLASSES, ("--task", "multiclass")),
    "trees": (ARCS, TREES, ("--task", "dependency")),
}
"""Templates, data and options of each kind of training."""

TUNE_EVERY = 120.0
"""Seconds between two runs of `tune`, which starts processes."""


def main(folder: Path, seconds: float, pause: float) -> Counter[str]:
    """Rounds until the time is up."""
    done: Counter[str] = Counter()
    for name, (templates, data, _) in KINDS.items():
        (folder / f"{name}.tpl").write_text(templates, "utf-8")
        (folder / f"{name}.txt").write_text(data, "utf-8")
    (folder / "bad.txt").write_bytes(b"no \xff text\n")
    end, tuned = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < end:
        name = list(KINDS)[done["rounds"] % len(KINDS)]
        _round(folder, name, done["rounds"])
        done.update(["rounds", name])
        if time.monotonic() > tuned + TUNE_EVERY:
            _tune(folder)
            done["tune"] += 1
            tuned = time.monotonic()
        time.sleep(pause)
    return done


def _round(folder: Path, name: str, number: int) -> None:
    template, data, model = (str(folder / f"{name}.{end}") for end in ("tpl", "txt", "mtl"))
    options = [*KINDS[name][2], "-q", "-c", "1"]
    _run("train", template, data, model, *options, "--threads", str(1 + number % 2))
    _run("predict", model, data, "-o", str(folder / "out.txt"))
    _run("evaluate", model, data, "--json")
    _run("weights", model, "--json")
    _run("report", model, str(folder / "out.html"))
    _run("train", template, str(folder / "bad.txt"), model, *options, expected=2)
    (folder / "torn.mtl").write_bytes(Path(model).read_bytes()[: 500 + 37 * (number % 50)])
    _run("predict", str(folder / "torn.mtl"), data, "-o", str(folder / "out.txt"), expected=2)


def _tune(folder: Path) -> None:
    template, data = str(folder / "mtl.tpl"), str(folder / "mtl.txt")
    cells = folder / "cells"
    _run("tune", template, data, "-c", "0.5,1", "--folds", "2", "--out", str(cells), "--jobs", "2")
    for path in sorted(cells.rglob("*"), reverse=True):  # or nothing would be left to train the next time
        path.rmdir() if path.is_dir() else path.unlink()


def _run(*arguments: str, expected: int = 0) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = cli.run(list(arguments))
    if code != expected:
        raise SystemExit(
            f"{' '.join(arguments)}: exit code {code}, expected {expected}: {said.getvalue()[-500:]}"
        )


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))))
