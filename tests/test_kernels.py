"""Where compiled kernels are kept when the package's folder cannot be written, and that they are one and the same."""

import ast
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import mtlstruct
from mtlstruct._numba import decorators as _kernels
from mtlstruct._numba import kernel_cache as _kernel_cache
from mtlstruct.samples import recipes as demo
from mtlstruct.templates import generate

FAST = {"fast_kernel", "lean_fast_kernel"}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A home and a temporary folder, and no NUMBA_CACHE_DIR; what a test sets is put back."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(_kernels.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def writable(monkeypatch, *folders):
    monkeypatch.setattr(_kernels, "_can_write", lambda folder: any(folder == one for one in folders))


def test_a_home_that_can_be_written_is_left_to_numba(place, monkeypatch):
    writable(monkeypatch, place / "home")
    _kernels._choose()
    assert "NUMBA_CACHE_DIR" not in os.environ


def test_without_a_home_they_go_to_a_private_folder(place, monkeypatch):
    writable(monkeypatch)
    _kernels._choose()
    private = Path(os.environ["NUMBA_CACHE_DIR"])
    assert private.parent == place
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


def test_a_folder_of_somebody_else_is_not_used(place, monkeypatch):
    writable(monkeypatch)
    mine = os.getuid()
    calls = iter([mine, mine + 1])  # its name is ours, its owner is not
    monkeypatch.setattr(_kernels.os, "getuid", lambda: next(calls))
    _kernels._choose()
    assert "NUMBA_CACHE_DIR" not in os.environ


def test_what_the_user_has_set_is_respected(place, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "mine")
    writable(monkeypatch)
    _kernels._choose()
    assert os.environ["NUMBA_CACHE_DIR"] == "mine"


@pytest.mark.skipif(not _kernels.COMPILED, reason="nothing is compiled here")
def test_a_run_that_compiles_and_one_that_finds_all_compiled_give_the_same_bytes(tmp_path):
    (tmp_path / "a.tpl").write_text(generate((-2, 2), range(8), bigrams=True).text())
    (tmp_path / "a.txt").write_text(demo.column_file(demo.bundled()[:200], seed=1))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    command = [
        sys.executable,
        "-m",
        "mtlstruct",
        "train",
        "a.tpl",
        "a.txt",
        "m.mtl",
        "--quiet",
        "--threads",
        "2",
    ]
    models = []
    for _ in range(2):
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=300)
        models.append((tmp_path / "m.mtl").read_bytes())
        for old in tmp_path.glob("m.mtl*"):
            old.unlink()
    assert models[0] == models[1]


def test_fast_kernels_call_no_others_that_stand_by_themselves():
    """Sums may be reordered in them, and in a copy of them otherwise than in another; see `inner_kernel`."""
    found = 0
    for file in Path(mtlstruct.__file__).parent.rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        fast = [f for f in functions if FAST & set(map(ast.unparse, f.decorator_list))]
        found += len(fast)
        for function in fast:
            calls = {ast.unparse(part.func) for part in ast.walk(function) if isinstance(part, ast.Call)}
            assert not calls & {f.name for f in fast}, f"{file.name}: {function.name}"
    assert found > 20


CALLEE = """
from mtlstruct._numba.decorators import lean_inner_kernel

@lean_inner_kernel
def one():
    return {}
"""
BETWEEN = """
from callee import one
from mtlstruct._numba.decorators import lean_inner_kernel

@lean_inner_kernel
def two():
    return 2 * one()
"""
CALLER = """
from between import two
from mtlstruct._numba.decorators import lean_fast_kernel

@lean_fast_kernel
def three():
    return 1 + two()

print(three(), sum(three.stats.cache_hits.values()))
"""


@pytest.mark.skipif(not _kernels.COMPILED, reason="nothing is compiled")
def test_a_kernel_is_compiled_again_where_one_it_calls_in_another_file_has_changed(tmp_path):
    def run(value):
        (tmp_path / "callee.py").write_text(CALLEE.format(value))
        there = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "caller.py"]
        done = subprocess.run(command, cwd=tmp_path, env=there, check=True, capture_output=True, text=True)
        return done.stdout.split()

    (tmp_path / "between.py").write_text(BETWEEN)
    (tmp_path / "caller.py").write_text(CALLER)
    assert run(1) == ["3", "0"]
    assert run(1) == ["3", "1"]
    assert run(5) == ["11", "0"]
    assert run(5) == ["11", "1"]


@pytest.mark.skipif(not _kernels.COMPILED, reason="nothing is compiled")
def test_a_kernel_whose_cache_cannot_be_asked_is_not_kept(monkeypatch):
    monkeypatch.setattr(_kernels, "ask_for", lambda kernel, files: False)
    monkeypatch.setattr(_kernels, "_others", lambda function: {"elsewhere.py"})
    made = _kernels.kernel(_same)
    assert made(3) == 3
    assert made._cache.cache_path is None
    assert not _kernel_cache.ask_for(object(), ["elsewhere.py"])


READY = """
import sys
import numpy as np
from mtlstruct._numba.decorators import kernel

@kernel
def made(size):
    return np.full(size, 2.0)

@kernel
def total(values):
    return values.sum()

def ready():
    return "numba.np.arraymath" in sys.modules

found = made(3), ready()
print(found[0].tolist(), found[1], *([total(found[0]), ready()] if len(sys.argv) > 1 else []))
"""


@pytest.mark.skipif(not _kernels.COMPILED, reason="nothing is compiled")
def test_a_kernel_from_the_cache_does_not_wait_for_the_compiler(tmp_path):
    def run(*arguments):
        there = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
        command = [sys.executable, "ready.py", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=there, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    (tmp_path / "ready.py").write_text(READY)
    assert run() == "[2.0, 2.0, 2.0] True"
    assert run() == "[2.0, 2.0, 2.0] False"
    assert run("both") == "[2.0, 2.0, 2.0] False 6.0 True"  # one from the cache, one compiled after it


@pytest.mark.skipif(not _kernels.COMPILED, reason="nothing is compiled")
def test_a_cache_that_is_not_as_we_know_it_loads_as_numba_does():
    class Cache:
        def load_overload(self, sig, target_context):
            return target_context.otherwise(sig)

    class Made:
        _cache = Cache()

    assert not _kernel_cache.load_alone(Made, True)
    assert "load_overload" not in vars(Made._cache)
    assert not _kernel_cache.load_alone(object(), True)


def _same(x):
    return x
