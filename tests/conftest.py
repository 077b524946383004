"""Fixtures that several files use."""

import io
import signal

import pytest
from hypothesis import settings
from support.browser import browser as browser
from support.commands import Ran

from mtlstruct import cli
from mtlstruct._system import memory

settings.register_profile("kernels", deadline=None)  # the first example may have to wait for a compiler
settings.load_profile("kernels")


def pytest_configure() -> None:
    """Handle SIGINT in the suite and its children, also if the suite was started with SIGINT ignored.

    A shell without job control starts background jobs so, and children inherit an ignored signal.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a browser."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command line in this process, with `stdin` as its input.

    The first argument is split at spaces: run("train a.tpl", path) is run("train", "a.tpl", path).
    """

    def call(command: object = "", *arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = cli.run([*str(command).split(), *map(str, arguments)])
        return Ran(code, *capsys.readouterr())

    yield call
    memory.set_limit(None)  # of --memory


@pytest.fixture
def output(run):
    """Run a command line and return stdout; with `code`, expect this exit code and return stderr."""

    def call(*arguments: object, code: int = 0) -> str:
        got = run(*arguments)
        assert got.code == code, got.err
        return got.err if code else got.out

    return call
