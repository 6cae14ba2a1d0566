"""The tile kernels in the forms that the tests' own adapter would not choose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.machine.layout import Layout
from hologram.machine.plan import Target, Tile
from hologram.opset import OPERATIONS
from hologram.opset.sort import argsort_reference
from hologram.opset.tiles.product import product_plan
from tests.conftest import ADAPTERS
from tests.devices import limits

PRODUCTS = [
    ((1, 1), (1, 1)),
    ((3, 5, 70), (70, 9)),
    ((65, 33), (33, 130)),
    ((2, 1, 17, 16), (3, 16, 12)),
    ((130, 64), (64, 68)),
]


def test_plans_ask_what_the_adapter_is_taken_for(
    adapter: hg.Executor, request: pytest.FixtureRequest
) -> None:
    wanted = ADAPTERS[request.node.callspec.params["adapter"]]
    assert {name: getattr(adapter.target.limits, name) for name in wanted} == wanted


@pytest.mark.parametrize(("left", "right"), PRODUCTS, ids=str)
def test_matmul_reads_any_layout(left: tuple[int, ...], right: tuple[int, ...], adapter: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in (left, right))
    expected = a @ b
    crossed = (
        adapter.tensor(np.ascontiguousarray(np.swapaxes(a, -1, -2))),
        adapter.tensor(np.ascontiguousarray(np.swapaxes(b, -1, -2))),
    )
    views = [t.permute((*range(t.ndim - 2), t.ndim - 1, t.ndim - 2)) for t in crossed]
    for x, y in (
        (adapter.tensor(a), adapter.tensor(b)),
        (views[0], adapter.tensor(b)),
        (adapter.tensor(a), views[1]),
    ):
        np.testing.assert_array_equal(hg.matmul(x, y).to_numpy(), expected)


def test_linear_has_an_epilogue(adapter: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    x, w, bias = (rng.integers(-4, 5, s).astype(np.float32) for s in ((2, 33, 20), (70, 20), (70,)))
    out = hg.linear(*map(adapter.tensor, (x, w, bias)), activation="relu").to_numpy()
    np.testing.assert_array_equal(out, np.maximum(x @ w.T + bias, 0))


def test_attention_masked_and_strided(adapter: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, n, 3, 40)).astype(np.float32) for n in (70, 90, 90))
    keep = rng.random((2, 1, 70, 90)) < 0.7
    keep[:, :, 5] = False
    keep[..., 7], k[:, 7] = False, np.nan  # what is masked is not looked at
    heads = [adapter.tensor(x).permute((0, 2, 1, 3)) for x in (q, k, v)]
    out = hg.scaled_dot_product_attention(*heads, mask=adapter.tensor(keep), causal=True).to_numpy()
    reference = OPERATIONS["scaled_dot_product_attention"].reference
    expected = reference(*(x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v)), keep, causal=True)
    np.testing.assert_allclose(out, expected, atol=2e-6)
    assert not out[:, :, 5].any()


@pytest.mark.parametrize("shape", [(1, 70_000), (3, 5_001), (2, 256)], ids=str)
def test_cumsum_carries(shape: tuple[int, ...], adapter: hg.Executor) -> None:
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(np.float32)
    np.testing.assert_array_equal(hg.cumsum(adapter.tensor(x), axis=1).to_numpy(), np.cumsum(x, axis=1))
    crossed = adapter.tensor(np.ascontiguousarray(x.T))
    np.testing.assert_array_equal(hg.cumsum(crossed, axis=0).to_numpy(), np.cumsum(x, axis=1).T)


def test_more_products_than_workgroups(adapter: hg.Executor) -> None:
    a = np.random.default_rng(0).integers(-4, 5, (66_000, 2, 3)).astype(np.float32)
    b = np.ones((3, 6), np.float32)
    np.testing.assert_array_equal(hg.matmul(adapter.tensor(a), adapter.tensor(b)).to_numpy(), a @ b)


LENGTHS = [(1,), (129,), (3, 257), (2, 512), (2, 1024), (2, 1025), (3, 5_001), (1, 100_000)]


@pytest.mark.parametrize("shape", LENGTHS, ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint32, np.int8, np.float16])
def test_argsort_is_stable(shape: tuple[int, ...], kind: Any, adapter: hg.Executor) -> None:
    x = np.random.default_rng(0).integers(0, 40, shape).astype(kind)
    if x.dtype.kind == "f":
        x.ravel()[::7], x.ravel()[::5], x.ravel()[::11] = np.nan, -0.0, -np.inf
    x.ravel()[::13] = np.iinfo(kind).max if x.dtype.kind != "f" else np.inf
    found = hg.argsort(adapter.tensor(x), axis=-1).to_numpy()
    np.testing.assert_array_equal(found, np.argsort(x, axis=-1, kind="stable"))


def test_sorts_every_u32_and_crossed_axes(adapter: hg.Executor) -> None:
    x = np.random.default_rng(0).integers(0, 1 << 32, (2_050, 3), np.uint32)
    x[::9] = 0xFFFFFFFF
    np.testing.assert_array_equal(hg.sort(adapter.tensor(x), axis=0).to_numpy(), np.sort(x, axis=0))
    values, order = hg.topk(adapter.tensor(x), k=1_500, axis=0)
    expected = np.argsort(-x.astype(np.int64), axis=0, kind="stable")[:1_500]
    np.testing.assert_array_equal(order.to_numpy(), expected)
    np.testing.assert_array_equal(values.to_numpy(), np.take_along_axis(x, expected, 0))


@pytest.mark.parametrize(("n", "k"), [(5_000, 1), (5_000, 40), (4_999, 3), (100_000, 50)])
@pytest.mark.parametrize("kind", [np.float32, np.int8, np.int64])
def test_the_first_of_long_rows(n: int, k: int, kind: Any, adapter: hg.Executor) -> None:
    x = np.random.default_rng(n).integers(-40, 40, (2, n, 2)).astype(kind)  # many are equal
    if x.dtype.kind == "f":
        x.ravel()[::701], x.ravel()[::5] = np.nan, -0.0
    for largest in (True, False):
        values, positions = hg.topk(adapter.tensor(x), k=k, axis=1, largest=largest)
        expected = argsort_reference(x, axis=1, descending=largest)[:, :k]
        np.testing.assert_array_equal(positions.to_numpy(), expected)
        np.testing.assert_array_equal(values.to_numpy(), np.take_along_axis(x, expected, 1))


def test_more_rows_than_workgroups(adapter: hg.Executor) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (9_000, 130)).astype(np.int8)
    adapter.target = replace(adapter.target, limits=replace(adapter.target.limits, max_workgroups=4_000))
    np.testing.assert_array_equal(hg.sort(adapter.tensor(x)).to_numpy(), np.sort(x))


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 4, 9, 8), (6, 4, 3, 3), {"padding": 1}),
    ((1, 4, 11, 10), (8, 2, 3, 2), {"stride": 2, "groups": 2}),
    ((2, 3, 7, 9), (5, 3, 2, 3), {"dilation": 2, "padding": 2, "stride": 3}),
    ((2, 6, 17, 13), (70, 3, 3, 5), {"stride": (2, 1), "padding": (3, 0), "dilation": (1, 2), "groups": 2}),
    ((3, 16, 20, 31), (130, 16, 3, 3), {"padding": (0, 9)}),
    ((1, 8, 1, 1), (4, 8, 1, 1), {}),
    ((1, 9, 120, 110), (81, 9, 1, 1), {}),
    ((0, 4, 9, 8), (6, 4, 3, 3), {}),
    ((2, 4, 0, 3), (6, 4, 2, 2), {"padding": 1}),
    ((2, 0, 5, 3), (6, 0, 2, 2), {}),
    ((2, 8, 40), (12, 2, 5), {"padding": 2, "dilation": 3, "groups": 4}),
    ((3, 8, 41), (9, 8, 3), {"stride": 2}),
]


@pytest.mark.parametrize(("shape", "taps", "attributes"), CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_convolution(
    shape: tuple[int, ...], taps: tuple[int, ...], attributes: dict[str, Any], kind: Any, adapter: hg.Executor
) -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.integers(-2, 3, s).astype(kind) for s in (shape, taps, taps[:1]))
    name = f"conv{len(shape) - 2}d"
    run, reference = getattr(hg, name), OPERATIONS[name].reference
    tensors = [adapter.tensor(i) for i in (x, weight, bias)]
    for count in (2, 3):
        operands = [i.astype(np.float64) for i in (x, weight, bias)[:count]]
        found = run(*tensors[:count], **attributes).to_numpy()
        np.testing.assert_array_equal(found, reference(*operands, **attributes).astype(kind))


def test_convolution_reads_any_layout(adapter: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.integers(-2, 3, s).astype(np.float32) for s in ((2, 6, 5, 9), (3, 6, 5, 3), (10,)))
    images = adapter.tensor(x).permute((0, 2, 1, 3))
    filters = adapter.tensor(weight).permute((1, 2, 0, 3))
    found = hg.conv2d(images, filters, adapter.tensor(bias)[2:8], padding=1).to_numpy()
    expected = OPERATIONS["conv2d"].reference(
        x.transpose(0, 2, 1, 3), weight.transpose(1, 2, 0, 3), bias[2:8], padding=1
    )
    np.testing.assert_array_equal(found, expected)


def test_more_images_than_workgroups(adapter: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    x, weight = (rng.integers(-2, 3, s).astype(np.float32) for s in ((7, 8, 9, 9), (5, 8, 3, 3)))
    adapter.target = replace(adapter.target, limits=replace(adapter.target.limits, max_workgroups=2))
    found = hg.conv2d(adapter.tensor(x), adapter.tensor(weight)).to_numpy()
    np.testing.assert_array_equal(found, OPERATIONS["conv2d"].reference(x, weight))


def _stems(name: str, inputs: list[Layout], **adapter: Any) -> list[str]:
    """The tiles by which a device plans an operation."""
    operation = OPERATIONS[name]
    attributes = dict(operation.attributes)
    outputs = operation.infer(inputs, attributes)
    plan = operation.plan(inputs, outputs, attributes, Target(limits(**adapter)))
    return [s.kernel.stem for s in plan.steps if isinstance(s.kernel, Tile)]


@pytest.mark.parametrize(
    ("name", "shapes", "stem"),
    [
        ("sort", [(3, 5_000)], "sort"),
        ("argsort", [(200,)], "sort"),
        ("conv2d", [(2, 8, 9, 9), (6, 8, 3, 3), (6,)], "conv2d"),
        ("conv1d", [(2, 8, 9), (6, 8, 3), (6,)], "conv2d"),
    ],
)
def test_gpus_take_the_tile_and_others_do_not(name: str, shapes: list[tuple[int, ...]], stem: str) -> None:
    inputs = [Layout.contiguous(dtypes.f32, s) for s in shapes]
    assert stem in _stems(name, inputs, software=False)
    assert stem not in _stems(name, inputs, software=True)
    assert stem not in _stems(name, inputs, software=False, serial_workgroups=True)
    assert stem not in _stems(name, inputs, software=False, max_binding_bytes=512)
    if stem == "sort":
        wide = [Layout.contiguous(dtypes.f64, s) for s in shapes]
        assert stem not in _stems(name, wide, software=False)
        assert stem not in _stems(name, inputs, software=False, shared_bytes=1_024)


@pytest.mark.parametrize(
    "changes", [{"software": False}, {"software": True}, {"software": True, "subgroup": 8}]
)
def test_more_tiles_than_workgroups_are_several_launches(changes: dict[str, Any]) -> None:
    """Nothing of a product is left out or computed twice, nor goes to a reduction."""
    adapter = limits(**changes, max_workgroups=3)
    for a_shape, b_shape in (((900, 30), (30, 200)), ((30, 40), (40, 900)), ((11, 40, 20), (11, 20, 40))):
        a, b = (Layout.contiguous(dtypes.f32, s) for s in (a_shape, b_shape))
        out = Layout.contiguous(dtypes.f32, (*a_shape[:-1], b_shape[-1]))
        steps = product_plan(a, b, out, dtypes.f32, Target(adapter)).steps
        seen = np.zeros(out.size, int)
        for step in steps:
            if not isinstance(step.kernel, Tile):  # lines are copied to where they are read whole
                assert not step.kernel.reduced
                continue
            assert max(step.grid) <= 3
            named = dict(zip((s.name for s in step.kernel.scalars), step.scalars, strict=True))
            strides = [int(named[f"out_{axis}"]) for axis in ("batch", "row", "column")]
            shape = (step.grid[2], int(named["m"]), int(named["n"]))
            places: Any = sum(i * s for i, s in zip(np.indices(shape), strides, strict=True)) + int(
                named["out_offset"]
            )
            np.add.at(seen, places.reshape(-1), 1)
        assert len(steps) > 1
        np.testing.assert_array_equal(seen, 1)


def test_a_product_of_several_launches_has_its_epilogue_behind() -> None:
    adapter = limits(software=False, max_workgroups=3)
    x, w, bias = (Layout.contiguous(dtypes.f32, s) for s in ((900, 30), (200, 30), (200,)))
    operation = OPERATIONS["linear"]
    bound, given = operation.bind((x, w, bias), {"activation": "relu"})
    plan = operation.plan(bound, operation.infer(bound, given), given, Target(adapter))
    assert [isinstance(step.kernel, Tile) for step in plan.steps] == [True] * (len(plan.steps) - 1) + [False]
