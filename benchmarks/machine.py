"""What the figures were taken on: the processor and the versions, nothing that names a machine."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.places import ROOT

LIBRARIES = ("mtlstruct", "numpy", "scipy", "numba", "python-crfsuite")


def facts() -> dict[str, str | int]:
    """For the results of one run."""
    return {
        "date": today(),
        "cpu": _cpu(),
        "cores": os.cpu_count() or 1,
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: _version(name) for name in LIBRARIES},
    }


def today() -> str:
    """The date of a figure."""
    return datetime.date.today().isoformat()


def source() -> str:
    """A digest of the package's code, so that figures of different states are not taken for one another."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _cpu() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
