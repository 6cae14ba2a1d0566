"""Convolutions as products of packed patches, against what they mean in float64: every cut, layout and dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.backends.cpu.products.convolution import block, even
from hologram.backends.cpu.products.tiles import ConvolutionTile, memory_of
from hologram.foundation.dtypes import f32
from hologram.machine.kernel import Binding
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target, Tile
from hologram.opset.neural.convolution import conv2d, conv2d_weight, conv_transpose2d
from hologram.opset.tiles.convolution import biased_plan
from hologram.opset.tiles.convolution_tile import KERNEL, WEIGHT_KERNEL, weight_plan
from tests.backends.cpu.llvm.launching import device

# x, weight, settings: what decides how a launch is cut.
CASES = {
    "colours": ((2, 3, 20, 20), (8, 3, 3, 3), {"padding": 1}),
    "several blocks of taps": ((1, 40, 9, 7), (7, 40, 3, 3), {"padding": 1}),
    "a channel of more taps than a block": ((1, 2, 23, 21), (3, 2, 19, 18), {"padding": (2, 5)}),
    "several blocks of rows": ((1, 4, 6, 5), (400, 4, 3, 3), {}),
    "part of an image": ((1, 4, 70, 67), (5, 4, 3, 2), {"padding": 1}),
    "several images": ((37, 4, 5, 3), (6, 4, 3, 3), {"padding": 1}),
    "one place": ((70, 4, 3, 3), (6, 4, 3, 3), {}),
    "strides": ((2, 4, 31, 29), (6, 4, 3, 3), {"stride": (2, 3), "padding": (1, 0)}),
    "stride beyond the window": ((2, 8, 17, 19), (6, 8, 2, 2), {"stride": 5}),
    "dilation": ((2, 4, 25, 24), (6, 4, 3, 3), {"dilation": (3, 2), "padding": (3, 2)}),
    "dilation and stride": ((2, 4, 25, 24), (6, 4, 3, 3), {"dilation": 3, "stride": 2, "padding": 2}),
    "padding beyond the image": ((2, 4, 2, 1), (6, 4, 3, 3), {"padding": 4}),
    "groups": ((3, 12, 9, 8), (9, 4, 3, 3), {"groups": 3, "padding": 1}),
    "depthwise": ((2, 6, 9, 8), (12, 1, 3, 3), {"groups": 6, "padding": 1}),
    "pointwise": ((3, 24, 7, 6), (10, 24, 1, 1), {}),
    "pointwise, far apart": ((3, 24, 7, 6), (10, 24, 1, 1), {"stride": 2}),
    "narrow": ((3, 4, 40, 2), (6, 4, 3, 1), {}),
    "no images": ((0, 4, 9, 8), (6, 4, 3, 3), {}),
}
EACH = pytest.mark.parametrize("case", CASES)


@pytest.fixture(scope="module")
def executor() -> hg.Executor:
    return hg.Executor("cpu")


def operands(case: str, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    x, weight, settings = CASES[case]
    rng = np.random.default_rng(0)
    made = [rng.standard_normal(shape).astype(dtype) for shape in (x, weight, weight[:1])]
    return made[0], made[1], made[2], {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, **settings}


def meaning(operation: Any, *given: np.ndarray, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """What an operation gives in float64, and the sum of what it adds up without signs."""
    wide = [x.astype(np.float64) for x in given]
    return operation.reference(*wide, **settings), operation.reference(*map(np.abs, wide), **settings)


def check(found: np.ndarray, expected: tuple[np.ndarray, np.ndarray]) -> None:
    unit = {"float16": 2.0**-11, "float32": 2.0**-22, "float64": 2.0**-51}[found.dtype.name]
    exact, size = expected
    assert found.shape == exact.shape
    assert (np.abs(found - exact) <= unit * (size + np.abs(exact)) + 1e-7 * (unit > 1e-10)).all()


def laid(executor: hg.Executor, x: np.ndarray, how: str) -> Any:
    """A tensor of these elements: as they lie, channels last, with gaps between, or from a place of their own on."""
    if how == "channels last":
        return executor.tensor(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).permute(0, 3, 1, 2)
    if how == "gaps":
        wide = np.zeros((*x.shape[:2], 2 * x.shape[2], 3 * x.shape[3] + 1), x.dtype)
        wide[:, :, ::2, 1::3] = x
        return executor.tensor(wide)[:, :, ::2, 1::3]
    if how == "turned":
        return executor.tensor(np.ascontiguousarray(x.transpose(1, 0, 3, 2))).permute(1, 0, 3, 2)
    return executor.tensor(x)


@EACH
@pytest.mark.parametrize("how", ["in order", "channels last", "gaps", "turned"])
def test_convolutions(executor: hg.Executor, case: str, how: str) -> None:
    x, weight, bias, settings = operands(case)
    given = (laid(executor, x, how), laid(executor, weight, how), executor.tensor(bias))
    check(hg.conv2d(*given, **settings).to_numpy(), meaning(conv2d, x, weight, bias, **settings))
    check(hg.conv2d(*given[:2], **settings).to_numpy(), meaning(conv2d, x, weight, **settings))


def _cotangent(x: np.ndarray, weight: np.ndarray, settings: dict[str, Any]) -> np.ndarray:
    shape = conv2d.reference(x, weight, **settings).shape
    return np.random.default_rng(1).standard_normal(shape).astype(x.dtype)


@EACH
@pytest.mark.parametrize("how", ["in order", "channels last", "gaps", "turned"])
def test_gradients_of_weights(executor: hg.Executor, case: str, how: str) -> None:
    x, weight, _, settings = operands(case)
    y = _cotangent(x, weight, settings)
    settings = {"kernel_size": weight.shape[2:], **settings}
    found = conv2d_weight(laid(executor, x, how), laid(executor, y, how), **settings).to_numpy()
    check(found, meaning(conv2d_weight, x, y, **settings))


@EACH
@pytest.mark.parametrize("how", ["in order", "channels last", "gaps"])
def test_transposed(executor: hg.Executor, case: str, how: str) -> None:
    x, weight, _, settings = operands(case)
    y = _cotangent(x, weight, settings)
    given = (laid(executor, y, how), executor.tensor(weight))
    found = hg.conv_transpose2d(*given, **settings).to_numpy()
    check(found, meaning(conv_transpose2d, y, weight, **settings))
    bias = np.random.default_rng(2).standard_normal(found.shape[1]).astype(np.float32)
    found = hg.conv_transpose2d(*given, executor.tensor(bias), **settings).to_numpy()
    check(found, meaning(conv_transpose2d, y, weight, bias, **settings))


@EACH
@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_dtypes(executor: hg.Executor, case: str, dtype: Any) -> None:
    x, weight, bias, settings = operands(case, dtype)
    found = hg.conv2d(*map(executor.tensor, (x, weight, bias)), **settings).to_numpy()
    check(found, meaning(conv2d, x, weight, bias, **settings))
    y, settings = _cotangent(x, weight, settings), {"kernel_size": weight.shape[2:], **settings}
    found = conv2d_weight(executor.tensor(x), executor.tensor(y), **settings).to_numpy()
    check(found, meaning(conv2d_weight, x, y, **settings))


@pytest.mark.parametrize("settings", [{"padding": 1}, {"stride": 2}, {"dilation": 2, "padding": 2}], ids=str)
def test_only_windows_over_an_element_see_it(executor: hg.Executor, settings: dict[str, Any]) -> None:
    """Infinities and NaN stay where they are: no window meets its neighbours' elements, times zero or otherwise."""
    rng = np.random.default_rng(0)
    x, weight = rng.random((3, 4, 13, 9), np.float32) + 1, rng.random((7, 4, 3, 3), np.float32) + 1
    x[1, 2, 6, 4], x[2, 0, 0, 8], x[0, 3, 12, 0] = np.inf, -np.inf, np.nan
    found = hg.conv2d(executor.tensor(x), executor.tensor(weight), **settings).to_numpy()
    expected = conv2d.reference(x.astype(np.float64), weight.astype(np.float64), **settings)
    assert np.isfinite(expected).any()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@EACH
