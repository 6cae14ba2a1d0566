"""Matrix products by cuBLASLt, through nvmath-python where that is installed: a way that the tuner may choose.

https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api. The library counts rows and columns as Fortran does, so it
computes out.T = b.T @ a.T of what lies row by row. A product is no kernel to a CUDA graph: it stands between two.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hologram.backends.cuda.context import Context
from hologram.foundation.bounded_caches import LRUCache
from hologram.foundation.dtypes import DType, Number, bf16, f16, f32
from hologram.foundation.errors import CompileError, HologramError, OutOfMemory
from hologram.machine.kernel import Binding, Kernel, Launch, check_bindings, in_turn, nothing
from hologram.machine.layout import Layout
from hologram.machine.limits import ALIGNMENT, Limits
from hologram.machine.plan import Tile
from hologram.opset.tiles import product_library, product_tile
from hologram.opset.tiles.product_kernel import Product

# cudaDataType_t and cublasComputeType_t (library_types.h, cublas_api.h).
TYPES = {f32: 0, f16: 2, bf16: 14}
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77
COMPUTE_TYPE = 2  # CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: parts of k are added up in f32
TRANSPOSE = 1  # CUBLAS_OP_T
MANY_SHAPES = 256  # of products, whose descriptions and algorithms are kept
WORKSPACE_BYTES = 32 << 20  # what cuBLAS recommends for Hopper


def bindings() -> Any:
    """nvmath.bindings.cublasLt; None where it, or the library, is not installed."""
    if importlib.util.find_spec("nvmath") is None:
        return None
    try:
        module = importlib.import_module("nvmath.bindings.cublasLt")
        module.get_version()
    except (ImportError, OSError, RuntimeError):  # the last is nvmath's for libraries that are not found
        return None
    return module


class Vendor:
    """cuBLASLt on one device; its handle and workspace come with the first product."""

    def __init__(self, context: Context, library: Any, allocate: Callable[[int], Any]) -> None:
        self.context = context
        self.library = library
        self._allocate = allocate
        self._refused = False

    @cached_property
    def handle(self) -> int:
        """Raises OutOfMemory where the card has no room for what the library keeps there."""
        library = self.library
        try:
            with self.context.current():
                handle: int = library.create()
        except library.cuBLASLtError as error:
            raise OutOfMemory(self._said("cublasLtCreate", error)) from None

        def destroy(handle: int) -> tuple[int]:
            """Answers a status, as a function of the driver's does: 0, whatever the library says."""
            with suppress(library.cuBLASLtError):
                library.destroy(handle)
            return (0,)

        self.context.own(destroy, handle)
        return handle

    @cached_property
    def workspace(self) -> tuple[int, int]:
        """Address and bytes, in the order of the device's stream; nothing on a card that is full.

        Raises OutOfMemory the first time: who binds gives back what is only kept for later, and asks again.
        """
        try:
            memory = self._allocate(WORKSPACE_BYTES)
        except OutOfMemory:
            if not self._refused:
                self._refused = True
                raise
            return 0, 0
        return memory.address, memory.size

    def failed(self, error: Exception) -> HologramError:
        """The exception for a product that failed: the device's, where it is lost."""
        self.context.call(self.context.driver.cuCtxSynchronize)
        return HologramError(self._said("cublasLtMatmul", error))

    def _said(self, function: str, error: Exception) -> str:
        return f"{self.context.library.name}: {function}: {error}"


