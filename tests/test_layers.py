"""Imports point down: a module imports only from layers below its own (docs/architecture.md)."""

import ast
from pathlib import Path

import mtlstruct

ROOT = Path(mtlstruct.__file__).parent

LAYERS = {
    "__init__": 9, "__main__": 10, "cli": 9, "demo": 9, "rates": 9,
    "estimators": 9, "experiments": 9,
    "report": 8, "sentences": 8, "distributed": 8, "building": 8, "train": 8, "options": 8, "labelling": 8,
    "studies": 8, "tuning": 8, "serve": 8, "ahead": 8, "warming": 8,
    "recipes": 7, "blocks": 7, "explain": 7, "explain_trees": 7, "selection": 7, "exchange": 7,
    "warmstart": 7, "stopping": 7, "scoring": 7, "assessment": 7, "telling": 7, "voices": 7,
    "checkpoints": 7,
    "model": 6, "learners": 6, "calibration": 6,
    "masters": 5, "cuts": 5, "indexing": 5, "shards": 5, "oracle": 5, "lattice": 5, "compaction": 5, "stored": 5,
    "merging": 5,
    "encoding": 4, "observing": 4, "arcs": 4, "subsets": 4, "sharing": 4, "plan": 4, "plain": 4, "openings": 4,
    "templates": 3, "structures": 3, "formats": 3, "grid": 3,
    "corpus": 2, "linear": 2, "rows": 2, "support": 2, "folding": 2, "losses": 2, "regularizers": 2, "metrics": 2,
    "classification": 2, "attachment": 2, "actors": 2, "clusters": 2, "numbering": 2, "normalizers": 2, "archive": 2,
    "constraints": 2,
    "threads": 1, "errors": 1, "files": 1, "memory": 1, "processes": 1, "mapped": 1, "_kernels": 1, "data": 1,
    "_compiler": 1, "_pipelines": 1, "_lowering": 1, "_kernel_cache": 1, "web": 1, "keeping": 1, "teams": 1,
}  # fmt: skip


def imported(path):
    """Top-level parts of the package that a file imports, wherever in the file the import stands."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            names = (base + tuple((node.module or "").split("."))) if node.module else base
            yield from ([names[0]] if names else [alias.name for alias in node.names])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mtlstruct":
            rest = (node.module or "").split(".")[1:]
            yield from ([rest[0]] if rest else [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("mtlstruct."):
                    yield alias.name.split(".")[1]


def test_every_module_has_a_layer_and_imports_only_from_below():
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        assert part in LAYERS, f"{part} has no layer"
        for other in imported(path):
            other = other.removesuffix(".py")
            if other not in LAYERS or other == part or part == "__init__":
                continue
            if LAYERS[other] > LAYERS[part]:
                wrong.append(
                    f"{path.relative_to(ROOT)} (layer {LAYERS[part]}) imports {other} ({LAYERS[other]})"
                )
    assert not wrong, "\n".join(wrong)


def test_predicting_imports_no_learner():
    import subprocess
    import sys

    code = (
        "import sys, mtlstruct.model.model; "
        "heavy = ('mtlstruct.solvers', 'mtlstruct.solvers.cutting_plane', 'scipy.linalg', 'sklearn'); "
        "bad = [m for m in sys.modules if m.startswith(heavy)]; "
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
