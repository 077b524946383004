"""The trainings that are measured: corpus, templates, options, and what the paper reports for them."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import measure
from benchmarks.places import ESP, NED, PKU, corpus, head, work


@dataclass(frozen=True)
class Task:
    """One training. `paper` has the paper's figures on the parts it is scored on, in the order of `scored`."""

    name: str
    data: str
    preset: str
    options: str
    paper: dict[str, float] = field(default_factory=dict)

    @property
    def segmentation(self) -> bool:
        """Whether the data are segmented text."""
        return self.data == PKU

    @property
    def suffix(self) -> str:
        """How the corpus names its files."""
        return "txt" if self.segmentation else "conll"

    @property
    def scored(self) -> tuple[str, ...]:
        """The parts with gold labels."""
        return ("test",) if self.segmentation else ("dev", "test")

    @property
    def model(self) -> Path:
        """Where its model is kept."""
        return work() / f"{self.name.replace(' ', '_')}.mtl"

    def part(self, name: str) -> Path:
        """A file of its corpus."""
        return corpus(self.data, f"{name}.{self.suffix}")

    def arguments(self, threads: int = 1, model: Path | None = None, train: Path | None = None) -> list[str]:
        """The arguments of `mtlstruct train`."""
        where = [preset(self.preset), train or self.part("train"), model or self.model]
        return [*map(str, where), *self._options(), "--threads", str(threads)]

    def command(self) -> str:
        """What a user would type."""
        files = [f"{self.preset}.tpl", f"{self.data}/train.{self.suffix}", "MODEL"]
        return shlex.join(["mtlstruct", "train", *files, *self._options(), "--threads", "1"])

    def _options(self) -> list[str]:
        kind = ["--task", "segmentation"] if self.segmentation else []
        return [*kind, *self.options.split()]


ESP_MTL = Task("ESP ner-134, mtl", ESP, "ner-134", "")
PKU_MTL = Task("PKU cws-tp2, mtl", PKU, "cws-tp2", "")
ESP_HINGE = Task("ESP ner-134, hinge", ESP, "ner-134", "--loss hinge", {"dev": 69.62, "test": 73.42})
TASKS = (
    ESP_MTL,
    ESP_HINGE,
    Task("ESP ner-134, crf-l2", ESP, "ner-134", "--method crf-l2"),
    Task("ESP ner-134, svm", ESP, "ner-134", "--method svm -c 0.01", {"dev": 63.72, "test": 67.35}),
    Task("ESP ner, mtl", ESP, "ner", ""),
    Task("NED ner-134, mtl", NED, "ner-134", ""),
    Task("NED ner-134, hinge", NED, "ner-134", "--loss hinge", {"dev": 61.00, "test": 67.77}),
    Task("PKU cws-tp1, mtl", PKU, "cws-tp1", ""),
    PKU_MTL,
    Task("PKU cws-tp2, hinge", PKU, "cws-tp2", "--loss hinge", {"test": 93.8, "r_iv": 96.2}),
)
"""The default method, and rivals where the paper or a comparison has them."""


def preset(name: str, data: Path | None = None) -> Path:
    """The template file of a preset, or one that was written for these benchmarks.

    The presets of trees are made for the longest arc of the data.
    """
    written = Path(__file__).with_name("templates") / f"{name}.tpl"
    if written.is_file():
        return written
    target = work() / f"{name}.tpl"
    how = ["--preset", name, *([] if data is None else ["--reach", str(data)])]
    measure.run([sys.executable, "-m", "mtlstruct", "templates", "generate", *how, "-o", str(target)])
    return target


def warm_up() -> None:
    """Compiles the kernels into their cache, so that no figure has the compiler in it."""
    few = head(ESP_MTL.part("train"), 50)
    planes = ["--solver", "cutting-plane", "--epsilon", "5"]
    online = ["--method", "online-mkl", "--max-iter", "1"]
    for options in (
        [],
        ["--loss", "hinge"],
        ["--method", "svm"],
        planes,
        [*planes, "--line-search"],
        ["--method", "crf-l2"],
        online,
    ):
        measure.python(
            "mtlstruct",
            "train",
            *ESP_MTL.arguments(model=work() / "warm.mtl", train=few),
            *options,
            "--quiet",
        )
    measure.python("mtlstruct", "predict", work() / "warm.mtl", few)


def trained(task: Task) -> Path:
    """Its model; learns it if no earlier benchmark has."""
    if not task.model.is_file():
        measure.python("benchmarks.programs.train", *task.arguments())
    return task.model
