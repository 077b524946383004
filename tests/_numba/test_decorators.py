"""Compiled kernels: where they are cached, when the cache is stale, and that cached ones give the same bits."""

import ast
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mtlstruct
from mtlstruct._numba import decorators
from mtlstruct.samples import recipes as demo
from mtlstruct.templates import generate

PACKAGE = Path(mtlstruct.__file__).parent

compiled = pytest.mark.skipif(not decorators.COMPILED, reason="nothing is compiled")
find = decorators.cache_folder.__wrapped__


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Put the user's cache and the temporary folder below tmp_path, without NUMBA_CACHE_DIR."""
    from numba import config

    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setattr(decorators, "_users", lambda: tmp_path / "user")
    monkeypatch.setattr(decorators.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def test_the_cache_is_in_numba_cache_dir_or_the_users_cache_folder(place, monkeypatch):
    from numba import config

    folder = find()
    assert folder.is_dir()
    assert folder.parent == place / "user" / "mtlstruct"
    monkeypatch.setattr(config, "CACHE_DIR", str(place / "mine"))
    assert find().parent == place / "mine" / "mtlstruct"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners")
@pytest.mark.parametrize("fault", [None, "writable by others", "of another owner"])
def test_without_a_writable_home_the_cache_is_in_a_private_temporary_folder(place, monkeypatch, fault):
    (place / "user").write_text("a file where the folder should be")
    private = place / f"mtlstruct-{os.getuid()}"
    if fault is None:
        assert find().parent.parent == private
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        return
    private.mkdir()
    private.chmod(0o777 if fault == "writable by others" else 0o700)
    if fault == "of another owner":
        calls = iter([os.getuid(), os.getuid() + 1])  # named after this user, owned by another
        monkeypatch.setattr(decorators.os, "getuid", lambda: next(calls))
    assert find() is None


def test_only_small_work_before_the_first_compilation_is_interpreted(monkeypatch):
    monkeypatch.setattr(decorators.Deferred, "interpreted", 0.0)
    made = decorators.Deferred(lambda: "plain", lambda: lambda: "compiled")
    half = decorators.MAX_INTERPRETED // 2
    with decorators.small_work(half):
        assert made() == "plain"
        with decorators.small_work(2 * half + 2):
            assert not decorators.interpreting()
        assert made() == "plain"
    assert made() == "compiled"
    with decorators.small_work(1):
        assert made() == "compiled"


def test_the_digest_depends_on_the_files_with_kernels(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "sums.py").write_text("@fast_kernel\ndef f(): pass\n")
    (tmp_path / "other.py").write_text("def f(): pass\n")
    first = decorators._digest(tmp_path)
    (tmp_path / "other.py").write_text("def f(): return 1\n")
    assert decorators._digest(tmp_path) == first
    (tmp_path / "sub" / "sums.py").write_text("@fast_kernel\ndef f(): return 1\n")
    assert decorators._digest(tmp_path) != first


def test_only_the_cache_folders_used_last_are_left(place):
    versions = place / "user" / "mtlstruct"
    for age in range(decorators.MAX_OLD_FOLDERS + 3):
        folder = versions / f"old{age}"
        folder.mkdir(parents=True)
        os.utime(folder, (1000 - age, 1000 - age))
    expected = {find().name} | {f"old{age}" for age in range(decorators.MAX_OLD_FOLDERS)}
    assert {version.name for version in versions.iterdir()} == expected


def kernels_by_file():
    """Return the syntax tree and the kernels of each file that has any."""
    trees = {file: ast.parse(file.read_text("utf-8")) for file in PACKAGE.rglob("*.py")}
    found = {file: (tree, [f for f in ast.walk(tree) if is_kernel(f)]) for file, tree in trees.items()}
    assert sum(bool(kernels) for _, kernels in found.values()) > 20
    return {file: both for file, both in found.items() if both[1]}


def is_kernel(node, ending="kernel"):
    return isinstance(node, ast.FunctionDef) and any(
        ast.unparse(decorator).endswith(ending) for decorator in node.decorator_list
    )


def test_kernels_use_constants_of_files_with_kernels_only():
    """Numba compiles constants in; the digest would not notice a change of another file."""
    kernels = kernels_by_file()
    known = kernels.keys() | {Path(decorators.__file__)}  # which is in the digest, too
    for file, (tree, functions) in kernels.items():
        names = {name.id for f in functions for name in ast.walk(f) if isinstance(name, ast.Name)}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mtlstruct"):
                folder = PACKAGE.joinpath(*node.module.split(".")[1:])
                used = {alias.asname or alias.name for alias in node.names} & names
                sources = {folder.with_suffix(".py"), *(folder / f"{name}.py" for name in used)}
                assert not used or sources & known, f"{file.name}: {used}"


def test_fast_kernels_do_not_call_fast_kernels():
    """The sums of a copy that is optimised apart may be ordered otherwise, see `inner_kernel`."""
    for file, (_, functions) in kernels_by_file().items():
        fast = [f for f in functions if is_kernel(f, "fast_kernel")]
        for function in fast:
            calls = {ast.unparse(part.func) for part in ast.walk(function) if isinstance(part, ast.Call)}
            assert not calls & {f.name for f in fast}, f"{file.name}: {function.name}"


@compiled
@pytest.mark.slow
def test_cached_and_fresh_kernels_give_the_same_bytes(tmp_path):
    (tmp_path / "a.tpl").write_text(generate((-2, 2), range(8), orders=(1, 2)).text())
    (tmp_path / "a.txt").write_text(demo.column_file(demo.bundled()[:200], seed=1))

    def start(cache, *arguments):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / cache)}
        command = [sys.executable, "-m", "mtlstruct", *arguments]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)

    def files():
        return {path for path in (tmp_path / "warm").rglob("*") if path.is_file()}

    train = ["train", "a.tpl", "a.txt"]
    begun = [
        start("cold", *train, "cold.mtl", "--quiet", "--threads", "2"),
        start("warm", "warmup", "--task", "sequence", "--method", "mtl"),
    ]
    assert [process.wait(300) for process in begun] == [0, 0]
    compiled = files()
    assert len(compiled) > 20
    for arguments in ([*train, "warm.mtl", "--quiet", "--threads", "2"], ["predict", "warm.mtl", "a.txt"]):
        assert start("warm", *arguments).wait(300) == 0
    assert files() == compiled
    assert (tmp_path / "cold.mtl").read_bytes() == (tmp_path / "warm.mtl").read_bytes()


