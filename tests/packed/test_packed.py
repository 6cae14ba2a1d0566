"""hg.Packed: every format to the bit of its definition, and the products that read it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

import hologram as hg
from hologram.opset.packed.gguf import READERS

SPECIAL = np.array([0.0, -0.0, 6e-8, -1e-5, 65504.0, np.inf, -np.inf, np.nan], np.float16)


def blocks(kind: str, rows: int, columns: int, seed: int, *, tame: bool = False) -> np.ndarray:
    """Random bytes as blocks; tame ones have scales of about 1 / 64."""
    size, nbytes, _ = READERS[kind]
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (rows * columns // size, nbytes), dtype=np.uint8)
    if tame:
        for at in {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}.get(
            kind, (0, 2) if kind in ("Q4_1", "Q5_1") else (0,) if kind != "MXFP4" else ()
        ):
            scale = rng.uniform(-1 / 64, 1 / 64, len(data)).astype(np.float16)
            data[:, at : at + 2] = scale.view(np.uint8).reshape(-1, 2)
        if kind == "MXFP4":
            data[:, 0] = rng.integers(118, 124, len(data))
    return data.reshape(rows, -1)


def exact(kind: str, data: np.ndarray) -> np.ndarray:
    """By gguf's own reference."""
    with np.errstate(all="ignore"):
        return quants.dequantize(data, getattr(GGMLQuantizationType, kind))


def same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    return bool(np.all((x.view(np.uint32) == y.view(np.uint32)) | np.isnan(x) & np.isnan(y)))


@pytest.mark.parametrize("kind", READERS)
def test_weights_are_gguf_s_to_the_bit(kind: str, executor: hg.Executor) -> None:
    data = blocks(kind, 7, 512, 1)
    _size, nbytes, _ = READERS[kind]
    for k, scale in enumerate(SPECIAL):  # denormal, infinite and NaN scales
        at = {"Q2_K": 80, "Q3_K": 108, "Q6_K": 208}.get(kind, 0)
        if kind != "MXFP4":
            data.reshape(-1, nbytes)[k, at : at + 2] = scale[None].view(np.uint8)
        else:
            data.reshape(-1, nbytes)[k, 0] = (0, 1, 2, 3, 127, 253, 254, 255)[k]
    packed = hg.Packed.from_gguf(data, kind, (7, 512), device=executor)
    wanted = exact(kind, data)
    assert packed.shape == (7, 512)
    assert packed.nbytes <= 1.2 * data.nbytes
    assert same_bits(packed.dequantize().to_numpy(), wanted)
    rows = executor.tensor(np.array([[6, 0, 3], [7, -1, 6]], np.int32))
    taken = packed.take(rows).to_numpy()
    assert same_bits(taken[0], wanted[[6, 0, 3]])
    assert same_bits(taken[1, 2], wanted[6])
    assert not taken[1, :2].any()  # out of range


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("kind", READERS)
def test_products_are_those_of_the_weights(kind: str, dtype: str, executor: hg.Executor) -> None:
    data = blocks(kind, 37, 512, 2, tame=True)
    packed = hg.Packed.from_gguf(data, kind, (37, 512), device=executor)
    weights = exact(kind, data).astype(np.float64)
    rng = np.random.default_rng(3)
    bias = executor.tensor(rng.standard_normal(37, dtype=np.float32)).astype(dtype)
    for lead in ((), (1,), (3,), (2, 8), (17,), (2, 3, 7)):
        x = executor.tensor(rng.standard_normal((*lead, 512), dtype=np.float32)).astype(dtype)
        host = x.astype("f32").to_numpy().astype(np.float64)
        product, added = host @ weights.T, bias.astype("f32").to_numpy()
        wanted, rounded = product + added, np.abs(product) + np.abs(added)
        room = np.abs(host) @ np.abs(weights).T * 2.0**-13 + rounded * hg.finfo(x.dtype).eps * 2
        given = hg.jit(lambda x, packed, bias: hg.linear(x, packed, bias))(x, packed, bias)
        for found in (
            packed.linear(x, bias),
            hg.jit(packed.linear)(x, bias),
            hg.linear(x, packed, bias),
            given,
        ):
            assert found.shape == (*lead, 37)
            assert found.dtype == x.dtype
            assert np.all(np.abs(found.astype("f32").to_numpy() - wanted) <= room)


