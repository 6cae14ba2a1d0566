"""Calls of kernels, methods, files, and what other libraries call, as those of view_cases.py."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

import copy
import io
import operator
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from tests.frontend import view_cases as cases
from tests.frontend.view_cases import (
    FLAT,
    MASK,
    ONE,
    OTHER,
    PICKED,
    SEGMENTS,
    TABLE,
    TALL,
    WHOLE,
    Given,
    by,
    writing,
)

NOTHING = np.zeros((3, 5), np.float32)


@hg.func
def squared(x: hg.f32):
    return x * x


@hg.kernel
def weighed(x: hg.Array[hg.f32, 2], weights: hg.Array[hg.f32], out: hg.Array[hg.f32, 2], shift: hg.f32):
    i, j = hg.index()
    out[i, j] = squared(x[i, j]) * weights[j] + shift


@hg.kernel
def summed(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32]):
    i = hg.index()
    for j in range(x.shape[1]):
        out[i] += x[i, j]


@hg.kernel
def counted(x: hg.Array[hg.i32], out: hg.Array[hg.i32]):
    k = hg.index()
    hg.atomic_add(out, 0, x[k])
    hg.atomic_max(out, 1, x[k])
    hg.atomic_min(out, 2, x[k])
    hg.atomic_or(out, 3, x[k])
    hg.atomic_and(out, 4, x[k])
    hg.atomic_xor(out, 5, x[k])


@hg.kernel(workgroup=4)
def turned(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    held = hg.shared(4, hg.f32)
    k = hg.thread_index()
    held[k] = x[k]
    hg.barrier()
    out[k] = held[3 - k]


def of_kernel(kernel: Any, shape: Any, *arrays: np.ndarray, numbers: tuple[Any, ...] = ()) -> Given:
    """What a kernel leaves in the array that it is given last; here that comes first, as what is written does."""
    return writing(lambda out, *rest: kernel[shape](*rest, out, *numbers), *arrays)


def added() -> Program:
    """y = x + y."""
    b = Builder("atlas_added_f32", rank=1)
    x, y = b.buffer("x", dtypes.f32, Access.READ), b.buffer("y", dtypes.f32, Access.READ_WRITE)
    at = b.coordinate(0)
    b.store(y, at, b.load(x, at) + b.load(y, at))
    return b.build()


KERNELS = {
    "kernel": of_kernel(weighed, (3, 5), NOTHING, TABLE, OTHER[0], numbers=(0.5,)),
    "kernel, that adds": of_kernel(summed, (3,), FLAT[:3], TABLE),
    "kernel, of atomics": of_kernel(counted, (6,), np.array([9, 1, 7, 2, 15, 3], np.int32), SEGMENTS),
    "kernel, of workgroups": of_kernel(turned, (4,), np.zeros(4, np.float32), FLAT[:4]),
    "kernel, in jit": by(lambda x, w: hg.jit(launched)(x, w), TABLE, OTHER[0]),
    "kernel, followed": by(lambda x, w: hg.grad(lambda a: hg.sum(launched(a, w)))(x), TABLE, OTHER[0]),
    "kernel, for all": by(lambda x, w: hg.vmap(lambda a: launched(a, w))(x), np.stack([TABLE, OTHER]), OTHER[0]),
    "Executor.run": writing(lambda y, x: y.executor.run(added(), {"x": x, "y": y}, lanes=15), TABLE, OTHER),
    "Executor.launch": writing(lambda y, x: y.executor.launch(added(), [x, y], (), (15,)), TABLE, OTHER),
}  # fmt: skip


def launched(x: Any, weights: Any) -> Any:
    out = hg.zeros(x.shape)
    weighed[x.shape](x, weights, out, 0.5)
    return out


def loaded(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a saved program gives of arguments like those that it was saved with."""
    with tempfile.TemporaryDirectory() as folder:
        hg.save_program(Path(folder) / "f.holo", function, *arguments)
        return hg.load(Path(folder) / "f.holo", device=arguments[0].executor)(*arguments)


