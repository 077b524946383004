"""Imports point down: a package imports only from layers below its own (docs/explanation/architecture.md)."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mtlstruct

ROOT = Path(mtlstruct.__file__).parent

LAYERS = (
    "errors < _numba < _system < corpus < linear templates formats < structures < features < model < "
    "objective evaluation explain < interop solvers < training < distributed tuning tasks < report < "
    "serve estimators samples compat < cli < __main__"
)
LAYER = {name: k for k, names in enumerate(LAYERS.split(" < ")) for name in names.split()}


def imported(path):
    """Yield the top-level parts of the package that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports within the package are absolute"
            head, *rest = (node.module or "").split(".")
            if head == "mtlstruct":
                yield from [rest[0]] if rest else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("mtlstruct."))


def upward_imports():
    """Yield the imports that do not point to a lower layer or into the same package."""
    for path in sorted(ROOT.rglob("*.py")):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        for other in imported(path):
            if other != part and other in LAYER and LAYER[other] >= LAYER[part]:
                yield f"{path.relative_to(ROOT)} imports {other}"


def test_every_part_of_the_package_has_a_layer():
    parts = {path.name.removesuffix(".py") for path in ROOT.iterdir() if path.name != "__pycache__"}
    assert parts - {"__init__", "py.typed"} == set(LAYER)


ALLOWED = ["model/model.py imports report"]  # Model.report loads it when it is called


def test_imports_point_to_lower_layers():
    assert list(upward_imports()) == ALLOWED


@pytest.mark.parametrize(
    "module",
    ["mtlstruct", "mtlstruct.model.model", "mtlstruct.cli.commands.predict", "mtlstruct.compat.pycrfsuite"],
)
def test_prediction_loads_no_training_code(module):
    training = (
        "mtlstruct.solvers",
        "mtlstruct.objective",
        "mtlstruct.training.train",
        "scipy.linalg",
        "sklearn",
    )
    code = (
        f"import sys, {module}; "
        f"found = [name for name in sys.modules if name.startswith({training!r})]; "
        "sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
