"""A stand-in for nvmath.bindings.cublasLt above the emulated card: the functions that the backend calls, strictly.

It has the real module's enumerations and types, and functions of the same arguments. Products are work of a
stream like any other, computed by NumPy in f64; descriptions are copied when a product is enqueued, as the library
does.
"""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided
from nvmath.bindings import cublasLt  # pyright: ignore[reportAttributeAccessIssue]

from tests.backends.emulated.cuda.driver import Driver
from tests.backends.emulated.cuda.memory import Misuse
from tests.backends.emulated.cuda.streams import Context

ELEMENTS = {
    0: np.dtype(np.float32),
    2: np.dtype(np.float16),
    14: np.dtype(ml_dtypes.bfloat16),
}  # cudaDataType_t
COMPUTE_TYPES = {68: "f32", 77: "tf32"}  # cublasComputeType_t
NEEDED_BYTES = 1 << 20  # of the workspace


@dataclass(eq=False)
class Attributes:
    """A description: what it was made with, and numbers by attribute."""

    kind: str
    made: tuple[int, ...]
    numbers: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Matrices:
    """A layout as it was when a product was enqueued."""

    dtype: np.dtype
    rows: int
    columns: int
    line: int
    count: int
    apart: int

    @property
    def nbytes(self) -> int:
        last = (self.count - 1) * self.apart + (self.columns - 1) * self.line + self.rows
        return last * self.dtype.itemsize

    def view(self, address: int) -> np.ndarray:
        """(count, rows, columns) at an address."""
        whole = np.frombuffer((ctypes.c_ubyte * self.nbytes).from_address(address), np.uint8).view(self.dtype)
        steps = (self.apart, 1, self.line)
        return as_strided(whole, (self.count, self.rows, self.columns), [s * whole.itemsize for s in steps])