class Described:
    """The library's descriptions of one product, which go with this."""

    def __init__(self, library: Any, *, rounded: bool) -> None:
        self.library = library
        compute = COMPUTE_32F_FAST_TF32 if rounded else COMPUTE_32F
        self.operation: int = library.matmul_desc_create(compute, TYPES[f32])
        self._made = [(library.matmul_desc_destroy, self.operation)]
        weakref.finalize(self, _destroy, self._made, library.cuBLASLtError).atexit = False

    def transpose(self, name: str) -> None:
        which = getattr(self.library.MatmulDescAttribute, name)
        _set(self.library.matmul_desc_set_attribute, self.operation, which, np.int32(TRANSPOSE))

    def matrices(self, dtype: DType, rows: int, columns: int, line: int, count: int, apart: int) -> int:
        """`count` matrices whose columns lie `line` elements apart, they themselves `apart`."""
        library = self.library
        made: int = library.matrix_layout_create(TYPES[dtype], rows, columns, line)
        self._made.append((library.matrix_layout_destroy, made))
        which, set_ = library.MatrixLayoutAttribute, library.matrix_layout_set_attribute
        _set(set_, made, which.BATCH_COUNT, np.int32(count))
        _set(set_, made, which.STRIDED_BATCH_OFFSET, np.int64(apart))
        return made

    def algorithm(self, vendor: Vendor, layouts: Sequence[int], alignments: Sequence[int]) -> np.ndarray:
        """The library's own choice, for memory aligned so; raises ValueError, or its own error, without one."""
        library = self.library
        preference = library.matmul_preference_create()
        try:
            which, set_ = library.MatmulPreferenceAttribute, library.matmul_preference_set_attribute
            _set(set_, preference, which.MAX_WORKSPACE_BYTES, np.uint64(vendor.workspace[1]))
            _set(set_, preference, which.REDUCTION_SCHEME_MASK, np.uint32(COMPUTE_TYPE))
            for name, alignment in zip("ABCD", alignments, strict=True):
                _set(set_, preference, getattr(which, f"MIN_ALIGNMENT_{name}_BYTES"), np.uint32(alignment))
            results: Any = np.zeros(1, library.matmul_heuristic_result_dtype)
            count = np.zeros(1, np.int32)
            places = results.ctypes.data, count.ctypes.data
            with vendor.context.current():
                asked = vendor.handle, self.operation, *layouts, preference, 1
                library.matmul_algo_get_heuristic(*asked, *places)
        finally:
            library.matmul_preference_destroy(preference)
        if not count[0] or results["state"][0]:
            raise ValueError("no algorithm")
        return results["algo"].copy()


def _set(function: Any, described: int, which: int, value: Any) -> None:
    held = np.array(value)
    function(described, int(which), held.ctypes.data, held.nbytes)


def _destroy(made: Sequence[tuple[Any, int]], failure: type[Exception]) -> None:
    for destroy, described in made:
        with suppress(failure):
            destroy(described)


class Prepared(NamedTuple):
    """What a product's shape, strides and alignments decide, whatever memory it is of."""

    described: Described
    layouts: Sequence[int]  # of b, a and the results
    algorithm: np.ndarray


