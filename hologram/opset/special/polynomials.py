"""Orthogonal polynomials, by their recurrences; the degree is a tensor too, truncated to an integer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.atlas import builder as atlas
from hologram.atlas.builder import Value, select
from hologram.foundation import dtypes, lazy
from hologram.foundation.dtypes import FLOATS, DType
from hologram.opset.forms import types
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.operation import Operation, Sample, register
from hologram.opset.forms.samples import array

if TYPE_CHECKING:
    from scipy import special
else:  # for references
    special = lazy.module("scipy.special")
MOST_TURNS = 32_768  # of a lane; where |x| > 1 even f64 has overflowed long before
# Of x, k and the last two: the polynomial of degree k + 1.
Step = Callable[[Value, Value, Value, Value], Value]


def _recurrence(x: Value, degree: Value, first: Value, step: Step, most: int = MOST_TURNS) -> Value:
    """The polynomial of a degree; `first` is that of degree 1. Of a negative degree 0, as in PyTorch."""
    one = x.builder.constant(1.0, x.dtype)
    last = select(degree < float(most), degree, float(most)).to(dtypes.i32)

    def turn(k: Value, before: Value, current: Value) -> tuple[Value, Value]:
        return current, step(x, k.to(x.dtype), before, current)

    stop = select(last > 1, last, 1)
    _, value = x.builder.loop(1, stop, turn, first=(one, first), dtype=dtypes.i32)
    return select(degree < 0.0, 0.0, select(last == 0, one, select(last == 1, first, value)))


def _chebyshev(x: Value, k: Value, before: Value, current: Value) -> Value:
    return (x + x) * current - before


def _hermite(x: Value, k: Value, before: Value, current: Value) -> Value:
    return (x + x) * current - (k + k) * before


def _hermite_e(x: Value, k: Value, before: Value, current: Value) -> Value:
    return x * current - k * before


def _laguerre(x: Value, k: Value, before: Value, current: Value) -> Value:
    return ((k + k + (1.0 - x)) * current - k * before) / (k + 1.0)


def _legendre(x: Value, k: Value, before: Value, current: Value) -> Value:
    return ((k + k + 1.0) * x * current - k * before) / (k + 1.0)


def _whole(n: Value) -> Value:
    """A degree; of NaN and what is below 0 a negative one."""
    return select(n > -1.0, atlas.trunc(n), -1.0)


def _cosine(x: Value, n: Value, first: Value, by_angle: Callable[[Value, Value], Value], least: int) -> Value:
    """By the recurrence, but of a high degree between -1 and 1 by the angle whose cosine x is."""
    inside = (atlas.absolute(x) < 1.0) & (n > float(least))
    low = _recurrence(x, select(inside, 0.0, n), first, _chebyshev)
    angle = atlas.atan(atlas.sqrt((1.0 - x) / (1.0 + x))) * 2.0
    return select(inside, by_angle(angle, n), low)


def _t(x: Value, n: Value) -> Value:
    return _cosine(x, n, x, lambda a, n: atlas.cos(n * a), 6)


def _u(x: Value, n: Value) -> Value:
    return _cosine(x, n, x + x, lambda a, n: atlas.sin((n + 1.0) * a) / atlas.sin(a), 8)


def _v(x: Value, n: Value) -> Value:
    return _cosine(x, n, x + x - 1.0, lambda a, n: atlas.cos((n + 0.5) * a) / atlas.cos(a * 0.5), 8)


def _w(x: Value, n: Value) -> Value:
    return _cosine(x, n, x + x + 1.0, lambda a, n: atlas.sin((n + 0.5) * a) / atlas.sin(a * 0.5), 8)


def _h(x: Value, n: Value) -> Value:
    return _limited(n, _recurrence(x, n, x + x, _hermite, 512))


def _he(x: Value, n: Value) -> Value:
    return _limited(n, _recurrence(x, n, x, _hermite_e, 512))


def _limited(n: Value, value: Value) -> Value:
    """Beyond the degrees that PyTorch computes NaN."""
    return select(n > (512.0 if n.dtype == dtypes.f64 else 128.0), math.nan, value)


def _l(x: Value, n: Value) -> Value:
    return _recurrence(x, n, 1.0 - x, _laguerre)


def _p(x: Value, n: Value) -> Value:
    return _recurrence(x, n, x, _legendre)


def _shifted(function: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda x, n: function(x + x - 1.0, n)


def _samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, degrees in (((7,), (7,)), ((5, 1), (1, 6)), ((0,), (1,)), ((), ())):
        degree = rng.integers(-1, 12, degrees).astype(dtype.numpy)
        yield Sample((array(rng, dtype, shape, -1.5, 1.5), degree))
    yield Sample((array(rng, dtype, (9,), -1.0, 1.0), 5))


def _reference(name: str, shifted: bool) -> Callable[..., Any]:
    def reference(x: Any, n: Any) -> Any:
        n = np.clip(np.nan_to_num(np.trunc(n), nan=-1.0), -1, MOST_TURNS)  # SciPy would count on and on
        x = 2 * x - 1 if shifted else x
        return np.where(n < 0, 0.0, _named(name, np.maximum(n, 0).astype(np.int64), x))

    return reference


def _named(name: str, n: Any, x: Any) -> Any:
    if name == "v":
        return special.eval_chebyu(n, x) - np.where(n > 0, special.eval_chebyu(np.maximum(n - 1, 0), x), 0)
    if name == "w":
        return special.eval_chebyu(n, x) + np.where(n > 0, special.eval_chebyu(np.maximum(n - 1, 0), x), 0)
    return getattr(special, name)(n, x)


def _declared(name: str, words: str, function: Callable[[Value, Value], Value], scipy_name: str) -> Operation:
    shifted = name.startswith("shifted")

    def declaration(x, n):
        return function(x, _whole(n))

    declaration.__doc__ = f"{words} of degree n; 0 of a negative one."
    return register(
        Elementwise(
            name=name, function=declaration, types=types.floating, dtypes=FLOATS, samples=_samples, ulp=64,
            absolute=512.0, reference=_reference(scipy_name, shifted), aten=(f"special_{name}",),
        )
    )  # fmt: skip


chebyshev_polynomial_t = _declared(
    "chebyshev_polynomial_t", "The Chebyshev polynomial of the first kind", _t, "eval_chebyt"
)
chebyshev_polynomial_u = _declared(
    "chebyshev_polynomial_u", "The Chebyshev polynomial of the second kind", _u, "eval_chebyu"
)
chebyshev_polynomial_v = _declared(
    "chebyshev_polynomial_v", "The Chebyshev polynomial of the third kind", _v, "v"
)
chebyshev_polynomial_w = _declared(
    "chebyshev_polynomial_w", "The Chebyshev polynomial of the fourth kind", _w, "w"
)
hermite_polynomial_h = _declared(
    "hermite_polynomial_h", "The physicist's Hermite polynomial", _h, "eval_hermite"
)
hermite_polynomial_he = _declared(
    "hermite_polynomial_he", "The probabilist's Hermite polynomial", _he, "eval_hermitenorm"
)
laguerre_polynomial_l = _declared("laguerre_polynomial_l", "The Laguerre polynomial", _l, "eval_laguerre")
legendre_polynomial_p = _declared("legendre_polynomial_p", "The Legendre polynomial", _p, "eval_legendre")
shifted_chebyshev_polynomial_t = _declared(
    "shifted_chebyshev_polynomial_t", "The Chebyshev polynomial of the first kind, on [0, 1],", _shifted(_t),
    "eval_chebyt",
)  # fmt: skip
shifted_chebyshev_polynomial_u = _declared(
    "shifted_chebyshev_polynomial_u", "The Chebyshev polynomial of the second kind, on [0, 1],", _shifted(_u),
    "eval_chebyu",
)  # fmt: skip
shifted_chebyshev_polynomial_v = _declared(
    "shifted_chebyshev_polynomial_v",
    "The Chebyshev polynomial of the third kind, on [0, 1],",
    _shifted(_v),
    "v",
)
shifted_chebyshev_polynomial_w = _declared(
    "shifted_chebyshev_polynomial_w",
    "The Chebyshev polynomial of the fourth kind, on [0, 1],",
    _shifted(_w),
    "w",
)
