"""The operations that are measured: a declaration each, of what goes in, what moves, and how NumPy does it best.

What a row must give is what the operation's own reference says, in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hologram as hg
from hologram.benchmark import numpy_rows
from hologram.foundation.frozen import frozen
from hologram.opset import OPERATIONS

Array = NDArray[np.float32]
Shape = tuple[int, ...]

COLUMNS = 1024  # of the matrices whose rows are reduced or sorted
CHECKED = 16  # rows of matrices that are compared with the reference
CHECKED_ELEMENTS = 1 << 14  # the same of vectors
ELEMENT_BYTES = 4
SIZES = {"1K": 1 << 10, "10K": 10 << 10, "100K": 100 << 10, "1M": 1 << 20, "10M": 10 << 20}
LARGE_SIZES = {"100M": 100 << 20}
SIDES = {"1K": 32, "10K": 96, "100K": 320, "1M": 1024, "10M": 3072, "100M": 10240}  # of square matrices


@frozen
class Row:
    """An operation on random f32 arrays.

    `shapes` gives those of its operands for a size; `split` are the operands whose rows are also rows of the result, so
    that a few of them can be checked. Errors are relative to the value, or to `scale` where that is more.
    """

    operation: str
    shapes: Callable[[str], tuple[Shape, ...]]
    result: Callable[[tuple[Shape, ...]], Shape]
    numpy: Callable[..., Any] | None = (
        None  # of the output and the operands; None: NumPy has no such function
    )
    split: tuple[int, ...] = (0,)
    tolerance: float = 1e-5
    scale: Callable[[tuple[Shape, ...]], float] = lambda shapes: 1.0
    products: Callable[[tuple[Shape, ...]], int] = lambda shapes: 0  # multiply-adds, of what is bound by them
    arithmetic: float = 1.0  # of an element, about: where it stands beside the roofs of memory and arithmetic
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def function(self) -> Callable[..., None]:
        """The out-parameter form."""
        return getattr(hg.ops, self.operation)

    def label(self, size: str) -> str:
        """The shape of the first operand, where it is a matrix."""
        shape = self.shapes(size)[0]
        return size if len(shape) == 1 else "x".join(map(str, shape))

    def elements(self, size: str) -> int:
        """Of the first operand."""
        return math.prod(self.shapes(size)[0])

    def bytes(self, size: str) -> int:
        """What must be read and written at the least."""
        shapes = self.shapes(size)
        return ELEMENT_BYTES * sum(map(math.prod, (*shapes, self.result(shapes))))

    def flops(self, size: str) -> int:
        """Multiplications and additions; 0 for rows that are bound by memory."""
        return 2 * self.products(self.shapes(size))

    def inputs(self, size: str) -> tuple[Array, ...]:
        """The same random arrays for everyone."""
        return _random(self.shapes(size))

    def problem(self, inputs: tuple[Array, ...], found: NDArray[Any]) -> str:
        """What is wrong with a result, nothing if it is right."""
        shapes = tuple(a.shape for a in inputs)
        if found.shape != self.result(shapes):
            return f"wrong result: its shape is {found.shape}, not {self.result(shapes)}"
        count = CHECKED if len(shapes[0]) > 1 else CHECKED_ELEMENTS
        part = [a[:count] if k in self.split else a for k, a in enumerate(inputs)]
        wanted = OPERATIONS[self.operation].reference(
            *(a.astype(np.float64) for a in part), **self.attributes
        )
        seen = found[:count] if self.split else found
        error = np.abs(seen - wanted) / np.maximum(np.abs(wanted), self.scale(shapes))
        worst = float(error.max())
        return (
            ""
            if worst <= self.tolerance
            else f"wrong result: it is off by {worst:.1e} of {self.tolerance:.0e}"
        )


@lru_cache(maxsize=4)
def _random(shapes: tuple[Shape, ...]) -> tuple[Array, ...]:
    rng = np.random.default_rng(math.prod(shapes[0]))
    return tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes)


def _vectors(count: int) -> Callable[[str], tuple[Shape, ...]]:
    return lambda size: ((ALL_SIZES[size],),) * count


def _matrix(*more: Shape) -> Callable[[str], tuple[Shape, ...]]:
    return lambda size: ((ALL_SIZES[size] // COLUMNS, COLUMNS), *more)


def _squares(size: str) -> tuple[Shape, ...]:
    return ((SIDES[size], SIDES[size]),) * 2


def _same(shapes: tuple[Shape, ...]) -> Shape:
    return shapes[0]


ALL_SIZES = SIZES | LARGE_SIZES
ROWS = (
    Row("add", _vectors(2), _same, numpy_rows.add, split=(0, 1)),
    Row("multiply", _vectors(2), _same, numpy_rows.multiply, split=(0, 1)),
    Row("relu", _vectors(1), _same, numpy_rows.relu),
    Row("exp", _vectors(1), _same, numpy_rows.exp, arithmetic=10),
    Row("tanh", _vectors(1), _same, numpy_rows.tanh, arithmetic=16),
    Row("gelu", _vectors(1), _same, arithmetic=24),  # NumPy has no erf
    Row(
        "sum", _vectors(1), lambda shapes: (), numpy_rows.total, split=(), tolerance=1e-3,
        scale=lambda shapes: math.sqrt(shapes[0][0]),  # that of one serial sum over random signs
    ),
    Row("softmax", _matrix(), _same, numpy_rows.softmax, arithmetic=14),
    Row("layer_norm", _matrix((COLUMNS,), (COLUMNS,)), _same, numpy_rows.layer_norm, arithmetic=7, tolerance=1e-4),
    Row("cumsum", _matrix(), _same, numpy_rows.running_sum, arithmetic=1.5, tolerance=1e-4, attributes={"axis": 1},
        scale=lambda shapes: math.sqrt(COLUMNS)),
    Row("sort", _matrix(), _same, numpy_rows.sort, arithmetic=50),
    Row(
        "matmul", _squares, _same, numpy_rows.matmul, tolerance=1e-4,
        scale=lambda shapes: math.sqrt(shapes[0][0]),
        products=lambda shapes: shapes[0][0] ** 3,
    ),
)  # fmt: skip
BY_NAME = {row.operation: row for row in ROWS}
