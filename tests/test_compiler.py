"""What numba is spared: the kernels and the options are the same as without."""

import gc
import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from mtlstruct._numba import compiler as _compiler
from mtlstruct._numba.decorators import (
    COMPILED,
    fast_kernel,
    inner_kernel,
    lean_fast_kernel,
    lean_inner_kernel,
    lean_kernel,
)

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing is compiled")


@inner_kernel
def _dot(a, b):
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@inner_kernel
def _cosine(a, b):
    return _dot(a, b) / np.sqrt(_dot(a, a) * _dot(b, b))


@fast_kernel
def _angle(a, b):
    return np.arccos(_cosine(a, b))


def test_inner_kernels_are_part_of_their_callers():
    assert _angle(np.array([1.0, 0.0]), np.array([0.0, 2.0])) == pytest.approx(np.pi / 2)


def test_inner_kernels_have_no_machine_code():
    _dot.compile("float64(float64[::1], float64[::1])")
    (made,) = _dot.overloads.values()
    assert made.library.get_pointer_to_function(made.fndesc.llvm_func_name) == 0
    assert type(made.library).__name__ == "InnerLibrary"


@lean_fast_kernel
def _twice(a, out):
    for k in range(len(a)):
        out[k] = 2 * a[k]


def test_lean_kernels_hold_nothing():
    a, out = np.arange(3.0), np.zeros(3)
    before = sys.getrefcount(a), sys.getrefcount(out)
    for _ in range(10):
        _twice(a, out)
    assert out.tolist() == [0, 2, 4]
    assert (sys.getrefcount(a), sys.getrefcount(out)) == before


def test_lean_kernels_that_make_arrays_are_refused():
    from numba.core.errors import NumbaError

    with pytest.raises(NumbaError, match="zeros"):
        lean_fast_kernel(_making)(3)


def _making(n):
    return np.zeros(n).sum()


def _walk(table, cube, at, flags, out):
    """Indices of all kinds, ranges of all kinds, and variables that outlive their loops."""
    n, last, seen = len(table), 0, 0
    for i in range(n):
        for j in range(1, n):
            out[i, j] = table[i, j] + table[-1, j - n] + cube[i, 0, at[j]]
            last = j
        row = table[np.uint64(i)]
        row[0] += row[-1] + last
        out[i, 0] = row[0]
    for k in range(n - 1, -1, -2):
        out[k, k] -= k
        seen += 1
    for k in range(3, 1):
        seen += 100 + k
    flags[0], flags[-1] = True, seen > 2
    for y in (at[0], at[1]):
        out[y, 1] *= 2
    return seen + last


@lean_inner_kernel
def _outer_walk(table, cube, at, flags, out):
    return _inner_walk(table, cube, at, flags, out)


_inner_walk = lean_inner_kernel(_walk)


def _through_inner(table, cube, at, flags, out):
    return _outer_walk(table, cube, at, flags, out)


@pytest.mark.parametrize("kernel", [lean_kernel(_walk), lean_kernel(_through_inner)])
@pytest.mark.parametrize("layout", [lambda a: a, lambda a: np.asfortranarray(a), lambda a: a[:, ::1][::1]])
def test_lean_kernels_do_as_python_does(kernel, layout):
    found = []
    for run in (kernel, _walk):
        table, out, flags = (
            layout(np.arange(16.0).reshape(4, 4)),
            np.zeros((4, 4), np.float32),
            np.zeros(5, bool),
        )
        cube, at = np.arange(24, dtype=np.int16).reshape(4, 2, 3), np.array([2, 0, 1, 2], np.int32)
        found.append((run(table, cube, at, flags, out), table.tolist(), out.tolist(), flags.tolist()))
    assert found[0] == found[1]


def test_lean_kernels_are_compiled_as_such_where_numba_is_as_known():
    if "pipeline_class" not in _compiler.lean_options():
        pytest.skip("this numba is not as known")
    kinds = [kernel._compiler.pipeline_class.__name__ for kernel in (_twice, _inner_walk)]
    assert kinds == ["LeanCompiler", "LeanInnerCompiler"]


