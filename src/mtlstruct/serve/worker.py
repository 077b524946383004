"""The one thread that answers. What has come in while it was busy is answered together, in one piece of work.

So the server does more in the same time the more it is asked, and no two threads fight for one core. A question that
nobody waits for any more is left out; one that is being worked on is finished, which the limits make a short matter.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, NamedTuple

from mtlstruct.model.model import Model
from mtlstruct.serve.limits import Limits
from mtlstruct.serve.requests import Question
from mtlstruct.serve.responses import answers

TOGETHER = 4_000
"""Tokens that are answered in one piece of work, if so many wait; more would let the first wait for the last."""

Answer = dict[str, Any]


class Busy(Exception):
    """Too many requests wait already."""


class _Waiting(NamedTuple):
    question: Question
    answer: Future[Answer]


class Worker:
    """Takes questions from any thread; to be started and stopped."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self._waiting: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="mtlstruct-serve", daemon=True)

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answers what waits, and ends."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def ask(self, question: Question) -> Future[Answer]:
        """The answer to come."""
        with self._changed:
            if len(self._waiting) >= self.limits.waiting or self._stopping:
                raise Busy
            answer: Future[Answer] = Future()
            self._waiting.append(_Waiting(question, answer))
            self._changed.notify()
        return answer

    def _run(self) -> None:
        while batch := self._next():
            wanted = [one for one in batch if one.answer.set_running_or_notify_cancel()]
            if wanted:
                self._work(wanted)

    def _next(self) -> list[_Waiting]:
        """What waits, up to some tokens; nothing when it is time to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            batch: list[_Waiting] = []
            tokens = 0
            while self._waiting and (not batch or tokens + self._waiting[0].question.tokens <= TOGETHER):
                batch.append(self._waiting.popleft())
                tokens += batch[-1].question.tokens
            return batch

    def _work(self, batch: list[_Waiting]) -> None:
        try:
            found = answers(self.model, [one.question for one in batch])
        except BaseException as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
            else:  # whose fault it was is found by asking again, one by one
                for one in batch:
                    self._work([one])
            return
        for one, answer in zip(batch, found, strict=True):
            one.answer.set_result(answer)
