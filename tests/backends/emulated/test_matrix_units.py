"""Products and attention by matrix units on the emulated card: every tile, however operands lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from hologram.atlas.program import Program
from hologram.backends import registry
from hologram.backends.cuda import reference as usual
from hologram.backends.cuda.compiler import NVRTC
from hologram.backends.cuda.dialect import cuda
from hologram.compiler.source.shader import load
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.machine.choices import Candidate, Problem
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target, Tile
from hologram.opset import OPERATIONS
from hologram.opset.tiles import product_tile
from hologram.opset.tiles.attention.units import HEADS
from hologram.opset.tiles.product import product_plan
from hologram.tuning.winners import Winners
from tests.backends import emulated
from tests.backends.emulated import cuda as machine
from tests.devices import limits

pytestmark = pytest.mark.sampled(3)

HALVES = (dtypes.f16, dtypes.bf16)
CARD = limits(
    software=False,
    matrix_dtypes=frozenset(HALVES),
    copies_ahead=True,
    matrix_attention=True,
    subgroup=32,
    shared_bytes=48 << 10,
    parallelism=132,
)
SIZES = (1, 150, 135, 270)  # batch, m, k, n: more than a tile of each, and no multiple of any
CANDIDATES = [
    c
    for c in product_tile.candidates(SIZES, dtypes.f16, CARD)
    if c.stem == product_tile.UNITS.stem and c.parts == 1
]
ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)


@pytest.fixture(name="executor")
def _executor() -> Iterator[hg.Executor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(emulated.SITE))
        registry.forget()
        with hg.Executor(backend=machine.NAME) as executor:
            yield executor
    registry.forget()


def choose(executor: hg.Executor, candidate: Candidate) -> None:
    executor.target = replace(executor.target, choices=lambda problem: candidate)


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Of which both 16-bit dtypes hold every sum exactly."""
    return rng.integers(-1, 2, shape).astype(np.float32)


def lying(executor: hg.Executor, x: np.ndarray, dtype: DType, how: str) -> Any:
    """The matrix as a tensor of which lines lie row by row or crossed, aligned or not."""
    crossed, odd = "crossed" in how, "odd" in how
    rows, columns = x.T.shape if crossed else x.shape
    around = np.full((rows + 1, columns + (3 if odd else 8 - columns % 8)), np.nan, np.float32)
    start = 1 if odd else 0
    around[start : start + rows, start : start + columns] = x.T if crossed else x
    tensor = executor.tensor(around).astype(dtype)[start : start + rows, start : start + columns]
    return tensor.permute((1, 0)) if crossed else tensor


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda c: "x".join(str(v) for _, v in c.constants))
def test_every_tile_multiplies(candidate: Candidate, dtype: DType, executor: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, *SIZES[1:3]), numbers(rng, *SIZES[2:])
    choose(executor, candidate)
    ways = ("row", "crossed") if dtype == dtypes.f16 else ("crossed", "row")
    left, right = (lying(executor, x, dtype, how) for x, how in zip((a, b), ways, strict=True))
    np.testing.assert_array_equal(hg.matmul(left, right).astype(hg.float32).to_numpy(), a @ b)


