"""The one place where what a command raised becomes a sentence on stderr and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TextIO

import typer

from mtlstruct.errors import MtlError

DONE, NO, BAD_INPUT, OUR_FAULT, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM: like Ctrl-C, what has begun is cleared away, nothing is half-written."""


def heed_termination() -> None:
    """From now on SIGTERM is raised, in a program of our own."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)


def exit_code(work: Callable[[], None], *, debug: bool) -> int:
    """Does the work; says in one sentence why it ended early."""
    try:
        work()
        sys.stdout.flush()  # a full disk behind stdout must be noticed here, not at the interpreter's exit
        return DONE
    except typer.Exit as stop:
        return stop.exit_code
    except BrokenPipeError:  # who reads our output has seen enough
        _forget_stdout()
        return DONE
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        complain(_sentence(error))
        _forget_stdout()
        return _code(error)


def complain(sentence: str) -> None:
    """A sentence for people, on stderr: plain text, on one line."""
    with suppress(OSError):  # nobody listens
        print(f"mtlstruct: {' '.join(sentence.splitlines())}", file=sys.stderr)


def tolerant(stream: TextIO) -> None:
    """Lets a terminal that lacks a character show another one instead of failing."""
    with suppress(AttributeError, OSError):
        stream.reconfigure(errors="replace")  # type: ignore[attr-defined]


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        kind = "terminated" if isinstance(error, Terminated) else "interrupted"
        return str(error) or f"{kind}; what existed before is unchanged"
    if _is_usage(error):
        problem = str(error.format_message())  # type: ignore[attr-defined]
        return problem.removesuffix(".") + _hint(error)
    if isinstance(error, MtlError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'standard output'}: {error.strerror or error}"
    if isinstance(error, MemoryError):
        return "the machine has not enough memory for this"
    kind = type(error).__name__
    return f"a fault of mtlstruct, please report it: {kind}: {error} (--debug shows where)"


def _code(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    expected = _is_usage(error) or isinstance(error, MtlError | OSError | MemoryError)
    return BAD_INPUT if expected else OUR_FAULT


def _is_usage(error: BaseException) -> bool:
    """Whether click (typer's own copy of it, or the package) complains about the command line."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _hint(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    return f" (see {context.command_path} --help)" if context is not None else ""


def _forget_stdout() -> None:
    """Sends what is still buffered nowhere, else the interpreter complains about it when it ends."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
