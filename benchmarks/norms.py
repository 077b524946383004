"""p-block norms: scores by p, at the c where each fits the data about as closely.

c·Σmu says how closely; for equal norms Σmu is m^(2 − 2/p). So c = k·m^(2/p − 2), and p = 1 has c = k.
"""

from __future__ import annotations

from typing import Any

from benchmarks import measure
from benchmarks.places import ESP, PKU, Missing
from benchmarks.tasks import Task

EXPONENTS = {"1": 1.0, "4/3": 4 / 3, "2": 2.0, "4": 4.0, "100": 100.0}
FITS = (1.0,)
DATA = ((ESP, "ner-134", 134), (PKU, "cws-tp2", 18))
PAPER = {ESP: (73.42, 70.82, 67.56, 61.58, 59.33), PKU: (93.8, 93.8, 93.1, 91.3, 90.7)}
"""The paper's F1 on the test part, by p, for the large set of templates; it chose C from n·{0.01 … 100} for each."""


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row for each corpus, p and closeness of fit."""
    return [
        _row(data, preset, p, k * m ** (2 / EXPONENTS[p] - 2), k)
        for data, preset, m in DATA
        for p in EXPONENTS
        for k in FITS
    ]


def _row(data: str, preset: str, p: str, c: float, k: float) -> dict[str, Any]:
    options = f"--method pmtl -p {EXPONENTS[p]:.6g} -c {c:.3g}"
    task = Task(f"{data} p={p} k={k:g}".replace("/", "_"), data, preset, options)
    row: dict[str, Any] = {"data": data, "p": p, "k": k, "c": c, "command": task.command()}
    row["paper"] = PAPER[data][list(EXPONENTS).index(p)]
    try:
        run = measure.python("benchmarks.programs.train", *task.arguments())
        scores = {
            part: measure.python("mtlstruct", "evaluate", task.model, task.part(part), "--json").json["f1"]
            for part in task.scored
        }
    except Missing as reason:
        return row | {"missing": str(reason)}
    task.model.unlink()
    found = run.json
    return row | {"gap": found["gap"], "cpu_learning": found["cpu"]["learning"]} | scores
