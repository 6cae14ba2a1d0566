"""The tile kernels on the CPU: NumPy on views of the buffers, so that matrix products reach BLAS.

`TILES` maps a tile's stem to a function that prepares one launch: it gets a `TileCall` and returns a call without
arguments that does the work. Views are made once, when the launch is bound.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from hologram.atlas.program import Program
from hologram.backends.cpu.memory import Memory
from hologram.device import Binding, Kernel, Launch, in_turn
from hologram.errors import CompileError
from hologram.opset.plan import Tile

Number = int | float | bool


@dataclass(frozen=True)
class TileCall:
    """A launch of a tile: its buffers as 1-D arrays, its scalars by name, its grid in workgroups."""

    tile: Tile
    arrays: Mapping[str, np.ndarray]
    scalars: Mapping[str, Number]
    grid: Sequence[int]
    compile: Callable[[Program], Kernel]

    def constant(self, name: str) -> Number:
        """A number the tile's prelude declares."""
        return dict(self.tile.constants)[name]

    def view(self, name: str, shape: Sequence[int], axes: Sequence[str]) -> np.ndarray:
        """A buffer as an array of that shape, by the scalars `<name>_offset` and `<name>_<axis>`."""
        array = self.arrays[name][int(self.scalars.get(f"{name}_offset", 0)) :]
        steps = [int(self.scalars[f"{name}_{axis}"]) * array.itemsize for axis in axes]
        return as_strided(array, tuple(shape), steps)

    def program(self, program: Program, arrays: Mapping[str, np.ndarray], grid: Sequence[int]) -> Launch:
        """A launch of a program on arrays."""
        bindings = [Binding(memory_of(arrays[p.name]), 0, arrays[p.name].nbytes) for p in program.buffers]
        return self.compile(program).bind(bindings, (), grid)


Prepare = Callable[[TileCall], Launch]


def memory_of(array: np.ndarray) -> Memory:
    """A contiguous array's memory."""
    flat = array.reshape(-1).view(np.uint8)
    return Memory(flat, flat.ctypes.data, flat.size)


@dataclass(frozen=True)
class TileKernel:
    """A tile as a device's kernel."""

    tile: Tile
    compile: Callable[[Program], Kernel]

    def workgroups(self, grid: Sequence[int]) -> None:
        """None: threads share slices of whatever size suits them."""

    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        prepare = TILES.get(self.tile.stem)
        if prepare is None:
            known = ", ".join(TILES)
            raise CompileError(
                self.tile.entry, f"the CPU has no kernel named {self.tile.stem}; it has {known}"
            )
        arrays = {}
        for (name, dtype, _), b in zip(self.tile.buffers, bindings, strict=True):
            usable = b.nbytes - b.nbytes % dtype.itemsize
            arrays[name] = b.memory.bytes[b.offset : b.offset + usable].view(dtype.numpy)
        numbers = {name: x for (name, _), x in zip(self.tile.scalars, scalars, strict=True)}
        try:
            return prepare(TileCall(self.tile, arrays, numbers, tuple(grid), self.compile))
        except KeyError as error:
            raise CompileError(
                self.tile.entry, f"the CPU's {self.tile.stem} needs {error} among its buffers and scalars"
            ) from error

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """A line that says what runs, and the program behind it where the tile has an epilogue."""
        said = f"; {self.tile.entry} ({self.tile.stem}): BLAS through NumPy, numpy.matmul"
        if self.tile.epilogue is None:
            return said
        numbers = dict(
            zip(
                (name for name, _ in self.tile.scalars), scalars or (1,) * len(self.tile.scalars), strict=True
            )
        )
        rows = (int(grid[2]) * int(numbers["m"]), int(numbers["n"]))
        return f"{said}; then its epilogue\n{self.compile(self.tile.epilogue).source(rows)}"


def _for_blas(view: np.ndarray) -> np.ndarray | None:
    """The view, if BLAS can read its matrices as they lie: one of the last two axes has stride 1."""
    row, column = (s // view.itemsize for s in view.strides[-2:])
    fits = (column == 1 and row >= view.shape[-1]) or (row == 1 and column >= view.shape[-2])
    return view if fits else None


def matmul(call: TileCall) -> Launch:
    """out = epilogue(a @ b), batched, through BLAS; 16-bit floats are multiplied in f32."""
    m, k, n = (int(call.scalars[name]) for name in ("m", "k", "n"))
    batch = int(call.grid[2])
    a = call.view("a", (batch, m, k), ("batch", "row", "column"))
    b = call.view("b", (batch, k, n), ("batch", "row", "column"))
    out = call.view("out", (batch, m, n), ("batch", "row", "column"))
    if batch == 1:
        a, b, out = a[0], b[0], out[0]
    wide = np.dtype(np.float64 if out.dtype == np.float64 else np.float32)
    direct = out.dtype == wide and _for_blas(out) is not None and not _shares(out, a, b)
    target = out if direct else np.empty(out.shape, wide)

    def multiply() -> None:
        np.matmul(_ready(a, wide), _ready(b, wide), out=target)

    ready = a.dtype == wide and _for_blas(a) is not None and _for_blas(b) is not None
    steps: list[Launch] = [functools.partial(np.matmul, a, b, out=target) if ready else multiply]
    if call.tile.epilogue is not None:
        target = _epilogue(call, call.tile.epilogue, target, (batch * m, n), steps)
    if target is not out:
        steps.append(functools.partial(np.copyto, out, target.reshape(out.shape), casting="unsafe"))
    return in_turn(steps)


def _shares(out: np.ndarray, *operands: np.ndarray) -> bool:
    return any(np.may_share_memory(out, x) for x in operands)


def _ready(view: np.ndarray, wide: np.dtype) -> np.ndarray:
    """The operand as BLAS wants it; a copy where it must be."""
    fits = view.dtype == wide and _for_blas(view) is not None
    return view if fits else np.ascontiguousarray(view, dtype=wide)


def _epilogue(
    call: TileCall, program: Program, values: np.ndarray, shape: tuple[int, int], steps: list[Launch]
) -> np.ndarray:
    """Appends the epilogue's launch, in place where the product lies contiguous; gives the results."""
    if not values.flags.c_contiguous:
        packed = np.empty(values.shape, values.dtype)
        steps.append(functools.partial(np.copyto, packed, values))
        values = packed
    results = program.buffer("result").dtype.numpy
    target = values if values.dtype == results else np.empty(values.shape, results)
    steps.append(call.program(program, {**call.arrays, "value": values, "result": target}, shape))
    return target


TILES: dict[str, Prepare] = dict.fromkeys(("matmul", "matmul_register", "matmul_subgroup"), matmul)
