"""Pinned versions: `lock` prints what is installed of the extras, `minimum` the least that pyproject.toml allows.

A lock names versions and nothing else: no index, no path. Run it in the environment that has passed the checks.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DEVELOPMENT = ("test", "lint", "docs", "bench", "fuzz", "package")
TESTED = ("plot", "serve", "test")


def project() -> dict[str, Any]:
    """What pyproject.toml says of the package."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def lock() -> list[str]:
    """name==version of everything that the extras for development need, and that these need in turn."""
    from packaging.requirements import Requirement  # which an empty environment does not have

    extras = project()["optional-dependencies"]
    wanted = [*project()["dependencies"], *(one for extra in DEVELOPMENT for one in extras[extra])]
    waiting = [(Requirement(one), "") for one in wanted]
    found: dict[tuple[str, str], str] = {}
    while waiting:
        one, extra = waiting.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if name == "mtlstruct":
            waiting += [(Requirement(line), "") for more in one.extras for line in extras[more]]
            continue
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        for more in {"", *one.extras} - {e for n, e in found if n == name}:
            try:
                installed = distribution(name)
            except PackageNotFoundError:
                raise SystemExit(f"{name} is not installed here") from None
            found[name, more] = installed.version
            waiting += [(Requirement(line), more) for line in installed.requires or []]
    return sorted({f"{name}=={version}" for (name, _), version in found.items()})


def minimum() -> list[str]:
    """name==version for every `name>=version` of the dependencies and of what the tests need."""
    extras = project()["optional-dependencies"]
    wanted = [*project()["dependencies"], *(one for extra in TESTED for one in extras[extra])]
    pins = (re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)", one) for one in wanted)
    return sorted({f"{pin[1]}=={pin[2]}" for pin in pins if pin})


if __name__ == "__main__":
    print("\n".join({"lock": lock, "minimum": minimum}[sys.argv[1]]()))
