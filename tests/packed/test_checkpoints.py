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


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("rows", "columns", "group"), [(256, 24, 128), (96, 40, 32)])
def test_gptq_by_activation_order(
    rows: int, columns: int, group: int, bits: int, executor: hg.Executor
) -> None:
    """Rows of a group are anywhere. Weights are bit for bit NumPy's, products those of the rows put in order."""
    codes, zeros, scales = numbers(rows, columns, group, bits)
    rng = np.random.default_rng(rows + bits)
    groups = rng.permutation(np.arange(rows) // group)
    kept = by_columns(zeros - 1, bits, tuple(range(32 // bits)))
    packed = hg.Packed.from_gptq(by_rows(codes, bits), kept, scales, groups, bits=bits, executor=executor)
    wanted = (scales.astype(np.float32)[groups] * (codes - zeros[groups]).astype(np.float32)).T
    holds(packed, wanted, executor)
    index = np.array([[3, -1], [0, columns - 1]])
    np.testing.assert_array_equal(packed.take(executor.tensor(index)).to_numpy(), wanted[index])
    order = np.argsort(groups, kind="stable")
    plain = hg.Packed.from_gptq(by_rows(codes[order], bits), kept, scales, bits=bits, executor=executor)
    compiled = hg.jit(lambda x, weights: hg.linear(x, weights))
    experts = columns // 8
    for count in (1, 5, 200):
        x = rng.normal(0, 1, (count, rows)).astype(np.float32)
        own, there = executor.tensor(x), executor.tensor(x[:, order])
        found = hg.linear(there, plain).to_numpy()
        np.testing.assert_array_equal(hg.linear(own, packed).to_numpy(), found)
        np.testing.assert_array_equal(compiled(own, packed).to_numpy(), found)
        chosen = executor.tensor(rng.integers(0, experts, count))
        found = packed.experts(own, chosen, experts).to_numpy()
        np.testing.assert_array_equal(found, plain.experts(there, chosen, experts).to_numpy())


def test_what_cannot_be_is_refused() -> None:
    codes, zeros, scales = numbers(96, 40, 32, 4)
    qweight, qzeros = by_rows(codes, 4), by_columns(zeros, 4, tuple(range(8)))
    with pytest.raises(
        hg.ShapeError, match=r"each of 3 groups must have 32 rows, got by g_idx \{0: 31, 1: 32, 2: 32, 3: 1\}"
    ):
        hg.Packed.from_gptq(qweight, qzeros, scales, (np.arange(96) + 1) // 32)
    with pytest.raises(
        hg.ShapeError, match=r"g_idx must be 96 integers, one a row, got int64 of shape \(95,\)"
    ):
        hg.Packed.from_gptq(qweight, qzeros, scales, np.arange(95) // 32)
    turned = hg.Packed.from_gptq(qweight, qzeros, scales, np.arange(96)[::-1] // 32)
    assert turned.nbytes == hg.Packed.from_gptq(qweight, qzeros, scales).nbytes + 4 * 96
    with pytest.raises(hg.ShapeError, match="got some that activations order"):
        hg.Packed.concatenate([turned, turned])
    with pytest.raises(hg.ShapeError, match=r"x \(..., 96\) is needed"):
        hg.linear(hg.zeros((2, 95)), turned)
    with pytest.raises(hg.UnsupportedDType, match="bits must be 4 or 8"):
        hg.Packed.from_gptq(qweight, qzeros, scales, bits=3)
    with pytest.raises(hg.ShapeError, match="as many groups as divide 96 rows"):
        hg.Packed.from_gptq(qweight, qzeros, scales[:, :-1])
    with pytest.raises(hg.UnsupportedDType, match="a matrix of i32, got float16"):
        hg.Packed.from_awq(scales, qzeros, scales)