def test_what_is_not_finite_is_not_hidden(executor: hg.Executor) -> None:
    packed = hg.Packed.from_gguf(blocks("Q4_0", 5, 64, 4, tame=True), "Q4_0", (5, 64), device=executor)
    x = np.ones((3, 64), np.float32)
    x[1, 40], x[2, 3] = np.nan, np.inf
    found = packed.linear(executor.tensor(x)).to_numpy()
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()
    assert not np.isfinite(found[2]).any()


@pytest.mark.parametrize("columns", [32, 96, 160, 576])
def test_columns_that_are_no_power_of_two(columns: int, executor: hg.Executor) -> None:
    rng = np.random.default_rng(columns)
    for kind in ("Q4_1", "Q8_0", "Q5_0"):
        data = blocks(kind, 9, columns, columns, tame=True)
        packed = hg.Packed.from_gguf(data, kind, (9, columns), device=executor)
        x = rng.standard_normal((2, columns), dtype=np.float32)
        weights = exact(kind, data).astype(np.float64)
        room = np.abs(x).astype(np.float64) @ np.abs(weights).T * 2.0**-13
        assert np.all(np.abs(packed.linear(executor.tensor(x)).to_numpy() - x @ weights.T) <= room)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("group", [32, 64, 192])
def test_quantized_weights_are_near(bits: int, group: int, symmetric: bool, executor: hg.Executor) -> None:
    weights = np.random.default_rng(bits).standard_normal((11, 192), dtype=np.float32)
    weights[3] = 0.0
    packed = hg.Packed.quantize(weights, bits=bits, group=group, symmetric=symmetric, device=executor)
    found = packed.dequantize().to_numpy()
    parts = weights.reshape(11, -1, group)
    spread = (
        np.abs(parts).max(-1) / ((1 << bits - 1) - 1)
        if symmetric
        else np.ptp(parts, axis=-1) / ((1 << bits) - 1)
    )
    assert np.all(np.abs(found.reshape(parts.shape) - parts) <= spread[..., None] * 0.5001 + 1e-6)
    x = np.random.default_rng(5).standard_normal((4, 192), dtype=np.float32)
    room = np.abs(x) @ np.abs(found).T * 2.0**-12 + 1e-5
    assert np.all(np.abs(packed.linear(executor.tensor(x)).to_numpy() - x @ found.T) <= room)


def test_float8_weights(executor: hg.Executor) -> None:
    rng = np.random.default_rng(6)
    for dtype in (hg.f8e4m3fn, hg.f8e5m2):
        codes, scale = rng.standard_normal((5, 96)).astype(dtype.numpy), rng.random((5, 3), np.float32)
        packed = hg.Packed.from_float8(codes, scale, group=32, device=executor)
        wanted = codes.astype(np.float32) * np.repeat(scale, 32, axis=1)
        assert same_bits(packed.dequantize().to_numpy(), wanted)
        x = rng.standard_normal((2, 96), dtype=np.float32)
        found = packed.linear(executor.tensor(x)).to_numpy()
        np.testing.assert_allclose(found, x @ wanted.T, rtol=1e-4, atol=1e-4)


def test_rows_of_several_matrices_are_one(executor: hg.Executor) -> None:
    parts = [blocks("Q4_K", rows, 256, rows) for rows in (3, 5)]
    joined = hg.Packed.concatenate(
        [hg.Packed.from_gguf(p, "Q4_K", (len(p), 256), device=executor) for p in parts]
    )
    assert same_bits(joined.dequantize().to_numpy(), exact("Q4_K", np.concatenate(parts)))


def test_the_derivative_by_x_reads_the_weights_too(executor: hg.Executor) -> None:
    data = blocks("Q5_1", 6, 64, 7, tame=True)
    packed = hg.Packed.from_gguf(data, "Q5_1", (6, 64), device=executor)
    x = executor.tensor(np.random.default_rng(8).standard_normal((2, 64), dtype=np.float32))
    found = hg.grad(lambda x: hg.sum(packed.linear(x)))(x).to_numpy()
    np.testing.assert_allclose(found, np.tile(exact("Q5_1", data).sum(0), (2, 1)), rtol=1e-5, atol=1e-5)


