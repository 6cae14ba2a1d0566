"""Three derivatives of every function of one number, at zeros, ends, poles and where its program branches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.opcodes import COMPARISONS, Opcode
from hologram.foundation.dtypes import DType, f32, f64
from hologram.opset import OPERATIONS
from hologram.opset.forms.map import Elementwise
from tests.needs import has

pytestmark = pytest.mark.sampled(3)

mp = pytest.importorskip("mpmath")

from tests.series import Sides, fits, sides  # noqa: E402  (it needs mpmath)

ROOT = mp.sqrt(2)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": abs, "acos": mp.acos, "acosh": mp.acosh, "airy_ai": mp.airyai, "asin": mp.asin, "asinh": mp.asinh,
    "atan": mp.atan, "atanh": mp.atanh, "bessel_j0": mp.j0, "bessel_j1": mp.j1,
    "bessel_y0": lambda x: mp.bessely(0, x), "bessel_y1": lambda x: mp.bessely(1, x),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)), "conj": lambda x: x, "cos": mp.cos, "cosh": mp.cosh,
    "digamma": mp.digamma, "elu": lambda x: x if x > 0 else mp.expm1(x), "erf": mp.erf, "erfc": mp.erfc,
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x), "erfinv": mp.erfinv, "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x), "expm1": mp.expm1, "gelu": lambda x: x * mp.ncdf(x),
    "hardtanh": lambda x: max(min(x, 1), -1), "i0": lambda x: mp.besseli(0, x),
    "i0e": lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), "i1": lambda x: mp.besseli(1, x),
    "i1e": lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), "k0": lambda x: mp.besselk(0, x),
    "k0e": lambda x: mp.besselk(0, x) * mp.exp(x), "k1": lambda x: mp.besselk(1, x),
    "k1e": lambda x: mp.besselk(1, x) * mp.exp(x), "leaky_relu": lambda x: x if x > 0 else x * mp.mpf(0.01),
    "lgamma": lambda x: mp.log(abs(mp.gamma(x))), "log": mp.log, "log10": mp.log10, "log1p": mp.log1p,
    "log2": lambda x: mp.log(x, 2), "log_ndtr": lambda x: mp.log(mp.ncdf(x)),
    "mantissa": lambda x: mp.frexp(x)[0] if abs(x) > 1e-12 else x,
    "ndtri": lambda x: ROOT * mp.erfinv(2 * x - 1), "negative": lambda x: -x,
    "positive": lambda x: x, "real": lambda x: x, "reciprocal": lambda x: 1 / x, "relu": lambda x: max(x, 0),
    "rsqrt": lambda x: 1 / mp.sqrt(x), "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "silu": lambda x: x / (1 + mp.exp(-x)), "sin": mp.sin, "sinc": lambda x: mp.sinc(mp.pi * x), "sinh": mp.sinh,
    "softplus": lambda x: x if x > 20 else mp.log1p(mp.exp(x)), "spherical_bessel_j0": mp.sinc, "sqrt": mp.sqrt,
    "square": lambda x: x * x, "tan": mp.tan, "tanh": mp.tanh, "trigamma": lambda x: mp.polygamma(1, x),
}  # fmt: skip
UNARY = [
    operation
    for operation in OPERATIONS.values()
    if isinstance(operation, Elementwise) and f64 in operation.dtypes and len(operation.operands) == 1
]
NUMBERS = (0.0, 1e-8, 1e-4, 0.01, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
TOLERANCE = {f64: 1e-6, f32: 3e-3}  # of derivatives above 1; of those below, in all


def points(operation: Elementwise, dtype: DType) -> np.ndarray:
    """Ordinary numbers, and those that the operation or its derivative compares with, on and beside them."""
    builder = Builder(operation.name)
    x = builder.scalar("x", dtype)
    known = {"x": x, "cotangent": x, "result": x, **operation.attributes}
    rule = operation.gradient.get("x")
    for function in (operation.function, rule):
        if function is not None:
            function(**{n: known[n] for n in signature(function).parameters})
    constants = {i.result: i.attribute for i in builder.written if i.opcode is Opcode.CONSTANT}
    compared = {constants.get(n) for i in builder.written if i.opcode in COMPARISONS for n in i.operands}
    bounds = {abs(float(c)) for c in compared if c is not None and 1e-9 < abs(float(c)) < 1e3}
    beside = {b * (1 + side * 2.0**-10) for b in bounds for side in (-1, 0, 1)}
    return np.unique(np.array([s * p for p in {*NUMBERS, *beside} for s in (-1, 1)], dtype.numpy))


def summed(function: Callable[..., hg.Tensor]) -> Callable[..., hg.Tensor]:
    return lambda x: hg.sum(function(x))


def forward(function: Callable[..., hg.Tensor]) -> Callable[..., hg.Tensor]:
    """The derivative of an element-wise function, along the elements."""
    return lambda x: hg.jvp(function, (x,), (hg.ones(x.shape, dtype=x.dtype, device=x.executor),))[1]


def backward(function: Callable[..., hg.Tensor]) -> Callable[..., hg.Tensor]:
    return hg.grad(summed(function))


WAYS = {
    "reverse over reverse": (backward, backward, backward),
    "forward over reverse": (backward, forward, forward),
    "forward over forward": (forward, forward, forward),
}


@cache
def around_of(name: str, at: float) -> Sides:
    """The derivatives of a function on both sides of a number; every backend asks for the same."""
    return sides(lambda t: FUNCTIONS[name](mp.mpf(at) + t))


def check(operation: Any, name: str, x: np.ndarray, executor: hg.Executor, dtype: DType) -> None:
    """Every way, and the last derivative compiled as a whole, against both sides of the function."""
    around = [around_of(name, c) for c in x.tolist()]
    given = executor.tensor(x)
    # Signs of infinities count where the function ends, not at its poles; -0.0 may be of the other side.
    signed = np.isfinite(operation(given).to_numpy()) & ~((x == 0) & np.signbit(x))
    largest = float(np.finfo(x.dtype).max) / 1e8
    for way, steps in WAYS.items():
        function = operation
        for order, step in enumerate(steps):
            function = step(function)
            compiled = [hg.jit(function)] if way == "reverse over reverse" and order == 2 else []
            for found in (function, *compiled):
                results = found(given).to_numpy()
                for at, got, (left, right), sign in zip(x, results, around, signed, strict=True):
                    wanted = left[order], right[order]
                    good = fits(got, *wanted, TOLERANCE[dtype], largest, sign)
                    assert good, (name, way, f"order {order + 1} at {at!r}", got, wanted)


@pytest.mark.parametrize("operation", UNARY, ids=lambda operation: operation.name)
def test_functions_of_one_number(operation: Elementwise, executor: hg.Executor) -> None:
    for dtype in (f64, f32) if has(executor, f64) else (f32,):
        x = points(operation, dtype)
        if operation.name in FUNCTIONS:
            check(operation, operation.name, x, executor, dtype)
        elif operation(executor.tensor(x)).dtype.is_float:  # a step: nothing else is left out of the table
            assert not backward(operation)(executor.tensor(x)).to_numpy().any()


def test_the_other_gelu(executor: hg.Executor) -> None:
    scale = mp.sqrt(2 / mp.pi)
    x = np.array([-3, -1, -1e-4, 0, 0.5, 2], np.float32)
    FUNCTIONS["gelu by tanh"] = lambda x: x / 2 * (1 + mp.tanh(scale * (x + mp.mpf(0.044715) * x**3)))
    check(lambda x: hg.gelu(x, approximate="tanh"), "gelu by tanh", x, executor, f32)
