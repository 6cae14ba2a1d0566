"""Memory in a kernel: arrays of a lane and of a workgroup, atomics, and the barrier."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.foundation.dtypes import DType
from hologram.kernels import language
from hologram.kernels.values import Array, Literal, Number, Several, Static, spelled

O = Opcode
Compiler = Any  # Statements, which imports this
LOCAL_BYTES = 1 << 16  # they lie on the stack of a CPU's thread; CUDA's limit is 8 times as much
_LOADS = {"buffer": O.LOAD, "shared": O.SHARED_LOAD, "local": O.LOCAL_LOAD}
_STORES = {"buffer": O.STORE, "shared": O.SHARED_STORE, "local": O.LOCAL_STORE}


def load(b: Builder, array: Array, place: Value) -> Value:
    """An element."""
    return b.emit(_LOADS[array.space], array.dtype, place, attribute=array.name)


def store(b: Builder, array: Array, place: Value, value: Value) -> None:
    """Stores an element."""
    b.write(_STORES[array.space], array.name, place, value)


def _shape(c: Compiler, node: ast.Call, given: Any) -> tuple[Literal, ...]:
    sizes = given.items if isinstance(given, Several) else (given,)
    for n in sizes:
        if not isinstance(n, Literal) or isinstance(n.number, (bool, float)) or n.number < 1:
            raise c.refuse(
                node, f"a shape must be whole numbers that are known when compiling, got {spelled(given)}"
            )
    return tuple(sizes)


def _array(space: str) -> Callable[..., Any]:
    def handler(c: Compiler, node: ast.Call, *arguments: Any) -> Array:
        if len(arguments) != 2:
            raise c.refuse(node, f"hg.{space} takes a shape and a dtype, got {len(arguments)} arguments")
        shape, dtype = _shape(c, node, arguments[0]), _dtype(c, node, arguments[1])
        if space == "shared" and c.grid.workgroup is None:
            raise c.refuse(node, "hg.shared needs a kernel with workgroups: @hg.kernel(workgroup=64)")
        key = (*c.path, id(node))
        array = c.arrays.get(key)
        if array is None:
            name, size = f"{space}_array{len(c.arrays)}", math.prod(int(n.number) for n in shape)
            declare = c.b.shared if space == "shared" else c.b.local
            declare(name, dtype, size)
            array = c.arrays[key] = Array(name, dtype, shape, space, f"hg.{space}(...)")
            if space == "shared":
                c.b.sized.append((size * dtype.itemsize, c.source, node))
            c.local_bytes += size * dtype.itemsize if space == "local" else 0
            if c.local_bytes > LOCAL_BYTES:
                raise c.refuse(
                    node, f"a lane has {LOCAL_BYTES} bytes of local arrays, and this makes {c.local_bytes}"
                )
        if space == "local" and c.depth:  # it begins as zeros each time
            size = math.prod(int(n.number) for n in shape)
            c.b.loop(0, size, lambda k: store(c.b, array, k, c.b.constant(dtype.python(0), dtype)))
        return array

    return handler


def _dtype(c: Compiler, node: ast.Call, given: Any) -> DType:
    dtype = c.dtype_of(given.value) if isinstance(given, Static) else None
    if dtype is None:
        raise c.refuse(node, f"a dtype is needed, got {spelled(given)}")
    return dtype


def _barrier(c: Compiler, node: ast.Call, *arguments: Any) -> Static:
    if c.grid.workgroup is None:
        raise c.refuse(node, "hg.barrier needs a kernel with workgroups: @hg.kernel(workgroup=64)")
    c.b.barrier()
    return Static(None)


def _atomic(opcode: Opcode) -> Callable[..., Any]:
    count = 2 if opcode is O.ATOMIC_COMPARE_EXCHANGE else 1

    def handler(c: Compiler, node: ast.Call, *arguments: Any) -> Number:
        if len(arguments) != 2 + count:
            words = (
                "an array, an index and a value"
                if count == 1
                else "an array, an index, what is expected and a value"
            )
            raise c.refuse(node, f"it takes {words}, got {len(arguments)} arguments")
        array, index, *values = arguments
        if not isinstance(array, Array) or array.space == "local":
            raise c.refuse(node, f"an atomic is on an argument or on shared memory, got {spelled(array)}")
        place = c.place_of(array, index, node)
        given = [c.numbers.value(c.plain(v, node), array.dtype) for v in values]
        return Number(
            c.grid.answered(lambda: c.b.emit(opcode, array.dtype, place, *given, attribute=array.name))
        )

    return handler


HANDLERS: list[tuple[Any, Callable[..., Any]]] = [
    (language.local, _array("local")),
    (language.shared, _array("shared")),
    (language.barrier, _barrier),
    *((word, _atomic(opcode)) for opcode, word in language.ATOMICS.items()),
]
