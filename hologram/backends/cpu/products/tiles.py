"""The tile kernels on the CPU: matrix products by NumPy's BLAS, on the pool's threads, or else by NumPy.

Where operands lie so that BLAS can read and write them, all of a launch is compiled code; else Python converts before
and after it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from hologram.atlas.program import Program
from hologram.backends.cpu.image import Piece, prepared
from hologram.backends.cpu.kernel import Host, bound
from hologram.backends.cpu.memory import Memory
from hologram.backends.cpu.products import choice
from hologram.backends.cpu.products.blas import loaded_library
from hologram.backends.cpu.products.blocked import blocked_pieces
from hologram.backends.cpu.products.convolution import Work, pieces_of, work_of
from hologram.backends.cpu.products.convolution_in_python import convolved, weighed
from hologram.backends.cpu.products.cut import Plane, Product, matrices, meet
from hologram.foundation.dtypes import DType, Number, bf16, f16, f32, f64
from hologram.foundation.errors import CompileError
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Kernel, Launch, Prepared, Span, in_turn
from hologram.machine.plan import Tile
from hologram.opset.forms.epilogue import epilogue_reads, turned


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


@frozen
class Laid:
    """A launch of a tile on memory that is only known: where each buffer begins, its bytes, and its dtype."""

    tile: Tile
    buffers: Mapping[str, tuple[int, int, DType]]
    scalars: Mapping[str, Any]
    grid: Sequence[int]
    compile: Callable[[Program], Kernel]
    host: Host | None

    def plane(self, name: str, shape: tuple[int, ...], axes: Sequence[str]) -> Plane:
        """As TileCall.view."""
        place, _, dtype = self.buffers[name]
        strides = tuple(self.scalars[f"{name}_{axis}"] * dtype.itemsize for axis in axes)
        first = self.scalars.get(f"{name}_offset", 0) * dtype.itemsize
        return Plane(place + first, dtype.numpy, shape, strides)

    def span(self, name: str) -> tuple[int, int]:
        """The first byte of a buffer, and one past its last whole element."""
        place, nbytes, dtype = self.buffers[name]
        return place, place + nbytes - nbytes % dtype.itemsize


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

    in_python: ClassVar[Callable[[TileCall], Launch]]  # the launch by NumPy
    # The same where all of it is compiled code on the operands as they lie.
    compiled: ClassVar[Callable[[Laid], list[Piece] | None]]

    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        spans = [(b.memory.address + b.offset, b.nbytes) for b in bindings]
        if self.host is not None and self.pieces(spans, scalars, grid) is not None:
            return bound(self.pieces, bindings, scalars, grid, self.host)  # type: ignore[arg-type]
        arrays = {}
        for p, b in zip(self.tile.buffers, bindings, strict=True):
            whole = b.nbytes - b.nbytes % p.dtype.itemsize
            arrays[p.name] = b.memory.bytes[b.offset : b.offset + whole].view(p.dtype.numpy)
        numbers = self._numbers(scalars)
        with self._named():
            return self.in_python(TileCall(self.tile, arrays, numbers, tuple(grid), self.compile, self.host))

    def pieces(
        self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]
    ) -> list[Piece] | None:
        """The steps of a launch on memory like this, as ProgramKernel.pieces; None where Python has a part in it."""
        buffers = {b.name: (*span, b.dtype) for b, span in zip(self.tile.buffers, spans, strict=True)}
        numbers = self._numbers(scalars)
        with self._named():
            return self.compiled(Laid(self.tile, buffers, numbers, tuple(grid), self.compile, self.host))

    def _numbers(self, scalars: Sequence[Number]) -> dict[str, Number]:
        return {s.name: x for s, x in zip(self.tile.scalars, scalars, strict=True)}

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Raises CompileError for a tile that lacks a buffer or a scalar."""
        try:
            yield
        except KeyError as error:
            raise CompileError(
                self.tile.name, f"the CPU's {self.tile.stem} needs {error} among its buffers and scalars"
            ) from error


