"""Features with all labels beside features with labels seen only: few labels and many.

Few: names in the first sentences of CoNLL-2002 Spanish, 9 labels. Many: the part of speech with its morphology in the
Danish Dependency Treebank, 143 labels, from the words alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.places import ESP, Missing, corpus, head, work
from benchmarks.tasks import preset

SENTENCES = 2000
DDT = "parsing/danish_ddt_conllx"
TAGGING = (
    *(f"U:%x[{row},0]" for row in range(-2, 3)),
    *("U:%x[-1,0]/%x[0,0]", "U:%x[0,0]/%x[1,0]"),
    *(f"U:%suffix[0,0,{n}]" for n in range(1, 5)),
    *(f"U:%prefix[0,0,{n}]" for n in range(1, 4)),
    *("U:%shape[0,0]", "U:%suffix[-1,0,2]", "U:%suffix[1,0,2]", "B"),
)
"""Templates for parts of speech that look at words only."""


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row for each corpus and support."""
    return [_row(data, support, repeat) for data in ("names", "morphology") for support in ("all", "seen")]


def _row(data: str, support: str, repeat: int) -> dict[str, Any]:
    name = f"{data}, {support}"
    model = work() / f"labels_{data}_{support}.mtl"
    try:
        templates, train, test = _names() if data == "names" else _morphology()
    except Missing as reason:
        return {"name": name, "missing": str(reason)}
    options = ("--label-support", support, "--threads", "1")
    program = "benchmarks.programs.train"
    run = measure.best(lambda: measure.python(program, templates, train, model, *options), repeat)
    score = measure.python("mtlstruct", "evaluate", model, test, "--json", "--threads", "1").json
    found = run.json
    row = {
        "name": name,
        **{key: found[key] for key in ("features", "objective", "gap", "passes")},
        "cpu": run.cpu,
        "cpu_learning": found["cpu"]["learning"],
        "peak_mb": run.peak_mb,
        "model_mb": model.stat().st_size / 1e6,
        "f1": score["f1"] or None,
        "accuracy": score["accuracy"],
    }
    model.unlink()
    return row


def _names() -> tuple[Path, Path, Path]:
    return preset("ner-134"), head(corpus(ESP, "train.conll"), SENTENCES), corpus(ESP, "dev.conll")


def _morphology() -> tuple[Path, Path, Path]:
    templates = work() / "tagging.tpl"
    templates.write_text("\n".join(TAGGING) + "\n", "utf-8")
    return templates, _tagged("train"), _tagged("test")


def _tagged(part: str) -> Path:
    """Words and their part of speech with morphology, as columns."""
    target = work() / f"morphology.{part}.txt"
    with target.open("w", encoding="utf-8") as out:
        for line in corpus(DDT, f"{part}.conll").read_text("utf-8").splitlines():
            cells = line.split("\t")
            out.write(f"{cells[1]}\t{cells[4]}|{cells[5]}\n" if len(cells) > 5 else "\n")
    return target
