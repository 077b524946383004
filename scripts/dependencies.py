"""A table of the installed run-time dependencies, direct and not: version, licence, what needs it."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

ROOTS = (
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "threadpoolctl",
    "joblib",
    "psutil",
    "filelock",
    "rich",
    "matplotlib",
    "starlette",
    "uvicorn",
)


def main() -> None:
    """Prints Markdown."""
    found: dict[str, tuple[Distribution, set[str]]] = {}
    waiting = [(name, "mtlstruct") for name in ROOTS]
    while waiting:
        name, wanted_by = waiting.pop(0)
        if name in found:
            found[name][1].add(wanted_by)
            continue
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = one, {wanted_by}
        needed = [r for r in one.requires or [] if "extra ==" not in r]
        waiting += [(re.split(r"[^\w.-]", r, maxsplit=1)[0].lower().replace("_", "-"), name) for r in needed]
    print("| package | version | licence | needed by |\n|---|---|---|---|")
    for name, (one, users) in found.items():
        print(f"| {name} | {one.version} | {licence(one)} | {', '.join(sorted(users))} |")


def licence(one: Distribution) -> str:
    """What a package says of its licence, in a few words."""
    meta = one.metadata
    said = meta.get("License-Expression") or ""
    classes = [c.rpartition(":: ")[2] for c in meta.get_all("Classifier") or [] if c.startswith("License ::")]
    return said or ", ".join(classes) or (meta.get("License") or "not said").strip().split("\n")[0][:60]


if __name__ == "__main__":
    main()