def saved(*arrays: Any) -> Any:
    """What comes back from a file of arrays."""
    file = io.BytesIO()
    hg.savez(file, *arrays)
    file.seek(0)
    return list(hg.load(file, device=arrays[0].executor).values())


def saved_alone(x: Any) -> Any:
    file = io.BytesIO()
    hg.save(file, x)
    file.seek(0)
    return hg.load(file, device=x.executor)


FILES = {
    "save": by(saved_alone, TABLE),
    "savez": by(saved, TABLE, WHOLE),
    "load": by(saved_alone, MASK),
    "save_program": by(lambda x, y: loaded(lambda a, b: hg.softmax(a, -1) * b + a[0], x, y), TABLE, OTHER),
    "save_program, closed over": by(
        lambda x, y, z: loaded(lambda a: (a @ y + z[0], y[1:], z), x), TABLE, TALL, OTHER[:, :3].copy()
    ),
    "save_program, of a choice": by(
        lambda p, x, y: loaded(lambda q, a: hg.cond(q, lambda b: b + y, lambda b: b, a), p, x), cases.YES, TABLE, OTHER
    ),
}  # fmt: skip

NUMPY = {
    "Tensor.__array__": by(lambda x: np.asarray(x, np.float64), TABLE),
    "Tensor.__array_function__": by(lambda x, y: np.concatenate([x, y]), TABLE, OTHER),
    "Tensor.__array_ufunc__": by(lambda x, y: np.add(x, y), TABLE, OTHER),
    "Tensor.__array_ufunc__, into": writing(lambda x, y: np.multiply(x, y, out=x), TABLE, OTHER),
    "Tensor.__copy__": by(copy.copy, TABLE),
    "Tensor.__deepcopy__": by(copy.deepcopy, TABLE),
    "Tensor.__dlpack__": by(lambda x: np.from_dlpack(x.to_device("cpu")), TABLE),
    "Tensor.__reduce__": by(lambda x: pickle.loads(pickle.dumps(x)), TABLE),
    "Tensor.to_numpy": by(lambda x: x.to_numpy(out=np.empty((3, 5), np.float32)), TABLE),
    "Tensor.to_numpy, as it lies": by(lambda x: x.to_device("cpu").to_numpy(copy=False), TABLE),
    "Executor.tensor": by(lambda x: x.executor.tensor(x), TABLE),
    "Executor.from_dlpack": by(lambda x: x.executor.from_dlpack(x, copy=True), TABLE),
}

