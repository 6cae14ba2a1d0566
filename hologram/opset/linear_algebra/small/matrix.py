"""What a lane knows of its matrices: those in memory, and copies of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import imag, number, parts, plus, real
from hologram.atlas.functions import absolute, select
from hologram.atlas.program import Access, BufferParameter, Program
from hologram.foundation.dtypes import DType, i32, index
from hologram.foundation.frozen import frozen

MOST = 16  # rows and columns
FEW = 8  # rows and columns of matrices that need not be many
MANY = 32  # matrices from which on larger ones are taken by a lane each

At = Value | int
Size = tuple[int, int]


def fits(batch: int, sizes: Sequence[int]) -> bool:
    """Whether a lane takes a matrix of these sizes."""
    return min(sizes) > 0 and max(sizes) <= (MOST if batch >= MANY else FEW)


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


class Own:
    """A matrix of the lane's own in a desk's memory; or a list, of one column."""

    def __init__(self, desk: Desk, dtype: DType, rows: At, columns: At) -> None:
        self.b, self.dtype, self.rows, self.columns = desk.b, dtype, rows, columns
        self._size, self._lanes = desk.size, desk.b.extent(0)
        self._buffer, number = desk.taken(dtype)
        self._first = self._size * number

    def _place(self, row: At, column: At) -> Value:
        return ((self._first + row) * self._size + column) * self._lanes + self.b.coordinate(0)

    def at(self, row: At, column: At = 0) -> Value:
        return self.b.load(self._buffer, self._place(row, column))

    def put(self, value: Value, row: At, column: At = 0) -> None:
        self.b.store(self._buffer, self._place(row, column), value)


class Desk:
    """Scratch memory for matrices of up to `size` rows and columns, element by element side by side for all lanes.

    Not arrays of a lane: drivers make ladders of choices of those where places are computed, and take minutes.
    """

    def __init__(self, b: Builder) -> None:
        self.b, self.size = b, b.scalar("size", index)
        self._buffers: dict[DType, BufferParameter] = {}
        self._counts: dict[DType, int] = {}

    def own(self, dtype: DType, rows: At, columns: At = 1) -> Own:
        return Own(self, dtype, rows, columns)

    def taken(self, dtype: DType) -> tuple[BufferParameter, int]:
        """The buffer of a dtype, and which of its matrices is the next."""
        if dtype not in self._buffers:
            self._buffers[dtype] = self.b.buffer(f"own_{dtype}", dtype, Access.READ_WRITE)
        number = self._counts.get(dtype, 0)
        self._counts[dtype] = number + 1
        return self._buffers[dtype], number

    def built(self) -> Built:
        """The program, and how many matrices of which dtype its desk has."""
        return self.b.build(), tuple(self._counts.items())


Built = tuple[Program, tuple[tuple[DType, int], ...]]


@frozen
class Made:
    """A program of a lane for each matrix, its sizes, and of what dtypes it has how many numbers of its own a lane.

    `turns` are those that all loops of a lane may take together.
    """

    program: Program
    numbers: Mapping[str, int]
    scratch: tuple[tuple[DType, int], ...]
    turns: int


def made(built: Built, size: int, cubes: int = 6, **numbers: int) -> Made:
    """For matrices of up to so many rows and columns; loops take `cubes` size^3 turns at most."""
    program, counts = built
    scratch = tuple((d, n * size * size) for d, n in counts)
    return Made(program, {"size": size, **numbers}, scratch, cubes * size**3)


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
