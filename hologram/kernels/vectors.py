"""Small vectors and square matrices, values of a kernel. Kernels have their methods' own source inlined.

Arithmetic is by parts, as NumPy's; `@` multiplies matrices and vectors. A matrix is made of rows, which are vectors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hologram.foundation.errors import KernelError
from hologram.kernels.language import func, static


def _by_parts(apply: Callable[[Any, Any], Any], *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        others = other if isinstance(other, Parts) else [other] * len(self)
        if isinstance(other, Parts) and type(other) is not type(self):
            raise KernelError(f"{type(self).__name__} with {type(other).__name__}: both must be of one kind")
        pairs = zip(others, self, strict=True) if swapped else zip(self, others, strict=True)
        return type(self)(*[apply(a, b) for a, b in pairs])

    return operate


class Parts:
    """What vectors and matrices have in common: arithmetic by parts, also with one number for all of them."""

    NAMES: tuple[str, ...] = ()
    __array_ufunc__ = None  # a number of NumPy's beside one is multiplied with its parts, and makes no array

    def __len__(self) -> int:
        return len(self.NAMES)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self.NAMES)

    def __getitem__(self, k: Any) -> Any:
        return self[k[0]][k[1]] if isinstance(k, tuple) else getattr(self, self.NAMES[k])

    def __setitem__(self, k: Any, value: Any) -> None:
        if isinstance(k, tuple):
            self[k[0]][k[1]] = value
        else:
            setattr(self, self.NAMES[k], value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self))})"

    def __neg__(self) -> Any:
        return type(self)(*[-x for x in self])

    __add__, __radd__ = _by_parts(operator.add), _by_parts(operator.add, swapped=True)
    __sub__, __rsub__ = _by_parts(operator.sub), _by_parts(operator.sub, swapped=True)
    __mul__, __rmul__ = _by_parts(operator.mul), _by_parts(operator.mul, swapped=True)
    __truediv__, __rtruediv__ = _by_parts(operator.truediv), _by_parts(operator.truediv, swapped=True)
    __floordiv__, __mod__, __pow__ = map(_by_parts, (operator.floordiv, operator.mod, operator.pow))


def _numbers(kind: type[Parts], count: int, parts: Sequence[Any]) -> list[Any]:
    """The numbers that a value is made of; one number stands for all."""
    flat = [x for part in parts for x in (_flat(part) if isinstance(part, Parts) else (part,))]
    flat = flat * count if len(flat) == 1 else flat
    if len(flat) != count:
        raise KernelError(f"{kind.__name__}: takes 1 or {count} numbers, got {len(flat)}")
    return flat


def _flat(value: Parts) -> Iterator[Any]:
    for part in value:
        yield from _flat(part) if isinstance(part, Parts) else (part,)


class Vector(Parts):
    """A few numbers."""

    def __init__(self, *parts: Any) -> None:
        for name, part in zip(self.NAMES, _numbers(type(self), len(self), parts), strict=True):
            setattr(self, name, part)

    def __getattr__(self, name: str) -> Any:
        """`v.xy` and its like: some of the parts, in any order, as a vector."""
        kind = {2: vec2, 3: vec3, 4: vec4}.get(len(name))
        if kind is None or not set(name) <= set(self.NAMES):
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return kind(*[getattr(self, letter) for letter in name])

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Vector):
            return self.dot(other)
        return type(self)(*[self.dot(column) for column in other.transpose()])

    def dot(self, other: Any) -> Any:
        """The sum of the products of the parts."""
        return sum(self * other)

    def length(self) -> Any:
        """The square root of the sum of squares."""
        return np.sqrt(self.dot(self))

    def normalized(self) -> Any:
        """The vector of length 1 that points the same way."""
        return self * (1.0 / self.length())


class vec2(Vector):
    """Two numbers, x and y: `hg.vec2(1.0, 2.0)`, or one number for both."""

    NAMES = ("x", "y")
    x: Any
    y: Any

    def outer(self, other: Any) -> Any:
        """The matrix of the products of each part with each of the other's."""
        return mat2(self.x * other, self.y * other)


class vec3(Vector):
    """Three numbers, x, y and z: `hg.vec3(1.0, 2.0, 3.0)`, `hg.vec3(xy, 3.0)`, or one number for all."""

    NAMES = ("x", "y", "z")
    x: Any
    y: Any
    z: Any

    def cross(self, other: Any) -> Any:
        """The vector at right angles to both."""
        return vec3(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )

    def outer(self, other: Any) -> Any:
        """The matrix of the products of each part with each of the other's."""
        return mat3(self.x * other, self.y * other, self.z * other)


class vec4(Vector):
    """Four numbers, x, y, z and w."""

    NAMES = ("x", "y", "z", "w")
    x: Any
    y: Any
    z: Any
    w: Any

    def outer(self, other: Any) -> Any:
        """The matrix of the products of each part with each of the other's."""
        return mat4(self.x * other, self.y * other, self.z * other, self.w * other)


