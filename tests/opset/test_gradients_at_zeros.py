"""Higher derivatives at zeros and equal numbers, where operations choose, divide or compute by magnitudes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import f64
from hologram.opset import OPERATIONS
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.operation import Operation
from tests.needs import needs
from tests.opset.test_gradient_rules import NAMES, close, numbers

pytestmark = pytest.mark.sampled(3)

torch = pytest.importorskip("torch")

UNARY = [
    operation
    for operation in OPERATIONS.values()
    if isinstance(operation, Elementwise) and f64 in operation.dtypes and len(operation.operands) == 1
]


@pytest.mark.parametrize("operation", UNARY, ids=lambda operation: operation.name)
def test_smooth_functions_have_higher_derivatives_at_0(operation: Operation, executor: hg.Executor) -> None:
    """Where functions are computed by magnitudes and choices: what the differences beside 0 agree on holds at 0."""

    def summed(function: Callable[..., hg.Tensor]) -> Callable[..., hg.Tensor]:
        return lambda x: hg.sum(function(x))

    needs(executor, f64)
    step = 1e-3
    around = executor.tensor(np.arange(-2, 3) * step, f64)
    if not operation(around).dtype.is_float:
        return
    found = hg.grad(summed(operation))
    for _ in range(2):
        low, beside, middle, above, high = found(around).to_numpy()
        left, right = (
            (3 * middle - 4 * beside + low) / (2 * step),
            (4 * above - high - 3 * middle) / (2 * step),
        )
        found = hg.grad(summed(found))
        if not (abs(left - right) <= 1e-3 * (1 + abs(left)) and abs(left) < 0.01 / step**1.5):
            return  # a kink, a step or a pole
        assert found(around).to_numpy()[2] == pytest.approx((left + right) / 2, rel=1e-3, abs=1e-3)


KINKS = {
    "prod": (lambda x: hg.prod(x, axis=1), lambda x: x.prod(1)),
    "prod of all": (hg.prod, torch.prod),
    "cumprod": (lambda x: hg.cumprod(x, axis=0), lambda x: x.cumprod(0)),
    "logaddexp": (lambda x: hg.logaddexp(x, 0.5 * x), lambda x: torch.logaddexp(x, 0.5 * x)),
    "hypot": (lambda x: hg.hypot(x, x * 0 + 1), lambda x: torch.hypot(x, x * 0 + 1)),
}


@pytest.mark.parametrize("name", KINKS)
def test_three_derivatives_at_zeros_and_equals(name: str, executor: hg.Executor) -> None:
    """Where rules divide, or choose: no, one, two or three factors of a row are 0."""
    mine, theirs = KINKS[name]
    values = numbers(4, 5)
    for row in range(4):
        values[row, 1 : row + 1] = 0
    dtype = "f64" if executor.backend == "cpu" else "f32"
    x = torch.from_numpy(values).double().requires_grad_()
    value, functions = torch.sin(theirs(x)).sum(), [lambda x: hg.sum(hg.sin(mine(x)))]
    for _ in range(3):
        (wanted,) = torch.autograd.grad(value, x, create_graph=True)
        found = hg.grad(functions[-1])
        for function in (found, hg.jit(found)):
            close(function(executor.tensor(values.astype(NAMES[dtype]))), wanted.detach().numpy(), dtype)
        value = (torch.cos(wanted) * wanted).sum()
        functions.append(lambda x, found=found: hg.sum(hg.cos(slope := found(x)) * slope))


@pytest.mark.parametrize("zeros", [(), (0,), (0, 3), (2, 3)])
def test_scattered_factors_that_are_0(zeros: tuple[int, ...], executor: hg.Executor) -> None:
    dtype = "f64" if executor.backend == "cpu" else "f32"
    x, source = (numbers(n).astype(NAMES[dtype]) for n in (4, 6))
    index = np.array([0, 0, 1, 2, 2, 2])
    x[1] = source[list(zeros)] = 0
    theirs = [torch.from_numpy(v).double().requires_grad_() for v in (x, source)]
    multiplied = theirs[0].scatter_reduce(0, torch.from_numpy(index), theirs[1], "prod")
    wanted = torch.autograd.grad(torch.sin(multiplied).sum(), theirs)
    places = executor.tensor(index)
    found = hg.grad(
        lambda x, s: hg.sum(hg.sin(hg.scatter_reduce(x, places, s, dim=0, reduce="prod"))), (0, 1)
    )
    for got, want in zip(found(executor.tensor(x), executor.tensor(source)), wanted, strict=True):
        close(got, want.numpy(), dtype)


def test_sigmoids_that_saturate_have_losses_with_derivatives(executor: hg.Executor) -> None:
    x = np.array([0, 100, -100, 3], np.float32)
    for target in (0.0, 1.0):
        there = torch.from_numpy(x).requires_grad_()
        loss = torch.nn.functional.binary_cross_entropy(torch.sigmoid(there), torch.full((4,), target))
        (wanted,) = torch.autograd.grad(loss, there)
        goal = executor.full((4,), target)
        found = hg.grad(lambda x, goal=goal: hg.binary_cross_entropy_loss(hg.sigmoid(x), goal))(
            executor.tensor(x)
        )
        np.testing.assert_allclose(found.to_numpy(), wanted.numpy(), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize(
    "values", [(0, 100, -100), (-800, 0, 300), (300, -300, -900), (-np.inf, 0, 1)], ids=str
)
def test_running_logarithms_of_sums_that_grow_far(values: tuple[float, ...], executor: hg.Executor) -> None:
    x, weights = np.array(values, np.float32), np.array([1, 2, 3], np.float32)
    weighing = executor.tensor(weights)
    found = hg.grad(lambda x: hg.sum(hg.logcumsumexp(x) * weighing))(executor.tensor(x))
    exact = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        shares = np.tril(np.exp(exact - np.logaddexp.accumulate(exact)[:, None]))
    np.testing.assert_allclose(found.to_numpy(), weights @ np.nan_to_num(shares), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_scattered_equals_share(reduce: str, executor: hg.Executor) -> None:
    places = executor.tensor(np.array([0, 0, 1]))
    x, source = (
        executor.tensor(np.array([0.0, 1], np.float32)),
        executor.tensor(np.array([0.0, 0, 1], np.float32)),
    )
    weights = executor.tensor(np.array([12.0, 10], np.float32))
    found = hg.grad(
        lambda x, s: hg.sum(hg.scatter_reduce(x, places, s, dim=0, reduce=reduce) * weights), (0, 1)
    )(x, source)
    np.testing.assert_array_equal(found[0].to_numpy(), [4, 5])
    np.testing.assert_array_equal(found[1].to_numpy(), [4, 4, 5])
