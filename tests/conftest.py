"""Fixtures that several files use."""

from __future__ import annotations

import io
import signal

import pytest
from commands import Ran, Run
from hypothesis import settings

from mtlstruct import cli

settings.register_profile("kernels", deadline=None)  # the first example may have to wait for a compiler
settings.load_profile("kernels")


def pytest_configure() -> None:
    """Handle SIGINT in the suite and in its children, also if the suite was started with SIGINT ignored.

    A shell without job control starts background jobs so, and children inherit an ignored signal. Tests that
    send SIGINT to themselves or to a child would wait for nothing.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in this process, with `stdin` as its input."""

    def call(*arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return call
