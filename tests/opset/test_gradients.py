"""The one test of derivatives: every operation x sample against differences of its own results.

In f64 the first derivative must agree with central differences to 1e-6, the second to 1e-4; f32 on every backend must
agree with the f64 derivative within the operation's declared error, times FACTOR.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import FLOATS, f32, f64
from hologram.foundation.errors import GradientError
from hologram.opset import OPERATIONS
from hologram.opset.forms.operation import Operation, Sample
from tests.test_ops import call, results_of, upload

pytestmark = pytest.mark.sampled(2)

FACTOR = 16
SAMPLES = 6  # of an operation
STEP = 1e-4  # of a difference of the fourth order, relative to the operand's size
# Operations whose derivative by some operand nobody has in closed form, or which none is stated for, as in PyTorch.
# Never under a derivative: what calls them is made of other operations there.
APART = ("real_transform",)
UNKNOWN = (
    "zeta",
    "igamma",
    "igammac",
    "random_gamma",
    "random_binomial",
    *(name for name in OPERATIONS if "_polynomial_" in name),
)
CASES = [
    pytest.param(op, id=op.name)
    for op in OPERATIONS.values()
    if f64 in op.dtypes and f32 in op.dtypes and op.operands and op.name not in (*UNKNOWN, *APART)
]


class Case:
    """A sample whose float operands may move: each by a number times a direction of its own."""

    def __init__(self, operation: Operation, sample: Sample, seed: int) -> None:
        self.operation = operation
        self.sample = sample
        rng = np.random.default_rng(seed)
        self.floats = [x for x in _each(sample.operands) if _is_float(x)]
        self.start = [_finite(np.asarray(x, np.float64), rng) for x in self.floats]
        self.directions = [
            rng.uniform(0.5, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape) for x in self.start
        ]
        self.weights: list[np.ndarray] = []
        self.rng = rng

    def function(self, executor: hg.Executor, dtype: Any) -> Callable[..., hg.Tensor]:
        """The sum of the float results, weighed, as a function of the float operands."""

        def weighed(*floats: hg.Tensor) -> hg.Tensor:
            given = iter(floats)
            operands = _replaced(
                self.sample.operands, lambda x: next(given) if _is_float(x) else upload(executor, x)
            )
            results = [
                r
                for r in results_of(call(self.operation, executor, operands, self.sample))
                if r.dtype.is_float
            ]
            while len(self.weights) < len(results):
                self.weights.append(self.rng.uniform(0.5, 1.5, results[len(self.weights)].shape))
            weights = [executor.tensor(w.astype(dtype.numpy)) for w in self.weights]
            terms = [hg.sum(r * w) for r, w in zip(results, weights, strict=False)]
            return reduce(hg.add, terms) if terms else executor.zeros((), dtype)

        return weighed

    def tensors(self, executor: hg.Executor, dtype: Any, moved: float = 0.0) -> list[hg.Tensor]:
        values = [x + moved * d for x, d in zip(self.start, self.directions, strict=True)]
        return [executor.tensor(v.astype(dtype.numpy)) for v in values]


def _each(operands: Sequence[Any]) -> list[Any]:
    return [x for o in operands for x in (o if isinstance(o, tuple) else (o,))]


def _replaced(operands: Sequence[Any], leaf: Callable[[Any], Any]) -> tuple[Any, ...]:
    return tuple(tuple(map(leaf, o)) if isinstance(o, tuple) else leaf(o) for o in operands)


def _is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _finite(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """With ordinary numbers for what has no neighbourhood to compare with, and none near where functions have kinks."""
    ordinary = np.isfinite(x) & (np.abs(x) > 0.01) & (np.abs(x) < 1e4)
    moved = x * (1.0 - rng.uniform(0.001, 0.002, x.shape))  # so that no two are equal
    return np.where(ordinary, moved, rng.uniform(0.2, 0.8, x.shape))


def slope(f: Callable[[float], float], step: float) -> float:
    """The derivative at 0, from four points."""
    return (8 * (f(step) - f(-step)) - (f(2 * step) - f(-2 * step))) / (12 * step)


def cases(operation: Operation) -> list[Case]:
    seed = zlib.crc32(operation.name.encode())
    found = []
    for sample in operation.samples(np.random.default_rng(seed), f64):
        if any(_is_float(x) and 0 < x.size < 20_000 for x in _each(sample.operands)):
            found.append(Case(operation, sample, seed))
    return found[:SAMPLES]


def along(gradients: Sequence[hg.Tensor], directions: Sequence[np.ndarray]) -> float:
    return sum(float(np.sum(g.to_numpy() * d)) for g, d in zip(gradients, directions, strict=True))


@pytest.fixture(scope="module")
def cpu() -> Any:
    with hg.Executor("cpu") as executor:
        yield executor


@pytest.mark.parametrize("operation", CASES)
def test_first_and_second(operation: Operation, cpu: hg.Executor) -> None:
    trusted = 0
    given = cases(operation)
    for case in given:
        f = case.function(cpu, f64)
        numbers = tuple(range(len(case.start)))
        value = lambda t, f=f, case=case: f(*case.tensors(cpu, f64, t)).item()  # noqa: E731
        gradient = hg.grad(f, numbers)
        pull = [cpu.tensor(case.rng.uniform(0.5, 1.0, x.shape)) for x in case.start]

        def pulled(*x: hg.Tensor, gradient: Any = gradient, pull: Any = pull) -> hg.Tensor:
            terms = [hg.sum(g * p) for g, p in zip(gradient(*x), pull, strict=True)]
            return reduce(hg.add, terms)

        second = lambda t, pulled=pulled, case=case: pulled(*case.tensors(cpu, f64, t)).item()  # noqa: E731
        start = case.tensors(cpu, f64)
        for measured, analytic, tolerance in (
            (value, along(gradient(*start), case.directions), 1e-6),
            (second, along(hg.grad(pulled, numbers)(*start), case.directions), 1e-4),
        ):
            with np.errstate(all="ignore"):
                wanted, finer = slope(measured, STEP), slope(measured, STEP / 2)
            scale = max(abs(wanted), 1.0)
            if not np.isfinite(wanted) or abs(wanted - finer) > tolerance * scale / 4:
                continue  # a kink or a pole lies between
            trusted += 1
            assert abs(analytic - finer) <= tolerance * scale, (case.sample.attributes, analytic, finer)
    assert trusted > 0 or not given


@pytest.mark.parametrize("operation", CASES)
def test_single_precision(operation: Operation, executor: hg.Executor, cpu: hg.Executor) -> None:
    for case in cases(operation)[:3]:
        numbers = tuple(range(len(case.start)))
        case.start = [x.astype(np.float32).astype(np.float64) for x in case.start]
        exact = hg.grad(case.function(cpu, f64), numbers)(*case.tensors(cpu, f64))
        case.weights = [w.astype(np.float32).astype(np.float64) for w in case.weights]
        exact = hg.grad(case.function(cpu, f64), numbers)(*case.tensors(cpu, f64))
        found = hg.grad(case.function(executor, f32), numbers)(*case.tensors(executor, f32))
        elements = max((w.size for w in case.weights), default=1)
        for want, got, x in zip(exact, found, case.start, strict=True):
            wanted, shown = want.to_numpy(), got.to_numpy()
            finite = np.isfinite(wanted) & (np.abs(wanted) < 1e30)
            assert shown.dtype == np.float32
            assert shown.shape == x.shape
            scale = np.max(np.abs(wanted[finite]), initial=1.0)
            behind = min(2048, max(1, elements // max(x.size, 1)))
            ulp, absolute = operation.ulp_on(executor.limits), operation.absolute
            allowed = FACTOR * 2.0**-23 * ((ulp + 1) * np.abs(wanted) + (absolute + 1) * behind * scale)
            assert np.all(np.abs(shown - wanted)[finite] <= allowed[finite]), case.sample.attributes


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_derivatives_are_refused(name: str, cpu: hg.Executor) -> None:
    x, operation = cpu.tensor(np.array([0.5, 2.0]), f64), OPERATIONS[name]
    key = cpu.tensor(np.array([1, 2], np.uint64))
    with pytest.raises(GradientError, match=name):
        hg.grad(lambda x: hg.sum(operation(*(key if n == "key" else x for n in operation.operands))))(x)


def test_every_float_type(executor: hg.Executor) -> None:
    for dtype in FLOATS:
        if dtype in executor.limits.dtypes:
            x = executor.tensor(np.linspace(-2, 2, 12).reshape(3, 4), dtype)
            gradient = hg.grad(lambda x: hg.sum(hg.softmax(x, dim=-1) * hg.tanh(x)))(x)
            assert gradient.dtype == dtype
            assert np.all(np.isfinite(gradient.to_numpy().astype(np.float64)))
