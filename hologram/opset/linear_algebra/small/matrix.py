"""What a lane knows of its matrices: those in memory, and copies of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.atlas.builder import Builder, Value, absolute, select
from hologram.atlas.complex_parts import imag, number, parts, plus, real
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, i32, index

MOST = 16  # rows and columns
FEW = 8  # rows and columns of matrices that need not be many
MANY = 32  # matrices from which on larger ones are taken by a lane each
ROOM = 6144  # bytes of three matrices in a lane's own memory; WGSL promises 8 KiB of it

Made = tuple[Program, dict[str, int]]  # a program, and the sizes that its launch is told

At = Value | int
Size = tuple[int, int]


def fits(dtype: DType, batch: int, sizes: Sequence[int]) -> bool:
    """Whether a lane takes a matrix of these sizes."""
    most = max(sizes)
    if not 0 < most <= (MOST if batch >= MANY else FEW) or min(sizes) == 0:
        return False
    return 3 * room_for(most) ** 2 * dtype.itemsize <= ROOM


class Given:
    """Matrices in memory, one for each lane, in order; `rows` and `columns` are sizes or the launch's numbers."""

    def __init__(self, b: Builder, name: str, dtype: DType, rows: At, columns: At, access: Access) -> None:
        self.b, self.dtype, self.rows, self.columns = b, dtype, rows, columns
        self._buffer = b.buffer(name, dtype, access)
        self._first = b.coordinate(0) * rows * columns

    def _place(self, row: At, column: At) -> Value:
        return self._first + (row * self.columns + column)

    def at(self, row: At, column: At) -> Value:
        return self.b.load(self._buffer, self._place(row, column))

    def put(self, value: Value, row: At, column: At) -> None:
        self.b.store(self._buffer, self._place(row, column), value)


def read(b: Builder, name: str, dtype: DType, rows: At, columns: At = 1) -> Given:
    return Given(b, name, dtype, rows, columns, Access.READ)


def written(b: Builder, name: str, dtype: DType, rows: At, columns: At = 1) -> Given:
    return Given(b, name, dtype, rows, columns, Access.WRITE)


def told(b: Builder, code: Value) -> None:
    """Writes a lane's code to the last buffer, `info`."""
    b.store(b.buffer("info", i32, Access.WRITE), b.coordinate(0), code)


class Own:
    """A matrix in the lane's own memory, which has room for so many rows and columns; or a list, of one column."""

    def __init__(self, b: Builder, name: str, dtype: DType, room: int, rows: At, columns: At = 1) -> None:
        self.b, self.dtype, self.rows, self.columns = b, dtype, rows, columns
        self._stride = 1 if isinstance(columns, int) and columns == 1 else room
        names = (f"{name}_real", f"{name}_imag") if dtype.is_complex else (name,)
        self._arrays = [b.local(part, dtype.part, room * self._stride) for part in names]

    def _place(self, row: At, column: At) -> Value:
        place = row * self._stride + column
        return place if isinstance(place, Value) else self.b.constant(place, index)

    def at(self, row: At, column: At = 0) -> Value:
        place = self._place(row, column)
        return number([self.b.local_load(array, place) for array in self._arrays])

    def put(self, value: Value, row: At, column: At = 0) -> None:
        place = self._place(row, column)
        for array, part in zip(self._arrays, parts(value), strict=True):
            self.b.local_store(array, place, part)


def room_for(*sizes: int) -> int:
    """Rows and columns that a lane has room for: a power of two, so that few programs serve all sizes."""
    return 1 << (max(*sizes, 2) - 1).bit_length()


def each(b: Builder, rows: At, columns: At, body: Callable[[Value, Value], None]) -> None:
    """The body for all rows and columns."""
    b.loop(0, rows, lambda i: b.loop(0, columns, lambda j: body(i, j)) and None)


def summed(b: Builder, start: At, stop: At, term: Callable[[Value], Value], first: Value) -> Value:
    """first + term(start) + ... + term(stop - 1)."""
    return number(b.loop(start, stop, lambda k, *total: plus(total, term(k)), first=parts(first)))


def exchanged(x: Own, first: Value, second: Value) -> None:
    """Exchanges two rows."""

    def swap(column: Value) -> None:
        upper, lower = x.at(first, column), x.at(second, column)
        x.put(lower, first, column)
        x.put(upper, second, column)

    x.b.loop(0, x.columns, swap)


def brought(x: Given, out: Own, load: Callable[[Value, Value], Value]) -> tuple[Value, Value, Value]:
    """Fills a matrix with load(row, column) times a factor: the factor, the largest part then, and what failed (i32).

    The factor is 1 unless the largest is so large or small that its square is none; 1 is told of NaN and infinities.
    """
    b, dtype = x.b, out.dtype.part
    none, zero = b.constant(0.0, dtype), b.constant(0, i32)

    def look(i: Value, best: Value, bad: Value) -> tuple[Value, ...]:
        def one(j: Value, best: Value, bad: Value) -> tuple[Value, Value]:
            for u in parts(load(i, j)):
                held = absolute(u) <= dtype.largest
                best = select(held & (absolute(u) > best), absolute(u), best)
                bad = select(held, bad, 1)
            return best, bad

        return b.loop(0, out.columns, one, first=(best, bad))

    best, bad = b.loop(0, out.rows, look, first=(none, zero))
    high, low = (1e130, 1e-130) if dtype.bits == 64 else (1e14, 1e-10)
    extreme = ((best > high) | (best < low)) & (best > 0.0)
    factor = select(extreme, 1.0 / select(extreme, best, 1.0), 1.0)
    each(b, out.rows, out.columns, lambda i, j: out.put(_times(load(i, j), factor), i, j))
    return factor, best * factor, bad


def _times(z: Value, factor: Value) -> Value:
    return number([u * factor for u in parts(z)])


def scaled(z: Value, factor: Value) -> Value:
    """A number times a real one."""
    return _times(z, factor)


def over(z: Value, divisor: Value) -> Value:
    """A number over a real one."""
    return number([u / divisor for u in parts(z)])


def square(z: Value) -> Value:
    """|z|^2."""
    return real(z) * real(z) + imag(z) * imag(z) if z.dtype.is_complex else z * z


def identity(x: Own) -> None:
    """Ones on the diagonal."""
    one, none = x.b.constant(1.0, x.dtype), x.b.constant(0.0, x.dtype)
    each(x.b, x.rows, x.columns, lambda i, j: x.put(select(i == j, one, none), i, j))
