"""Running one program on the CPU device with NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import Access, Program
from hologram.backends.cpu import open_device
from hologram.backends.cpu.device import CpuDevice
from hologram.backends.cpu.memory import Memory
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.machine.kernel import Binding, Launch


def device() -> CpuDevice:
    opened = open_device(0)
    assert isinstance(opened, CpuDevice)
    return opened


def place(cpu: CpuDevice, array: np.ndarray) -> Memory:
    memory = cpu.allocate(array.nbytes)
    cpu.write(memory, 0, np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
    return memory


def bind(
    cpu: CpuDevice,
    program: Program,
    memories: Sequence[Memory],
    grid: Sequence[int],
    scalars: Sequence[float] = (),
) -> Launch:
    return cpu.compile(program).bind([Binding(m, 0, m.nbytes) for m in memories], scalars, grid)


def run(
    cpu: CpuDevice,
    program: Program,
    arrays: Sequence[np.ndarray],
    grid: Sequence[int],
    scalars: Sequence[float] = (),
) -> list[np.ndarray]:
    """What every buffer holds afterwards."""
    memories = [place(cpu, a) for a in arrays]
    bind(cpu, program, memories, grid, scalars)()
    return [
        m.bytes[: a.nbytes].view(a.dtype).reshape(a.shape).copy()
        for m, a in zip(memories, arrays, strict=True)
    ]


def elementwise(name: str, function: Callable[..., Value], inputs: Sequence[DType], result: DType) -> Program:
    """`out[i] = function(x0[i], x1[i], ...)`."""
    b = Builder(name)
    i = b.coordinate(0)
    values = [b.load(b.buffer(f"x{k}", d, Access.READ), i) for k, d in enumerate(inputs)]
    b.store(b.buffer("out", result, Access.WRITE), i, function(*values))
    return b.build()


def reduction(function: Callable[[Value], Value], dtype: DType) -> Program:
    """`out[i] = function(x[i * row + j * column])`, a reduction over j."""
    b = Builder("atlas_reduction", rank=2, reduced=1)
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    row, column = b.scalar("row", dtypes.index), b.scalar("column", dtypes.index)
    i = b.coordinate(0)
    b.store(out, i, function(b.load(x, i * row + b.coordinate(1) * column)))
    return b.build()


def samples(dtype: DType, size: int, seed: int = 0) -> np.ndarray:
    """Values of a dtype with its awkward ones among them."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return rng.integers(0, 2, size).astype(bool)
    if dtype.is_float:
        values = (rng.standard_normal(size) * 10.0 ** rng.integers(-3, 3, size)).astype(dtype.numpy)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 6e-8, 65504.0, -1.0, 0.5, 2.5]).astype(
            dtype.numpy
        )
        values[: min(size, 11)] = special[: min(size, 11)]
        return rng.permutation(values)
    info = np.iinfo(dtype.numpy)
    values = rng.integers(info.min, info.max, size, dtype=dtype.numpy, endpoint=True)
    special = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1, 2, 3], dtype.numpy)
    values[: min(size, 8)] = special[: min(size, 8)]
    return rng.permutation(values)
