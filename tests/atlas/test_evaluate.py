"""Opcodes against values worked out by hand or by Python's own arithmetic, awkward cases first."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.opcodes import REDUCTIONS, TRANSCENDENTALS, Opcode
from hologram.atlas.program import Access
from hologram.atlas.verify import verify
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ProgramError

NAN, INF = math.nan, math.inf

# opcode, dtype of the operands, operands, results
EXACT = [
    ("add", "i8", ([127], [1]), [-128]),
    ("sub", "u16", ([0], [1]), [65535]),
    ("mul", "i32", ([2**31 - 1], [2]), [-2]),
    ("add", "f16", ([2048.0, 65504.0], [1.0, 16.0]), [2048.0, INF]),
    ("add", "bf16", ([256.0], [1.0]), [256.0]),
    ("div", "i32", ([-7, 7, 5, -(2**31)], [2, -2, 0, -1]), [-3, -3, 0, -(2**31)]),
    ("div", "u8", ([7, 200], [0, 3]), [0, 66]),
    ("div", "f32", ([1.0, -1.0, 0.0], [0.0, 0.0, 0.0]), [INF, -INF, NAN]),
    ("rem", "i64", ([-7, 7, 5, -(2**63)], [2, -2, 0, -1]), [-1, 1, 0, 0]),
    ("rem", "f32", ([-7.5, 7.5, 1.0, 1.0], [2.0, -2.0, INF, 0.0]), [-1.5, 1.5, 1.0, NAN]),
    ("mulhi", "u32", ([2**32 - 1], [2**32 - 1]), [2**32 - 2]),
    ("mulhi", "i32", ([-1, -(2**31)], [1, -(2**31)]), [-1, 2**30]),
    ("mad", "i16", ([300], [300], [1]), [24465]),
    ("mad", "f32", ([2.0], [3.0], [4.0]), [10.0]),
    ("fma", "f32", ([1 + 2**-23], [1 + 2**-23], [-(1 + 2**-22)]), [2.0**-46]),
    ("fma", "f64", ([1 + 2**-52, 1e308], [1 + 2**-52, 10.0], [-(1 + 2**-51), -1e308]), [2.0**-104, INF]),
    ("min", "f32", ([NAN, 1.0, -INF], [1.0, NAN, 2.0]), [NAN, NAN, -INF]),
    ("max", "bf16", ([NAN, 1.0, 2.0], [1.0, NAN, 3.0]), [NAN, NAN, 3.0]),
    ("max", "u64", ([2**64 - 1], [0]), [2**64 - 1]),
    ("abs", "i8", ([-128, -5],), [-128, 5]),
    ("neg", "f32", ([0.0, INF],), [-0.0, -INF]),
    (
        "pow",
        "i32",
        ([2, -1, 0, 1, 3, 7], [-1, -3, -1, -9, 40, 0]),
        [0, -1, 0, 1, (3**40 + 2**31) % 2**32 - 2**31, 1],
    ),
    ("pow", "f32", ([0.0, NAN, 1.0, -8.0], [0.0, 0.0, NAN, 1 / 3]), [1.0, 1.0, 1.0, NAN]),
    ("and", "bool", ([True, True], [True, False]), [True, False]),
    ("xor", "u8", ([0b1100], [0b1010]), [0b0110]),
    ("or", "i8", ([-128], [1]), [-127]),
    ("not", "bool", ([True],), [False]),
    ("not", "u8", ([1],), [254]),
    ("shl", "i32", ([1, 1, 1, 1], [31, 32, 33, -1]), [-(2**31), 0, 0, 0]),
    ("shr", "i32", ([-8, -8, 8, -1], [1, 40, 40, -1]), [-4, -1, 0, -1]),
    ("shr", "u32", ([2**31, 2**31], [31, 32]), [1, 0]),
    ("floor", "f32", ([-1.5, -0.0, INF],), [-2.0, -0.0, INF]),
    ("ceil", "f16", ([1.25],), [2.0]),
    ("round", "f32", ([0.5, 1.5, -2.5],), [0.0, 2.0, -2.0]),
    ("trunc", "bf16", ([-1.5],), [-1.0]),
    ("eq", "f32", ([NAN, 1.0, 0.0], [NAN, 1.0, -0.0]), [False, True, True]),
    ("ne", "bf16", ([NAN, 1.0], [NAN, 1.0]), [True, False]),
    ("lt", "f16", ([NAN, 1.0], [1.0, 2.0]), [False, True]),
    ("le", "i64", ([-(2**63)], [2**63 - 1]), [True]),
    ("gt", "u64", ([2**64 - 1], [1]), [True]),
    ("ge", "f32", ([NAN, 2.0], [NAN, 2.0]), [False, True]),
]


def run(opcode: Opcode, result: DType, *columns: np.ndarray) -> np.ndarray:
    """The opcode applied to columns of operands, through a program."""
    b = Builder("atlas_case")
    i = b.coordinate(0)
    buffers = {f"x{k}": column for k, column in enumerate(columns)}
    operands = [b.load(b.buffer(n, dtypes.dtype(c.dtype), Access.READ), i) for n, c in buffers.items()]
    b.store(b.buffer("out", result, Access.WRITE), i, b.emit(opcode, result, *operands))
    program = b.build()
    verify(program)
    out = np.zeros(columns[0].size, result.numpy)
    evaluate(program, {**buffers, "out": out}, {}, (out.size,))
    return out


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "dtype", "operands", "expected"), EXACT)
def test_exact_opcodes(name: str, dtype: str, operands: tuple, expected: list) -> None:
    d, opcode = dtypes.dtype(dtype), Opcode(name)
    result = dtypes.bool_ if isinstance(expected[0], bool) else d
    got = run(opcode, result, *(np.array(x, d.numpy) for x in operands))
    wanted = np.array(expected, result.numpy)
    plain = float if result.is_float else object
    np.testing.assert_array_equal(got.astype(plain), wanted.astype(plain))
    if d.is_float and result is d:
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted) | (np.isnan(got) & np.signbit(got)))


CONVERSIONS = [
    ("f32", "i8", [1.9, -1.9, 300.0, -300.0, NAN, INF], [1, -1, 127, -128, 0, 127]),
    ("f64", "i64", [1e30, -1e30, 2.0**62], [2**63 - 1, -(2**63), 2**62]),
    ("f32", "u64", [-1.0, 2.0**64, 2.0**63], [0, 2**64 - 1, 2**63]),
    ("bf16", "u8", [255.0, 3.5], [255, 3]),
    ("i32", "u8", [-1, 256], [255, 0]),
    ("u32", "i32", [2**32 - 1], [-1]),
    ("f32", "bool", [0.0, NAN, 0.5], [False, True, True]),
    ("bool", "f16", [True, False], [1.0, 0.0]),
    ("f64", "f16", [65519.999, 65520.0, 1 + 2**-11 + 2**-40], [65504.0, INF, 1 + 2**-10]),
    ("f64", "bf16", [1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40, 1e39], [1 + 2**-7, 1.0, INF]),
    (
        "i64",
        "bf16",
        [2**62 + 2**54 + 1, -(2**62 + 2**54 + 1), 257],
        [2.0**62 + 2.0**55, -(2.0**62) - 2.0**55, 256.0],
    ),
    ("i64", "f32", [2**62 + 2**38 + 1], [2.0**62 + 2.0**39]),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("source", "target", "x", "expected"), CONVERSIONS)
def test_conversions(source: str, target: str, x: list, expected: list) -> None:
    d = dtypes.dtype(target)
    got = run(Opcode.CONVERT, d, np.array(x, dtypes.dtype(source).numpy))
    np.testing.assert_array_equal(got.astype(object), np.array(expected, d.numpy).astype(object))


def test_bitcast_keeps_the_bits() -> None:
    assert run(Opcode.BITCAST, dtypes.u32, np.array([1.0, -0.0], np.float32)).tolist() == [
        0x3F800000,
        1 << 31,
    ]


def test_f64_fma_rounds_once() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 500))
    z = -x * y * (1 + rng.choice([0.0, 2.0**-52, 1e-3], 500))
    x[:3], y[:3], z[:3] = [1e-300, 1e300, 0.0], [1e-300, 1e-300, 5.0], [1.0, -1.0, -0.0]
    wanted = [float(Fraction(a) * Fraction(b) + Fraction(c)) for a, b, c in zip(x, y, z, strict=True)]
    assert run(Opcode.FMA, dtypes.f64, x, y, z).tolist() == wanted


PYTHON = {Opcode.RSQRT: lambda x: 1 / math.sqrt(x), Opcode.EXP2: lambda x: 2.0**x}


@pytest.mark.parametrize("opcode", [o for o in Opcode if o in TRANSCENDENTALS])
@pytest.mark.parametrize("d", dtypes.FLOATS)
def test_functions(opcode: Opcode, d: DType) -> None:
    x = np.array([0.25, 0.5, 1.0, 1.75], d.numpy)
    function = PYTHON.get(opcode) or getattr(math, opcode.value)
    wanted = np.array([function(float(v)) for v in x])
    spacing = 2.0 ** -{"f64": 52, "f32": 24, "f16": 11, "bf16": 8}[d.name]
    np.testing.assert_allclose(run(opcode, d, x).astype(float), wanted, rtol=1.01 * spacing, atol=0)
    assert np.isnan(run(opcode, d, np.array([NAN], d.numpy)).astype(float)).all()


@pytest.mark.parametrize("opcode", [o for o in Opcode if o in REDUCTIONS])
@pytest.mark.parametrize("d", [dtypes.f32, dtypes.bf16, dtypes.i8, dtypes.u64])
@pytest.mark.parametrize("width", [0, 1, 5])
def test_reductions(opcode: Opcode, d: DType, width: int) -> None:
    b = Builder("atlas_row", rank=2, reduced=1)
    x, out = b.buffer("x", d, Access.READ), b.buffer("out", d, Access.WRITE)
    row = b.coordinate(0)
    value = b.load(x, row * b.extent(1) + b.coordinate(1))
    b.store(out, row, b.emit(opcode, d, value))
    data = np.arange(1, 3 * width + 1).astype(d.numpy)
    got = np.zeros(3, d.numpy)
    evaluate(b.build(), {"x": data, "out": got}, {}, (3, width))
    empty = {"f32": (INF, -INF), "bf16": (INF, -INF), "i8": (127, -128), "u64": (2**64 - 1, 0)}[d.name]
    fold = {
        Opcode.REDUCE_ADD: sum,
        Opcode.REDUCE_MUL: math.prod,
        Opcode.REDUCE_MIN: lambda v: min(v, default=empty[0]),
        Opcode.REDUCE_MAX: lambda v: max(v, default=empty[1]),
    }[opcode]
    rows = [fold(data.reshape(3, width)[r].tolist()) for r in range(3)]
    wanted = np.array(rows).astype(d.numpy)  # wraps i8
    assert got.tolist() == wanted.tolist()


def test_a_row_with_nan_has_nan_extremes_and_a_uniform_value_counts_once_per_element() -> None:
    b = Builder("atlas_row", rank=2, reduced=1)
    x, out, count = (
        b.buffer(n, dtypes.f32, a) for n, a in (("x", Access.READ), ("o", Access.WRITE), ("c", Access.WRITE))
    )
    row = b.coordinate(0)
    b.store(out, row, b.emit(Opcode.REDUCE_MAX, dtypes.f32, b.load(x, row * 3 + b.coordinate(1))))
    b.store(count, row, b.emit(Opcode.REDUCE_ADD, dtypes.f32, b.constant(1.0, dtypes.f32)))
    o, c = np.zeros(2, np.float32), np.zeros(2, np.float32)
    evaluate(b.build(), {"x": np.array([1, NAN, 2, 3, 5, 4], np.float32), "o": o, "c": c}, {}, (2, 3))
    assert np.isnan(o[0])
    assert o[1] == 5
    assert c.tolist() == [3, 3]


def test_if_and_loop_run_under_masks() -> None:
    b = Builder("atlas_masks")
    out = b.buffer("out", dtypes.i32, Access.READ_WRITE)
    i = b.coordinate(0)

    def body(k: Value, total: Value) -> list[Value]:
        return [total + k.to(dtypes.i32)]

    (total,) = b.loop(0, i, body, first=[b.constant(0, dtypes.i32)])
    b.if_(i % 2 == 0, lambda: b.store(out, i, total), lambda: None)
    got = np.full(6, -1, np.int32)
    evaluate(b.build(), {"out": got}, {}, (8,))  # lanes 6 and 7 store outside
    assert got.tolist() == [0, -1, 1, -1, 6, -1]


def test_a_loop_ends_at_the_top_of_its_dtype() -> None:
    b = Builder("atlas_top")
    out = b.buffer("out", dtypes.u8, Access.WRITE)
    (n,) = b.loop(250, 255, lambda k, n: [n + 1], first=[b.constant(0, dtypes.u8)], step=4, dtype=dtypes.u8)
    b.store(out, b.coordinate(0), n)
    got = np.zeros(1, np.uint8)
    evaluate(b.build(), {"out": got}, {}, (1,))
    assert got.tolist() == [2]


@pytest.mark.parametrize(
    ("opcode", "final", "old"),
    [
        ("atomic_add", [9, 4], [0, 0, 1, 3]),
        ("atomic_max", [5, 4], [0, 0, 1, 3]),
        ("atomic_min", [1, 4], [7, 7, 1, 1]),
        ("atomic_or", [7, 4], [0, 0, 1, 3]),
        ("atomic_xor", [7, 4], [0, 0, 1, 3]),
        ("atomic_and", [1, 4], [7, 7, 1, 1]),
        ("atomic_exchange", [5, 4], [0, 0, 1, 3]),
    ],
)
def test_atomics_happen_one_after_another(opcode: str, final: list[int], old: list[int]) -> None:
    # Lanes add 1 and then what follows to place 0, and lane 1 adds 4 to place 1.
    places, values = [0, 1, 0, 0], [1, 4, {"atomic_add": 2, "atomic_xor": 2}.get(opcode, 3), 0]
    values[3] = {"atomic_add": 6, "atomic_xor": 4, "atomic_or": 4}.get(opcode, 5)
    b = Builder("atlas_atomic")
    at, x = b.buffer("at", dtypes.i64, Access.READ), b.buffer("x", dtypes.i32, Access.READ)
    m, out = b.buffer("m", dtypes.i32, Access.READ_WRITE), b.buffer("out", dtypes.i32, Access.WRITE)
    i = b.coordinate(0)
    b.store(out, i, b.atomic(Opcode(opcode), m, b.load(at, i).to(dtypes.index), b.load(x, i)))
    program = b.build()
    verify(program)
    start = 7 if opcode in ("atomic_min", "atomic_and") else 0
    memory, found = np.full(2, start, np.int32), np.zeros(4, np.int32)
    buffers = {"at": np.array(places), "x": np.array(values, np.int32), "m": memory, "out": found}
    evaluate(program, buffers, {}, (4,))
    assert memory.tolist() == final
    assert found.tolist() == old


def test_shared_memory_belongs_to_a_workgroup() -> None:
    b = Builder("atlas_reverse", workgroup=4)
    x, out = b.buffer("x", dtypes.f32, Access.READ), b.buffer("out", dtypes.f32, Access.WRITE)
    kept = b.shared("kept", dtypes.f32, 4)
    lane, thread = b.position(Opcode.LANE), b.position(Opcode.THREAD)
    b.shared_store(kept, thread, b.load(x, lane))
    b.barrier()
    b.store(
        out,
        lane,
        b.shared_load(kept, 3 - thread) + b.position(Opcode.WORKGROUP).to(dtypes.i32).to(dtypes.f32),
    )
    program = b.build()
    verify(program)
    got = np.zeros(8, np.float32)
    evaluate(program, {"x": np.arange(8, dtype=np.float32), "out": got}, {}, (8,))
    assert got.tolist() == [3, 2, 1, 0, 8, 7, 6, 5]


def test_what_does_not_fit_the_program_is_refused() -> None:
    b = Builder("atlas_one")
    b.buffer("x", dtypes.f32, Access.READ)
    b.scalar("a", dtypes.f32)
    x = np.zeros(3, np.float32)
    with pytest.raises(ProgramError, match="the grid must have 1 sizes"):
        evaluate(b.build(), {"x": x}, {"a": 1.0}, (1, 1))
    with pytest.raises(ProgramError, match="buffer x must be a 1-D array of f32, got 1-D float64"):
        evaluate(b.build(), {"x": x.astype(float)}, {"a": 1.0}, (1,))
    with pytest.raises(ProgramError, match="scalar a must be given"):
        evaluate(b.build(), {"x": x}, {}, (1,))


def test_a_power_of_one_half_is_no_square_root() -> None:
    """IEEE 754: pow(-inf, 0.5) is inf, pow(-0.0, 0.5) is 0.0; one exponent for all lanes is where NumPy errs."""
    b = Builder("roots", rank=1)
    at = b.coordinate(0)
    x = b.load(b.buffer("x", dtypes.f64, Access.READ), at)
    b.store(
        b.buffer("out", dtypes.f64, Access.WRITE),
        at,
        b.emit(Opcode.POW, x.dtype, x, b.constant(0.5, x.dtype)),
    )
    out = np.zeros(3)
    evaluate(b.build(), {"x": np.array([-INF, -0.0, 4.0]), "out": out}, {}, (3,))
    assert out.tolist() == [INF, 0.0, 2.0]
    assert not np.signbit(out).any()
