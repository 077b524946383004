"""What kernels that make no arrays look like to LLVM: numba's lowering, with less to say.

Numba puts an array aside and reads its fields back at each access, reads a variable before it is written, to let go
of what it held, and clears it when it is done with. LLVM removes all of that, after it was written, read and
understood: more than half of what it is given. Here an element is an address, a variable is just written, and a loop
over range(n) counts. What LLVM makes of it is the same.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, ir
from numba.core import types as known_types
from numba.core.ir_utils import get_definition, guard
from numba.core.lowering import Lower

types: Any = known_types

_SHORT = ("static_getitem", "getiter", "iternext", "pair_first", "pair_second")
"""Expressions that may be said in fewer words."""


class LeanLower(Lower):  # type: ignore[misc, unused-ignore]
    """Lowering for kernels that do not count who holds an array."""

    def debug_print(self, msg: str) -> None:
        pass

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        self._alloca_var(name, self.typeof(name))
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        if name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        with self.builder.goto_entry_block():
            return self.builder.alloca(lltype, name=name)

    def lower_inst(self, inst: Any) -> None:
        if isinstance(inst, ir.StaticSetItem) and isinstance(self.typeof(inst.target.name), types.Array):
            signature = self.fndesc.calltypes[inst]
            self.lower_setitem(inst.target, inst.index_var, inst.value, signature)
        else:
            super().lower_inst(inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        of = self.typeof(expr.value.name) if expr.op in _SHORT else None
        if isinstance(of, types.Array) and expr.op == "static_getitem":
            return self.lower_getitem(resty, expr, expr.value, expr.index_var, self.fndesc.calltypes[expr])
        if isinstance(of, types.RangeType) and expr.op == "getiter" and self._by_one(expr.value):
            return self._begin(resty, self.loadvar(expr.value.name))
        if isinstance(of, types.RangeIteratorType) and expr.op == "iternext":
            return self._next(resty, of, self.loadvar(expr.value.name))
        if isinstance(of, types.Pair):
            field = self._field(of, expr.op.removeprefix("pair_"))
            return self.builder.extract_value(self.loadvar(expr.value.name), field)
        return super().lower_expr(resty, expr)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        array = self.typeof(value.name)
        if not _is_element(array, self.typeof(index.name)):
            return super().lower_getitem(resty, expr, value, index, signature)
        found = self.context.unpack_value(self.builder, array.dtype, self._address(value, index))
        return self.context.cast(self.builder, found, array.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> None:
        array, given = self.typeof(target_var.name), self.typeof(value_var.name)
        if not _is_element(array, self.typeof(index_var.name)) or isinstance(given, types.Array):
            super().lower_setitem(target_var, index_var, value_var, signature)
            return
        value = self.loadvar(value_var.name)
        for old, new in ((given, signature.args[2]), (signature.args[2], array.dtype)):
            value = self.context.cast(self.builder, value, old, new)
        self.context.pack_value(self.builder, array.dtype, value, self._address(target_var, index_var))

    def _address(self, array_var: Any, index_var: Any) -> Any:
        """Where an element of a contiguous array is."""
        array, at = self.loadvar(array_var.name), self.loadvar(index_var.name)
        of, kinds, builder = self.typeof(array_var.name), self.typeof(index_var.name), self.builder
        places = [at]
        if isinstance(kinds, types.BaseTuple):
            places = [builder.extract_value(at, axis) for axis in range(len(kinds))]
        place = None
        for axis, (kind, k) in enumerate(zip(_kinds(kinds), places, strict=True)):
            size = builder.extract_value(array, [self._field(of, "shape"), axis])
            k = self.context.cast(builder, k, kind, types.intp if kind.signed else types.uintp)
            if kind.signed:
                k = builder.select(builder.icmp_signed("<", k, k.type(0)), builder.add(k, size), k)
            place = k if place is None else builder.add(builder.mul(place, size), k)
        return builder.gep(builder.extract_value(array, self._field(of, "data")), [place])

    def _field(self, kind: Any, name: str) -> int:
        return int(self.context.data_model_manager[kind].get_field_position(name))

    def _by_one(self, range_var: Any) -> bool:
        """Whether this is known to be range(n) or range(m, n)."""
        made = guard(get_definition, self.func_ir, range_var)
        if not isinstance(made, ir.Expr) or made.op != "call" or len(made.args) > 2 or made.vararg:
            return False
        called = guard(get_definition, self.func_ir, made.func)
        return isinstance(called, ir.Global) and called.value is range

    def _begin(self, kind: Any, state: Any) -> Any:
        """An iterator over a range by one: where it is, and how often it is still to go on."""
        builder = self.builder
        start, stop = (builder.extract_value(state, k) for k in range(2))
        at, left = (cgutils.alloca_once(builder, start.type) for _ in range(2))
        size = builder.sub(stop, start)
        builder.store(start, at)
        builder.store(builder.select(builder.icmp_signed(">", size, size.type(0)), size, size.type(0)), left)
        return self._packed(kind, iter=at, stop=stop, step=start.type(1), count=left)

    def _next(self, pair: Any, kind: Any, iterator: Any) -> Any:
        """(number, whether there was one); counts on even where there was none: nobody asks again."""
        builder = self.builder
        at, step, left = (
            builder.extract_value(iterator, self._field(kind, name)) for name in ("iter", "step", "count")
        )
        number, some = builder.load(at), builder.load(left)
        builder.store(builder.sub(some, some.type(1), flags=["nsw"]), left)
        builder.store(builder.add(number, step), at)
        return self._packed(pair, first=number, second=builder.icmp_signed(">", some, some.type(0)))

    def _packed(self, kind: Any, **fields: Any) -> Any:
        made = self.context.get_constant_undef(kind)
        for name, value in fields.items():
            made = self.builder.insert_value(made, value, self._field(kind, name))
        return made


def _kinds(index: Any) -> tuple[Any, ...]:
    return tuple(index) if isinstance(index, types.BaseTuple) else (index,)


def _is_element(array: Any, index: Any) -> bool:
    """Whether this index of an array is of one element, and where it is takes no strides to know."""
    if not (isinstance(array, types.Array) and array.layout == "C" and array.aligned):
        return False
    kinds = _kinds(index)
    return len(kinds) == array.ndim and all(isinstance(kind, types.Integer) for kind in kinds)