AXES = ("batch", "row", "column")


def _shapes(call: TileCall | Laid) -> dict[str, tuple[int, int, int]]:
    """Of the matrices of a batched product."""
    m: Any
    k: Any
    n: Any
    m, k, n = (call.scalars[name] for name in ("m", "k", "n"))
    batch = call.grid[2]
    return {"a": (batch, m, k), "b": (batch, k, n), "out": (batch, m, n)}


def _product_of(call: Laid) -> Product:
    return Product(*(call.plane(name, shape, AXES) for name, shape in _shapes(call).items()))


def _direct(product: Product, epilogue: Program | None, read: Sequence[tuple[int, int]]) -> bool:
    """Whether BLAS can write where the result shall lie, and an epilogue work there, which reads these bytes."""
    out = product.out
    fits = (
        matrices(out) is not None if epilogue is None else out.is_contiguous or out.transposed.is_contiguous
    )
    wide = out.dtype in (np.float32, np.float64)
    return wide and fits and not any(meet(out.span, x) for x in (product.a.span, product.b.span, *read))


def _compiled_convolution(call: Laid) -> list[Piece] | None:
    """A convolution or its weight's product, and the epilogue of results (images, channels, places)."""
    ends = call.tile.buffers[:3]
    read = [call.span(b.name) for b in call.tile.buffers if b.name != "out"]
    if call.host is None or any(meet(call.span("out"), x) for x in read):
        return None
    work = work_of(call.scalars, {b.name: b.dtype for b in ends}, call.grid[2])
    firsts = [int(call.scalars[f"{b.name}_offset"]) * b.dtype.itemsize for b in ends]
    epilogue, after, rest = call.tile.epilogue, None, []
    if epilogue is not None:
        names = [{"value": "out", "result": "out"}.get(p.name, p.name) for p in epilogue.buffers]
        numbers = {b.name: k for k, b in enumerate(call.tile.buffers)}
        spans = [(call.span(n)[0] + (firsts[2] if n == "out" else 0), call.buffers[n][1]) for n in names]
        kernel: Any = call.compile(turned(epilogue))
        grid = (work.x.count, work.groups * work.channels, work.area)
        found = kernel.in_order(spans, (), grid)
        told = [(numbers[n], firsts[2] if n == "out" else 0) for n in names]
        after = None if found is None else _told(found, told)
        rest = [] if after else [_told(piece, told) for piece in kernel.pieces(spans, (), grid)]
    return [*pieces_of(work, list(enumerate(firsts)), after, call.host), *rest]


def _compiled_product(call: Laid) -> list[Piece] | None:
    """out = epilogue(a @ b), batched, where all of it is compiled code on the operands as they lie."""
    product = _product_of(call)
    if call.host is not None and call.tile.epilogue is None and _is_half(call.tile):
        apart = not any(meet(product.out.span, x.span) for x in (product.a, product.b))
        pieces = blocked_pieces(product, call.tile.buffers[0].dtype, call.tile.buffers[2].dtype, call.host)
        return _placed(call, product, pieces) if apart else None
    readable = all(x.dtype == product.out.dtype and matrices(x) is not None for x in (product.a, product.b))
    epilogue = call.tile.epilogue
    read = [call.span(b.name) for b in epilogue_reads(epilogue)]
    if call.host is None or not readable or not _direct(product, epilogue, read):
        return None
    if epilogue is not None and epilogue.buffer("result").dtype.numpy != product.out.dtype:
        return None
    multiplied = choice.pieces_of(product, call.tile.buffers[0].dtype, call.host)
    if multiplied is None:
        return None
    found = _placed(call, product, multiplied)
    if epilogue is not None:
        ends: dict[str, str] = dict.fromkeys(("value", "result"), "out")
        named = [ends.get(p.name, p.name) for p in epilogue.buffers]
        out = (product.out.address, product.out.size * product.out.itemsize)
        ranges = [out if n == "out" else call.span(n) for n in named]
        spans = [r if n == "out" else (r[0], r[1] - r[0]) for n, r in zip(named, ranges, strict=True)]
        program, grid = _on_results(epilogue, product.out)
        kernel: Any = call.compile(program)
        places = _places(call, product)
        told = [places[name] for name in named]
        found += [_told(piece, told) for piece in kernel.pieces(spans, (), grid)]
    return found


