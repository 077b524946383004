"""Looks into the sdist and the wheel of a folder: all that git has of the package is there, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

MUST = (
    "py.typed",
    "samples/ingredients.txt",
    "templates/library/dependency.tpl",
    "report/web/assets/shell.html",
)


def main(folder: Path) -> None:
    """Complains by exit code."""
    listed = subprocess.run(
        ["git", "ls-files", "src", "tests", "docs", "scripts"], check=True, stdout=subprocess.PIPE
    )
    tracked = set(listed.stdout.decode().split("\n")) - {""}
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    with tarfile.open(next(folder.glob("*.tar.gz"))) as sdist:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
    missing = [f"mtlstruct/{name}" for name in MUST if f"mtlstruct/{name}" not in inside]
    problems = {
        "missing in the wheel": sorted((package - inside) | set(missing)),
        "unexpected in the wheel": sorted(inside - package),
        "missing in the sdist": sorted(tracked - packed),
    }
    wrong = {what: names for what, names in problems.items() if names}
    if wrong:
        raise SystemExit("\n".join(f"{what}: {', '.join(names[:10])}" for what, names in wrong.items()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
