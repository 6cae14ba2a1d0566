"""Gradients through kernels: against central differences in f64, and f32 on every backend against f64."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.derivatives import adjoint
from hologram.atlas.derivatives.reverse import adjoint_of
from hologram.atlas.opcodes import Opcode
from tests.kernels.differentiable import CASES, refused
from tests.kernels.differentiable.losses import gradients, loss_of


@pytest.fixture(scope="module")
def cpu():
    with hg.Executor(backend="cpu") as executor:
        yield executor


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_gradients_are_those_of_differences(cpu: Any, case: Any) -> None:
    loss, given = loss_of(cpu, case, hg.f64), case.arguments()
    step = 1e-6

    def at(k: int, place: Any, by: float) -> float:
        moved = [np.array(x, copy=True) if isinstance(x, np.ndarray) else x for x in given]
        if isinstance(moved[k], float):
            moved[k] += by
        else:
            moved[k][place] += by
        return loss(*(cpu.tensor(x) if isinstance(x, np.ndarray) else x for x in moved)).item()

    floats = [k for k, x in enumerate(given) if isinstance(x, float) or x.dtype.kind == "f"]
    for k, found in zip(floats, gradients(cpu, case, hg.f64), strict=True):
        shape = np.shape(given[k])
        expected = np.array([(at(k, p, step) - at(k, p, -step)) / (2 * step) for p in np.ndindex(shape)])
        np.testing.assert_allclose(found, expected.reshape(shape), rtol=1e-6, atol=1e-7)
        assert np.any(found), "a gradient of zeros shows nothing"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_f32_is_as_f64(executor: Any, cpu: Any, case: Any) -> None:
    for found, expected in zip(gradients(executor, case, hg.f32), gradients(cpu, case, hg.f64), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize("case", CASES[::6], ids=lambda c: c.name)
def test_inside_jit(cpu: Any, case: Any) -> None:
    for found, expected in zip(
        gradients(cpu, case, hg.f64, hg.jit), gradients(cpu, case, hg.f64), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_wrong_law_is_found(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(c for c in CASES if c.name == "products")
    adjoint_of.cache_clear()
    monkeypatch.setitem(adjoint.LAWS, Opcode.MUL, lambda c, z, x, y: (c * x, c * y))  # type: ignore[arg-type]
    try:
        with pytest.raises(AssertionError):
            test_gradients_are_those_of_differences(cpu, case)
    finally:
        adjoint_of.cache_clear()


@pytest.mark.parametrize(("kernel", "reason"), refused.REFUSED, ids=lambda x: getattr(x, "name", ""))
def test_what_cannot_be_is_refused_at_its_line(cpu: Any, kernel: Any, reason: str) -> None:
    def loss(x: Any) -> Any:
        out = cpu.zeros(8)
        kernel[8](x, out)
        return hg.sum(out)

    with pytest.raises(hg.GradientError, match=rf"refused\.py:\d+:\d+: {kernel.name}: .*{reason}"):
        hg.grad(loss)(cpu.tensor(np.ones(8, np.float32)))


def test_a_written_argument_and_a_closure_are_refused(cpu: Any) -> None:
    kernel = CASES[0].kernel(hg.f32)
    other = cpu.tensor(np.zeros(6, np.float32))
    with pytest.raises(hg.GradientError, match="closes over"):
        hg.grad(lambda x: (kernel[6](x, other), hg.sum(x))[1])(other)
    with pytest.raises(hg.GradientError, match="argument is written"):
        hg.grad(lambda x: (kernel[6](other, x), hg.sum(x))[1])(other)


@hg.kernel
def squared(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    if i < 3:
        out[i] = x[i] * x[i]


@hg.kernel
def added(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[i] += x[i]


def _kept(x: Any) -> Any:
    out = x * 3
    squared[5](x, out)
    return hg.sum(out * out)


def _of_parts(x: Any) -> Any:
    out = x * 2
    before = out * 1
    squared[2](x[1:3], out[3:])
    return hg.sum(out * before)


def _same_twice(x: Any) -> Any:
    out = x * x
    added[5](out, out)
    added[5](x, out)
    return hg.sum(out * x)


AXPY = """program axpy rank 1 reduced 0
buffer x : f32 read
buffer y : f32 read_write
scalar a : f32
%0 = coordinate 0 : index
%1 = load x %0 : f32
%2 = load y %0 : f32
%3 = scalar a : f32
%4 = mul %1, %3 : f32
%5 = mul %4, %2 : f32
store y %0, %5
"""


def _program(x: Any) -> Any:
    y = x + 1
    x.executor.run(AXPY, {"x": x, "y": y}, lanes=5, a=2.0)
    return hg.sum(y)


@pytest.mark.parametrize("transform", [lambda f: f, hg.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_kept, lambda x: np.where(np.arange(5) < 3, 4 * x**3, 18 * x)),
        (_of_parts, lambda x: np.array([8, 8, 8, 0, 0]) * x),
        (_same_twice, lambda x: 6 * x**2 + 2 * x),
        (_program, lambda x: 4 * x + 2),
    ],
)
def test_what_was_there_before(
    executor: Any, function: Any, expected: Any, transform: Callable[[Any], Any]
) -> None:
    x = np.array([0.5, 1, 2, 3, 4], np.float32)
    want = expected(x)
    if function is _of_parts:  # 2 x3 x1^2 + 2 x4 x2^2 behind the first three
        want = want + np.array([0, 4 * x[3] * x[1], 4 * x[4] * x[2], 2 * x[1] ** 2, 2 * x[2] ** 2])
    found = transform(hg.grad(function))(executor.tensor(x))
    np.testing.assert_allclose(found.to_numpy(), want, rtol=1e-5)


def test_loops_around_kernels(cpu: Any) -> None:
    kernel = next(c for c in CASES if c.name == "stencil").kernel(hg.f64)

    def turn(u: Any, scale: Any) -> Any:
        out = hg.zeros_like(u)
        kernel[u.shape](u, 0.3, out)
        return out * u + u, hg.sum(out)

    def unrolled(u: Any) -> Any:
        sums = []
        for _ in range(3):
            u, total = turn(u, None)
            sums.append(total)
        return hg.sum(u * u) + hg.sum(hg.stack(sums) ** 2)

    def scanned(u: Any) -> Any:
        u, sums = hg.scan(turn, u, None, length=3)
        return hg.sum(u * u) + hg.sum(sums**2)

    u = cpu.tensor(np.linspace(0.5, 1.5, 6))
    expected = hg.grad(unrolled)(u).to_numpy()
    assert np.abs(expected).min() > 0.1
    for function in (hg.grad(scanned), hg.jit(hg.grad(scanned)), hg.grad(hg.jit(scanned))):
        np.testing.assert_allclose(function(u).to_numpy(), expected, rtol=1e-12)


def test_a_second_derivative_is_refused_by_name(cpu: Any) -> None:
    kernel = next(c for c in CASES if c.name == "newton").kernel(hg.f64)

    def loss(x: Any) -> Any:
        out = hg.zeros_like(x)
        kernel[6](x, out)
        return hg.sum(out)

    x = cpu.tensor(np.linspace(0.5, 1.5, 6))
    with pytest.raises(hg.GradientError, match="kernel_newton_adjoint"):
        hg.grad(lambda x: hg.sum(hg.grad(loss)(x)))(x)


def test_a_rule_of_ones_own(cpu: Any) -> None:
    @hg.kernel
    def clipped(x: hg.Array[hg.f32], out: hg.Array[hg.f32], scale: hg.f32):
        i = hg.index()
        out[i] = hg.floor(scale * x[i])

    @clipped.gradient
    def through(x: Any, out: Any, scale: Any, cotangent: Any) -> Any:
        return scale * cotangent, None, hg.sum(x * cotangent)

    def loss(x: Any, scale: Any) -> Any:
        out = hg.zeros_like(x)
        clipped[3](x, out, scale)
        return hg.sum(out * out)

    x = cpu.tensor(np.array([1.5, 2.5, 3.5], np.float32))
    by_x, by_scale = hg.grad(loss, argnums=(0, 1))(x, cpu.tensor(np.array(2.0, np.float32)))
    np.testing.assert_allclose(by_x.to_numpy(), [12, 20, 28])
    np.testing.assert_allclose(by_scale.item(), 2 * (3 * 1.5 + 5 * 2.5 + 7 * 3.5))
    clipped.gradient(lambda *given: None)
    with pytest.raises(hg.GradientError, match="for each of 3 arguments, got NoneType"):
        hg.grad(loss)(x, 2.0)


@hg.kernel
def beside_a_branch(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    root = hg.sqrt(x[i] - x[i])
    out[i] = 2.0 * x[i]
    if x[i] < 0.0:
        out[i] = root if x[i] < -1.0 else x[i]


@hg.kernel
def beside_rounds(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    root = hg.sqrt(x[i] - x[i])
    total = 2.0 * x[i]
    for _ in range(hg.i32(x[i]) - 9):
        total += root
    for _ in range(3):
        root = hg.log(root - root)
    out[i] = total if x[i] > 0.0 else root


@hg.kernel
def beside_an_array(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[i + 99] = hg.sqrt(x[i] - x[i])
    out[i] = hg.sqrt(x[i] - x[i])
    out[i] = 2.0 * x[i]


@pytest.mark.parametrize("kernel", [beside_a_branch, beside_rounds, beside_an_array], ids=lambda k: k.name)
def test_an_infinite_derivative_of_what_was_not_taken_is_no_nan(executor: Any, kernel: Any) -> None:
    def loss(x: Any) -> Any:
        out = executor.zeros(3)
        kernel[3](x, out)
        return hg.sum(out)

    found = hg.grad(loss)(executor.tensor(np.array([1, 2, 3], np.float32)))
    assert found.to_numpy().tolist() == [2, 2, 2]


@hg.kernel
def scaled_in_f64(x: hg.Array[hg.f64], out: hg.Array[hg.f64], scale: hg.f64):
    i = hg.index()
    out[i] = x[i] * scale * scale


def test_a_number_of_python_is_differentiated_whatever_the_kernel_takes_it_for(cpu: Any) -> None:
    def loss(x: Any, scale: Any) -> Any:
        out = cpu.zeros(3, hg.f64)
        scaled_in_f64[3](x, out, scale)
        return hg.sum(out)

    x = cpu.tensor(np.array([1.0, 2.0, 3.0]))
    for transform in (lambda f: f, hg.jit):
        by_x, by_scale = transform(hg.grad(loss, argnums=(0, 1)))(x, 0.5)
        assert by_x.to_numpy().tolist() == [0.25] * 3
        assert by_scale.item() == 6.0