class CublasLt:
    """The module. `refuses`: it has no algorithm; `asked` counts who wanted one, `calls` the products enqueued."""

    class cuBLASLtError(Exception):  # the real one asks the library for its words
        pass

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.things: dict[int, Any] = {}
        self.algorithms: dict[int, Any] = {}  # by number: the product, alignments, bytes of workspace
        self.refuses = False
        self.asked = self.calls = 0
        self._numbers = itertools.count(0x9000, 16)

    def __getattr__(self, name: str) -> Any:
        if name[0].isupper() or name.endswith("_dtype"):
            return getattr(cublasLt, name)
        raise AttributeError(f"the emulated cuBLASLt has no {name}")

    def _new(self, thing: Any) -> int:
        number = next(self._numbers)
        self.things[number] = thing
        return number

    def _get(self, number: int, kind: str, who: str) -> Attributes:
        found = self.things.get(number)
        if not isinstance(found, Attributes) or found.kind != kind:
            raise Misuse(f"{who}: there is no {kind} {number:#x}, or no more")
        return found

    def create(self) -> int:
        return self._new(self.driver.current_context("cublasLtCreate"))

    def destroy(self, light_handle: int) -> None:
        self._context(light_handle, "cublasLtDestroy")
        del self.things[light_handle]

    def _context(self, handle: int, who: str) -> Context:
        found = self.things.get(handle)
        if not isinstance(found, Context) or self.driver.current_context(who) is not found:
            raise Misuse(f"{who}: the handle is none, or of another context than the current one")
        return found

    def matmul_desc_create(self, compute_type: int, scale_type: int) -> int:
        if compute_type not in COMPUTE_TYPES or scale_type != 0:
            raise Misuse("cublasLtMatmulDescCreate: a type of sums or of factors that is not emulated")
        return self._new(Attributes("product", (compute_type,)))

    def matrix_layout_create(self, type: int, rows: int, cols: int, ld: int) -> int:  # the real name
        if type not in ELEMENTS or min(rows, cols) < 1 or ld < rows:
            raise Misuse(f"cublasLtMatrixLayoutCreate: {rows} x {cols} of type {type}, columns {ld} apart")
        return self._new(Attributes("layout", (type, rows, cols, ld)))

    def matmul_preference_create(self) -> int:
        return self._new(Attributes("preference", ()))

    def _destroy(self, number: int, kind: str) -> None:
        self._get(number, kind, "cublasLt...Destroy")
        del self.things[number]

    def matmul_desc_destroy(self, matmul_desc: int) -> None:
        self._destroy(matmul_desc, "product")

    def matrix_layout_destroy(self, mat_layout: int) -> None:
        self._destroy(mat_layout, "layout")

    def matmul_preference_destroy(self, pref: int) -> None:
        self._destroy(pref, "preference")

    def _set(self, number: int, kind: str, dtype: Any, attr: int, buf: int, size_in_bytes: int) -> None:
        wanted = np.dtype(dtype)
        if size_in_bytes != wanted.itemsize:
            raise Misuse(f"cublasLt...SetAttribute: attribute {attr} of a {kind} has {wanted.itemsize} bytes")
        found = np.frombuffer(ctypes.string_at(buf, size_in_bytes), wanted)[0]
        self._get(number, kind, "cublasLt...SetAttribute").numbers[attr] = int(found)

    def matmul_desc_set_attribute(self, matmul_desc: int, attr: int, buf: int, size_in_bytes: int) -> None:
        self._set(
            matmul_desc, "product", cublasLt.get_matmul_desc_attribute_dtype(attr), attr, buf, size_in_bytes
        )

    def matrix_layout_set_attribute(self, mat_layout: int, attr: int, buf: int, size_in_bytes: int) -> None:
        self._set(
            mat_layout, "layout", cublasLt.get_matrix_layout_attribute_dtype(attr), attr, buf, size_in_bytes
        )

    def matmul_preference_set_attribute(self, pref: int, attr: int, buf: int, size_in_bytes: int) -> None:
        dtype = cublasLt.get_matmul_preference_attribute_dtype(attr)
        self._set(pref, "preference", dtype, attr, buf, size_in_bytes)

    def _matrices(self, number: int, who: str) -> Matrices:
        found = self._get(number, "layout", who)
        kind, rows, columns, line = found.made
        which = cublasLt.MatrixLayoutAttribute
        count, apart = (
            found.numbers.get(int(a), d) for a, d in ((which.BATCH_COUNT, 1), (which.STRIDED_BATCH_OFFSET, 0))
        )
        return Matrices(ELEMENTS[kind], rows, columns, line, count, apart)

    def _checked(self, operation: int, layouts: tuple[int, ...], who: str) -> tuple[Any, ...]:
        """Type of sums, whether a and b are turned, and the four matrices, where they fit together."""
        described = self._get(operation, "product", who)
        which = cublasLt.MatmulDescAttribute
        turned = [bool(described.numbers.get(int(a), 0)) for a in (which.TRANSA, which.TRANSB)]
        a, b, c, d = (self._matrices(number, who) for number in layouts)
        m, k = (a.columns, a.rows) if turned[0] else (a.rows, a.columns)
        deep, n = (b.columns, b.rows) if turned[1] else (b.rows, b.columns)
        if deep != k or (d.rows, d.columns) != (m, n) or c != d or len({a.count, b.count, d.count}) > 1:
            raise Misuse(f"{who}: {a}, {b} and {d} do not fit together")
        if d.count > 1 and d.apart < (d.columns - 1) * d.line + d.rows:
            raise Misuse(f"{who}: results overlap")
        if a.dtype != b.dtype or d.dtype not in (a.dtype, ELEMENTS[0]):
            raise Misuse(f"{who}: no product of {a.dtype} and {b.dtype} into {d.dtype}")
        if COMPUTE_TYPES[described.made[0]] == "tf32" and a.dtype != ELEMENTS[0]:
            raise Misuse(f"{who}: tf32 is of f32")
        return described.made[0], *turned, a, b, c, d

    def matmul_algo_get_heuristic(
        self, light_handle: int, operation_desc: int, adesc: int, bdesc: int, cdesc: int, ddesc: int,
        preference: int, requested_algo_count: int, heuristic_results_array: int, return_algo_count: int,
    ) -> None:  # fmt: skip
        who = "cublasLtMatmulAlgoGetHeuristic"
        self._context(light_handle, who)
        self.asked += 1
        checked = self._checked(operation_desc, (adesc, bdesc, cdesc, ddesc), who)
        numbers = self._get(preference, "preference", who).numbers
        which = cublasLt.MatmulPreferenceAttribute
        if self.refuses:
            raise self.cuBLASLtError("CUBLAS_STATUS_NOT_SUPPORTED")
        aligned = tuple(
            numbers.get(int(getattr(which, f"MIN_ALIGNMENT_{name}_BYTES")), 256) for name in "ABCD"
        )
        room = numbers.get(int(which.MAX_WORKSPACE_BYTES), 0)
        if numbers.get(int(which.REDUCTION_SCHEME_MASK), 7) != 2:
            raise Misuse(f"{who}: sums of parts would be rounded, and come in any order")
        token = next(self._numbers)
        self.algorithms[token] = checked, aligned, min(room, NEEDED_BYTES)
        result = np.zeros(requested_algo_count, cublasLt.matmul_heuristic_result_dtype)
        result["algo"]["data_"][0][0] = token
        result["workspace_size"][0] = min(room, NEEDED_BYTES)
        ctypes.memmove(heuristic_results_array, result.ctypes.data, result.itemsize)
        ctypes.c_int32.from_address(return_algo_count).value = 1

    def matmul(
        self, light_handle: int, compute_desc: int, alpha: int, a: int, adesc: int, b: int, bdesc: int, beta: int,
        c: int, cdesc: int, d: int, ddesc: int, algo: int, workspace: int, workspace_size_in_bytes: int, stream: int,
    ) -> None:  # fmt: skip
        who = "cublasLtMatmul"
        context = self._context(light_handle, who)
        into = self.driver.stream_of(stream, who)
        checked = self._checked(compute_desc, (adesc, bdesc, cdesc, ddesc), who)
        chosen = self.algorithms.get(ctypes.c_uint64.from_address(algo).value)
        if chosen is None or chosen[0] != checked:
            raise Misuse(f"{who}: the algorithm is none, or of another product")
        _, aligned, needed = chosen
        if any(address % alignment for address, alignment in zip((a, b, c, d), aligned, strict=True)):
            raise Misuse(f"{who}: operands are aligned otherwise than the algorithm was told")
        card = self.driver.cards[context.ordinal]
        watched = [
            self.driver.range_of(card, address, matrices.nbytes, who)
            for address, matrices in zip((a, b, c, d), checked[3:], strict=True)
        ]
        if needed:
            if workspace_size_in_bytes < needed:
                raise Misuse(f"{who}: the algorithm needs a workspace of {needed} bytes")
            watched.append(self.driver.range_of(card, workspace, needed, who))
        factors = [ctypes.c_float.from_address(address).value for address in (alpha, beta)]
        if factors != [1.0, 0.0]:
            raise Misuse(f"{who}: factors {factors} are not emulated")

        def run() -> None:
            if any(allocation.gone for allocation in watched):
                raise Misuse(f"{who}: memory was freed before it ran")
            _multiply(checked, (a, b, d))

        into.add(run)
        self.calls += 1

    def get_version(self) -> int:
        return 130000


def _multiply(checked: tuple[Any, ...], addresses: tuple[int, int, int]) -> None:
    compute, turn_a, turn_b, a, b, _, d = checked
    left, right = a.view(addresses[0]), b.view(addresses[1])
    left = left.swapaxes(1, 2) if turn_a else left
    right = right.swapaxes(1, 2) if turn_b else right
    found = _rounded(left, compute) @ _rounded(right, compute)
    d.view(addresses[2])[...] = found.astype(np.float32).astype(d.dtype)


def _rounded(x: np.ndarray, compute: int) -> np.ndarray:
    """In f64; for tf32 with ten bits behind the point."""
    if COMPUTE_TYPES[compute] == "tf32":
        bits = np.ascontiguousarray(x).view(np.uint32)
        x = ((bits + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)
    return x.astype(np.float64)
