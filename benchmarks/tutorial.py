"""Feature dicts of the CoNLL-2002 tutorial of sklearn-crfsuite: SequenceLabeler beside python-crfsuite, in one run.

The peer has the tutorial's parameters (c1 = c2 = 0.1, 100 iterations, all transitions). Ours have those that were
best on the development part of Spanish: c = 2, and a gap of 10 %, which is two passes.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from benchmarks import measure
from benchmarks.places import ESP, NED, Missing, corpus

OURS = ("loss=hinge", "c=2", "gap=0.1")
DATA = {"Spanish": ESP, "Dutch": NED}


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """Rows for each language: ours on lists and on generators, and the peer's on both; its fits once."""
    return [row for language in DATA for row in _rows(language, repeat)]


def _rows(language: str, repeat: int) -> list[dict[str, Any]]:
    ours = _row(language, "mtlstruct", repeat)
    if find_spec("pycrfsuite") is None:
        peer = {"program": f"{language}: python-crfsuite", "missing": "not run: python-crfsuite not found"}
        return [ours, peer]
    theirs = _row(language, "crfsuite", 1)
    if "missing" not in theirs and "missing" not in ours:
        theirs["times_ours"] = theirs["cpu"] / ours["cpu"]
    return [ours, theirs]


def _row(language: str, program: str, repeat: int) -> dict[str, Any]:
    name = f"{language}: {'mtlstruct' if program == 'mtlstruct' else 'python-crfsuite'}"
    options = OURS if program == "mtlstruct" else ()
    try:
        files = [corpus(DATA[language], f"{part}.conll") for part in ("train", "test")]
    except Missing as reason:
        return {"program": name, "missing": str(reason)}
    module = "benchmarks.programs.tutorial"
    if program == "mtlstruct":  # the kernels are compiled into their cache first
        measure.python(module, program, files[1], files[1], *options)
    run = measure.best(lambda: measure.python(module, program, *files, *options), repeat)
    streamed = measure.python(module, program, *files, *options, "stream=true")
    return {
        "program": name,
        "cpu": run.json["fitting"],
        "test": run.json["f1"],
        "predicting": run.json["predicting"],
        "peak_mb": run.peak_mb,
        "streamed_mb": streamed.peak_mb,
    }
