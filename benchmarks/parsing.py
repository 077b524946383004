"""Dependency trees: training, scores beside the paper's, and how fast the compacted models parse.

c and p of `pmtl` were chosen on a tenth of the Danish training text, never on what is scored; `mtl` has c = 1.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.places import Missing, corpus, work

DANISH, SWEDISH = ("parsing/danish_ddt_conllx", "conll"), ("parsing/swedish_talbanken_ud10pre", "conllu")
ROUNDS = 5


@dataclass(frozen=True)
class Parser:
    """One training. `paper`: its ACC, UASP and UAS for the same method, where it has one."""

    name: str
    data: tuple[str, str]
    options: str
    paper: dict[str, float] = field(default_factory=dict)

    @property
    def model(self) -> Path:
        """Where its model is kept."""
        return work() / f"{self.name.replace(' ', '_').replace('/', '_')}.mtl"

    def part(self, name: str) -> Path:
        """A file of its corpus."""
        folder, suffix = self.data
        return corpus(folder, f"{name}.{suffix}")

    def arguments(self) -> list[str]:
        """The arguments of `mtlstruct train`; there are as many places between as the longest arc has."""
        templates = work() / f"{self.data[0].replace('/', '_')}.tpl"
        made = ["templates", "generate", "--preset", "dependency", "--reach", str(self.part("train"))]
        measure.run([sys.executable, "-m", "mtlstruct", *made, "-o", str(templates)])
        files = [str(path) for path in (templates, self.part("train"), self.model)]
        return [*files, *self._options()]

    def command(self) -> str:
        """What a user would type."""
        folder, suffix = self.data
        return shlex.join(
            ["mtlstruct", "train", "arcs.tpl", f"{folder}/train.{suffix}", "MODEL", *self._options()]
        )

    def _options(self) -> list[str]:
        return ["--task", "dependency", *self.options.split(), "--threads", "1"]


PARSERS = (
    Parser("Danish mtl c=1", DANISH, "-c 1 --labels", {"acc": 32.61, "uasp": 87.08, "uas": 88.80}),
    Parser("Danish pmtl p=1.5 c=0.1", DANISH, "--method pmtl -p 1.5 -c 0.1"),
    Parser("Danish mira", DANISH, "--method mira", {"acc": 31.06, "uasp": 86.93, "uas": 88.80}),
    Parser("Swedish mtl c=1", SWEDISH, "-c 1 --labels"),
)


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row for each training."""
    return [_row(parser, repeat) for parser in PARSERS]


def _row(parser: Parser, repeat: int) -> dict[str, Any]:
    row: dict[str, Any] = {"task": parser.name, "command": parser.command(), "paper": parser.paper}
    try:
        arguments = parser.arguments()
        run = measure.best(lambda: measure.python("benchmarks.programs.train", *arguments), repeat)
        scores = measure.python("mtlstruct", "evaluate", parser.model, parser.part("test"), "--json").json
        speed = measure.python("benchmarks.programs.parse", parser.model, parser.part("test"), ROUNDS).json
    except Missing as reason:
        return row | {"missing": str(reason)}
    found = run.json
    facts = ("gap", "converged", "passes", "templates", "active_templates", "attributes")
    return row | {
        **{name: found[name] for name in facts},
        "cpu_before": found["cpu"]["before"],
        "cpu_learning": found["cpu"]["learning"],
        "cpu_labels": found["cpu"].get("labels"),
        "cpu_pass": found["cpu"].get("full_pass"),
        "cpu": run.cpu,
        "peak_mb": run.peak_mb,
        "model_mb": parser.model.stat().st_size / 1e6,
        **{name: scores[name] for name in ("acc", "uasp", "uas", "las", "label_accuracy") if name in scores},
        "tokens_per_second": speed["tokens"] / speed["heads"],
        "tokens_per_second_labelled": speed["tokens"] / (speed["heads"] + speed.get("labels", 0.0)),
    }