BINARY = ("add", "and_", "floordiv", "mod", "mul", "or_", "pow", "sub", "truediv", "xor", "lshift", "rshift")
COMPARED = ("eq", "ge", "gt", "le", "lt", "ne")
OPERATORS = {
    **{f"Tensor.__{n.strip('_')}__": by(getattr(operator, n), WHOLE, cases.WORDS[:5] % 4 + 1) for n in BINARY},
    **{
        f"Tensor.__r{n.strip('_')}__": by(lambda x, n=n: getattr(operator, n)(3, x), WHOLE + 1) for n in BINARY
    },
    **{
        f"Tensor.__i{n.strip('_')}__": writing(
            getattr(operator, "i" + n.strip("_")), TABLE if n == "truediv" else WHOLE, WHOLE % 4 + 1
        )
        for n in BINARY
    },
    **{f"Tensor.__{n}__": by(getattr(operator, n), TABLE, OTHER) for n in COMPARED},
    "Tensor.__matmul__": by(operator.matmul, TABLE, TALL),
    "Tensor.__rmatmul__": by(lambda x: np.ones((2, 3), np.float32) @ x, TABLE),
    "Tensor.__imatmul__": writing(operator.imatmul, cases.SQUARE, cases.SQUARE),
    "Tensor.__divmod__": by(lambda x: divmod(x, 3), TABLE),
    "Tensor.__rdivmod__": by(lambda x: divmod(3, x), TABLE),
    "Tensor.__neg__": by(operator.neg, TABLE),
    "Tensor.__pos__": by(operator.pos, TABLE),
    "Tensor.__abs__": by(abs, TABLE),
    "Tensor.__invert__": by(operator.invert, WHOLE),
    "Tensor.__bool__": by(bool, cases.YES),
    "Tensor.__complex__": by(complex, cases.TWO),
    "Tensor.__float__": by(float, cases.TWO),
    "Tensor.__format__": by(lambda x: f"{x:.3f}", cases.TWO),
    "Tensor.__index__": by(operator.index, ONE),
    "Tensor.__int__": by(int, ONE),
    "Tensor.__len__": by(len, TABLE),
    "Tensor.__contains__": by(lambda x, y: y in x, WHOLE, ONE),
    "Tensor.__iter__": by(list, TABLE),
    "Tensor.__repr__": by(repr, TABLE),
    "Tensor.__getitem__": by(lambda x: x[1:, ::-2], TABLE),
    "Tensor.__getitem__, of positions": by(lambda x, at: x[at], TABLE, PICKED),
    "Tensor.__getitem__, of pairs": by(lambda x, at, to: x[at, to], TABLE, PICKED, PICKED),
    "Tensor.__getitem__, of a mask": by(lambda x, mask: x[mask], TABLE, MASK),
    "Tensor.__setitem__": writing(lambda x, y: operator.setitem(x, 1, y), TABLE, OTHER[0]),
    "Tensor.__setitem__, a number": writing(lambda x: operator.setitem(x, slice(1, None), 2.0), TABLE),
    "Tensor.__setitem__, of positions": writing(operator.setitem, TABLE, PICKED[:3], OTHER),
    "Tensor.__setitem__, of a mask": writing(lambda x, mask: operator.setitem(x, mask, 0.5), TABLE, MASK),
    "Tensor.__setitem__, of values": writing(
        lambda x, mask, y: operator.setitem(x, mask, y[: int(mask.sum())]), TABLE, MASK, np.arange(15, dtype=np.float32)
    ),
}  # fmt: skip

METHODS = {
    "Tensor.T": by(lambda x: x.T, TABLE),
    "Tensor.mT": by(lambda x: x.mT, cases.CUBE),
    "Tensor.astype": by(lambda x: x.astype("i32"), TABLE),
    "Tensor.clone": by(lambda x: x.clone(), TABLE),
    "Tensor.conjugate": by(lambda x: x.conjugate(), cases.COMPLEX),
    "Tensor.contiguous": by(lambda x: x.contiguous(), TABLE),
    "Tensor.copy": by(lambda x: x.copy(), TABLE),
    "Tensor.diagonal": by(lambda x: x.diagonal(1), TABLE),
    "Tensor.expand": by(lambda x: x.expand(4, 3, 5), TABLE),
    "Tensor.fill": writing(lambda x: x.fill(3), TABLE),
    "Tensor.flatten": by(lambda x: x.flatten(), cases.CUBE),
    "Tensor.imag": by(lambda x: x.imag, cases.COMPLEX),
    "Tensor.is_contiguous": by(lambda x: x.contiguous().is_contiguous(), TABLE),
    "Tensor.item": by(lambda x: x.item(), cases.TWO),
    "Tensor.narrow": by(lambda x: x.narrow(1, 2, 2), TABLE),
    "Tensor.nonzero": by(lambda x: x.nonzero(), cases.HOLES),
    "Tensor.permute": by(lambda x: x.permute(2, 0, 1), cases.CUBE),
    "Tensor.ravel": by(lambda x: x.ravel(), cases.CUBE),
    "Tensor.real": by(lambda x: x.real, cases.COMPLEX),
    "Tensor.reshape": by(lambda x: x.reshape(5, 3), TABLE),
    "Tensor.select": by(lambda x: x.select(1, 2), TABLE),
    "Tensor.slice": by(lambda x: x.slice(1, 4, 0, -2), TABLE),
    "Tensor.squeeze": by(lambda x: x.unsqueeze(1).squeeze(), TABLE),
    "Tensor.swapaxes": by(lambda x: x.swapaxes(0, 2), cases.CUBE),
    "Tensor.to": by(lambda x: x.to("cpu"), TABLE),
    "Tensor.to_device": by(lambda x: x.to_device("cpu"), TABLE),
    "Tensor.__round__": by(lambda x: round(x[0, 1], 1), TABLE),
    "Tensor.choose": by(lambda x, y, z: x.choose([y, z]), PICKED % 2, TABLE[0, : PICKED.size], OTHER[1, : PICKED.size]),
    "Tensor.compress": by(lambda x: x.compress([True, False, True], 0), TABLE),
    "Tensor.tobytes": by(lambda x: x.tobytes(), TABLE),
    "Tensor.tolist": by(lambda x: x.tolist(), TABLE),
    "Tensor.trace": by(lambda x: x.trace(), cases.SQUARE),
    "Tensor.transpose": by(lambda x: x.transpose(1, 0), TABLE),
    "Tensor.unsqueeze": by(lambda x: x.unsqueeze(1), TABLE),
    "Tensor.view": by(lambda x: x.view("f32"), cases.COMPLEX),
    "Tensor.view, as pairs": by(lambda x: x.view("c64"), OTHER[:, :4].copy()),
    "Tensor.view_1d": by(lambda x: x.contiguous().view_1d(), TABLE),
    "Tensor.at": by(lambda x, v: x.at[1:].set(v), TABLE, OTHER[1:].copy()),
    **{
        f"Tensor.at, {how}": by(
            lambda x, at, v, how=how: getattr(x.at[at], how)(v), TABLE, PICKED, np.abs(np.stack([*OTHER, OTHER[0]]))
        )
        for how in ("add", "subtract", "multiply", "mul", "divide", "power", "min", "max")
    },
    "Tensor.at, get": by(lambda x, at: x.at[at].get(), TABLE, PICKED),
    "Tensor.at, apply": by(lambda x, at: x.at[at].apply(hg.square), TABLE, PICKED[1:]),
}  # fmt: skip


