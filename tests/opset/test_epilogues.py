"""Epilogues that count rows and read further buffers: the same results in a tile, after it, and without one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.functions import maximum
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target, Tile
from hologram.opset import OPERATIONS
from hologram.opset.forms.epilogue import reads_rows
from hologram.opset.tiles.product import product_plan

STRANGE = 123.0


def residual(columns: int, dtype: dtypes.DType = dtypes.f32, rows: bool = True) -> Program:
    """result = max(value + bias[column] + 2 rest[row][column], 0), and the row, so that a wrong one shows."""
    b = Builder("atlas_epilogue_residual", rank=2)
    place = b.position(Opcode.LANE)
    row, column = b.coordinate(0), b.coordinate(1)
    value = b.load(b.buffer("value", dtype, Access.READ), place)
    value = value + b.load(b.buffer("bias", dtype, Access.READ), column)
    if rows:
        rest = b.load(b.buffer("rest", dtype, Access.READ), row * columns + column)
        value = value + rest * 2.0 + row.to(dtype)
    zero = b.constant(0.0, dtype)
    b.store(b.buffer("result", dtype, Access.WRITE), place, maximum(value, zero))
    return b.build()


def test_an_epilogue_knows_whether_rows_matter() -> None:
    assert reads_rows(residual(4))
    assert not reads_rows(residual(4, rows=False))


def run(executor: hg.Executor, plan: Plan, operands: list[np.ndarray], shape: Any) -> np.ndarray:
    """What a plan leaves in an output that held something else."""
    out = executor.full(shape, STRANGE)
    tensors = [executor.tensor(o) for o in operands]
    executor.bound.call(plan, [t.buffer for t in [*tensors, out]])()
    return out.to_numpy()


PRODUCTS = [((5, 7), (7, 6)), ((3, 70, 33), (3, 33, 66)), ((2, 3, 9, 4), (3, 4, 5)), ((2, 4, 130), (130, 3))]


@pytest.mark.parametrize(("left", "right"), PRODUCTS, ids=str)
@pytest.mark.parametrize("bindings", [64, 4])
@pytest.mark.parametrize("crossed", [False, True])
def test_a_batch_of_products_counts_its_rows(
    left: tuple[int, ...], right: tuple[int, ...], bindings: int, crossed: bool, adapter: hg.Executor
) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in (left, right))
    expected = a @ b
    rows, columns = expected.size // expected.shape[-1], expected.shape[-1]
    bias, rest = (rng.integers(-3, 4, s).astype(np.float32) for s in ((columns,), (rows, columns)))
    flat = expected.reshape(rows, columns) + bias + 2 * rest + np.arange(rows, dtype=np.float32)[:, None]
    expected = np.maximum(flat, 0).reshape(expected.shape)
    first, second, out = (Layout.contiguous(dtypes.f32, s) for s in (a.shape, b.shape, expected.shape))
    if crossed:
        b = np.ascontiguousarray(np.swapaxes(b, -1, -2))
        order = (*range(b.ndim - 2), b.ndim - 1, b.ndim - 2)
        second = Layout.contiguous(dtypes.f32, b.shape).permute(order)
    limits = replace(adapter.target.limits, max_bindings=bindings)
    plan = product_plan(first, second, out, dtypes.f32, Target(limits), residual(columns))
    tiles = [s.kernel for s in plan.steps if isinstance(s.kernel, Tile)]
    assert all((t.epilogue is not None) == (bindings == 64) for t in tiles)
    np.testing.assert_array_equal(run(adapter, plan, [a, b, bias, rest], expected.shape), expected)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 4, 9, 8), (6, 4, 3, 3), {"padding": 1}),
    ((3, 4, 11, 10), (8, 2, 3, 2), {"stride": 2, "groups": 2}),
    ((2, 3, 7, 9), (3, 3, 2, 1), {}),
    ((3, 8, 41), (9, 8, 3), {"stride": 2}),
]


@pytest.mark.parametrize(("shape", "taps", "attributes"), CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("rows", [False, True])
def test_a_convolution_has_a_row_for_every_place(
    shape: tuple[int, ...],
    taps: tuple[int, ...],
    attributes: dict[str, Any],
    parts: bool,
    rows: bool,
    adapter: hg.Executor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    x, weight = (rng.integers(-2, 3, s).astype(np.float32) for s in (shape, taps))
    operation: Any = OPERATIONS[f"conv{len(shape) - 2}d"]
    given = dict(operation.attributes) | attributes
    plain = np.moveaxis(operation.reference(x, weight, **attributes), 1, -1).astype(np.float32)
    columns = plain.shape[-1]
    count = plain.size // columns
    bias, rest = (rng.integers(-3, 4, s).astype(np.float32) for s in ((columns,), (count, columns)))
    flat = plain.reshape(count, columns) + bias
    if rows:
        flat = flat + 2 * rest + np.arange(count, dtype=np.float32)[:, None]
    expected = np.moveaxis(np.maximum(flat, 0).reshape(plain.shape), -1, 1)
    first, second, out = (Layout.contiguous(dtypes.f32, s) for s in (shape, taps, expected.shape))
    limits = replace(adapter.target.limits, max_workgroups=2) if parts else adapter.target.limits
    if parts:
        for most in ("MOST_COLUMNS", "CACHED_COLUMNS"):
            monkeypatch.setattr(f"hologram.opset.tiles.columns.{most}", 700)
    plan = operation.finished((first, second, None), out, given, Target(limits), residual(columns, rows=rows))
    operands = [x, weight, bias, *([rest] if rows else [])]
    np.testing.assert_array_equal(run(adapter, plan, operands, expected.shape), expected)


def test_a_product_of_integers_has_its_epilogue_after_it(executor: hg.Executor) -> None:
    a, b = (np.random.default_rng(0).integers(-4, 5, s).astype(np.int32) for s in ((6, 7), (7, 5)))
    builder = Builder("atlas_epilogue_half", rank=2)
    place = builder.position(Opcode.LANE)
    value = builder.load(builder.buffer("value", dtypes.i32, Access.READ), place)
    builder.store(builder.buffer("result", dtypes.i32, Access.WRITE), place, value * 3)
    first, second, product = (Layout.contiguous(dtypes.i32, s) for s in ((6, 7), (7, 5), (6, 5)))
    plan = product_plan(first, second, product, dtypes.i32, executor.target, builder.build())
    out = executor.full((6, 5), 77, dtypes.i32)
    tensors = [executor.tensor(a), executor.tensor(b), out]
    executor.bound.call(plan, [t.buffer for t in tensors])()
    np.testing.assert_array_equal(out.to_numpy(), 3 * (a @ b))
