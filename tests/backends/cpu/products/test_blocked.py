"""Products by our own code: packed panel by panel or as dot products, one launch of compiled code."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hologram.atlas.program import Program
from hologram.backends.cpu.image import drafted, prepared
from hologram.backends.cpu.kernel import Host
from hologram.backends.cpu.products.blocked import blocked_pieces, units
from hologram.backends.cpu.products.cut import Product
from hologram.backends.cpu.products.packing import added_as
from hologram.backends.cpu.products.pairs import PairedProducts
from hologram.backends.cpu.products.tiles import ProductTile, memory_of
from hologram.compiled.machine_code.engine import Engine, shared_engine
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.machine.kernel import Binding
from hologram.machine.layout import Layout
from hologram.machine.plan import Target, Tile
from hologram.opset.matmul import linear, matmul
from hologram.opset.tiles.product import product_plan
from tests.backends.cpu.llvm.launching import device
from tests.backends.cpu.products.test_tiles import compute

HALVES = pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
FLOATS = pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64], ids=str)


def lying(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], how: str) -> np.ndarray:
    """Random numbers by rows, by columns, or with gaps."""
    batch, rows, columns = shape
    x = rng.standard_normal((batch, 2 * rows, 2 * columns)).astype(dtype.numpy)
    if how == "gaps":
        return x[:, ::2, ::2]
    x = np.ascontiguousarray(x[:, :rows, :columns])
    return x if how == "rows" else np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)


def launched(
    a: np.ndarray, b: np.ndarray, out: np.ndarray, dtype: DType, stored: DType, host: Host | None = None
) -> None:
    host = host or device().host
    pieces = blocked_pieces(Product.of(a, b, out), dtype, stored, host)
    prepared(pieces, host.pool(), shared_engine())([x.ctypes.data for x in (a, b, out)])


def check(out: np.ndarray, a: np.ndarray, b: np.ndarray, stored: DType) -> None:
    """Within half a unit of the exact product, but for what sums in f32 may lose."""
    exact = a.astype(np.float64) @ b.astype(np.float64)
    sizes = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    half_unit = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "f64": 2.0**-53}[stored.name]
    lost, least = (4e-15, 0.0) if stored == dtypes.f64 else (2e-6, 1e-7)
    error = np.abs(out.astype(np.float64) - exact)
    assert (error <= np.abs(exact) * half_unit + sizes * lost + least).all()


@FLOATS
@pytest.mark.parametrize("m", [1, 2, 3, 16, 17, 200])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 3), (64, 5), (257, 31), (600, 300)])
def test_every_way_operands_can_lie(dtype: DType, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(0)
    ways = ("rows", "columns", "gaps")
    for (one, other, result), stored in zip(
        itertools.product(ways, ways, ways), itertools.cycle((dtype, added_as(dtype))), strict=False
    ):
        a, b = lying(rng, dtype, (2, m, k), one), lying(rng, dtype, (2, k, n), other)
        out = lying(rng, stored, (2, m, n), result)
        out[...] = np.nan
        launched(a, b, out, dtype, stored)
        check(out, a, b, stored)


@FLOATS
def test_one_matrix_for_a_whole_batch(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 20, 40)).astype(dtype.numpy)
    b = np.broadcast_to(rng.standard_normal((40, 33)).astype(dtype.numpy), (3, 40, 33))
    out = np.empty((3, 20, 33), dtype.numpy)
    launched(a, b, out, dtype, dtype)
    check(out, a, b, dtype)


@HALVES
@pytest.mark.parametrize("m", [1, 40])
def test_sums_are_f32_and_rounded_once(dtype: DType, m: int) -> None:
    """Sums of 16 bits would stop at 256 or 2,048; what is too large for the result is inf, and NaN stays."""
    k, n = 5000, 20
    a, b = np.ones((1, m, k), dtype.numpy), np.ones((1, n, k), dtype.numpy).transpose(0, 2, 1)
    out = np.empty((1, m, n), np.float32)
    launched(a, b, out, dtype, dtypes.f32)
    assert (out == k).all()
    large = np.full((1, m, k), 60000 if dtype == dtypes.f16 else 3e38, dtype.numpy)
    large[0, 0, 3] = np.nan
    rounded = np.empty((1, m, n), dtype.numpy)
    launched(large, b, rounded, dtype, dtype)
    assert np.isnan(rounded[0, 0].astype(np.float32)).all()
    assert np.isposinf(rounded[0, 1:].astype(np.float32)).all()


@pytest.fixture
def by_numbers(monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host that multiplies bf16 one by one, as f32."""
    monkeypatch.setenv("HOLOGRAM_CPU_WITHOUT", "avx512bf16")
    engine = Engine()
    assert not engine.multiplies_pairs
    return replace(device().host, engine=lambda: engine)