class Alone:
    """A carrier between one process and itself."""

    SUM = PROD = MAX = 0

    def Get_rank(self) -> int:
        return 0

    def Get_size(self) -> int:
        return 1

    def Iallgather(self, sendbuf: Any, recvbuf: Any, op: Any = None) -> Any:
        recvbuf.reshape(-1)[...] = sendbuf.reshape(-1)
        return SimpleNamespace(Test=lambda: True)

    Iallreduce = Iallgather

    def Ibcast(self, buf: Any, root: int) -> Any:
        return SimpleNamespace(Test=lambda: True)


def alone(collective: Callable[[Any], Any], x: Any) -> Any:
    hg.distributed.init(Alone())
    try:
        return collective(x)
    finally:
        hg.distributed.shutdown()


def packed(x: Any, codes: Any, scales: Any, rows: Any) -> Any:
    """Products and rows of weights whose planes are views."""
    weights = hg.Packed.from_planes({"codes": codes, "scales": scales}, "int8", (6, 32))
    twice = hg.Packed.concatenate([weights, weights])
    return weights.linear(x), weights.take(rows), weights.dequantize(), twice.dequantize()


WIDE = np.tile(TALL, (1, 11))[:, :32].copy()
CODES = np.arange(-96, 96, dtype=np.int8).reshape(6, 32).view(np.uint32)
OTHERS = {
    "distributed.all_gather": by(lambda x: alone(hg.distributed.all_gather, x), TABLE),
    "distributed.all_reduce": by(lambda x: alone(hg.distributed.all_reduce, x), TABLE),
    "distributed.broadcast": by(lambda x: alone(hg.distributed.broadcast, x), TABLE),
    "Packed": by(packed, WIDE, CODES, np.linspace(1, 2, 6, dtype=np.float32)[:, None], PICKED),
    "Packed.quantize": by(lambda x: hg.Packed.quantize(x, "int8").dequantize(), WIDE),
}  # fmt: skip

USES: dict[str, Given] = {**KERNELS, **FILES, **NUMPY, **OPERATORS, **METHODS, **OTHERS}