def test_other_weights_of_a_format_take_no_new_trace(executor: hg.Executor) -> None:
    traces = []

    @hg.jit
    def gated(x, packed, rows):
        traces.append(packed)
        return hg.linear(x, packed, activation="silu") * 2.0, hg.embedding(rows, packed)

    x = executor.tensor(np.random.default_rng(3).standard_normal((2, 64), dtype=np.float32))
    rows = executor.tensor(np.array([1, 0], np.int32))
    for seed in range(3):
        data = blocks("Q4_1", 6, 64, seed, tame=True)
        packed = hg.Packed.from_gguf(data, "Q4_1", (6, 64), device=executor)
        product, taken = gated(x, packed, rows)
        y = x.to_numpy() @ exact("Q4_1", data).T
        np.testing.assert_allclose(product.to_numpy(), 2 * y / (1 + np.exp(-y)), rtol=1e-3, atol=1e-3)
        assert same_bits(taken.to_numpy(), exact("Q4_1", data)[[1, 0]])
    assert len(traces) == 1


def test_bad_input_is_refused(executor: hg.Executor) -> None:
    data = blocks("Q8_0", 2, 64, 9)
    packed = hg.Packed.from_gguf(data, "Q8_0", (2, 64), device=executor)
    one = np.ones((1, 1), np.float32)
    bad: list[tuple[Any, type[Exception], str]] = [
        (lambda: hg.Packed.from_gguf(data, "Q9_X", (2, 64)), hg.UnsupportedDType, "kind must be one of Q8_0"),
        (lambda: hg.Packed.from_gguf(data[:, 1:], "Q8_0", (2, 64)), hg.ShapeError, "got 134 bytes"),
        (lambda: hg.Packed.from_gguf(data, "Q8_0", (2, 60)), hg.ShapeError, "blocks of 32 columns"),
        (lambda: packed.linear(executor.zeros((3, 63))), hg.ShapeError, r"x \(..., 64\) is needed, got \(3, 63\)"),
        (lambda: packed.linear(executor.zeros((3, 64), "i32")), hg.UnsupportedDType, "must be of floats, got i32"),
        (lambda: packed.take(executor.zeros(3)), hg.UnsupportedDType, "rows are integers"),
        (lambda: packed.dequantize("i8"), hg.UnsupportedDType, "weights are floats, got i8"),
        (lambda: hg.add(executor.zeros((2, 64)), packed), hg.UnsupportedDType, "second operand of linear"),
        (lambda: hg.linear(executor.zeros(64), packed, activation="sine"), ValueError, "'sine'"),
        (lambda: hg.Packed(packed.format, {}), hg.ShapeError, "codes must have two axes"),
        (
            lambda: hg.Packed(packed.format, {"codes": packed.planes["codes"]}),
            hg.ShapeError,
            "has planes codes, scale, got codes",
        ),
        (lambda: hg.Packed.from_codes(np.full((1, 32), 8), one, bits=4, group=32), ValueError, "8, 7"),
        (lambda: hg.Packed.quantize(np.ones((2, 33)), group=32), hg.ShapeError, r"got \(2, 33\)"),
        (lambda: hg.Packed.quantize(np.full((2, 32), np.nan)), ValueError, "must be finite"),
        (lambda: hg.Packed.quantize(np.ones(32)), hg.ShapeError, r"got shape \(32,\)"),
        (lambda: hg.Packed.quantize(np.ones((2, 12)), bits=4, group=12), hg.ShapeError, "a multiple of 24"),
        (lambda: hg.Packed.from_gguf(data, "Q8_0", (2, 2, 32)), hg.ShapeError, r"got shape \(2, 2, 32\)"),
        (
            lambda: hg.Packed.concatenate([packed, hg.Packed.quantize(np.ones((2, 64)), device=executor)]),
            hg.ShapeError,
            "must agree",
        ),
    ]  # fmt: skip
    for call, error, message in bad:
        with pytest.raises(error, match=message):
            call()
