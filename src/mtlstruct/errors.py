"""The exceptions a user can meet. Each message is one sentence: where, expected, got.

MtlError
├── FormatError        a data file that cannot be read (path, line)
├── TemplateError      a template line that cannot be read (text, column)
├── IncompatibleError  pieces that do not fit together: a method and a structure, a model and its input
├── InfeasibleError    constraints that leave a sentence without any labelling (sentence)
├── SolverError        an optimiser that could not certify its answer (gap)
├── ModelFileError     a model file that is damaged, foreign or of another version
└── ResourceError      work that would not fit into memory or onto the disk

UncalibratedWarning    probabilities of a margin model that has no temperature
"""

from __future__ import annotations

from pathlib import Path

LONGEST = 2000
"""Characters of a message: it is read by a person, and what it repeats of the input may be of any size."""


class MtlError(Exception):
    """Base of all errors that are the input's fault rather than ours."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence if len(sentence) <= LONGEST else sentence[:LONGEST] + "…")


class FormatError(MtlError):
    """A line of a data file is not what its format says."""

    def __init__(self, path: str | Path, line: int | None, problem: str) -> None:
        self.path = str(path)
        self.line = line
        self.problem = problem
        where = self.path if line is None else f"{self.path}, line {line}"
        super().__init__(f"{where}: {problem}")


class TemplateError(MtlError):
    """A template line is not in the template language."""

    def __init__(
        self,
        problem: str,
        *,
        text: str = "",
        line: int | None = None,
        column: int | None = None,
        path: str | Path = "templates",
    ) -> None:
        self.problem, self.text, self.line, self.column, self.path = problem, text, line, column, str(path)
        where = self.path
        if line is not None:
            where += f", line {line}"
        if column is not None:
            where += f", column {column}"
        shown = f" in {text!r}" if text else ""
        super().__init__(f"{where}: {problem}{shown}")


class IncompatibleError(MtlError):
    """Two things that were asked to work together cannot."""


class InfeasibleError(MtlError):
    """No labelling of a sentence keeps all constraints. `sentence` counts from 0 in its corpus."""

    def __init__(self, sentence: int) -> None:
        self.sentence = sentence
        super().__init__(f"sentence {sentence + 1}: no labelling keeps all constraints")


class SolverError(MtlError):
    """An optimiser stopped without a certificate that its answer is good enough."""

    def __init__(self, problem: str, gap: float = float("nan")) -> None:
        self.gap = gap
        super().__init__(problem)


class ModelFileError(MtlError):
    """A model file is not one of ours, or not whole."""


class ResourceError(MtlError):
    """The machine has not enough of something, and we can say how much was wanted."""


class UncalibratedWarning(UserWarning):
    """Probabilities come from the scores of a margin model that was not calibrated on held-out data."""
