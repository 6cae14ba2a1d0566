"""Sizes remember what was computed from them, and what was decided by them."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hologram.foundation.dtypes import f32
from hologram.foundation.sizes import Real, Size, Trace, fixed_range, plain
from hologram.machine.axes import broadcast, row_major
from hologram.machine.layout import Layout
from hologram.machine.merging import collapse


def of(function: Callable[..., Any], *values: int) -> Callable[..., Any]:
    """A function of integers, traced at these values; None where it decides otherwise for others."""
    trace = Trace()
    found = function(*map(trace.symbol, values))
    names: dict[str, Any] = {}

    def text(x: Any) -> str:
        if isinstance(x, tuple):
            return "(" + "".join(f"{text(item)}, " for item in x) + ")"
        return x.name if isinstance(x, (Size, Real)) else repr(x)

    return trace.function(text(found), names)


SAME: dict[str, Callable[..., Any]] = {
    "sums": lambda a, b: (a + b + 1, a - 3, 5 - b, -a, abs(a - b)),
    "products": lambda a, b: (a * b * 4, a * 0 + b, 1 * a),
    "quotients": lambda a, b: (a // b, a % b, -(-a // 4) * 4, *divmod(a, b)),
    "shifts": lambda a, b: (a << 2, b >> 1, (a - 1).bit_length()),
    "floats": lambda a, b: (a / b, a * 0.25, 3 / b, int(a / b), a / b - 0.5),
    "choices": lambda a, b: (max(a, b), min(a, 16), a if a > 2 * b else b, sorted((a, b))[0]),
    "strides": lambda a, b: row_major((a, b, 3)),
    "products of many": lambda a, b: (math.prod((a, b, a)), sum((a, b))),
    "slices": lambda a, b: tuple(
        x for s in ((1, None, 2), (None, -1, 1), (None, None, -3), (-40, 40, 3))
        for part in [Layout.contiguous(f32, (a, b)).slice(0, *s)] for x in (*part.shape, part.offset)
    ),
    "ranges": lambda a, b: (len(fixed_range(0, a, 7)), tuple(fixed_range(0, a, a + b))),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
@given(a=st.integers(1, 99), b=st.integers(1, 99), x=st.integers(1, 99), y=st.integers(1, 99))
def test_what_was_traced_gives_the_same_for_other_sizes(name: str, a: int, b: int, x: int, y: int) -> None:
    function = SAME[name]
    traced = of(function, a, b)
    assert traced(a, b) == function(a, b)
    assert traced(x, y) in (None, function(x, y))


@given(a=st.integers(1, 99), x=st.integers(1, 99))
def test_arithmetic_alone_decides_nothing(a: int, x: int) -> None:
    assert of(lambda n: (n * 4 + 3, -(-n // 8), n % 5, n / 2), a)(x) == (
        x * 4 + 3,
        -(-x // 8),
        x % 5,
        x / 2,
    )


LOOKS: tuple[Callable[[Any], Any], ...] = (
    str,
    repr,
    int,
    float,
    math.sqrt,
    "{}".format,
    lambda n: n**2,
    lambda n: n & 3,
)


@pytest.mark.parametrize("look", [*LOOKS, lambda n: 2**n, lambda n: len(fixed_range(n)), pickle.dumps])
def test_who_looks_at_the_digits_has_decided(look: Callable[[Any], Any]) -> None:
    traced = of(lambda n: (look(n), 1)[1:], 30)
    assert traced(30) == (1,)
    assert traced(31) is None


def test_what_is_decided_is_a_condition() -> None:
    def kind(n: Any) -> str:
        return "none" if not n else "few" if n < 8 else "even" if n % 2 == 0 else "odd"

    even = of(kind, 30)
    assert [even(n) for n in (0, 7, 8, 9, 1000)] == [None, None, "even", None, "even"]


def test_equal_sizes_of_one_origin_decide_nothing() -> None:
    same = of(lambda n: broadcast([(n * 2, 1), (n * 2, 3), (1, 3)], "test"), 5)
    assert same(9) == (18, 3)
    other = of(lambda n, m: broadcast([(n,), (m,)], "test"), 5, 5)
    assert other(6, 6) == (6,)
    assert other(6, 7) is None


def test_a_layout_of_sizes_is_no_other_traces() -> None:
    def layout(trace: Trace) -> Layout:
        return Layout.contiguous(f32, (trace.symbol(4), trace.symbol(6)))

    one, other = layout(Trace()), layout(Trace())
    assert one is not other
    assert one is not Layout.contiguous(f32, (4, 6))
    assert collapse([one])[0].shape == (24,)


def test_a_closed_trace_keeps_nothing() -> None:
    trace = Trace()
    n = trace.symbol(8)
    trace.close()
    assert type(n + 1) is int
    assert n > 3
    assert not trace.lines
    assert type(plain(n)) is int