@HALVES
@pytest.mark.parametrize("m", [2, 20])
def test_denormals_count(dtype: DType, m: int, by_numbers: Host) -> None:
    tiny = np.full((1, m, 8), 2.0**-24 if dtype == dtypes.f16 else 2.0**-133, dtype.numpy)
    ones = np.ones((1, 20, 8), dtype.numpy).transpose(0, 2, 1)
    out = np.empty((1, m, 20), dtype.numpy)
    launched(tiny, ones, out, dtype, dtype, by_numbers)
    assert (out.astype(np.float64) == 8 * tiny[0, 0, 0].astype(np.float64)).all()


@pytest.mark.parametrize("m", [2, 20])
def test_pairs_lose_no_more_than_denormals(m: int) -> None:
    """Where bf16 are multiplied by pairs: numbers below 2^-126 are zeros, sums of larger ones are what they were."""
    least = 2.0**-126
    a = np.array([2.0**-133, least, 1.0], dtypes.bf16.numpy).repeat(32)[None, None].repeat(m, 1)
    b = np.zeros((1, 96, 20), dtypes.bf16.numpy)
    b[0, :32, :4] = b[0, 32:64, 4:8] = b[0, 64:, 8:] = 1
    b = np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)
    out = np.empty((1, m, 20), np.float32)
    launched(a, b, out, dtypes.bf16, dtypes.f32)
    kept = 0.0 if device().host.engine().multiplies_pairs else 2.0**-133
    assert (out[..., :4] == 32 * np.float32(kept)).all()
    assert (out[..., 4:8] == np.float32(32 * least)).all()
    assert (out[..., 8:] == 32).all()


@pytest.mark.parametrize("m", [3, 16, 50])
def test_without_an_instruction_for_pairs(m: int, by_numbers: Host) -> None:
    rng = np.random.default_rng(0)
    for one, other in itertools.product(("rows", "columns", "gaps"), repeat=2):
        a, b = lying(rng, dtypes.bf16, (2, m, 75), one), lying(rng, dtypes.bf16, (2, 75, 39), other)
        out = np.full((2, m, 39), np.nan, np.float32)
        launched(a, b, out, dtypes.bf16, dtypes.f32, by_numbers)
        check(out, a, b, dtypes.f32)


def test_code_for_pairs_is_ir_everywhere() -> None:
    engine = shared_engine()
    if int(engine.target.split()[1].split(".")[0]) < 16:
        pytest.skip(f"{engine.target.split(' ', 2)[:2]} has the instruction for other operands")
    engine.optimise("pairs", PairedProducts(dtypes.bf16, dtypes.f32, 512).text("blocks"))


@HALVES
@pytest.mark.parametrize("m", [4, 37])
@pytest.mark.parametrize("ways", list(itertools.product(("rows", "columns", "gaps"), repeat=2)), ids=str)
def test_what_is_not_finite_stays_in_its_row(dtype: DType, m: int, ways: tuple[str, str]) -> None:
    """Also beside the zeros that fill a pair or a panel, and after what was in the room before."""
    rng = np.random.default_rng(0)
    k, n = 65, 35
    a, b = (np.abs(lying(rng, dtype, s, way)) for s, way in zip(((1, m, k), (1, k, n)), ways, strict=True))
    before = np.full((1, m, k), np.nan, dtype.numpy)
    launched(before, b, np.empty((1, m, n), np.float32), dtype, dtypes.f32)
    a[0, 1, k - 1], a[0, 2, 0], b[0, k - 1, n - 1] = np.inf, np.nan, np.inf
    out = np.empty((1, m, n), np.float32)
    launched(a, b, out, dtype, dtypes.f32)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    assert np.array_equal(np.isnan(out), np.isnan(wanted))
    assert np.array_equal(np.isposinf(out), np.isposinf(wanted))


