"""Programs that order rows: keys whose unsigned order is the values', ranks of short rows, a radix sort of long ones.

The sort is the stable least-significant-digit radix sort of Zagha and Blelloch (1991): every lane owns a chunk of a
row and a histogram of its own, so there are neither atomics nor workgroup memory, and it runs on every backend.
"""

from __future__ import annotations

from functools import lru_cache

from hologram.atlas import complex_parts
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, index, u32, u64
from hologram.opset.forms.address import Address, Operand

DIGITS = 256


def key_dtype(dtype: DType) -> DType:
    return u64 if dtype.bits == 64 else u32


def key_bits(dtype: DType) -> tuple[int, int]:
    """The first and one past the last bit in which keys of a dtype differ."""
    if dtype.name == "bf16":  # as f32, whose lower half is the same everywhere
        return 16, 32
    if dtype.name == "f16":  # as f32, whose last 13 bits are
        return 8, 32
    return 0, max(8, dtype.bits)


def _bitcast(x: Value, dtype: DType) -> Value:
    return x.builder.emit(Opcode.BITCAST, dtype, x)


def key_of(x: Value, dtype: DType, descending: bool, signs: bool = False) -> Value:
    """A number that orders as x does: NaN after everything; with `descending`, the other way round.

    -0 is 0, or with `signs` comes before it, so that all but a NaN follows from its key.
    """
    wide = key_dtype(dtype)
    top = 1 << (wide.bits - 1)
    if dtype.is_float:
        bits = _bitcast(x, wide)
        magnitude = bits & (top - 1)
        bits = bits if signs else select(magnitude == 0, 0, bits)
        key = select(bits >= top, ~bits, bits ^ top)
        key = select(magnitude > dtype.computed.infinity, 2 * top - 1, key)
    elif dtype.is_signed:
        half = 1 << (dtype.bits - 1)
        key = _bitcast(x, wide) ^ top if dtype.bits >= 32 else (x.to(dtypes.i32) + half).to(u32)
    else:
        key = x.to(wide)
    return key ^ _mask(dtype) if descending else key


def complex_key(z: Value, dtype: DType, descending: bool, high: bool) -> Value:
    """The low or the high word of a complex number's key, each a key of its parts' dtype.

    As in NumPy: by the real part, then by the imaginary one; after them what has a NaN for the imaginary part alone, by
    the real part; then what has one for the real part alone, by the imaginary one; then both.
    """
    part = dtype.part
    across, up = (key_of(x, part, False) for x in (complex_parts.real(z), complex_parts.imag(z)))
    top = 1 << (part.bits - 1)
    missing = 2 * top - 1  # the key of NaN
    alone = (up == missing) & (across != missing)
    key = select(alone, (part.infinity ^ top) + 1, across) if high else select(alone, across, up)
    return key ^ _mask(part) if descending else key


def _mask(dtype: DType) -> int:
    """The bits of keys of a dtype."""
    return (1 << (key_dtype(dtype).bits if dtype.is_float else max(8, dtype.bits))) - 1


def value_of(key: Value, dtype: DType, descending: bool) -> Value:
    """The number of a key with signs, as `computed`."""
    wide = key.dtype
    top = 1 << (wide.bits - 1)
    key = key ^ _mask(dtype) if descending else key
    if dtype.is_float:
        return _bitcast(select(key >= top, key ^ top, ~key), computed(dtype))
    if dtype.kind == "int":
        half = 1 << (dtype.bits - 1)
        return _bitcast(key ^ top, dtype) if dtype.bits >= 32 else (key.to(dtypes.i32) - half).to(dtype)
    return key.to(dtype)


def zero_keys(dtype: DType, descending: bool) -> tuple[int, int]:
    """The keys with signs of the zero that comes first, and of the other; the same where there is one."""
    if not dtype.is_float:
        return 0, 0
    top = 1 << (key_dtype(dtype).bits - 1)
    return (top - 1, top) if not descending else (_mask(dtype) ^ top, _mask(dtype) ^ (top - 1))


def computed(dtype: DType) -> DType:
    """The dtype that keys are made of."""
    return dtypes.f32 if dtype.is_float and dtype.bits == 16 else dtype


@lru_cache(maxsize=256)
def value_program(out: Address, descending: bool) -> Program:
    """out (rows..., n) of keys with signs, contiguous."""
    rank = len(out.steps)
    b = Builder(f"atlas_sort_values_{out.dtype}", rank=rank)
    at = [b.coordinate(axis) for axis in range(rank)]
    keys = b.buffer("keys", key_dtype(out.dtype), Access.READ)
    target = Operand(b, "out", out, Access.WRITE, out.dtype)
    value = value_of(b.load(keys, b.position(Opcode.LANE)), out.dtype, descending)
    target.put(value.to(out.dtype), *at)
    return b.build()


@lru_cache(maxsize=256)
def key_program(x: Address, descending: bool, signs: bool = False) -> Program:
    """keys (rows..., n) of x, contiguous."""
    rank = len(x.steps)
    b = Builder(f"atlas_sort_keys_{x.dtype}", rank=rank)
    at = [b.coordinate(axis) for axis in range(rank)]
    value = Operand(b, "x", x, Access.READ, x.dtype.computed).at(*at)
    keys = b.buffer("keys", key_dtype(x.dtype), Access.WRITE)
    b.store(keys, b.position(Opcode.LANE), key_of(value, x.dtype, descending, signs))
    return b.build()


