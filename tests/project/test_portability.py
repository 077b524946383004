"""Nothing that exists on POSIX systems only is needed to import, train, tune, predict, evaluate or show weights."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
import filelock, joblib, numba, psutil, scipy.linalg, sklearn  # these look after themselves

missing = ["fork", "getuid", "geteuid", "getgid", "getpgid", "killpg", "nice", "register_at_fork",
           "sched_getaffinity", "sched_yield", "setsid", "sysconf", "uname"]
for name in missing:
    delattr(os, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None

import importlib, pkgutil
import mtlstruct
from mtlstruct.cli import run

train = ["train", "a.tpl", "a.txt", "m.mtl", "--quiet", "--max-iter", "3", "--checkpoint", "state"]
tune = ["tune", "a.tpl", "a.txt", "--valid", "a.txt", "--quiet", "--max-iter", "3", "--jobs", "1"]
commands = [train, tune, ["predict", "m.mtl", "a.txt"], ["evaluate", "m.mtl", "a.txt"], ["weights", "m.mtl"]]
for command in commands:
    assert run(["--debug", *command]) == 0, command
optional = ("distributed", "serve", "__main__")
for module in pkgutil.walk_packages(mtlstruct.__path__, "mtlstruct."):
    if not any(part in module.name for part in optional):
        importlib.import_module(module.name)
"""


@pytest.mark.process
def test_commands_run_without_what_only_posix_has(tmp_path):
    (tmp_path / "a.tpl").write_text("U00:%x[0,0]\nU01:%x[-1,0]\nB\n")
    (tmp_path / "a.txt").write_text("a X\nb Y\n\nb Y\na X\n\n")
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