@compiled
def test_warmup_prints_the_cache_folder(monkeypatch, capsys):
    from mtlstruct.cli import run

    monkeypatch.setattr("mtlstruct.cli.commands.warmup._commands", lambda place, task, methods: iter([]))
    assert run(["warmup", "--task", "dependency"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(decorators.cache_folder())
    monkeypatch.setattr("mtlstruct.cli.commands.warmup.cache_folder", lambda: None)
    assert run(["warmup"]) == 2
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err
    assert run(["warmup", "--task", "trees"]) == 2
    assert "--task must be one of sequence, " in capsys.readouterr().err


CALLEE = """
from .decorators import inner_kernel

@inner_kernel
def one():
    return {}
"""
CALLER = """
from .decorators import fast_kernel
from .callee import one

@fast_kernel
def two(x):
    return one() + x

print(two(1), two(1.5), sum(two.stats.cache_hits.values()))
"""


@pytest.fixture
def small(tmp_path):
    """Make a small package whose kernels call each other over two files; return a function that starts it."""
    package = tmp_path / "small"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "caller.py").write_text(CALLER)
    shutil.copy(decorators.__file__, package)

    def start(value):
        (package / "callee.py").write_text(CALLEE.format(value))
        there = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "small.caller"]
        return subprocess.Popen(command, cwd=tmp_path, env=there, stdout=subprocess.PIPE, text=True)

    return start


@compiled
@pytest.mark.slow
def test_a_change_of_a_called_kernel_in_another_file_compiles_its_callers_again(small):
    for process in [small(1), small(1)]:  # at the same time
        assert process.communicate(timeout=120)[0].split()[:2] == ["2", "2.5"]
    for value, hits in ((1, 2), (5, 0), (5, 2), (1, 2)):
        out, _ = small(value).communicate(timeout=120)
        assert out.split() == [f"{value + 1}", f"{value + 1.5}", f"{hits}"]


@compiled
@pytest.mark.parametrize("form", ["plain", "compiled"])
def test_atomic_operations_return_the_value_before(form):
    from numba import njit

    load, add, store = (getattr(decorators.make_atomic(name), form) for name in ("load", "add", "xchg"))

    def run(numbers):
        return add(numbers, 1, 5), store(numbers, 1, 7), load(numbers, 1, 0)

    numbers = np.array([1, 2, 3])
    assert (run if form == "plain" else njit(run))(numbers) == (2, 7, 7)
    assert numbers.tolist() == [1, 7, 3]
