"""Turn what a command raises into one sentence on stderr and an exit code."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from types import FrameType

from mtlstruct.errors import MtlError, shortened

OK, NEGATIVE, BAD_INPUT, INTERNAL_ERROR, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143

HABITS = {
    **dict.fromkeys(["--epoch", "--epochs", "--iterations", "-i"], "--max-iter limits the number of passes"),
    "--preset": "templates generate --preset NAME -o FILE writes a template file for train",
    "-H": "CRF++'s -H is not needed: there is no shrinking",
    "-a": "to choose the algorithm use --method, such as --method crf-l1 for CRF++'s -a CRF-L1",
    "-e": "CRF++'s -e is --eta",
    "-f": "CRF++'s -f is --min-count",
    "-m": "the model is an argument without option: train TEMPLATES TRAIN MODEL, predict MODEL INPUT",
    "-n": "CRF++'s -n is predict --nbest",
    "-o": "the file to write is an argument without option, as in train TEMPLATES TRAIN MODEL",
    "-t": "evaluate MODEL GOLD tests a model, export writes a text model, --threads sets the number of threads",
    "-v": "CRF++'s -v1 is predict --scores, -v2 is predict --scores all",
}
"""Options of other programs and commands, and what to write instead."""


class UsageError(MtlError):
    """A command line that cannot be parsed."""


def unknown(word: str, known: Collection[str]) -> str:
    """Return the message for an unknown option or command, with what to write instead."""
    from difflib import get_close_matches  # here: only errors need it

    message = f"No such {'option' if word.startswith('-') else 'command'}: {word}"
    nearest = [f"did you mean {one}?" for one in get_close_matches(word, known, 1)]
    return ": ".join([message, *([HABITS[word]] if word in HABITS else nearest)])


class Terminated(KeyboardInterrupt):
    """SIGTERM, treated like Ctrl-C: started output is removed, no file is half-written."""


def raise_on_sigterm() -> None:
    """Raise `Terminated` when this process receives SIGTERM."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)


def exit_code(work: Callable[[], None], *, debug: bool) -> int:
    """Do the work and return the exit code; print one sentence if it ended early."""
    try:
        work()
        sys.stdout.flush()  # a full disk behind stdout must be noticed here, not at the interpreter's exit
        return OK
    except SystemExit as stop:  # of a command whose answer is no
        return int(stop.code or OK)
    except BrokenPipeError:  # the reader of our output has stopped reading
        _discard_stdout()
        return OK
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        sentence, code = _answer(error)
        print_message(sentence)
        _discard_stdout()
        return code


def print_message(sentence: str) -> None:
    """Print a sentence on one line of stderr, after the name of the program."""
    with suppress(OSError):  # stderr may be closed
        print(f"mtlstruct: {shortened(' '.join(sentence.splitlines()))}", file=sys.stderr)


def _answer(error: BaseException) -> tuple[str, int]:
    """Return the sentence and the exit code for an error."""
    if isinstance(error, KeyboardInterrupt):
        ended = isinstance(error, Terminated)
        kind, code = ("terminated", TERMINATED) if ended else ("interrupted", INTERRUPTED)
        return str(error) or f"{kind}; existing files are unchanged", code
    if isinstance(error, MtlError):
        return str(error), BAD_INPUT
    if isinstance(error, OSError):
        return f"{error.filename or 'standard output'}: {error.strerror or error}", BAD_INPUT
    if isinstance(error, MemoryError):
        return "not enough memory", BAD_INPUT
    kind = type(error).__name__
    return f"internal error, please report it: {kind}: {error} (--debug shows where)", INTERNAL_ERROR


def _discard_stdout() -> None:
    """Discard buffered output that cannot be written; the interpreter would report it."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError), open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), sys.stdout.fileno())
