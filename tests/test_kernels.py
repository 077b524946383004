"""Compiled kernels: where they are cached, when the cache is stale, and that a cached one gives the same bits."""

import ast
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import mtlstruct
from mtlstruct._numba import decorators as _kernels
from mtlstruct.samples import recipes as demo
from mtlstruct.templates import generate

FAST = {"fast_kernel"}
PACKAGE = Path(mtlstruct.__file__).parent

compiled = pytest.mark.skipif(not _kernels.COMPILED, reason="nothing is compiled")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Put the user's cache and the temporary folder below tmp_path, without NUMBA_CACHE_DIR."""
    from numba import config

    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setattr(_kernels, "_users", lambda: tmp_path / "user")
    monkeypatch.setattr(_kernels.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def unwritable(folder):
    """Let a file stand where the folder should be made."""
    folder.write_text("no folder")
    return folder


find = _kernels.cache_folder.__wrapped__


def test_kernels_are_cached_in_the_users_cache_folder(place):
    folder = find()
    assert folder.is_dir()
    assert folder.parent == place / "user" / "mtlstruct"


def test_numba_cache_dir_is_respected(place, monkeypatch):
    from numba import config

    monkeypatch.setattr(config, "CACHE_DIR", str(place / "mine"))
    assert find().parent == place / "mine" / "mtlstruct"
    assert not (place / "user").exists()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners")
def test_without_a_writable_home_they_go_to_a_private_temporary_folder(place):
    unwritable(place / "user")
    private = find().parent.parent
    assert private == place / f"mtlstruct-{os.getuid()}"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners")
@pytest.mark.parametrize("fault", ["open to others", "of another owner"])
def test_a_temporary_folder_that_others_can_write_is_not_used(place, monkeypatch, fault):
    unwritable(place / "user")
    private = place / f"mtlstruct-{os.getuid()}"
    private.mkdir()
    private.chmod(0o777 if fault == "open to others" else 0o700)
    if fault == "of another owner":
        calls = iter([os.getuid(), os.getuid() + 1])  # named after this user, owned by another
        monkeypatch.setattr(_kernels.os, "getuid", lambda: next(calls))
    assert find() is None


@compiled
def test_kernels_run_where_no_folder_can_be_written(monkeypatch):
    monkeypatch.setattr(_kernels, "cache_folder", lambda: None)
    made = _kernels.kernel(_same)
    assert made(3) == 3
    assert not made.stats.cache_path


@compiled
def test_decorating_leaves_numbas_settings_as_they_were(tmp_path, monkeypatch):
    from numba import config

    before = dict(os.environ)
    monkeypatch.setattr(_kernels, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(config, "CACHE_DIR", "elsewhere")
    made = _kernels.kernel(_same)
    assert Path(made.stats.cache_path).parent == tmp_path
    assert config.CACHE_DIR == "elsewhere"
    assert dict(os.environ) == before


def test_the_digest_depends_on_the_files_with_kernels(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "sums.py").write_text("@fast_kernel\ndef f(): pass\n")
    (tmp_path / "other.py").write_text("def f(): pass\n")
    first = _kernels._digest(tmp_path)
    (tmp_path / "other.py").write_text("def f(): return 1\n")
    assert _kernels._digest(tmp_path) == first
    (tmp_path / "sub" / "sums.py").write_text("@fast_kernel\ndef f(): return 1\n")
    assert _kernels._digest(tmp_path) != first


def test_the_folders_used_last_are_kept(place):
    versions = place / "user" / "mtlstruct"
    for age in range(_kernels.KEPT + 3):
        folder = versions / f"old{age}"
        folder.mkdir(parents=True)
        os.utime(folder, (1000 - age, 1000 - age))
    folder = find()
    kept = {version.name for version in versions.iterdir()}
    assert kept == {folder.name} | {f"old{age}" for age in range(_kernels.KEPT)}


def test_kernels_take_constants_from_files_with_kernels_only():
    """Numba compiles constants in; a change of another file would go unnoticed by the digest."""
    trees = {file: ast.parse(file.read_text("utf-8")) for file in PACKAGE.rglob("*.py")}
    kernels = {file: [f for f in ast.walk(tree) if _is_kernel(f)] for file, tree in trees.items()}
    kernels = {file: found for file, found in kernels.items() if found}
    assert len(kernels) > 20
    for file, functions in kernels.items():
        names = {name.id for f in functions for name in ast.walk(f) if isinstance(name, ast.Name)}
        for node in trees[file].body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mtlstruct"):
                folder = PACKAGE.joinpath(*node.module.split(".")[1:])
                used = {alias.asname or alias.name for alias in node.names} & names
                sources = {folder.with_suffix(".py"), *(folder / f"{name}.py" for name in used)}
                known = kernels.keys() | {Path(_kernels.__file__)}  # the digest has it, too
                assert not used or sources & known, f"{file.name}: {used}"


def _is_kernel(node):
    return isinstance(node, ast.FunctionDef) and any(
        ast.unparse(decorator).endswith("kernel") for decorator in node.decorator_list
    )


@compiled
def test_after_warmup_nothing_is_compiled_and_a_run_that_compiles_gives_the_same_bytes(tmp_path):
    (tmp_path / "a.tpl").write_text(generate((-2, 2), range(8), bigrams=True).text())
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
def test_warmup_says_where_kernels_are_kept_and_that_there_is_no_such_folder(monkeypatch, capsys):
    from mtlstruct.cli import run

    monkeypatch.setattr("mtlstruct.cli.commands.warmup._commands", lambda place, task, methods: iter([]))
    assert run(["warmup", "--task", "dependency"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(_kernels.cache_folder())
    monkeypatch.setattr("mtlstruct.cli.commands.warmup.cache_folder", lambda: None)
    assert run(["warmup"]) == 2
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err
    assert run(["warmup", "--task", "trees"]) == 2
    assert "--task must be one of sequence, " in capsys.readouterr().err


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
    shutil.copy(_kernels.__file__, package)

    def start(value):
        (package / "callee.py").write_text(CALLEE.format(value))
        there = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "small.caller"]
        return subprocess.Popen(command, cwd=tmp_path, env=there, stdout=subprocess.PIPE, text=True)

    return start


@compiled
def test_a_kernel_is_compiled_again_where_one_it_calls_in_another_file_has_changed(small):
    for value, hits in ((1, 0), (1, 2), (5, 0), (5, 2), (1, 2)):
        out, _ = small(value).communicate(timeout=120)
        assert out.split() == [f"{value + 1}", f"{value + 1.5}", f"{hits}"]


@compiled
def test_processes_that_compile_at_once_do_not_disturb_each_other(small):
    for process in [small(1) for _ in range(3)]:
        assert process.communicate(timeout=120)[0].split()[:2] == ["2", "2.5"]
        assert process.returncode == 0
    assert small(1).communicate(timeout=120)[0].split()[:2] == ["2", "2.5"]


def _same(x):
    return x