class Matrix(Parts):
    """As many rows as columns; `m[i, j]` is an element, `m[i]` a row, `m @ v` and `m @ n` are products."""

    ROW: type[Vector] = Vector

    def __init__(self, *parts: Any) -> None:
        n = len(self)
        flat = _numbers(type(self), n * n, parts)
        for k, name in enumerate(self.NAMES):
            setattr(self, name, self.ROW(*flat[k * n : (k + 1) * n]))

    def __matmul__(self, other: Any) -> Any:
        return (self.ROW if isinstance(other, Vector) else type(self))(*[row @ other for row in self])

    @property
    def T(self) -> Any:  # noqa: N802  (NumPy's name)
        """The rows as columns."""
        return self.transpose()  # type: ignore[attr-defined]

    def trace(self) -> Any:
        """The sum of the elements along the diagonal."""
        total = self[0, 0]
        for k in static(range(1, len(self))):
            total = total + self[k, k]
        return total


class mat2(Matrix):
    """Two rows of two numbers: `hg.mat2(a, b, c, d)`, `hg.mat2(row, row)`, or one number for all."""

    NAMES = ("row0", "row1")
    ROW = vec2
    row0: Any
    row1: Any

    @staticmethod
    @func
    def identity() -> Any:
        """Ones along the diagonal."""
        return mat2(1.0, 0.0, 0.0, 1.0)

    def transpose(self) -> Any:
        """The rows as columns."""
        a, b = self
        return mat2(a.x, b.x, a.y, b.y)

    def determinant(self) -> Any:
        """The area of the rows' parallelogram, with a sign."""
        a, b = self
        return a.x * b.y - a.y * b.x

    def inverse(self) -> Any:
        """The matrix whose product with this one is the identity; infinities or NaN where there is none."""
        a, b = self
        return mat2(b.y, -a.y, -b.x, a.x) * (1.0 / self.determinant())


class mat3(Matrix):
    """Three rows of three numbers, as `mat2`."""

    NAMES = ("row0", "row1", "row2")
    ROW = vec3
    row0: Any
    row1: Any
    row2: Any

    @staticmethod
    @func
    def identity() -> Any:
        """Ones along the diagonal."""
        return mat3(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)

    def transpose(self) -> Any:
        """The rows as columns."""
        a, b, c = self
        return mat3(a.x, b.x, c.x, a.y, b.y, c.y, a.z, b.z, c.z)

    def determinant(self) -> Any:
        """The volume of the rows' parallelepiped, with a sign."""
        a, b, c = self
        return a.dot(b.cross(c))

    def inverse(self) -> Any:
        """The matrix whose product with this one is the identity; infinities or NaN where there is none."""
        a, b, c = self
        columns = mat3(b.cross(c), c.cross(a), a.cross(b))
        return columns.transpose() * (1.0 / self.determinant())


class mat4(Matrix):
    """Four rows of four numbers, as `mat2`."""

    NAMES = ("row0", "row1", "row2", "row3")
    ROW = vec4
    row0: Any
    row1: Any
    row2: Any
    row3: Any

    @staticmethod
    @func
    def identity() -> Any:
        """Ones along the diagonal."""
        zero = vec2(0.0, 0.0)
        return mat4(1.0, 0.0, zero, 0.0, 1.0, zero, zero, 1.0, 0.0, zero, 0.0, 1.0)

    def transpose(self) -> Any:
        """The rows as columns."""
        a, b, c, d = self
        first = vec4(a.x, b.x, c.x, d.x), vec4(a.y, b.y, c.y, d.y)
        last = vec4(a.z, b.z, c.z, d.z), vec4(a.w, b.w, c.w, d.w)
        return mat4(first[0], first[1], last[0], last[1])

    def determinant(self) -> Any:
        """The volume of the rows' parallelotope, with a sign."""
        above, below = _minors(self.row0, self.row1), _minors(self.row2, self.row3)
        total = above[0] * below[5] - above[1] * below[4] + above[2] * below[3]
        return total + above[3] * below[2] - above[4] * below[1] + above[5] * below[0]

    def inverse(self) -> Any:
        """The matrix whose product with this one is the identity; infinities or NaN where there is none."""
        a, b, c, d = self
        s, t = _minors(a, b), _minors(c, d)
        found = mat4(*_cofactors(b, t), *_cofactors(-a, t), *_cofactors(d, s), *_cofactors(-c, s))
        return found.transpose() * (1.0 / self.determinant())


@func
def _minors(a: Any, b: Any) -> Any:
    """The determinants of two rows' pairs of columns: 01, 02, 03, 12, 13, 23."""
    return (
        *(a.x * b.y - a.y * b.x, a.x * b.z - a.z * b.x, a.x * b.w - a.w * b.x),
        *(a.y * b.z - a.z * b.y, a.y * b.w - a.w * b.y, a.z * b.w - a.w * b.z),
    )


@func
def _cofactors(row: Any, m: Any) -> Any:
    """A column of the adjugate (Laplace's expansion by pairs of rows), from a row and two others' minors."""
    return (
        *(row.y * m[5] - row.z * m[4] + row.w * m[3], -row.x * m[5] + row.z * m[2] - row.w * m[1]),
        *(row.x * m[4] - row.y * m[2] + row.w * m[0], -row.x * m[3] + row.y * m[1] - row.z * m[0]),
    )