def test_garbage_is_looked_for_again_once_a_kernel_is_compiled():
    lean_fast_kernel(_walk).compile("int64(f8[:,::1], i2[:,:,::1], i4[::1], b1[::1], f4[:,::1])")
    assert gc.isenabled()
    with pytest.raises(Exception, match="zeros"):
        lean_fast_kernel(_making)(4)
    assert gc.isenabled()


def test_options_at_once_are_those_numba_would_find_one_by_one():
    from numba.core.compiler import Flags
    from numba.core.targetconfig import TargetConfig

    assert _compiler.quicken()
    assert TargetConfig.values is _compiler.values_at_once
    flags = Flags()
    for name in ("", "nrt", "release_gil", "forceinline"):
        if name:
            setattr(flags, name, True)
        asked = {option: getattr(flags, option) for option in flags.options}
        assert list(flags.values().items()) == list(asked.items())
        assert flags == flags.copy()
        assert hash(flags) == hash(flags.copy())
    assert flags != Flags()


def test_a_call_is_typed_once_for_the_same_types_and_options():
    tried = []

    class Function:
        templates = ()
        _impl_keys: ClassVar[dict] = {}

    def find(self, context, args, kws):
        tried.append(args)
        self._impl_keys[args] = f"{current} {len(tried)}"
        return SimpleNamespace(args=args)

    current, function = "fast", Function()
    ask = _compiler._found_once(find, lambda: current)
    first = ask(function, None, ("int64",), {})
    assert ask(function, None, ("int64",), {}) is first
    current = "exact"
    ask(function, None, ("int64",), {})
    assert function._impl_keys[("int64",)] == "exact 2"
    current = "fast"
    assert ask(function, None, ("int64",), {}) is first
    assert function._impl_keys[("int64",)] == "fast 1", "the implementation comes back with the signature"
    assert ask(function, None, ("float64",), {}) is not first
    assert ask(Function(), None, ("int64",), {}) is not first
    assert len(tried) == 4


def test_calls_that_numba_copies_as_source_are_typed_each_time():
    from numba.core.cpu_options import InlineOptions

    ways = [SimpleNamespace(_inline=InlineOptions(how)) for how in ("never", "always")]
    assert _compiler._plain((*ways[:1], object()))
    assert not _compiler._plain(ways)


def test_calls_are_typed_once_where_numba_is_as_known():
    from numba.core.types.functions import BaseFunction

    assert _compiler.remember()
    assert BaseFunction.get_call_type.__module__ == _compiler.__name__


@pytest.mark.parametrize("asked", ["BOUNDSCHECK", "DEBUGINFO_DEFAULT"])
def test_who_asks_numba_to_watch_gets_its_own_lowering(monkeypatch, asked):
    from numba.core import config

    monkeypatch.setattr(config, asked, 1)
    assert _compiler.lean_options.__wrapped__() == {"_nrt": False}


def test_a_numba_that_works_otherwise_is_left_alone(monkeypatch):
    from numba.core import codegen, options, targetconfig
    from numba.core.types import functions

    monkeypatch.setattr(targetconfig.TargetConfig, "values", lambda flags: {"foreign": 1})
    before = targetconfig.TargetConfig.values
    assert not _compiler.quicken.__wrapped__()
    assert targetconfig.TargetConfig.values is before
    monkeypatch.setattr(codegen, "JITCodeLibrary", object)
    assert _compiler.inner_options.__wrapped__() == {}
    assert _compiler.lean_options.__wrapped__() == {"_nrt": False}
    monkeypatch.setattr(options, "DefaultOptions", object)
    assert _compiler.lean_options.__wrapped__() == {}
    monkeypatch.setattr(functions.BaseFunction, "get_call_type", lambda function, types: "foreign")
    before = functions.BaseFunction.get_call_type
    assert not _compiler.remember.__wrapped__()
    assert functions.BaseFunction.get_call_type is before
