"""Calls that must be refused: what is called, the exception it must give, and words its message must hold."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false, reportFunctionMemberAccess=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.errors import BufferFreed, OutOfMemory, ShapeError, UnsupportedDType

ADD = """program atlas_add_f32 rank 1 reduced 0
buffer x : f32 read
buffer out : f32 write
scalar s : f32
%0 = coordinate 0 : index
%1 = load x %0 : f32
%2 = scalar s : f32
%3 = add %1, %2 : f32
store out %0, %3
"""


@dataclass
class Bench:
    """What a case works with: an executor, another one, and operands of 8 elements (x and y hold 0..7)."""

    ex: Any  # so that a case may pass what types forbid
    other: Any
    kept: list[Any] = field(default_factory=list)

    def buffer(self, shape: Any = 8, dtype: Any = dtypes.f32, ex: Any = None) -> Any:
        buffer = (ex or self.ex).allocate(shape, dtype)
        buffer.fill(0)
        return buffer

    def tensor(self, *shape: int, dtype: Any = np.float32) -> Any:
        shape = shape or (8,)
        return self.ex.tensor(np.arange(np.prod(shape)).reshape(shape).astype(dtype))

    @property
    def x(self) -> Any:
        return self.buffer()

    @property
    def i(self) -> Any:
        return self.buffer(dtype=dtypes.i32)

    @property
    def t(self) -> Any:
        return self.tensor(2, 4)

    @property
    def freed(self) -> Any:
        buffer = self.buffer()
        buffer.free()
        return buffer

    @property
    def foreign(self) -> Any:
        return self.buffer(ex=self.other)

    def run(self, text: str = ADD, lanes: Any = 8, scalars: Any = None, **buffers: Any) -> None:
        given = {"x": self.x, "out": self.x} | buffers
        self.ex.run(
            text,
            {n: b for n, b in given.items() if b is not None},
            lanes=lanes,
            **({"s": 1.0} if scalars is None else scalars),
        )


@dataclass(frozen=True)
class Bad:
    """One case."""

    name: str
    call: Callable[[Bench], Any]
    error: type[Exception]
    match: str


FREED = [
    Bad(
        "input", lambda b: hg.ops.vector_add(b.ex, b.freed, b.x, b.x), BufferFreed, "vector_add|add.*x.*freed"
    ),
    Bad("output", lambda b: hg.ops.vector_add(b.ex, b.x, b.x, b.freed), BufferFreed, "freed"),
    Bad("input and output", lambda b: hg.ops.vector_add(b.ex, f := b.freed, f, f), BufferFreed, "freed"),
    Bad("input with count", lambda b: hg.ops.vector_add(b.ex, b.freed, b.x, b.x, 4), BufferFreed, "freed"),
    Bad("tensor operand", lambda b: b.ex.as_tensor(b.freed) + 1, BufferFreed, "freed"),
    Bad("reduction", lambda b: hg.sum(b.ex.as_tensor(b.freed)), BufferFreed, "freed"),
    Bad("matmul", lambda b: hg.ops.gemm(b.ex, b.freed, b.x, b.x, 2, 2, 2), BufferFreed, "freed"),
    Bad("composite output", lambda b: hg.ops.mse_loss(b.ex, b.x, b.x, b.freed), BufferFreed, "freed"),
    Bad("reshape", lambda b: b.ex.as_tensor(b.freed).reshape(2, 4).to_numpy(), BufferFreed, "freed"),
    Bad("clone", lambda b: b.ex.as_tensor(b.freed).clone(), BufferFreed, "freed"),
    Bad("index", lambda b: b.ex.as_tensor(b.freed)[1:3] + 1, BufferFreed, "freed"),
    Bad("setitem", lambda b: b.ex.as_tensor(b.freed).__setitem__(0, 1), BufferFreed, "freed"),
    Bad("from_numpy", lambda b: b.freed.from_numpy(np.zeros(8, np.float32)), BufferFreed, "freed"),
    Bad("to_numpy", lambda b: b.freed.to_numpy(), BufferFreed, "freed"),
    Bad("fill", lambda b: b.freed.fill(0), BufferFreed, "freed"),
    Bad("copy_from", lambda b: b.x.copy_from(b.freed), BufferFreed, "freed"),
    Bad("dlpack", lambda b: np.from_dlpack(b.freed), BufferFreed, "freed"),
    Bad("tensor dlpack", lambda b: np.from_dlpack(b.ex.as_tensor(b.freed)), BufferFreed, "freed"),
    Bad("array", lambda b: np.asarray(b.freed), BufferFreed, "freed"),
    Bad("ptr", lambda b: b.freed.ptr, BufferFreed, "freed"),
    Bad("program", lambda b: b.run(x=b.freed), BufferFreed, "freed"),
    Bad("program output", lambda b: b.run(out=b.freed), BufferFreed, "freed"),
    Bad("after a cached call", lambda b: cached_then_freed(b), BufferFreed, "freed"),
]


def cached_then_freed(b: Bench) -> None:
    x, out = b.x, b.x
    hg.ops.vector_relu(b.ex, x, out)
    hg.ops.vector_relu(b.ex, x, out)
    x.free()
    hg.ops.vector_relu(b.ex, x, out)


FOREIGN = [
    Bad(
        "input",
        lambda b: hg.ops.vector_add(b.ex, b.foreign, b.x, b.x),
        ShapeError,
        "belong to .*number.*number",
    ),
    Bad("output", lambda b: hg.ops.vector_add(b.ex, b.x, b.x, b.foreign), ShapeError, "belong to"),
    Bad("all", lambda b: hg.ops.vector_add(b.ex, b.foreign, b.foreign, b.foreign), ShapeError, "belong to"),
    Bad("with count", lambda b: hg.ops.vector_add(b.ex, b.foreign, b.x, b.x, 4), ShapeError, "belong to"),
    Bad("tensors", lambda b: b.t + b.other.tensor(np.zeros((2, 4), np.float32)), ShapeError, "belong to"),
    Bad("in place", lambda b: b.t.__iadd__(b.other.zeros((2, 4))), ShapeError, "belong to"),
    Bad("setitem", lambda b: b.t.__setitem__(0, b.other.zeros((4,))), ShapeError, "belong to"),
    Bad(
        "composite output",
        lambda b: hg.ops.mse_loss(b.ex, b.x, b.x, b.buffer((), ex=b.other)),
        ShapeError,
        "belong to",
    ),
    Bad(
        "composite all",
        lambda b: hg.ops.mse_loss(b.ex, b.foreign, b.foreign, b.buffer((), ex=b.other)),
        ShapeError,
        "belong to",
    ),
    Bad("program", lambda b: b.run(x=b.foreign), ShapeError, "belong to"),
    Bad(
        "launched twice",
        lambda b: [hg.ops.vector_abs(b.other, b.x, b.x) for _ in range(2)],
        ShapeError,
        "belong to",
    ),
    Bad("ran there first", lambda b: ran_there(b), ShapeError, "belong to"),
    Bad("concat", lambda b: hg.concat([b.t, b.other.zeros((2, 4))]), ShapeError, "belong to"),
    Bad("where", lambda b: hg.where(b.t > 0, b.t, b.other.zeros((2, 4))), ShapeError, "belong to"),
    Bad(
        "not an executor",
        lambda b: hg.ops.vector_add(b.x, b.x, b.x),
        TypeError,
        "first argument must be an Executor",
    ),
]


def ran_there(b: Bench) -> None:
    x, out = b.foreign, b.foreign
    hg.ops.vector_abs(b.other, x, out)
    hg.ops.vector_abs(b.ex, x, out)


SIZES = [
    Bad("negative", lambda b: b.ex.allocate(-1), ShapeError, "allocate.*negative"),
    Bad("negative in shape", lambda b: b.ex.allocate((4, -4)), ShapeError, "negative"),
    Bad("negative twice", lambda b: b.ex.allocate((-4, -4)), ShapeError, "negative"),
    Bad("past 64 bits", lambda b: b.ex.allocate(1 << 64), OutOfMemory, "allocate"),
    Bad("product past 64 bits", lambda b: b.ex.allocate((1 << 32, 1 << 32)), OutOfMemory, "allocate"),
    Bad("bytes past 64 bits", lambda b: b.ex.allocate((1 << 62) - 1 + (1 << 62)), OutOfMemory, "allocate"),
    Bad("larger than the device", lambda b: b.ex.allocate(1 << 46), OutOfMemory, "allocate"),
    Bad("larger than any buffer", lambda b: b.ex.zeros((1 << 20, 1 << 22)), OutOfMemory, "allocate"),
    Bad("expanded result", lambda b: b.ex.zeros((1,)).expand(1 << 46) + 1, OutOfMemory, "allocate"),
    Bad("clone of a huge view", lambda b: b.ex.zeros((1,)).expand(1 << 61).clone(), OutOfMemory, "allocate"),
    Bad("bool", lambda b: b.ex.allocate(True), TypeError, "sizes must be integers"),
    Bad("float", lambda b: b.ex.allocate(4.0), TypeError, "sizes must be integers"),
    Bad("NaN", lambda b: b.ex.allocate(float("nan")), TypeError, "sizes must be integers"),
    Bad("float in shape", lambda b: b.ex.allocate((4, 2.0)), TypeError, "sizes must be integers"),
    Bad("None", lambda b: b.ex.allocate(None), TypeError, "sizes must be integers"),
    Bad("str", lambda b: b.ex.allocate("16"), TypeError, "sizes must be integers"),
    Bad("zeros", lambda b: b.ex.zeros((-1,)), ShapeError, "negative"),
    Bad("full of str", lambda b: b.ex.full((2,), "a"), UnsupportedDType, "cannot hold 'a'"),
    Bad("full overflow", lambda b: b.ex.full((2,), 300, dtypes.u8), UnsupportedDType, "u8 cannot hold 300"),
    Bad("boundary class", lambda b: b.ex.allocate_boundary(96), ShapeError, "class must be in 0..95"),
    Bad("boundary pages", lambda b: b.ex.allocate_boundary(0, 49), ShapeError, "pages must be in 1..48"),
    Bad("boundary no pages", lambda b: b.ex.allocate_boundary(0, 0), ShapeError, "pages must be in 1..48"),
    Bad(
        "boundary full",
        lambda b: [b.kept.append(b.ex.allocate_boundary(3, 48)) for _ in range(2)],
        OutOfMemory,
        "class 3",
    ),
    Bad("boundary float", lambda b: b.ex.allocate_boundary(1.5), TypeError, "class must be an integer"),
]

DTYPES = [
    Bad("complex", lambda b: b.ex.allocate(4, np.clongdouble), UnsupportedDType, "dtype must be one of"),
    Bad("str", lambda b: b.ex.allocate(4, "U3"), UnsupportedDType, "dtype must be one of"),
    Bad("name", lambda b: b.ex.allocate(4, "float33"), UnsupportedDType, "float33"),
    Bad("unhashable", lambda b: b.ex.allocate(4, ["f32"]), UnsupportedDType, "dtype must be one of"),
    Bad("object", lambda b: b.ex.allocate(4, object), UnsupportedDType, "dtype must be one of"),
    Bad("None", lambda b: b.ex.allocate(4, None), UnsupportedDType, "dtype must be one of"),
    Bad("byte-swapped", lambda b: b.ex.allocate(4, np.dtype(">f4")), UnsupportedDType, "native byte order"),
    Bad("index", lambda b: b.ex.allocate(4, dtypes.index), UnsupportedDType, "index"),
    Bad(
        "tensor of complex",
        lambda b: b.ex.tensor(np.zeros(3, np.clongdouble)),
        UnsupportedDType,
        "complex256",
    ),
    Bad("tensor of str", lambda b: b.ex.tensor(["a", "b"]), UnsupportedDType, "got a str in a list"),
    Bad("tensor of objects", lambda b: b.ex.tensor([None, {}]), UnsupportedDType, "got None in a list"),
    Bad("ragged", lambda b: b.ex.tensor([[1], [2, 3]]), ShapeError, "ragged|inhomogeneous"),
    Bad("dates", lambda b: b.ex.tensor(np.zeros(3, "M8[s]")), UnsupportedDType, "dtype must be one of"),
    Bad("astype", lambda b: b.t.astype("complex256"), UnsupportedDType, "complex256"),
    Bad("sum dtype", lambda b: hg.sum(b.t, dtype="complex256"), UnsupportedDType, "complex256"),
    Bad(
        "output dtype",
        lambda b: hg.ops.vector_add(b.ex, b.x, b.x, b.i),
        UnsupportedDType,
        "output must be f32, got i32",
    ),
    Bad(
        "promoted output",
        lambda b: hg.ops.vector_add(b.ex, b.x, b.i, b.i),
        UnsupportedDType,
        "output must be f32, got i32",
    ),
    Bad(
        "comparison output",
        lambda b: hg.ops.less(b.ex, b.x, b.x, b.x),
        UnsupportedDType,
        "output must be bool, got f32",
    ),
    Bad(
        "argmax output",
        lambda b: hg.ops.argmax(b.ex, b.x, b.buffer((), dtypes.i32)),
        UnsupportedDType,
        "output must be i64",
    ),
    Bad(
        "composite output",
        lambda b: hg.ops.mse_loss(b.ex, b.x, b.x, b.buffer((), dtypes.i32)),
        UnsupportedDType,
        "output must be f32",
    ),
    Bad("bits of floats", lambda b: b.t & b.t, UnsupportedDType, "bitwise_and: dtype must be"),
    Bad("shift of floats", lambda b: b.t << 1, UnsupportedDType, "left_shift: dtype must be"),
    Bad("invert of floats", lambda b: ~b.t, UnsupportedDType, "invert: dtype must be"),
    Bad("abs of bools", lambda b: hg.abs(b.t > 0), UnsupportedDType, "abs: dtype must be"),
    Bad(
        "u64 with i64",
        lambda b: b.tensor(4, dtype=np.uint64) + b.tensor(4, dtype=np.int64),
        UnsupportedDType,
        "convert one",
    ),
    Bad("matmul of bools", lambda b: hg.matmul(b.t > 0, (b.t > 0).T), UnsupportedDType, "dtype must be"),
    Bad("float positions", lambda b: hg.index_select(b.t, b.tensor(2)), UnsupportedDType, "index_select"),
    Bad("from_numpy f64", lambda b: b.x.from_numpy(np.zeros(8)), UnsupportedDType, "astype"),
    Bad("from_numpy objects", lambda b: b.x.from_numpy(np.zeros(8, object)), UnsupportedDType, "float32"),
    Bad(
        "from_numpy complex",
        lambda b: b.x.from_numpy(np.zeros(8, np.complex64)),
        UnsupportedDType,
        "complex64",
    ),
    Bad("copy_from", lambda b: b.x.copy_from(b.i), UnsupportedDType, "float32"),
    Bad("program buffer", lambda b: b.run(x=b.i), UnsupportedDType, "buffer x must be f32, got i32"),
    Bad("program output", lambda b: b.run(out=b.i), UnsupportedDType, "buffer out must be f32, got i32"),
    Bad(
        "logits",
        lambda b: hg.cross_entropy_loss(b.tensor(2, 4, dtype=np.int32), b.tensor(2, dtype=np.int32)),
        UnsupportedDType,
        "logits must be floats",
    ),
    Bad(
        "random integers",
        lambda b: b.ex.apply(hg.random_uniform, *hg.random_uniform.bind((), {"shape": (2,), "dtype": "i32"})),
        UnsupportedDType,
        "must be floats",
    ),
    Bad(
        "random float8",
        lambda b: b.ex.apply(
            hg.random_uniform, *hg.random_uniform.bind((), {"shape": (2,), "dtype": "f8e5m2"})
        ),
        UnsupportedDType,
        "must be floats that are computed with, got f8e5m2",
    ),
    Bad("setitem of str", lambda b: b.t.__setitem__(0, "a"), UnsupportedDType, "got a str"),
    Bad(
        "operator with objects",
        lambda b: b.t + np.array([object()]),
        UnsupportedDType,
        "dtype must be one of",
    ),
]
