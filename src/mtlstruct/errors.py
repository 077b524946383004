"""The exceptions of the package. Each message is one sentence: where, expected, got.

MtlError
├── FormatError        a data file that cannot be read (path, line)
├── TemplateError      a template line that cannot be read (text, column)
├── IncompatibleError  things that do not fit together: a method and a structure, a model and input
├── InfeasibleError    constraints that leave a sentence without any labelling (sentence)
├── SolverError        a solver that could not certify its result (gap)
├── ModelFileError     a model file that is damaged, of another program or of another version
└── ResourceError      a computation that would not fit into memory or onto the disk

UncalibratedWarning    probabilities of a margin model that has no temperature
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAX_MESSAGE_LENGTH = 280
"""Characters of a message, which may repeat input of any size."""


def shortened(sentence: str, most: int = MAX_MESSAGE_LENGTH) -> str:
    """Return a sentence with `most` characters or fewer: a longer one loses its middle."""
    half = (most - 3) // 2
    return sentence if len(sentence) <= most else f"{sentence[:half]} … {sentence[-half:]}"


class MtlError(ValueError):
    """Base of all errors caused by the input rather than by a bug."""

    def __init__(self, sentence: str) -> None:
        super().__init__(shortened(sentence))


class FormatError(MtlError):
    """A line of a data file does not have the expected format."""

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
    """Two things do not fit together."""


class InfeasibleError(MtlError):
    """No labelling of a sentence meets all constraints. `sentence` counts from 0 in its corpus."""

    def __init__(self, sentence: int) -> None:
        self.sentence = sentence
        super().__init__(f"sentence {sentence + 1}: no labelling keeps all constraints")


class SolverError(MtlError):
    """A solver stopped without a certificate of the required gap."""

    def __init__(self, problem: str, gap: float = float("nan")) -> None:
        self.gap = gap
        super().__init__(problem)


class ModelFileError(MtlError):
    """A model file is damaged, of another program or of another version."""


class ResourceError(MtlError):
    """The machine has not enough memory or disk; the message has the amounts."""


class UncalibratedWarning(UserWarning):
    """Probabilities of a margin model that was not calibrated on held-out data."""
