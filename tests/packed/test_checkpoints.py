"""Weights from AWQ's and GPTQ's checkpoints: packed here by loops that say where each number lies."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg

AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)  # which column is in each field of a word


def numbers(rows: int, columns: int, group: int, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes (in, out), zero points and scales (groups, out)."""
    rng = np.random.default_rng(bits + group)
    codes = rng.integers(0, 1 << bits, (rows, columns))
    zeros = rng.integers(1, 1 << bits, (rows // group, columns))
    return codes, zeros, rng.normal(0, 0.02, zeros.shape).astype(np.float16)


def weights(codes: np.ndarray, zeros: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """(out, in) in f32."""
    group = len(codes) // len(zeros)
    rows = np.arange(len(codes)) // group
    return (scales.astype(np.float32)[rows] * (codes - zeros[rows]).astype(np.float32)).T


def by_columns(values: np.ndarray, bits: int, order: tuple[int, ...]) -> np.ndarray:
    """Words along the columns."""
    count = 32 // bits
    words = np.zeros((len(values), values.shape[1] // count), np.uint32)
    for field, column in enumerate(order):
        words |= values[:, column::count].astype(np.uint32) << np.uint32(bits * field)
    return words.view(np.int32)


def by_rows(values: np.ndarray, bits: int) -> np.ndarray:
    """Words along the rows."""
    return by_columns(values.T, bits, tuple(range(32 // bits))).T


def holds(packed: hg.Packed, wanted: np.ndarray, executor: hg.Executor) -> None:
    assert packed.shape == wanted.shape
    np.testing.assert_array_equal(packed.dequantize().to_numpy(), wanted)
    x = np.random.default_rng(3).normal(0, 1, (3, wanted.shape[1])).astype(np.float32)
    found = hg.linear(executor.tensor(x), packed).to_numpy()
    exact = x.astype(np.float64) @ wanted.T.astype(np.float64)
    bound = 2.0**-15 * np.abs(x).max(1, keepdims=True) * np.abs(wanted).sum(1)
    assert (np.abs(found - exact) <= bound).all()


@pytest.mark.parametrize(("rows", "columns", "group"), [(256, 24, 128), (96, 40, 32), (60, 8, 60)])
def test_awq(rows: int, columns: int, group: int, executor: hg.Executor) -> None:
    codes, zeros, scales = numbers(rows, columns, group, 4)
    given = (by_columns(codes, 4, AWQ_COLUMNS), by_columns(zeros, 4, AWQ_COLUMNS), scales)
    holds(hg.Packed.from_awq(*given, executor), weights(codes, zeros, scales), executor)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("rows", "columns", "group"), [(256, 24, 128), (96, 40, 32)])
def test_gptq(rows: int, columns: int, group: int, bits: int, version: int, executor: hg.Executor) -> None:
    codes, zeros, scales = numbers(rows, columns, group, bits)
    order = tuple(range(32 // bits))
    given = (by_rows(codes, bits), by_columns(zeros - (version == 1), bits, order), scales)
    groups = np.arange(rows) // group
    packed = hg.Packed.from_gptq(*given, groups, bits=bits, version=version, executor=executor)
    holds(packed, weights(codes, zeros, scales), executor)


def test_what_cannot_be_is_refused() -> None:
    codes, zeros, scales = numbers(96, 40, 32, 4)
    qweight, qzeros = by_rows(codes, 4), by_columns(zeros, 4, tuple(range(8)))
    with pytest.raises(hg.UnsupportedDType, match="activation order"):
        hg.Packed.from_gptq(qweight, qzeros, scales, np.arange(96)[::-1] // 32)
    with pytest.raises(hg.UnsupportedDType, match="bits must be 4 or 8"):
        hg.Packed.from_gptq(qweight, qzeros, scales, bits=3)
    with pytest.raises(hg.ShapeError, match="as many groups as divide 96 rows"):
        hg.Packed.from_gptq(qweight, qzeros, scales[:, :-1])
    with pytest.raises(hg.UnsupportedDType, match="a matrix of i32, got float16"):
        hg.Packed.from_awq(scales, qzeros, scales)
