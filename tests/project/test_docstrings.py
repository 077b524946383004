"""Names and docstrings of the package follow the rules of CONTRIBUTING.md."""

import ast
import inspect
import io
import re
import tokenize
from collections import defaultdict
from operator import attrgetter
from pathlib import Path

import mtlstruct
import mtlstruct.estimators

ROOT = Path(mtlstruct.__file__).parent
IN_PROGRESS: dict[str, set[str]] = {
    "self-contained": set(),
    "short lines": {"solvers/likelihood"},
    "unique classes": {"interop/standalone_tagger"},  # a program of its own
    "constants": set(),
    "parameters": set(),
}
"""Packages that do not follow a rule yet, by rule: their files are not checked."""

MAX_LINE = 100
RELATIVE = re.compile(r"(The same|See|Both|As|Those|That|Also|Like|Ditto|Likewise|Or)\b(?! (few|many)\b)")
BANNED_CONSTANTS = re.compile(
    r"_?(AGAIN|ALWAYS|BROKEN|BIG|CLOSE|DEAD|ENOUGH|FAR|FARTHEST|FASTEST|FEW|GROWN|HOPE|HOT|KEPT|LARGE|LARGEST|LONG|LONGEST|MANY|MOST|NEAR|NEAREST"
    r"|NEARLY|NEVER|OFTEN|PATIENCE|RARE|RELAX|ROOM|SAFE|SETTLED|SHORT|SLOWEST|SMALL|SOON|STALE|TELLING|TINY|TRUST|WIDE)"
)
KERNEL_DECORATORS = {"kernel", "fast_kernel", "inner_kernel", "inlined_kernel"}


FILES = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(text) for name, text in FILES.items()}


def is_checked(name, rule):
    return not name.startswith(tuple(IN_PROGRESS[rule]))


def definitions(rule, *kinds):
    for name, tree in TREES.items():
        for node in ast.walk(tree) if is_checked(name, rule) else ():
            if isinstance(node, kinds):
                yield name, node


def test_docstrings_are_self_contained():
    found = [
        f"{name}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for name, node in definitions("self-contained", ast.Module, ast.ClassDef, ast.FunctionDef)
        if (text := ast.get_docstring(node)) and RELATIVE.match(text)
    ]
    assert not found, "\n".join(found)


def long_lines(text):
    """Yield the numbers of the lines of docstrings and comments that are too long."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            if len(token.line.rstrip("\n")) > MAX_LINE:
                yield token.start[0]
        elif token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""')):
            lines = text.splitlines()[token.start[0] - 1 : token.end[0]]
            yield from (token.start[0] + k for k, line in enumerate(lines) if len(line) > MAX_LINE)


def test_lines_of_docstrings_and_comments_are_short():
    found = [
        f"{name}:{number}"
        for name, text in FILES.items()
        if is_checked(name, "short lines")
        for number in long_lines(text)
    ]
    assert not found, f"{len(found)} lines over {MAX_LINE} characters:\n" + "\n".join(found)


def test_class_names_are_unique():
    places = defaultdict(list)
    for name, node in definitions("unique classes", ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        places[node.name.lstrip("_")].append(f"{name}:{node.lineno}")
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_constants_are_named_by_nouns():
    found = [
        f"{name}:{node.lineno}: {target.id}"
        for name, tree in TREES.items()
        if is_checked(name, "constants")
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in ast.walk(node)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
        if BANNED_CONSTANTS.fullmatch(target.id)
    ]
    assert not found, "\n".join(found)


def test_only_kernels_lack_annotations():
    """mypy allows functions without annotations in packages with kernels, since numba infers types."""
    found = [
        f"{name}:{function.lineno}"
        for name, tree in TREES.items()
        for scope in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef)))
        for function in scope.body
        if isinstance(function, ast.FunctionDef) and function.returns is None
        if not {getattr(mark, "id", None) for mark in function.decorator_list} & KERNEL_DECORATORS
    ]
    assert not found, "\n".join(found)


def public_functions():
    """Yield the public functions and classes, and the public methods of these classes."""
    for name in [*mtlstruct.__all__, "estimators.Progress"]:
        found = attrgetter(name)(mtlstruct)
        if not callable(found) or (inspect.isclass(found) and issubclass(found, Exception)):
            continue
        yield name, found
        for key, member in inspect.getmembers(found, inspect.isroutine):
            if not key.startswith("_") and (member.__module__ or "").startswith("mtlstruct"):
                yield f"{name}.{key}", member


def missing_parts(function):
    """Return the parameters and sections that a numpydoc docstring leaves out."""
    text = inspect.getdoc(function) or ""
    sections = set(re.findall(r"^(\w+)\n-+$", text, re.MULTILINE))
    entries = re.findall(r"^([\w, *]+)(?: :.*)?$", text, re.MULTILINE)
    documented = {name.strip(" *") for entry in entries for name in entry.split(",")}
    signature = inspect.signature(function)
    parameters = set(signature.parameters) - {"self"}
    missing = sorted(parameters - documented)
    if parameters and not sections & {"Parameters", "Attributes"}:
        missing.append("section Parameters")
    returns = not inspect.isclass(function) and signature.return_annotation not in (None, "None")
    if returns and not sections & {"Returns", "Yields"}:
        missing.append("section Returns")
    return missing


def test_public_functions_document_parameters_and_results():
    found = [
        f"{name} leaves out {', '.join(missing)}"
        for name, function in public_functions()
        if is_checked(function.__module__.split(".")[1], "parameters")
        and (missing := missing_parts(function))
    ]
    assert not found, "\n".join(found)