@pytest.mark.parametrize("right", ["row", "crossed", "odd row", "odd crossed"])
@pytest.mark.parametrize("left", ["row", "crossed", "odd row", "odd crossed"])
@pytest.mark.parametrize(("m", "k", "n"), [(33, 1, 17), (20, 37, 65), (65, 96, 30)])
def test_operands_lie_anyhow(left: str, right: str, m: int, k: int, n: int, executor: hg.Executor) -> None:
    rng = np.random.default_rng(m)
    a, b = numbers(rng, m, k), numbers(rng, k, n)
    found = hg.matmul(lying(executor, a, dtypes.f16, left), lying(executor, b, dtypes.f16, right))
    np.testing.assert_array_equal(found.to_numpy(), a @ b)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_parts_of_a_long_sum(parts: int, executor: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    a, b, bias = numbers(rng, 40, 1030), numbers(rng, 30, 1030), numbers(rng, 30)
    choose(executor, replace(CANDIDATES[6], parts=parts))
    x, weight, offset = (executor.tensor(i).astype(hg.bfloat16) for i in (a, b, bias))
    found = [hg.linear(x, weight, offset, activation="relu").astype(hg.float32).to_numpy() for _ in range(2)]
    np.testing.assert_array_equal(found[0], np.maximum(a @ b.T + bias, 0))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(
    "shapes", [((3, 5, 40), (3, 40, 24)), ((2, 1, 17, 16), (3, 16, 12)), ((2, 0, 4), (4, 3))], ids=str
)
def test_batches(shapes: tuple[tuple[int, ...], tuple[int, ...]], executor: hg.Executor) -> None:
    a, b = (numbers(np.random.default_rng(1), *s) for s in shapes)
    found = hg.matmul(executor.tensor(a).astype(hg.float16), executor.tensor(b).astype(hg.float16))
    np.testing.assert_array_equal(found.to_numpy(), a @ b)


# tf32.

ROUNDED = replace(CARD, rounded_dtypes=frozenset({dtypes.f32})).rounding()
TF32 = [
    c
    for c in product_tile.candidates(SIZES, dtypes.f32, ROUNDED)
    if c.stem == product_tile.UNITS.stem and c.parts == 1
]
LIE = ["row", "crossed", "odd row", "odd crossed"]


@pytest.fixture(name="rounding")
def _rounding() -> Iterator[hg.Executor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(emulated.SITE))
        registry.forget()
        with hg.Executor(backend=machine.NAME, matmul_precision="high") as executor:
            yield executor
    registry.forget()


@pytest.mark.parametrize(("number", "candidate"), list(enumerate(TF32)), ids=str)
def test_every_tile_multiplies_rounded(number: int, candidate: Candidate, rounding: hg.Executor) -> None:
    """With each operand lying in each way, within what `Executor` says of 'high', and not within what f32 gives."""
    rng = np.random.default_rng(number)
    a, b = (rng.uniform(-1, 1, s).astype(np.float32) for s in (SIZES[1:3], SIZES[2:]))
    choose(rounding, candidate)
    ways = LIE[number % 4], LIE[(number // 2 + number) % 4]
    left, right = (lying(rounding, x, dtypes.f32, how) for x, how in zip((a, b), ways, strict=True))
    error = np.abs(hg.matmul(left, right).to_numpy() - a.astype(np.float64) @ b)
    assert (error <= (2.0**-10 + SIZES[2] * 2.0**-24) * (np.abs(a) @ np.abs(b))).all()
    assert error.max() > SIZES[2] * 2.0**-24


def test_only_who_asks_gets_rounded_products(rounding: hg.Executor, executor: hg.Executor) -> None:
    a = np.full((64, 64), 1 + 2.0**-12, np.float32)
    for each, wanted in ((rounding, 64.0), (executor, 64 * (1 + 2.0**-12) ** 2)):
        tensor = each.tensor(a)
        found = [hg.matmul(tensor, tensor), hg.jit(lambda x: hg.matmul(x, x))(tensor)]
        for result in found:
            np.testing.assert_allclose(result.to_numpy(), wanted, rtol=2.0**-20)
    with pytest.raises(ValueError, match="'highest' or 'high', got 'low'"):
        hg.Executor(backend=machine.NAME, matmul_precision="low")


def test_the_tuner_keeps_rounded_products_apart(
    rounding: hg.Executor, executor: hg.Executor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", str(tmp_path))
    problem = Problem(product_tile.KERNEL, dtypes.f32, (1, 64, 64, 64), (True, True))
    Winners(rounding.device.info).put(problem, TF32[-1])
    found = [Winners(each.device.info)(problem) for each in (rounding, executor)]
    assert found == [TF32[-1], None]


def test_the_knob_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_MATMUL_PRECISION", "high")
    with hg.Executor(backend="cpu") as executor:  # which has no such units: nothing changes
        assert executor.matmul_precision == "high"
        a = executor.tensor(np.full((64, 64), 1 + 2.0**-12, np.float32))
        np.testing.assert_allclose(hg.matmul(a, a).to_numpy(), 64 * (1 + 2.0**-12) ** 2, rtol=2.0**-20)


@pytest.mark.parametrize("architecture", [80, 90, 120])
def test_nvrtc_compiles_rounded_products(architecture: int) -> None:
    for number, candidate in enumerate(TF32[architecture % 3 :: 3]):
        (tile,) = tiles(planned(dtypes.f32, (300, 303 + number % 2, 304), ROUNDED, candidate))
        assert tile.name.encode() in NVRTC(architecture).compile(tile.name, load(tile, cuda()).text)


def planned(
    dtype: DType, sizes: tuple[int, int, int], found: Limits, candidate: Candidate | None = None
) -> Plan:
    m, k, n = sizes
    a, b, out = (Layout.contiguous(dtype, s) for s in ((m, k), (k, n), (m, n)))
    return product_plan(a, b, out, dtype, Target(found, lambda problem: candidate))


def test_parts_are_added_up_and_rounded_by_one_launch() -> None:
    candidate = replace(CANDIDATES[6], parts=4)
    products, last = planned(dtypes.bf16, (64, 1024, 64), CARD, candidate).steps
    assert isinstance(products.kernel, Tile)
    assert products.grid[2] == 4
    assert isinstance(last.kernel, Program)
    assert last.kernel.buffer("result").dtype == dtypes.bf16


def tiles(plan: Plan) -> list[Tile]:
    return [s.kernel for s in plan.steps if isinstance(s.kernel, Tile)]


AHEAD = [c for c in product_tile.candidates(SIZES, dtypes.f32, CARD) if c.stem == product_tile.AHEAD.stem]


@pytest.mark.parametrize("right", ["row", "crossed", "row odd", "crossed odd"])
@pytest.mark.parametrize("left", ["row", "crossed", "row odd"])
@pytest.mark.parametrize("candidate", AHEAD[:: max(1, len(AHEAD) // 4)], ids=str)
def test_tiles_of_f32_come_ahead_however_operands_lie(
    candidate: Candidate, left: str, right: str, executor: hg.Executor
) -> None:
    """Workgroups beside one another, more turns than stages, tails along m, n and k, an epilogue."""
    rng = np.random.default_rng(3)
    a, b = numbers(rng, 150, 45), numbers(rng, 45, 133)
    x, y = lying(executor, a, dtypes.f32, left), lying(executor, b, dtypes.f32, right)
    choose(executor, candidate)
    with executor.profile() as profile:
        np.testing.assert_array_equal(hg.matmul(x, y).to_numpy(), a @ b)
        bias = executor.tensor(np.arange(133, dtype=np.float32))
        linear = hg.linear(x, y.permute((1, 0)), bias, activation="relu").to_numpy()
    np.testing.assert_array_equal(linear, np.maximum(a @ b + np.arange(133), 0))
    assert any("matmul_ahead" in kernel.name for kernel in profile.kernels)


@pytest.mark.parametrize("architecture", [75, 80, 86, 89, 90, 100, 120])
def test_nvrtc_compiles_tiles_of_f32(architecture: int) -> None:
    (step,) = planned(dtypes.f32, (512, 512, 512), CARD, AHEAD[0]).steps
    assert isinstance(step.kernel, Tile)
    text = load(step.kernel, cuda()).text
    assert step.kernel.name.encode() in NVRTC(architecture).compile(step.kernel.name, text)


def test_matrix_units_take_what_they_can_multiply() -> None:
    """One launch where there are units for the dtype; without them, and in f32, no such tile."""
    for dtype in HALVES:
        assert [t.stem for t in tiles(planned(dtype, (256, 64, 512), CARD))] == [product_tile.UNITS.stem]
        assert len(planned(dtype, (256, 64, 512), CARD).steps) == 1
    older = replace(CARD, matrix_dtypes=frozenset({dtypes.f16}))
    for dtype, card in ((dtypes.f32, CARD), (dtypes.bf16, older)):
        assert [t.stem for t in tiles(planned(dtype, (256, 64, 512), card))] == [product_tile.AHEAD.stem]


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_few_rows_read_the_weights_once(rows: int, executor: hg.Executor) -> None:
    """One row by dot products, more by a tile that has them all, unless dot products were measured."""
    a, b, out = (Layout.contiguous(dtypes.f16, s) for s in ((rows, 256), (96, 256), (rows, 96)))
    rng = np.random.default_rng(3)
    x, y = numbers(rng, rows, 256), numbers(rng, 96, 256)
    for measured, tiled in ((None, rows > 1), (product_tile.DOTS, False)):
        target = Target(CARD, lambda problem, found=measured: found)
        first = product_plan(a, b.permute((1, 0)), out, dtypes.f16, target).steps[0].kernel
        assert isinstance(first, Tile) == tiled
        if isinstance(first, Tile):
            assert dict(first.constants)["TILE_M"] >= rows
        executor.target = replace(executor.target, choices=target.choices)
        left, right = (executor.tensor(i).astype(dtypes.f16) for i in (x, y))
        found = hg.linear(left, right, right[:, 0])
        np.testing.assert_array_equal(found.astype(hg.float32).to_numpy(), x @ y.T + y[:, 0])


def test_the_default_tile_keeps_the_card_busy() -> None:
    chosen = [
        product_tile.default(s, dtypes.f16, CARD)
        for s in ((1, 4096, 4096, 4096), (1, 512, 512, 512), (1, 4, 4096, 4096))
    ]
    assert [product_tile.of(c).extent(c) for c in chosen] == [(128, 128), (64, 64), (16, 64)]
    assert [c.constant("STAGES") for c in chosen] == [3, 4, 4]
    assert [c.parts for c in chosen] == [1, 2, 4]  # 1024, 64 and 64 workgroups
    deep = product_tile.default((1, 64, 65536, 64), dtypes.f16, CARD)
    assert deep.parts == product_tile.MOST_PARTS


# The matrix units of 7.5 have no bfloat16.
COMPILED = [(d, a) for d in HALVES for a in ARCHITECTURES if d != dtypes.bf16 or a >= 80]


@pytest.mark.parametrize(("dtype", "architecture"), COMPILED, ids=str)
def test_nvrtc_compiles_the_tiles(dtype: DType, architecture: int) -> None:
    card = replace(usual.LIMITS, matrix_dtypes=frozenset(HALVES))
    for number, candidate in enumerate(CANDIDATES):
        if (number + architecture) % 5 == 0:  # over all architectures, every one
            (tile,) = tiles(planned(dtype, (300, 303 + number % 2, 304), card, candidate))
            code = NVRTC(architecture).compile(tile.name, load(tile, cuda()).text)
            assert tile.name.encode() in code


# Attention.

BOUND = {dtypes.f16: 2.0**-9, dtypes.bf16: 2.0**-6}  # weights and results are rounded, and values below 1


def attended(
    executor: hg.Executor, dtype: DType, operands: list[np.ndarray], **how: Any
) -> tuple[np.ndarray, np.ndarray]:
    """What the card gives, and what holds in f64 of the operands as the dtype has them."""
    mask = how.pop("mask", None)
    q, k, v = (executor.tensor(x).astype(dtype) for x in operands)
    rounded = [x.astype(hg.float32).to_numpy().astype(np.float64) for x in (q, k, v)]
    given = () if mask is None else (executor.tensor(mask),)
    found = hg.scaled_dot_product_attention(q, k, v, *given, **how).astype(hg.float32).to_numpy()
    wanted = OPERATIONS["scaled_dot_product_attention"].reference(*rounded, mask, **how)
    return found, wanted


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("head", [16, 23, 40, 64, 100, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(head: int, causal: bool, dtype: DType, executor: hg.Executor) -> None:
    rng = np.random.default_rng(head)
    operands = [rng.uniform(-1, 1, (2, n, head)).astype(np.float32) for n in (133, 280, 280)]
    found, wanted = attended(executor, dtype, operands, causal=causal)
    np.testing.assert_allclose(found, wanted, atol=BOUND[dtype])


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_attention_with_a_mask_of_grouped_queries(kind: str, executor: hg.Executor) -> None:
    """Two batches of two heads of keys, for three heads of queries each."""
    rng = np.random.default_rng(0)
    operands = [
        rng.uniform(-1, 1, s).astype(np.float32)
        for s in ((2, 2, 3, 70, 32), (2, 2, 1, 90, 32), (2, 2, 1, 90, 24))
    ]
    keep = rng.random((2, 1, 1, 70, 90)) < 0.6
    keep[:, :, :, 5] = False
    mask = (
        keep if kind == "bool" else np.where(keep, rng.uniform(-2, 2, keep.shape), -np.inf).astype(np.float32)
    )
    if kind == "float":
        mask[:, :, :, 6] = np.finfo(np.float32).min  # hides nothing: all are alike
    found, wanted = attended(executor, dtypes.f16, operands, mask=mask, causal=True, scale=0.7)
    np.testing.assert_allclose(found, wanted, atol=BOUND[dtypes.f16])
    assert not found[:, :, :, 5].any()


@pytest.mark.parametrize("start", [0, 1])
def test_attention_of_heads_that_lie_apart(start: int, executor: hg.Executor) -> None:
    """(batch, place, head, element), as projections give them; from an odd element on, they are loaded one by one."""
    rng = np.random.default_rng(start)
    whole = rng.uniform(-1, 1, (2, 67, 9, 40)).astype(np.float16)
    tensor = executor.tensor(whole).permute((0, 2, 1, 3))[:, :, :, start : start + 32]
    parts = [tensor[:, 3 * i : 3 * i + 3] for i in range(3)]
    found = hg.scaled_dot_product_attention(*parts).to_numpy()
    operands = [x.to_numpy().astype(np.float64) for x in parts]
    wanted = OPERATIONS["scaled_dot_product_attention"].reference(*operands)
    np.testing.assert_allclose(found, wanted, atol=BOUND[dtypes.f16])


def test_attention_of_numbers_that_are_none(executor: hg.Executor) -> None:
    """NaN stays where it is looked at: all of a query's row, and what a key's value is part of."""
    operands = [np.full((1, 20, 16), 0.5, np.float32) for _ in range(3)]
    operands[0][0, 3, 2], operands[2][0, 9, 5] = np.nan, np.nan
    found, wanted = attended(executor, dtypes.f16, operands, causal=True)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))


def attention_tiles(dtype: DType, head: int, masked: bool, causal: bool, card: Limits) -> list[Tile]:
    operation = OPERATIONS["scaled_dot_product_attention"]
    inputs = [*(Layout.contiguous(dtype, (2, 70, head)) for _ in range(3))]
    mask = Layout.contiguous(dtypes.f32, (70, 70)) if masked else None
    attributes = dict(operation.attributes) | {"causal": causal}
    outputs = operation.infer((*inputs, mask, None, None, None), attributes)
    return tiles(operation.plan((*inputs, mask, None, None, None), outputs, attributes, Target(card)))


def test_matrix_units_take_the_heads_that_fit() -> None:
    for dtype in HALVES:
        assert [t.stem for t in attention_tiles(dtype, 128, True, True, CARD)] == ["attention_units"]
    for dtype, head in ((dtypes.f32, 64), (dtypes.f16, 136)):
        assert "attention_units" not in [t.stem for t in attention_tiles(dtype, head, True, True, CARD)]


@pytest.mark.parametrize(("dtype", "architecture"), COMPILED, ids=str)
def test_nvrtc_compiles_attention(dtype: DType, architecture: int) -> None:
    for number, head in enumerate(HEADS):
        (tile,) = attention_tiles(dtype, head + number % 2 * -1, bool(number % 2), bool(number // 2), CARD)
        assert tile.name.encode() in NVRTC(architecture).compile(tile.name, load(tile, cuda()).text)