class VendorKernel(Kernel):
    """A product by the vendor's library, by a kernel of ours where it refuses; see hologram.machine.device.Kernel."""

    def __init__(
        self, tile: Tile, vendor: Vendor | None, limits: Limits, compile_tile: Callable[[Tile], Kernel]
    ) -> None:
        if vendor is None:
            raise CompileError(tile.name, "the vendor's library is not installed (pip install nvmath-python)")
        self.tile = tile
        self.vendor = vendor
        self.limits = limits
        self._compile = compile_tile
        self._prepared: LRUCache[tuple[int, ...], Prepared | None] = LRUCache(MANY_SHAPES)

    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        """See Kernel; raises OutOfMemory where the card has no room for the library."""
        check_bindings(self.tile, bindings, self.limits.binding_alignment)
        if 0 in grid:
            return nothing
        named = dict(zip((s.name for s in self.tile.scalars), map(int, scalars), strict=True))
        context = self.vendor.context
        with context.lock:
            context.check()
            addresses = tuple(self._addresses(bindings, named))
            alignments = tuple(math.gcd(address, ALIGNMENT) for address in addresses)
            shape = grid[2], *alignments, *(n for name, n in named.items() if not name.endswith("_offset"))
            prepared = self._prepared.get(shape, lambda _: self._prepare(named, grid[2], alignments))
            if prepared is not None:
                return self._launch(prepared, addresses, [binding.memory for binding in bindings])
        # A choice is for many sizes and strides, not all of which the library takes.
        return self._own(bindings, named, grid[2])

    def _own(self, bindings: Sequence[Binding], named: dict[str, int], count: int) -> Launch:
        """The same product by the kernel that is the default."""
        layouts = []
        for place, (name, axes) in enumerate((("a", "mk"), ("b", "kn"), ("out", "mn"))):
            strides = tuple(named[f"{name}_{axis}"] for axis in ("batch", "row", "column"))
            shape = (count, *(named[axis] for axis in axes))
            layouts.append(Layout(self.tile.buffers[place].dtype, shape, strides, named[f"{name}_offset"]))
        product = Product(*layouts)
        limits = replace(self.limits, bulk_bytes=0)  # which takes no strides but some
        candidate = replace(product_tile.default(product.sizes, layouts[0].dtype, limits), parts=1)
        kernel = product_tile.of(candidate)
        launches = []  # the library takes more rows and columns, which were not cut
        for ranges in kernel.slices(candidate, product.sizes, limits.max_workgroups):
            part = product.cut(*ranges)
            tile, scalars = kernel.tile(candidate, part, None)
            grid = kernel.grid(candidate, part.sizes)
            launches.append(self._compile(tile).bind(bindings, scalars, grid))
        return in_turn(launches)

    def _prepare(self, named: dict[str, int], count: int, alignments: Sequence[int]) -> Prepared | None:
        """Asks the library, which takes tens of microseconds; None where it refuses, whatever it is asked."""
        try:
            return self._asked(named, count, alignments)
        except (ValueError, self.vendor.library.cuBLASLtError):
            return None

    def _asked(self, named: dict[str, int], count: int, alignments: Sequence[int]) -> Prepared:
        """Raises ValueError, or the library's own error."""
        vendor = self.vendor
        described = Described(vendor.library, rounded=bool(dict(self.tile.constants)["ROUNDED"]))
        layouts: list[int] = []
        # Turned: the right operand comes first, and what lies along its second axis is a column.
        for place, name in ((1, "b"), (0, "a"), (2, "out")):
            rows, columns = (named[axis] for axis in {"a": "mk", "b": "kn", "out": "mn"}[name])
            lines = product_library.line((rows, columns), (named[f"{name}_row"], named[f"{name}_column"]))
            if lines is None or (name == "out" and lines[0] != 1):
                raise ValueError(f"{name} does not lie in lines")
            across, line = lines
            if across == 0:
                described.transpose("TRANSA" if name == "b" else "TRANSB")
            shape = (columns, rows) if across == 1 else (rows, columns)
            dtype = self.tile.buffers[place].dtype
            layouts.append(described.matrices(dtype, *shape, line, count, named[f"{name}_batch"]))
        algorithm = described.algorithm(vendor, (*layouts, layouts[2]), (*alignments, alignments[2]))
        return Prepared(described, layouts, algorithm)

    def _launch(self, prepared: Prepared, addresses: Sequence[int], memories: Sequence[Any]) -> Launch:
        vendor, context = self.vendor, self.vendor.context
        described, layouts, algorithm = prepared
        b, a, out = addresses
        one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
        arguments = (
            vendor.handle, described.operation,
            one.ctypes.data, b, layouts[0], a, layouts[1],
            zero.ctypes.data, out, layouts[2], out, layouts[2],
            algorithm.ctypes.data, *vendor.workspace, int(context.stream),
        )  # fmt: skip
        multiply, failure = vendor.library.matmul, vendor.library.cuBLASLtError

        def launch(held: Any = (prepared, one, zero, memories)) -> None:
            context.check()
            try:
                with context.current():
                    multiply(*arguments)
            except failure as error:
                raise vendor.failed(error) from None

        return launch

    def _addresses(self, bindings: Sequence[Binding], named: dict[str, int]) -> Iterator[int]:
        """Of b, a and the results."""
        for place, name in ((1, "b"), (0, "a"), (2, "out")):
            binding, dtype = bindings[place], self.tile.buffers[place].dtype
            yield binding.memory.address + binding.offset + named[f"{name}_offset"] * dtype.itemsize

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """No text of ours: what is called."""
        read, written = self.tile.buffers[0].dtype, self.tile.buffers[2].dtype
        return f"// {self.tile.name}: cublasLtMatmul of {read}, into {written}\n"
