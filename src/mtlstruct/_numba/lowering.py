"""What kernels that make no arrays look like to LLVM: numba's lowering, with less to say.

Numba puts an array aside and reads its fields back at each access, reads a variable before it is written, to let go
of what it held, and clears it when it is done with. LLVM removes all of that, after it was written, read and
understood: half of what it is given. Here an element is an address, and a variable is just written. What LLVM makes
of it is the same. (Loops over ranges could be said in fewer words, too; but LLVM then made slower ones of them.)
"""

from __future__ import annotations

from typing import Any

from numba.core import ir
from numba.core import types as known_types
from numba.core.lowering import Lower

types: Any = known_types


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
        if expr.op == "static_getitem" and isinstance(self.typeof(expr.value.name), types.Array):
            return self.lower_getitem(resty, expr, expr.value, expr.index_var, self.fndesc.calltypes[expr])
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


def _kinds(index: Any) -> tuple[Any, ...]:
    return tuple(index) if isinstance(index, types.BaseTuple) else (index,)


def _is_element(array: Any, index: Any) -> bool:
    """Whether this index of an array is of one element, and where it is takes no strides to know."""
    if not (isinstance(array, types.Array) and array.layout == "C" and array.aligned):
        return False
    kinds = _kinds(index)
    return len(kinds) == array.ndim and all(isinstance(kind, types.Integer) for kind in kinds)