def test_results_are_finished_where_they_are_made(executor: hg.Executor, case: str) -> None:
    """What follows a convolution runs within its launch, on all of its results and once on each."""
    x, weight, bias, settings = operands(case)

    def function(x: Any, weight: Any, bias: Any) -> Any:
        return hg.tanh(hg.conv2d(x, weight, bias, **settings)) * 2.0 + bias.reshape((-1, 1, 1))

    found = hg.jit(function)(*map(executor.tensor, (x, weight, bias))).to_numpy()
    exact = conv2d.reference(*(a.astype(np.float64) for a in (x, weight, bias)), **settings)
    np.testing.assert_allclose(found, np.tanh(exact) * 2 + bias.reshape((-1, 1, 1)), rtol=1e-4, atol=1e-5)


def run(plan: Plan, arrays: list[np.ndarray], host: Any) -> None:
    """The plan's one step, compiled where there is a host, else in Python."""
    (step,) = plan.steps
    assert isinstance(step.kernel, Tile)
    bindings = [Binding(memory_of(arrays[k]), 0, arrays[k].nbytes) for k in step.operands]
    kernel: Any = ConvolutionTile(step.kernel, device().compile, host)
    kernel.bind(bindings, step.scalars, step.grid)()


@pytest.mark.parametrize("case", [name for name in CASES if name not in ("no images", "depthwise")])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "in Python"])
def test_with_and_without_a_compiler(case: str, compiled: bool) -> None:
    x, weight, bias, settings = operands(case)
    host, target = device().host if compiled else None, Target(device().limits)
    exact = meaning(conv2d, x, weight, bias, **settings)
    out = np.full(exact[0].shape, np.nan, np.float32)
    layouts = [Layout.contiguous(f32, a.shape) for a in (x, weight, bias, out)]
    plan = biased_plan(tuple(layouts[:3]), layouts[3], settings, target)
    assert plan is not None
    assert [step.kernel.stem for step in plan.steps if isinstance(step.kernel, Tile)] == [KERNEL]
    run(plan, [x, weight, bias, out], host)
    check(out, exact)
    found = np.full(weight.shape, np.nan, np.float32)
    one = x[:1], _cotangent(x, weight, settings)[:1]  # whose sums are one part
    layouts = [Layout.contiguous(f32, a.shape) for a in (*one, found)]
    plan = weight_plan(layouts[0], layouts[1], layouts[2], settings, device().limits)
    assert plan is not None
    assert [step.kernel.stem for step in plan.steps if isinstance(step.kernel, Tile)] == [WEIGHT_KERNEL]
    run(plan, [*one, found], host)
    check(found, meaning(conv2d_weight, *one, kernel_size=weight.shape[2:], **settings))


