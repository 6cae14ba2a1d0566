"""The tile kernels on the CPU: matrix products by NumPy's BLAS, on the pool's threads, or else by NumPy.

`TILES` maps a tile's stem to a function that prepares one launch: it gets a `TileCall` and returns a call without
arguments that does the work. Views are made once, when the launch is bound.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from hologram.atlas.program import Program
from hologram.backends.cpu.kernel import Host, sequence
from hologram.backends.cpu.memory import Memory
from hologram.backends.cpu.products.blas import loaded_library
from hologram.backends.cpu.products.cut import Product, matrices, product_launch
from hologram.device import Binding, Kernel, Launch, in_turn
from hologram.dtypes import Number
from hologram.errors import CompileError
from hologram.opset.forms.epilogue import epilogue_reads
from hologram.plan import Tile
from hologram.records import frozen


@frozen
class TileCall:
    """A launch of a tile: its buffers as 1-D arrays, its scalars by name, its grid in workgroups."""

    tile: Tile
    arrays: Mapping[str, np.ndarray]
    scalars: Mapping[str, Number]
    grid: Sequence[int]
    compile: Callable[[Program], Kernel]
    host: Host | None  # None where programs are interpreted

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


@frozen
class TileKernel(Kernel):
    """A tile as a device's kernel."""

    tile: Tile
    compile: Callable[[Program], Kernel]
    host: Host | None

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
            return prepare(TileCall(self.tile, arrays, numbers, tuple(grid), self.compile, self.host))
        except KeyError as error:
            raise CompileError(
                self.tile.entry, f"the CPU's {self.tile.stem} needs {error} among its buffers and scalars"
            ) from error

    def schedule(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        return "BLAS"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """A line that says what runs, and the program behind it where the tile has an epilogue."""
        pooled = self.host is not None and loaded_library() is not None
        how = "its library called on the pool's threads" if pooled else "numpy.matmul"
        said = f"; {self.tile.entry} ({self.tile.stem}): BLAS through NumPy, {how}"
        if self.tile.epilogue is None:
            return said
        numbers = dict(
            zip(
                (name for name, _ in self.tile.scalars), scalars or (1,) * len(self.tile.scalars), strict=True
            )
        )
        rows = (int(grid[2]) * int(numbers["m"]), int(numbers["n"]))
        return f"{said}; then its epilogue\n{self.compile(self.tile.epilogue).source(rows)}"


def matmul(call: TileCall) -> Launch:
    """out = epilogue(a @ b), batched, through BLAS; 16-bit floats are multiplied in f32."""
    m, k, n = (int(call.scalars[name]) for name in ("m", "k", "n"))
    batch = int(call.grid[2])
    a = call.view("a", (batch, m, k), ("batch", "row", "column"))
    b = call.view("b", (batch, k, n), ("batch", "row", "column"))
    out = call.view("out", (batch, m, n), ("batch", "row", "column"))
    wide = np.dtype(np.float64 if out.dtype == np.float64 else np.float32)
    epilogue = call.tile.epilogue
    read = [call.arrays[name] for name, _, _ in epilogue_reads(epilogue)]
    fits = matrices(out) is not None if epilogue is None else out.flags.c_contiguous
    direct = out.dtype == wide and fits and not any(np.may_share_memory(out, x) for x in (a, b, *read))
    value = out if direct else np.empty(out.shape, wide)
    result = value
    if epilogue is not None and epilogue.buffer("result").dtype.numpy != wide:
        result = np.empty(out.shape, epilogue.buffer("result").dtype.numpy)
    steps: list[Launch] = []
    product = Product(_readable(a, wide, steps), _readable(b, wide, steps), value)
    steps.append(_product(call, product))
    if epilogue is not None:
        arrays = {**call.arrays, "value": value, "result": result}
        steps.append(call.program(epilogue, arrays, (batch * m, n)))
    if result is not out:
        steps.append(functools.partial(np.copyto, out, result, casting="unsafe"))
    return in_turn(steps) if call.host is None else sequence(steps, call.host.pool)


def _readable(view: np.ndarray, wide: np.dtype, steps: list[Launch]) -> np.ndarray:
    """The operand as BLAS can read it: as it lies, or as a copy that the step appended makes at every launch."""
    if view.dtype == wide and matrices(view) is not None:
        return view
    copied = np.empty(view.shape, wide)
    steps.append(functools.partial(np.copyto, copied, view))
    return copied


def _product(call: TileCall, product: Product) -> Launch:
    """The product on the pool's threads, or NumPy's own where that cannot be had."""
    pooled = None if call.host is None else product_launch(product, call.host)
    if pooled is not None:
        return pooled
    a, b, out = (x[0] if len(x) == 1 else x for x in (product.a, product.b, product.out))
    return functools.partial(np.matmul, a, b, out=out)


TILES: dict[str, Prepare] = dict.fromkeys(("matmul", "matmul_register", "matmul_subgroup"), matmul)
