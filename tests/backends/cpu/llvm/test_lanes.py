"""What one lane computes: every dtype's arithmetic, conversions, comparisons and bounds, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import maximum, minimum, mulhi, power, select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.backends.cpu.device import thread_count
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPUTED, FLOATS, INTEGERS, DType
from hologram.machine.kernel import Binding
from tests.backends.cpu.llvm.launching import device, elementwise, place, run, samples

SIZE = 1003


def pack(results: list[tuple[Value, DType]], b: Builder) -> None:
    for k, (value, dtype) in enumerate(results):
        b.store(b.buffer(f"out{k}", dtype, Access.WRITE), b.coordinate(0), value)


def two(dtype: DType) -> tuple[Builder, Value, Value]:
    b = Builder("atlas_check")
    i = b.coordinate(0)
    return b, b.load(b.buffer("x", dtype, Access.READ), i), b.load(b.buffer("y", dtype, Access.READ), i)


def outputs(program: Program, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    made = [np.zeros(x.size, p.dtype.numpy) for p in program.buffers[2:]]
    return run(device(), program, [x, y, *made], [x.size])[2:]


def same(ours: np.ndarray, expected: np.ndarray) -> None:
    """Equal to the bit, but for the payload of a NaN."""
    assert ours.dtype == expected.dtype
    np.testing.assert_array_equal(ours.astype(np.float64), expected.astype(np.float64))
    if np.issubdtype(ours.dtype, np.floating):
        finite = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(ours[finite]), np.signbit(expected[finite]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_arithmetic(dtype: DType) -> None:
    b, x, y = two(dtype)
    pack([(v, dtype) for v in (x + y, x - y, x * y, x / y, -x)], b)
    pack_names = [np.add, np.subtract, np.multiply, np.divide]
    a, c = samples(dtype, SIZE, 1), samples(dtype, SIZE, 2)
    wide = np.float64 if dtype == dtypes.f64 else np.float32
    with np.errstate(all="ignore"):
        expected = [f(a.astype(wide), c.astype(wide)).astype(dtype.numpy) for f in pack_names] + [-a]
    for ours, wanted in zip(outputs(b.build(), a, c), expected, strict=True):
        same(ours, wanted)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_extremes_pass_nan_on(dtype: DType) -> None:
    b, x, y = two(dtype)
    pack([(minimum(x, y), dtype), (maximum(x, y), dtype), (select(x < y, x, y), dtype)], b)
    a, c = samples(dtype, SIZE, 1), samples(dtype, SIZE, 2)
    low, high, chosen = outputs(b.build(), a, c)
    wide, other = a.astype(np.float64), c.astype(np.float64)
    np.testing.assert_array_equal(low.astype(np.float64), np.minimum(wide, other))
    np.testing.assert_array_equal(high.astype(np.float64), np.maximum(wide, other))
    np.testing.assert_array_equal(chosen.astype(np.float64), np.where(wide < other, wide, other))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_arithmetic(dtype: DType) -> None:
    b, x, y = two(dtype)
    pack([(v, dtype) for v in (x + y, x - y, x * y, x / y, x % y, minimum(x, y), maximum(x, y))], b)
    b2, x2, y2 = two(dtype)
    count = y2 & 31
    absolute = b2.emit(Opcode.ABS, dtype, x2)
    pack([(v, dtype) for v in (x2 & y2, x2 | y2, x2 ^ y2, ~x2, x2 << count, x2 >> count, absolute)], b2)
    a, c = samples(dtype, SIZE, 1), samples(dtype, SIZE, 2)
    c[::7] = 0
    quotient = [
        int(p) and abs(int(o)) // abs(int(p)) * (1 if (o < 0) == (p < 0) else -1)
        for o, p in zip(a, c, strict=True)
    ]
    remainder = [int(o) - int(q) * int(p) if p else 0 for o, p, q in zip(a, c, quotient, strict=True)]
    wrapped = [
        np.array([q % 2**dtype.bits for q in r], np.uint64).astype(dtype.numpy) for r in (quotient, remainder)
    ]
    with np.errstate(all="ignore"):
        expected = [a + c, a - c, a * c, *wrapped, np.minimum(a, c), np.maximum(a, c)]
    for ours, wanted in zip(outputs(b.build(), a, c), expected, strict=True):
        np.testing.assert_array_equal(ours, wanted)
    counts = [int(n) & 31 for n in c]
    left = np.array(
        [(int(o) << n) % 2**dtype.bits for o, n in zip(a, counts, strict=True)], np.uint64
    ).astype(dtype.numpy)
    right = np.array([int(o) >> n for o, n in zip(a, counts, strict=True)], dtype.numpy)
    for ours, wanted in zip(
        outputs(b2.build(), a, c), [a & c, a | c, a ^ c, ~a, left, right, np.abs(a)], strict=True
    ):
        np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.u32], ids=str)
def test_mulhi(dtype: DType) -> None:
    a, c = samples(dtype, SIZE, 1), samples(dtype, SIZE, 2)
    program = elementwise("atlas_mulhi", mulhi, [dtype, dtype], dtype)
    expected = np.array([(int(p) * int(q)) >> 32 for p, q in zip(a, c, strict=True)]).astype(dtype.numpy)
    np.testing.assert_array_equal(run(device(), program, [a, c, np.zeros_like(a)], [SIZE])[2], expected)


@pytest.mark.parametrize("dtype", [dtypes.i16, dtypes.u32, dtypes.i64], ids=str)
def test_integer_power(dtype: DType) -> None:
    a = np.array(
        [0, 1, 2, 3, -1 if dtype.kind == "int" else 5, 7, 2, 1, -1 if dtype.kind == "int" else 0], dtype.numpy
    )
    c = np.array([0, 9, 5, 40, 3, 0, 70, 100, 8], dtype.numpy)
    if dtype.kind == "int":
        a, c = (
            np.append(a, np.array([2, 1, -1, 0], dtype.numpy)),
            np.append(c, np.array([-1, -5, -3, -2], dtype.numpy)),
        )
    program = elementwise("atlas_pow", power, [dtype, dtype], dtype)

    def exact(x: int, y: int) -> int:
        return x**y if y >= 0 else {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)

    expected = [exact(int(x), int(y)) % 2**dtype.bits for x, y in zip(a, c, strict=True)]
    ours = run(device(), program, [a, c, np.zeros_like(a)], [a.size])[2]
    np.testing.assert_array_equal(ours, np.array(expected, np.uint64).astype(dtype.numpy))


@pytest.mark.parametrize("source", COMPUTED, ids=str)
def test_conversions(source: DType) -> None:
    """To every dtype: to nearest even, truncating, saturating, NaN to 0."""
    b = Builder("atlas_convert")
    x = b.load(b.buffer("x", source, Access.READ), b.coordinate(0))
    for target in COMPUTED:
        b.store(b.buffer(f"to_{target}", target, Access.WRITE), b.coordinate(0), x.to(target))
    a = samples(source, SIZE)
    results = run(device(), b.build(), [a, *(np.zeros(SIZE, t.numpy) for t in COMPUTED)], [SIZE])[1:]
    for target, ours in zip(COMPUTED, results, strict=True):
        same(ours, converted(a, source, target))


def converted(a: np.ndarray, source: DType, target: DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        if source.is_float and target.is_integer:
            info = np.iinfo(target.numpy)
            wide = np.nan_to_num(np.trunc(a.astype(np.float64)), nan=0.0)
            return np.array(
                [max(info.min, min(info.max, int(v))) for v in np.clip(wide, -1e30, 1e30)], target.numpy
            )
        if target.kind == "bool":
            return a.astype(np.float64) != 0
        if source == dtypes.f64 and target.name in ("f16", "bf16"):
            return nearest16(a, target)
        if source.is_integer and target.name in ("f16", "bf16"):
            return a.astype(np.float32).astype(target.numpy)
        return a.astype(target.numpy)


def nearest16(a: np.ndarray, target: DType) -> np.ndarray:
    """One rounding: of the neighbours of a first guess, the closest, the even one of two."""
    if target == dtypes.f16:
        return a.astype(np.float16)
    guess = a.astype(np.float32).astype(target.numpy)
    bits = guess.view(np.int16)
    best = guess.copy()
    for step in (-1, 1):
        other = (bits + np.int16(step)).view(target.numpy)
        nearer = abs(other.astype(np.float64) - a) < abs(best.astype(np.float64) - a)
        ties = (abs(other.astype(np.float64) - a) == abs(best.astype(np.float64) - a)) & (
            best.view(np.int16) & 1 == 1
        )
        sound = np.isfinite(a) & np.isfinite(other.astype(np.float64)) & (other.astype(np.float64) * a > 0)
        best = np.where(sound & (nearer | ties), other, best)
    return best


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_comparisons(dtype: DType) -> None:
    b, x, y = two(dtype)
    pack([(v, dtypes.bool_) for v in (x == y, x != y, x < y, x <= y, x > y, x >= y)], b)
    a, c = samples(dtype, SIZE, 1), samples(dtype, SIZE, 2)
    c[::5] = a[::5]
    with np.errstate(invalid="ignore"):
        expected = [a == c, a != c, a < c, a <= c, a > c, a >= c]
    for ours, wanted in zip(outputs(b.build(), a, c), expected, strict=True):
        np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize(
    ("source", "target"), [("f32", "i32"), ("f16", "u16"), ("bf16", "i16"), ("f64", "u64")]
)
def test_bitcast(source: str, target: str) -> None:
    s, t = dtypes.dtype(source), dtypes.dtype(target)
    program = elementwise("atlas_bits", lambda x: x.bitcast(t), [s], t)
    a = samples(s, SIZE)
    a = a[~np.isnan(a.astype(np.float64))]
    np.testing.assert_array_equal(
        run(device(), program, [a, np.zeros(a.size, t.numpy)], [a.size])[1], a.view(t.numpy)
    )


def test_out_of_bounds() -> None:
    """Reading outside gives any value, writing there does nothing."""
    b = Builder("atlas_beyond")
    x, at = b.buffer("x", dtypes.f32, Access.READ), b.buffer("at", dtypes.i64, Access.READ)
    out = b.buffer("out", dtypes.f32, Access.WRITE)
    i = b.coordinate(0)
    position = b.load(at, i).to(dtypes.index)
    b.store(out, position, b.load(x, position) + 1.0)
    at_array = np.array([0, 3, -1, 4, 2**62, -(2**62), 1], np.int64)
    guard = np.zeros(4, np.float32)
    x_array = np.array([10, 20, 30, 40], np.float32)
    ours = run(device(), b.build(), [x_array, at_array, guard], [7])[2]
    np.testing.assert_array_equal(ours, [11, 21, 0, 41])


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i32, dtypes.u8, dtypes.f16, dtypes.i64], ids=str)
def test_atomics(dtype: DType) -> None:
    """Many lanes, few places, all threads."""
    b = Builder("atlas_histogram")
    x, out = b.buffer("x", dtypes.i32, Access.READ), b.buffer("out", dtype, Access.READ_WRITE)
    b.atomic(Opcode.ATOMIC_ADD, out, b.load(x, b.coordinate(0)).to(dtypes.index), 1)
    a = np.random.default_rng(0).integers(0, 200, 100_000 if dtype.bits > 16 else 20_000).astype(np.int32)
    ours = run(device(), b.build(), [a, np.zeros(200, dtype.numpy)], [a.size])[1]
    np.testing.assert_array_equal(ours, np.bincount(a, minlength=200).astype(dtype.numpy))


def test_control_flow() -> None:
    """A loop with a carried value inside an `if`: the length of a Collatz walk, capped."""
    b = Builder("atlas_collatz")
    x, out = b.buffer("x", dtypes.i32, Access.READ), b.buffer("out", dtypes.i32, Access.WRITE)
    i = b.coordinate(0)
    start = b.load(x, i)

    def step(_: Value, n: Value, count: Value) -> list[Value]:
        following = select((n & 1) == 0, n >> 1, n * 3 + 1)
        going = n > 1
        return [select(going, following, n), select(going, count + 1, count)]

    def walk() -> list[Value]:
        return [b.loop(0, 50, step, first=[start, b.constant(0, dtypes.i32)])[1]]

    (result,) = b.if_(start > 0, walk, lambda: [b.constant(-1, dtypes.i32)])
    b.store(out, i, result)

    def expected(n: int) -> int:
        if n <= 0:
            return -1
        count = 0
        while n > 1 and count < 50:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    a = np.arange(-3, 30, dtype=np.int32)
    np.testing.assert_array_equal(
        run(device(), b.build(), [a, np.zeros_like(a)], [a.size])[1], [expected(int(n)) for n in a]
    )


@pytest.mark.parametrize("known", [True, False], ids=["a known length", "a length from memory"])
def test_few_lanes_that_loop_through_much_are_shared_out(known: bool) -> None:
    """Two sums of 200,000 elements each; two of sixteen stay on the thread that calls."""
    b = Builder("atlas_two_sums")
    x, ends = b.buffer("x", dtypes.i64, Access.READ), b.buffer("ends", dtypes.i64, Access.READ)
    out, i, n = b.buffer("out", dtypes.i64, Access.WRITE), b.coordinate(0), b.scalar("n", dtypes.index)
    stop = n if known else b.load(ends, i).to(dtypes.index)
    zero = b.constant(0, dtypes.i64)
    (total,) = b.loop(0, stop, lambda k, total: (total + b.load(x, i * n + k),), first=(zero,))
    b.store(out, i, total)
    program, cpu = b.build(), device()
    for length, shared in ((200_000, True), (16, False)):
        arrays = np.arange(2 * length), np.full(2, length), np.zeros(2, np.int64)
        memories = [place(cpu, a) for a in arrays]
        bindings = [Binding(m, 0, m.nbytes) for m in memories]
        kernel = cpu.compile(program)
        schedule = kernel.schedule([(m.address, m.nbytes) for m in memories], (length,), (2,))
        assert ("slices" in schedule) == (shared and thread_count() > 1)
        kernel.bind(bindings, (length,), (2,))()
        want = arrays[0].reshape(2, length).sum(axis=1)
        np.testing.assert_array_equal(memories[2].bytes[:16].view(np.int64), want)