@HALVES
@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize("rows", [1, 30])
def test_a_linear_copies_no_operand(dtype: DType, activation: str, rows: int) -> None:
    """Its plan reads the weight where it lies: what it places is the sums, at most."""
    x, weight, bias = (Layout.contiguous(dtype, s) for s in ((rows, 64), (48, 64), (48,)))
    attributes = {"activation": activation}
    for read in (None, bias):
        (out,) = linear.infer((x, weight, read), attributes)
        plan = linear.plan((x, weight, read), (out,), attributes, Target(device().limits))
        kernels = [step.kernel for step in plan.steps]
        assert [type(kernel) for kernel in kernels] in ([Tile], [Tile, Program])
        assert sum(place.size for place in plan.scratch) in (0, rows * 48)


@HALVES
def test_a_linear_rounds_once(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    for m in (1, 19):
        x, weight = (rng.standard_normal(s).astype(dtype.numpy) for s in ((m, 70), (41, 70)))
        bias = rng.standard_normal(41).astype(dtype.numpy)
        ours = compute(device(), linear, [x, weight, bias], dtype, {"activation": "relu"}).astype(np.float64)
        exact = np.maximum(x.astype(np.float64) @ weight.astype(np.float64).T + bias.astype(np.float64), 0)
        half_unit = 2.0**-11 if dtype == dtypes.f16 else 2.0**-8
        assert (np.abs(ours - exact) <= np.abs(exact) * half_unit + 1e-4).all()


def test_no_inner_elements() -> None:
    a, b = np.empty((3, 0), np.float16), np.empty((0, 2), np.float16)
    assert (compute(device(), matmul, [a, b], dtypes.f16, {}) == 0).all()


@pytest.mark.parametrize("threads", [1, 2, 64])
def test_units_cover_a_product(threads: int) -> None:
    for sizes in itertools.product((1, 3, 200), (1, 191, 193, 5000), (1, 16, 17, 4000), (1, 3000)):
        batch, m, n, _ = sizes
        cut = units(sizes, 16, 192, threads)
        assert cut.rows * (cut.row_blocks - 1) < m <= cut.rows * cut.row_blocks
        assert cut.columns * (cut.column_blocks - 1) < n <= cut.columns * cut.column_blocks
        assert cut.total == batch * cut.row_blocks * cut.column_blocks
        assert -(-cut.total // cut.slice) <= max(1, 2 * threads)  # each has room of its own


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="launches go through CPython's functions")
def test_room_is_not_part_of_the_image() -> None:
    """Room is neither written nor copied for a call."""
    rng = np.random.default_rng(0)
    a, b = lying(rng, dtypes.f16, (1, 100, 300), "rows"), lying(rng, dtypes.f16, (1, 300, 400), "rows")
    host = device().host
    (piece,) = blocked_pieces(
        Product.of(a, b, np.empty((1, 100, 400), np.float16)), dtypes.f16, dtypes.f16, host
    )
    assert piece.room * 8 > 100_000
    assert len(drafted([piece], host.pool(), shared_engine()).words) < 100


@HALVES
@pytest.mark.parametrize("stored", [None, dtypes.f32])
def test_without_a_compiler(dtype: DType, stored: DType | None) -> None:
    """The same tile where programs are interpreted, sums as they are too."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(dtype.numpy) for s in ((5, 40), (40, 9)))
    left, right = (Layout.contiguous(dtype, x.shape) for x in (a, b))
    out = np.empty((5, 9), (stored or dtype).numpy)
    target = Target(device().limits)
    plan = product_plan(left, right, Layout.contiguous(stored or dtype, out.shape), dtype, target)
    (step,) = plan.steps
    assert isinstance(step.kernel, Tile)
    bindings = [Binding(memory_of(x), 0, x.nbytes) for x in (a, b, out)]
    kernel: Any = ProductTile(step.kernel, device().compile, None)
    kernel.bind(bindings, step.scalars, step.grid)()
    check(out, a, b, stored or dtype)
