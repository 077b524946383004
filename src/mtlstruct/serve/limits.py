"""What one request may cost. All limits are said in `/v1/model` and in the error that names them."""

from __future__ import annotations

from dataclasses import dataclass

from mtlstruct.errors import MtlError
from mtlstruct.tasks import task_of


@dataclass(frozen=True)
class Limits:
    """Bytes of a body (or of a line of a batch), tokens of a request and of a sentence, seconds of an answer.

    explained tokens of a request that wants explanations, which are searches of their own
    waiting   how many requests may wait; more are turned away at once
    """

    bytes: int = 1_000_000
    tokens: int = 20_000
    sentence: int = 2_000
    explained: int = 400
    seconds: float = 10.0
    waiting: int = 1_000

    def checked(self) -> Limits:
        """The same, if all are positive."""
        for name, value in vars(self).items():
            if not value > 0:
                raise MtlError(f"the limit of {name} must be positive, got {value}")
        return self


def default_limits(task: str) -> Limits:
    """Return limits that keep any request of a task short."""
    return Limits(sentence=task_of(task).longest_request)