def test_results_over_an_operand() -> None:
    """Where memory is shared, nothing is written before all is read."""
    x, weight, _, settings = operands("pointwise")
    shared = np.zeros(x.size + 10, np.float32)
    shared[: x.size] = x.reshape(-1)
    out = Layout(f32, (3, 10, 7, 6), (420, 42, 6, 1), 5)
    plan = biased_plan(
        (Layout.contiguous(f32, x.shape), Layout.contiguous(f32, weight.shape), None), out, settings,
        Target(device().limits),
    )  # fmt: skip
    assert plan is not None
    run(plan, [shared, weight, shared, shared], device().host)
    check(shared[5 : 5 + 1260].reshape(out.shape), meaning(conv2d, x, weight, **settings))


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_blocks_cover_all_places(threads: int) -> None:
    for images in (1, 5, 64):
        for area in (1, 15, 256, 257, 5000):
            for most in (16, 256, 1024):
                cut = block(images, area, most, 16)
                assert cut.images * (cut.image_blocks - 1) < images <= cut.images * cut.image_blocks
                assert cut.places * (cut.place_blocks - 1) < area <= cut.places * cut.place_blocks
                assert cut.images == 1 or cut.images * cut.places <= most
                assert cut.place_blocks == 1 or cut.places % 16 == 0
    for total in (1, 6, 100, 193, 1000):
        size, count = even(total, 16 * threads, 6)
        assert size * (count - 1) < total <= size * count
        assert size <= 16 * threads
