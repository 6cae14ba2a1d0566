"""Three derivatives of functions of several numbers along lines, through equal, opposite, no and infinite elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import f32, f64
from hologram.opset import OPERATIONS
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.row import Row
from tests.needs import has
from tests.opset.test_gradients import UNKNOWN

pytestmark = pytest.mark.sampled(3)

mp = pytest.importorskip("mpmath")

from tests.series import fits, sides  # noqa: E402  (it needs mpmath)

INF = math.inf
Numbers = Sequence[Any]


@dataclass(frozen=True)
class Line:
    """A function of the last axis of a tensor, and the same of a list of numbers, at points along directions."""

    function: Callable[[hg.Tensor], hg.Tensor]
    meaning: Callable[[Numbers], Any]
    points: Sequence[tuple[float, ...]]
    directions: Sequence[tuple[float, ...]]

    def check(self, executor: hg.Executor, dtype: Any, tolerance: float) -> None:
        """Reverse over reverse over reverse, and forward mode over the first, of the place along the line."""
        at = np.array(self.points, dtype.numpy)
        for direction in self.directions:
            along = np.where(np.isinf(at), 0.0, direction).astype(dtype.numpy)
            x, way = executor.tensor(at), executor.tensor(along)

            def value(t: hg.Tensor, x: hg.Tensor = x, way: hg.Tensor = way) -> hg.Tensor:
                return self.function(x + t.unsqueeze(1) * way)

            start, found = executor.zeros(len(at), dtype=dtype), []
            function: Callable[..., hg.Tensor] = value
            for _ in range(3):
                before = function
                function = hg.grad(lambda t, before=before: hg.sum(before(t)))
                found.append(function(start).to_numpy())
            slope = hg.grad(lambda t, value=value: hg.sum(value(t)))
            second = hg.jvp(slope, (start,), (executor.ones(len(at), dtype=dtype),))[1].to_numpy()
            for k, (point, way_there) in enumerate(zip(at.tolist(), along.tolist(), strict=True)):
                left, right = self.wanted(point, way_there)
                for order, got in ((0, found[0]), (1, found[1]), (2, found[2]), (1, second)):
                    wanted = left[order], right[order]
                    good = fits(float(got[k]), *wanted, tolerance, 1e9, signed=False)
                    assert good, (point, direction, order + 1, got[k], wanted)

    def wanted(self, point: Sequence[float], direction: Sequence[float]) -> Any:
        def value(t: Any) -> Any:
            moved = zip(map(mp.mpf, point), direction, strict=True)
            return self.meaning([a if mp.isinf(a) else a + t * d for a, d in moved])

        return sides(value)


# Of two numbers.


def remainder(x: Any, y: Any) -> Any:
    return x - y * mp.floor(x / y)


PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y, "atan2": mp.atan2, "hypot": lambda x, y: mp.sqrt(x * x + y * y),
    "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)), "pow": mp.power, "maximum": max, "minimum": min,
    "squared_difference": lambda x, y: (x - y) ** 2, "copysign": lambda x, y: abs(x) * (1 if y >= 0 else -1),
    "fmax": max, "fmin": min, "remainder": remainder,
    "fmod": lambda x, y: x - y * (mp.floor(x / y) if x / y > 0 else mp.ceil(x / y)), "nextafter": lambda x, y: x,
}  # fmt: skip
GRID = tuple(product((0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 30.0), repeat=2))
# Where neither a function nor a side of it is smooth, or PyTorch's choice is another: corners of remainders and kinks,
# 0 to a power that moves, and nothing over nothing.
ROUGH: dict[str, Callable[[float, float], bool]] = {
    "divide": lambda x, y: y == 0, "pow": lambda x, y: x <= 0, "copysign": lambda x, y: x == 0 or y == 0,
    "remainder": lambda x, y: y == 0 or x % y == 0, "fmod": lambda x, y: y == 0 or x % y == 0,
}  # fmt: skip
APART = ("complex", "polar", "binary_cross_entropy", "floor_divide", "trunc_divide")  # see test_gradients.py
TWO = [
    o.name for o in OPERATIONS.values()
    if isinstance(o, Elementwise) and f64 in o.dtypes and len(o.operands) == 2 and o.name not in (*UNKNOWN, *APART)
    and o.infer((hg.asarray(np.zeros(1)).layout,) * 2, o.attributes)[0].dtype.is_float
]  # fmt: skip


@pytest.mark.parametrize("name", [*TWO, "logaddexp2"])
def test_functions_of_two_numbers(name: str, executor: hg.Executor) -> None:
    function, meaning = getattr(hg, name), PAIRS.get(name)
    if name == "logaddexp2":
        meaning = lambda x, y: mp.log(mp.power(2, x) + mp.power(2, y), 2)  # noqa: E731
    assert meaning is not None
    rough = ROUGH.get(name, lambda x, y: False)
    line = Line(
        lambda x: function(x.select(1, 0), x.select(1, 1)),
        lambda v: meaning(*v),
        [p for p in GRID if not rough(*p)],
        ((1, 0), (0, 1), (1, 1), (1, -0.5)),
    )
    for dtype, tolerance in ((f64, 1e-7), (f32, 3e-3)) if has(executor, f64) else ((f32, 3e-3),):
        line.check(executor, dtype, tolerance)


def test_powers_with_a_base_below_or_at_0(executor: hg.Executor) -> None:
    """As the exponent is a number, and no derivative of it is asked for."""
    for exponent in (0.0, 1.0, 2.0, 3.0, 4.0, -1.0, -2.0):
        line = Line(
            lambda x, n=exponent: hg.pow(x.select(1, 0), n),
            lambda v, n=exponent: v[0] ** int(n),
            [(0.0,), (-1.0,), (-0.5,), (2.0,)],
            [(1.0,)],
        )
        line.check(executor, f32, 3e-3)
        tensor = executor.full((4,), exponent)
        replace(line, function=lambda x, n=tensor: hg.pow(x.select(1, 0), n)).check(executor, f32, 3e-3)


# Of rows.

WEIGHTS = (0.7, -1.3, 0.4, 1.1)


def weighed(function: Callable[[hg.Tensor], hg.Tensor]) -> Callable[[hg.Tensor], hg.Tensor]:
    return lambda x: hg.sum(function(x) * x.executor.tensor(np.array(WEIGHTS, x.dtype.numpy)), axis=1)


def summed(function: Callable[[Numbers], Numbers]) -> Callable[[Numbers], Any]:
    return lambda v: sum(mp.mpf(w) * x for w, x in zip(WEIGHTS, function(v), strict=True))


def softmax(v: Numbers) -> list[Any]:
    parts = [mp.exp(x - max(v)) for x in v]
    return [x / sum(parts) for x in parts]


def variance(v: Numbers, eps: float = 0.0) -> Any:
    mean = sum(v) / len(v)
    return sum((x - mean) ** 2 for x in v) / len(v) + mp.mpf(eps)


def normal(v: Numbers) -> list[Any]:
    return [(x - sum(v) / len(v)) / mp.sqrt(variance(v, 1e-5)) for x in v]


def root_mean_square(v: Numbers) -> list[Any]:
    return [x / mp.sqrt(sum(y * y for y in v) / len(v) + mp.mpf(1e-6)) for x in v]


def logsumexp(v: Numbers) -> Any:
    return mp.log(sum(map(mp.exp, v)))


def running(fold: Callable[[Numbers], Any]) -> Callable[[Numbers], Numbers]:
    return lambda v: [fold(v[: k + 1]) for k in range(len(v))]


def norm(order: float) -> Callable[[Numbers], Any]:
    return lambda v: sum(abs(x) ** order for x in v) ** (1 / mp.mpf(order))


def middle(v: Numbers) -> Any:
    return sum(sorted(v)[1:3]) / 2


FINITE = ((0, 0, 0, 0), (1, 1, 1, 1), (1, 2, 3, 4), (0, 1, 2, 3), (0, 0, 1, 2), (0, 0, 0, 1), (-1, 1, -1, 1),
          (2, 2, -1, 2), (30, -30, 0, 1), (300, -300, 0, 300))  # fmt: skip
ENDLESS = (*FINITE, (-INF, 0, 1, 2), (-INF, -INF, 0, 1))
APART_IN_ROWS = (
    (1, 2, 3, 4),
    (0.5, -0.5, 0, 0),
    (3, -1, 0, 2),
)  # of which no two differ at an end of the middle
ROWS: dict[str, tuple[Callable[..., Any], Callable[[Numbers], Any], Any]] = {
    "sum": (hg.sum, sum, FINITE), "mean": (hg.mean, lambda v: sum(v) / 4, FINITE),
    "prod": (hg.prod, mp.fprod, FINITE), "var": (hg.var, variance, FINITE),
    "std": (hg.std, lambda v: mp.sqrt(variance(v)), FINITE),
    "nanstd": (hg.nanstd, lambda v: mp.sqrt(variance(v)), FINITE),
    "max": (hg.max, max, ENDLESS), "min": (hg.min, min, ENDLESS), "logsumexp": (hg.logsumexp, logsumexp, ENDLESS),
    "median": (hg.median, middle, APART_IN_ROWS), "nanmedian": (hg.nanmedian, middle, APART_IN_ROWS),
    "softmax": (weighed(hg.softmax), summed(softmax), ENDLESS),
    "log_softmax": (weighed(hg.log_softmax), summed(lambda v: [x - logsumexp(v) for x in v]), FINITE),
    "layer_norm": (weighed(hg.layer_norm), summed(normal), FINITE),
    "batch_norm": (lambda x: weighed(lambda x: hg.batch_norm(x.T).T)(x), summed(normal), FINITE),
    "group_norm": (weighed(lambda x: hg.group_norm(x, num_groups=1)), summed(normal), FINITE),
    "rms_norm": (weighed(hg.rms_norm), summed(root_mean_square), FINITE),
    "dot_along": (lambda x: hg.dot_along(x, x, axis=1), lambda v: sum(x * x for x in v), FINITE),
    "class_cross_entropy": (
        lambda x: hg.class_cross_entropy(x, x.executor.full((x.shape[0], 1), 2, "i32")),
        lambda v: logsumexp(v) - v[2], ENDLESS),
    "cumprod": (weighed(lambda x: hg.cumprod(x, axis=1)), summed(running(mp.fprod)), FINITE),
    "logcumsumexp": (weighed(lambda x: hg.logcumsumexp(x, axis=1)), summed(running(logsumexp)), FINITE),
    **{f"vector_norm of order {n}": (lambda x, axis, n=n: hg.vector_norm(x, axis=axis, order=n), norm(n), FINITE)
       for n in (1, 2, 3, 4)},
    "linalg.norm": (lambda x, axis: hg.linalg.norm(x, axis=axis), norm(2), FINITE),
}  # fmt: skip
ALONG = ((1, 0, 0, 0), (0, 0, 1, 0), (1, 1, 1, 1), (1, -0.5, 0.25, 2))


def test_every_reduction_is_in_the_table() -> None:
    names = {name.split(" ")[0] for name in ROWS}
    for operation in OPERATIONS.values():
        if isinstance(operation, Row) and f64 in operation.dtypes and operation.name not in names:
            assert operation.name in ("argmin", "argmax", "any", "all")  # whose results are no floats


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, executor: hg.Executor) -> None:
    function, meaning, points = ROWS[name]
    named = function.__name__ == "<lambda>" and "axis" not in function.__code__.co_varnames
    line = Line(function if named else lambda x: function(x, axis=1), meaning, points, ALONG)
    for dtype, tolerance in ((f64, 1e-6), (f32, 1e-2)) if has(executor, f64) else ((f32, 1e-2),):
        line.check(executor, dtype, tolerance)


def test_numbers_on_a_circle(executor: hg.Executor) -> None:
    """Magnitudes and angles of complex numbers, whose parts are equal or 0; none at 0."""
    circle = [(1.0, 1.0), (-1.0, 1.0), (0.0, 2.0), (-2.0, 0.0), (0.5, -0.5)]
    for mine, theirs in ((hg.abs, abs), (hg.angle, mp.arg), (lambda z: hg.real(hg.sinc(z)), _sinc)):
        line = Line(
            lambda x, mine=mine: mine(hg.complex(x.select(1, 0), x.select(1, 1))),
            lambda v, theirs=theirs: theirs(mp.mpc(*v)),
            circle,
            ((1, 0), (0, 1), (1, 1), (1, -0.5)),
        )
        line.check(executor, f32, 3e-3)
    origin = executor.tensor(np.zeros(1, np.float32))
    slope = hg.grad(lambda x: hg.sum(hg.abs(hg.complex(x, x))))
    assert hg.grad(lambda x: hg.sum(slope(x)))(origin).item() == 0


def _sinc(z: Any) -> Any:
    return mp.re(mp.sin(mp.pi * z) / (mp.pi * z))