@lru_cache(maxsize=256)
def complex_key_program(x: Address, descending: bool, high: bool) -> Program:
    """keys (rows..., n) of complex x, contiguous: the low words as x lies, the high ones at order (rows..., n)."""
    rank = len(x.steps)
    b = Builder(f"atlas_sort_{'high' if high else 'low'}_keys_{x.dtype}", rank=rank)
    *outer, i = (b.coordinate(axis) for axis in range(rank))
    source = Operand(b, "x", x, Access.READ, x.dtype)
    lane = b.position(Opcode.LANE)
    place = b.load(b.buffer("order", u32, Access.READ), lane).to(index) if high else i
    keys = b.buffer("keys", key_dtype(x.dtype.part), Access.WRITE)
    b.store(keys, lane, complex_key(source.at(*outer, place), x.dtype, descending, high))
    return b.build()


@lru_cache(maxsize=16)
def rank_program(key: DType) -> Program:
    """order (rows, n) from keys (rows, n): each lane counts the elements before its own, and writes itself there."""
    b = Builder(f"atlas_sort_ranks_{key}", rank=2)
    keys, order = b.buffer("keys", key, Access.READ), b.buffer("order", u32, Access.WRITE)
    row, i, n = b.coordinate(0), b.coordinate(1), b.extent(1)
    own = b.load(keys, row * n + i)

    def turn(j: Value, before: Value) -> tuple[Value, ...]:
        other = b.load(keys, row * n + j)
        first = (other < own) | ((other == own) & (j < i))
        return (before + select(first, b.constant(1, index), 0),)

    (rank,) = b.loop(0, n, turn, first=(b.constant(0, index),))
    b.store(order, row * n + rank, i.to(u32))
    return b.build()


def _chunk(b: Builder) -> tuple[Value, Value, Value, Value, Value]:
    """A lane's row, chunk, and the elements [start, stop) of a row of n that are its own."""
    row, chunk = b.coordinate(0), b.coordinate(1)
    n, length = b.scalar("n", index), b.scalar("length", index)
    start = chunk * length
    return row, chunk, n, start, select(start + length < n, start + length, n)


def _digit(key: Value, shift: Value) -> Value:
    return ((key >> shift.to(key.dtype)) & (DIGITS - 1)).to(index)


@lru_cache(maxsize=16)
def count_program(key: DType) -> Program:
    """counts (rows, DIGITS, chunks): how often each digit occurs in each chunk."""
    b = Builder(f"atlas_sort_counts_{key}", rank=2)
    keys, counts = b.buffer("keys", key, Access.READ), b.buffer("counts", u32, Access.READ_WRITE)
    row, chunk, n, start, stop = _chunk(b)
    shift, chunks = b.scalar("shift", u32), b.extent(1)
    own = row * chunks * DIGITS + chunk
    b.loop(0, DIGITS, lambda d: b.store(counts, own + d * chunks, 0))

    def turn(i: Value) -> None:
        place = own + _digit(b.load(keys, row * n + i), shift) * chunks
        b.store(counts, place, b.load(counts, place) + 1)

    b.loop(start, stop, turn)
    return b.build()


@lru_cache(maxsize=16)
def scatter_program(key: DType, first: bool) -> Program:
    """Keys and order, moved to where `ends`, the running sums of the counts, say.

    A lane goes from its chunk's end to its start: the last of equal digits takes the last of their places.
    """
    b = Builder(f"atlas_sort_scatter_{key}", rank=2)
    keys = b.buffer("keys", key, Access.READ)
    order = None if first else b.buffer("order", u32, Access.READ)
    ends = b.buffer("ends", u32, Access.READ_WRITE)
    next_keys, next_order = (
        b.buffer("next_keys", key, Access.WRITE),
        b.buffer("next_order", u32, Access.WRITE),
    )
    row, chunk, n, start, stop = _chunk(b)
    shift, chunks = b.scalar("shift", u32), b.extent(1)

    def turn(step: Value) -> None:
        i = stop - 1 - (step - start)
        moved = b.load(keys, row * n + i)
        counter = (row * DIGITS + _digit(moved, shift)) * chunks + chunk
        place = b.load(ends, counter) - 1
        b.store(ends, counter, place)
        target = row * n + place.to(index)
        b.store(next_keys, target, moved)
        b.store(next_order, target, i.to(u32) if order is None else b.load(order, row * n + i))

    b.loop(start, stop, turn)
    return b.build()


@lru_cache(maxsize=256)
def pick_program(x: Address, out: Address) -> Program:
    """out (rows..., k) = x (rows..., n) at order (rows..., n)."""
    rank = len(out.steps)
    b = Builder(f"atlas_sort_pick_{out.dtype}", rank=rank)
    *outer, i = (b.coordinate(axis) for axis in range(rank))
    source = Operand(b, "x", x, Access.READ, x.dtype)
    order = Operand(b, "order", Address(u32, (None,) * (rank - 1) + (1,), False), Access.READ, u32)
    target = Operand(b, "out", out, Access.WRITE, x.dtype)
    target.put(source.at(*outer, order.at(*outer, i).to(index)), *outer, i)
    return b.build()
