"""First use: commands with an empty cache of kernels and with a full one; and where it is on a read-only install."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks import machine, measure
from benchmarks.book import Book, Row
from benchmarks.places import ROOT, head, work
from benchmarks.tasks import ESP_MTL, preset

SENTENCES = 50
RIGHT = "-dac_override"


def measure_all(book: Book) -> None:
    """A row for each command, cold and warm; and one for the read-only install."""
    for name in ("--help", "train", "predict"):
        book.row({"command": name}, machine.source(), partial(_row, book, name))
    book.row({"command": "read-only install"}, machine.source(), _read_only)


def _command(name: str) -> list[str]:
    few = str(head(ESP_MTL.part("train"), SENTENCES))
    model = str(work() / "first.mtl")
    return {
        "--help": ["--help"],
        "train": ["train", str(preset("ner-134")), few, model, "--quiet", "--json"],
        "predict": ["predict", model, few],
    }[name]


def _row(book: Book, name: str) -> Row:
    """Each cold run has an empty folder, and the warm one after it finds there what the first has left."""
    if name == "predict":
        measure.python("mtlstruct", *_command("train"))
    cold, warm, files = [], [], {}
    for _ in range(book.ask.repeat):
        with tempfile.TemporaryDirectory() as folder:
            there = {"NUMBA_CACHE_DIR": folder}
            command = [sys.executable, "-m", "mtlstruct", *_command(name)]
            cold.append(measure.run(command, one_thread=False, environment=there))
            warm.append(measure.run(command, one_thread=False, environment=there))
            files = {path.name: path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()}
    return {
        "cold": min(run.wall for run in cold),
        "cold_cpu": min(run.cpu for run in cold),
        "warm": min(run.wall for run in warm),
        "warm_cpu": min(run.cpu for run in warm),
        "kernels": sum(name.endswith(".nbi") for name in files),
        "cache_mb": sum(files.values()) / 1e6,
    }


def _read_only() -> Row:
    """A copy of the package that cannot be written, used by somebody with a home: where do the kernels go?"""
    with tempfile.TemporaryDirectory() as folder:
        package, home, job = (Path(folder) / name for name in ("package", "home", "job"))
        shutil.copytree(ROOT / "src", package, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (home, job):
            path.mkdir()
        measure.python("mtlstruct", *_command("train"))
        for name in _command("predict")[1:]:
            shutil.copy(name, job)
        _close(package)
        _predict_as_user(package, home, job)
        _open(package)
        return {
            "kernels_in_package": _kernels(package),
            "kernels_in_home": _kernels(home),
            "folder": _where(home),
        }


def _close(package: Path) -> None:
    """Nobody may write to the package."""
    for path in (package, *package.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def _predict_as_user(package: Path, home: Path, job: Path) -> None:
    """Root, who may write anywhere, gives that right up."""
    name, *files = _command("predict")
    arguments = [name, *(Path(path).name for path in files), "-o", "labels"]
    switch = ["setpriv", f"--bounding-set={RIGHT}", f"--inh-caps={RIGHT}"] if os.getuid() == 0 else []
    command = [*switch, "env", "-C", str(job), sys.executable, "-m", "mtlstruct", *arguments]
    user = {
        "HOME": str(home),
        "PYTHONPATH": str(package),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    before = os.environ.pop("NUMBA_CACHE_DIR", None)
    try:
        measure.run(command, environment=user)
    finally:
        if before is not None:
            os.environ["NUMBA_CACHE_DIR"] = before


def _open(package: Path) -> None:
    for path in (package, *package.rglob("*")):
        path.chmod(0o755)


def _kernels(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.nbi"))


def _where(home: Path) -> str:
    """The folder below the home, without what names single modules."""
    found = next(home.rglob("*.nbi"), None)
    return "" if found is None else "~/" + "/".join(found.relative_to(home).parts[:2])