def _on_results(epilogue: Program, out: Plane) -> tuple[Program, tuple[int, ...]]:
    """What computes an epilogue in place, and its grid."""
    batch, m, n = out.shape
    return (epilogue, (batch * m, n)) if out.is_contiguous else (turned(epilogue), (batch, n, m))


def _is_half(tile: Tile) -> bool:
    """Whether both operands are the same 16-bit floats."""
    one, other = (b.dtype for b in tile.buffers[:2])
    return one == other and one in (f16, bf16)


def _places(call: Laid, product: Product) -> dict[str, tuple[int, int]]:
    """Of each buffer, which argument it is and how many bytes behind its beginning the tile's view of it lies."""
    planes = {"a": product.a, "b": product.b, "out": product.out}
    return {
        b.name: (k, planes[b.name].address - call.buffers[b.name][0] if b.name in planes else 0)
        for k, b in enumerate(call.tile.buffers)
    }


def _placed(call: Laid, product: Product, pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces whose arguments are a, b and out, told the tile's own."""
    places = _places(call, product)
    return [_told(piece, [places[n] for n in ("a", "b", "out")]) for piece in pieces]


def _told(piece: Piece, arguments: Sequence[tuple[int, int]]) -> Piece:
    """The piece with argument k become another one, and so many bytes behind it."""
    patches = (
        replace(p, argument=arguments[p.argument][0], first=p.first + arguments[p.argument][1])
        for p in piece.patches
    )
    return replace(piece, patches=tuple(patches))


def _convolution_in_python(call: TileCall) -> Launch:
    """A convolution or its weight's product, and the epilogue of results (images, channels, places)."""
    work = work_of(call.scalars, {b.name: b.dtype for b in call.tile.buffers[:3]}, call.grid[2])
    other = call.tile.buffers[1].name
    channels = work.groups * work.channels
    value = np.empty((work.x.count, channels, work.area), call.arrays["out"].dtype)
    shapes = {
        "x": (
            (work.x.count, work.groups * work.x.channels, *work.x.sides),
            ("image", "channel", "row", "column"),
        ),
        "weight": ((channels, work.taps), ("row", "column")),
        "y": (value.shape, ("image", "channel", "place")),
    }
    x, given = (call.view(name, *shapes[name]) for name in ("x", other))
    if work.parts:
        out = call.view("out", (work.parts, channels, work.taps), ("part", "row", "column"))
        return functools.partial(_into, out, work, x, given)
    out = call.view("out", value.shape, ("image", "channel", "place"))
    if call.tile.epilogue is None:
        return functools.partial(_into, out, work, x, given)
    arrays = {**call.arrays, "value": value, "result": value}
    program = call.program(turned(call.tile.epilogue), arrays, value.shape)
    copied = functools.partial(np.copyto, out, value, casting="unsafe")
    return in_turn([functools.partial(_into, value, work, x, given), program, copied])


def _into(out: np.ndarray, work: Work, x: np.ndarray, other: np.ndarray) -> None:
    np.copyto(out, (weighed if work.parts else convolved)(work, x, other), casting="unsafe")


def _product_in_python(call: TileCall) -> Launch:
    """out = epilogue(a @ b), batched, through BLAS; 16-bit floats are multiplied in f32."""
    a, b, out = (call.view(name, shape, AXES) for name, shape in _shapes(call).items())
    wide = np.dtype(np.float64 if out.dtype == np.float64 else np.float32)
    epilogue = call.tile.epilogue
    read = [Plane.of(call.arrays[b.name].reshape(1, 1, -1)).span for b in epilogue_reads(epilogue)]
    direct = _direct(Product.of(a, b, out), epilogue, read)
    value = out if direct else np.empty(out.shape, wide)
    result = value
    if epilogue is not None and epilogue.buffer("result").dtype.numpy != wide:
        result = np.empty_like(value, epilogue.buffer("result").dtype.numpy)
    steps: list[Launch] = []
    steps.append(_product(call, _readable(a, wide, steps), _readable(b, wide, steps), value))
    if epilogue is not None:
        program, grid = _on_results(epilogue, Plane.of(value))
        ends = {"value": value, "result": result}
        if program is not epilogue:
            ends = {name: x.transpose(0, 2, 1) for name, x in ends.items()}
        steps.append(call.program(program, {**call.arrays, **ends}, grid))
    if result is not out:
        steps.append(functools.partial(np.copyto, out, result, casting="unsafe"))
    return in_turn(steps)


def _readable(view: np.ndarray, wide: np.dtype, steps: list[Launch]) -> np.ndarray:
    """The operand as BLAS can read it: as it lies, or as a copy that the step appended makes at every launch."""
    if view.dtype == wide and matrices(Plane.of(view)) is not None:
        return view
    copied = np.empty(view.shape, wide)
    steps.append(functools.partial(np.copyto, copied, view))
    return copied


def _product(call: TileCall, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Launch:
    """The product on the pool's threads, or NumPy's own where that cannot be had."""
    product, dtype = Product.of(a, b, out), f64 if out.dtype == np.float64 else f32
    pieces = None if call.host is None else choice.pieces_of(product, dtype, call.host)
    if pieces is not None and call.host is not None:
        launch = prepared(pieces, call.host.pool(), call.host.engine())
        return functools.partial(_on, launch, [x.ctypes.data for x in (a, b, out)], (a, b, out))
    a, b, out = (x[0] if len(x) == 1 else x for x in (a, b, out))
    return functools.partial(np.matmul, a, b, out=out)


def _on(launch: Prepared, arguments: list[Any], _arrays: Any) -> None:
    launch(arguments)


class ConvolutionTile(TileKernel):
    """A convolution or its weight's product, and the epilogue of results (images, channels, places)."""

    compiled = staticmethod(_compiled_convolution)
    in_python = staticmethod(_convolution_in_python)

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        return "panels" if self.host is not None else "numpy"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """A line that says what runs."""
        after = "" if self.tile.epilogue is None else "; its epilogue on each part of the results"
        return f"; {self.tile.name} ({self.tile.stem}): patches packed where they are multiplied{after}"


class ProductTile(TileKernel):
    """out = epilogue(a @ b), batched."""

    compiled = staticmethod(_compiled_product)
    in_python = staticmethod(_product_in_python)

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        return "own panels" if self._is_own(scalars, grid) else "BLAS"

    def _is_own(self, scalars: Sequence[Number], grid: Sequence[int]) -> bool:
        """Whether code of our own multiplies; see blocked.py."""
        if self.host is None:
            return False
        if _is_half(self.tile) and self.tile.epilogue is None:
            return True
        buffers = {b.name: (0, 0, b.dtype) for b in self.tile.buffers}
        call = Laid(self.tile, buffers, self._numbers(scalars), tuple(grid), self.compile, self.host)
        return choice.is_own(_product_of(call), self.host)

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """A line that says what runs, and the program behind it where the tile has an epilogue."""
        scalars = scalars or (1,) * len(self.tile.scalars)
        pooled = self.host is not None and loaded_library() is not None
        how = "its library called on the pool's threads" if pooled else "numpy.matmul"
        by = (
            "hologram's own code, panel by panel"
            if self._is_own(scalars, grid)
            else f"BLAS through NumPy, {how}"
        )
        said = f"; {self.tile.name} ({self.tile.stem}): {by}"
        if self.tile.epilogue is None:
            return said
        numbers = self._numbers(scalars)
        rows = (int(grid[2]) * int(numbers["m"]), int(numbers["n"]))
        return f"{said}; then its epilogue\n{self.compile(self.tile.epilogue).source(rows)}"
