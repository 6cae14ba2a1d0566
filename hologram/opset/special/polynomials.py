"""Orthogonal polynomials, by their recurrences; the degree is a tensor too, truncated to an integer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes, lazy
from hologram.foundation.dtypes import FLOATS, DType
from hologram.opset.forms import types
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.samples import array

if TYPE_CHECKING:
    from scipy import special
else:  # for references
    special = lazy.module("scipy.special")
MOST_TURNS = 32_768  # of a lane; where |x| > 1 even f64 has overflowed long before
# Of x, k and the last two: the polynomial of degree k + 1.
Step = Callable[[Value, Value, Value, Value], Value]
Function = Callable[[Value, Value], Value]  # of x and the degree


def _recurrence(x: Value, degree: Value, first: Value, step: Step, most: int = MOST_TURNS) -> Value:
    """The polynomial of a degree; `first` is that of degree 1. Of a negative degree 0, as in PyTorch."""
    one = x.builder.constant(1.0, x.dtype)
    last = select(degree < float(most), degree, float(most)).to(dtypes.i32)

    def turn(k: Value, before: Value, current: Value) -> tuple[Value, Value]:
        return current, step(x, k.to(x.dtype), before, current)

    stop = select(last > 1, last, 1)
    _, value = x.builder.loop(1, stop, turn, first=(one, first), dtype=dtypes.i32)
    return select(degree < 0.0, 0.0, select(last == 0, one, select(last == 1, first, value)))


def _whole(n: Value) -> Value:
    """A degree; of NaN and what is below 0 a negative one."""
    return select(n > -1.0, atlas.trunc(n), -1.0)


def _cosine(x: Value, n: Value, first: Value, by_angle: Callable[[Value, Value], Value], least: int) -> Value:
    """By the recurrence, but of a high degree between -1 and 1 by the angle whose cosine x is."""
    inside = (atlas.absolute(x) < 1.0) & (n > float(least))
    low = _recurrence(x, select(inside, 0.0, n), first, lambda x, k, a, b: (x + x) * b - a)
    angle = atlas.atan(atlas.sqrt((1.0 - x) / (1.0 + x))) * 2.0
    return select(inside, by_angle(angle, n), low)


def _limited(x: Value, n: Value, first: Value, step: Step) -> Value:
    """Beyond the degrees that PyTorch computes NaN."""
    value = _recurrence(x, n, first, step, 512)
    return select(n > (512.0 if n.dtype == dtypes.f64 else 128.0), math.nan, value)


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


def _declare(name: str, words: str, function: Function, reference: str) -> None:
    def declaration(x, n):
        return function(x, _whole(n))

    declaration.__name__, declaration.__doc__ = name, f"{words} of degree n; 0 of a negative one."
    elementwise(
        types=types.floating, dtypes=FLOATS, samples=_samples, ulp=64, absolute=512.0,
        reference=_reference(reference, name.startswith("shifted")), aten=(f"special_{name}",),
    )(declaration)  # fmt: skip


_CHEBYSHEV: tuple[tuple[str, str, Function, str], ...] = (
    ("t", "first", lambda x, n: _cosine(x, n, x, lambda a, n: atlas.cos(n * a), 6), "eval_chebyt"),
    ("u", "second",
     lambda x, n: _cosine(x, n, x + x, lambda a, n: atlas.sin((n + 1.0) * a) / atlas.sin(a), 8), "eval_chebyu"),
    ("v", "third",
     lambda x, n: _cosine(x, n, x + x - 1.0, lambda a, n: atlas.cos((n + 0.5) * a) / atlas.cos(a * 0.5), 8), "v"),
    ("w", "fourth",
     lambda x, n: _cosine(x, n, x + x + 1.0, lambda a, n: atlas.sin((n + 0.5) * a) / atlas.sin(a * 0.5), 8), "w"),
)  # fmt: skip
for _kind, _which, _function, _name in _CHEBYSHEV:
    _declare(
        f"chebyshev_polynomial_{_kind}", f"The Chebyshev polynomial of the {_which} kind", _function, _name
    )
_declare("hermite_polynomial_h", "The physicist's Hermite polynomial",
         lambda x, n: _limited(x, n, x + x, lambda x, k, a, b: (x + x) * b - (k + k) * a), "eval_hermite")  # fmt: skip
_declare("hermite_polynomial_he", "The probabilist's Hermite polynomial",
         lambda x, n: _limited(x, n, x, lambda x, k, a, b: x * b - k * a), "eval_hermitenorm")  # fmt: skip
_declare("laguerre_polynomial_l", "The Laguerre polynomial", lambda x, n: _recurrence(
    x, n, 1.0 - x, lambda x, k, a, b: ((k + k + (1.0 - x)) * b - k * a) / (k + 1.0)), "eval_laguerre")  # fmt: skip
_declare("legendre_polynomial_p", "The Legendre polynomial", lambda x, n: _recurrence(
    x, n, x, lambda x, k, a, b: ((k + k + 1.0) * x * b - k * a) / (k + 1.0)), "eval_legendre")  # fmt: skip
for _kind, _which, _function, _name in _CHEBYSHEV:
    _declare(
        f"shifted_chebyshev_polynomial_{_kind}",
        f"The Chebyshev polynomial of the {_which} kind, on [0, 1],",
        lambda x, n, function=_function: function(x + x - 1.0, n),
        _name,
    )
