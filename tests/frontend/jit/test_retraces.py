"""Signatures that are kept, and what is said of a function that is traced again and again."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.frontend.jit import jitted as module
from hologram.frontend.jit.retraces import MANY
from tests.frontend.jit.traces import jit, traces


def said(calls: Any) -> list[str]:
    """The warnings of each call, which must name this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in calls:
            call()
    assert all(w.filename == __file__ and w.category is RuntimeWarning for w in caught)
    return [str(w.message) for w in caught]


def test_an_index_is_warned_of_once_after_8_retraces(executor: hg.Executor) -> None:
    x = executor.tensor(np.arange(40, dtype=np.float32))

    @hg.jit
    def picked(t, at, rate):
        return t[at["row"] + 1] * rate

    def call(n: int) -> Any:
        return lambda: picked(x, {"row": n}, n * 0.5)

    assert MANY == 8
    assert said(map(call, range(8))) == []  # the first trace, and seven more
    (message,) = said(map(call, range(8, 30)))
    assert "picked was compiled 8 more times" in message
    assert "the value of its argument at['row'] changes: 1, 2, 3, 4, 5, 6, 7, 8" in message
    assert f"asked for in {__file__}:{picked.function.__code__.co_firstlineno + 2}" in message
    assert "hg.take" in message
    assert "rate" not in message
    assert picked(x, {"row": 20}, 2.0).item() == 42.0


@pytest.mark.parametrize(
    ("argument", "what", "remedy"),
    [
        (lambda ex, n: ex.ones((n + 1,)), "shape of its argument x changes: (3,), (4,)", "Pad it"),
        (lambda ex, n: [ex.ones((2,))] * (n + 1), "structure of its arguments changes.", "as many leaves"),
        (lambda ex, n: (ex.ones((2,)), str(n)), "fixed value of its argument x[1] changes: '2', '3'", "=="),
        (
            lambda ex, n: ex.ones((20,))[n : n + 2],
            "layout of its argument x changes: strides (1,) from",
            "contiguous",
        ),
    ],
)
def test_other_reasons_are_named_too(executor: hg.Executor, argument: Any, what: str, remedy: str) -> None:
    jitted = hg.jit(lambda x: (x if isinstance(x, hg.Tensor) else x[0]) * 2)
    (message,) = said([lambda n=n: jitted(argument(executor, n)) for n in range(1, 14)])
    assert what in message
    assert remedy in message


def test_what_is_traced_for_different_reasons_is_not_warned_of(executor: hg.Executor) -> None:
    jitted = hg.jit(lambda x, n, mode: x * int(n))
    calls = [lambda s=s, n=n: jitted(executor.ones((s,)), n, "a") for s in (1, 2, 3, 4) for n in (1, 2)]
    assert said(calls * 3) == []
    assert said([lambda: jitted(executor.ones((1,)), 1, "b")]) == []


@pytest.mark.filterwarnings("ignore:hg.jit")
def test_many_signatures_lose_the_oldest_and_no_other(
    executor: hg.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SIGNATURES", 12)
    monkeypatch.setattr(module, "IN_ORDER", 6)
    traced = []

    @hg.jit
    def scaled(t, mode="", n=0):
        traced.append((t.shape, mode))
        return t * (2 if n > 5 else 3)

    x = [executor.ones((n + 1,)) for n in range(40)]
    scaled(x[0])
    for n in range(1, 40):
        assert scaled(x[n]).shape == (n + 1,)
        scaled(x[0])  # of plain tensors
        scaled(x[0], "kept")  # with something else
        scaled(x[0], "asked", n % 2)  # with a number that is asked for
    assert [shape for shape, mode in traced].count((1,)) == 4  # none of these was lost
    assert len(traced) == 4 + 39
    for again, n in enumerate((1, 27), 1):  # 12 are younger than the last of them
        scaled(x[n])
        assert len(traced) == 4 + 39 + again
    scaled(x[39])
    assert len(traced) == 4 + 39 + 2


def squared(*xs: Any) -> Any:
    return hg.sum(sum(x * x for x in xs))


def test_pullbacks_of_one_function_are_few(executor: hg.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PULLBACKS", 3)
    jitted = jit(squared)
    given = [executor.full((2,), float(n)) for n in range(6)]
    for n in range(6):
        g = hg.grad(jitted, argnums=n)(*given)
        np.testing.assert_array_equal(g.to_numpy(), np.full(2, 2.0 * n, np.float32))
    for n, anew in ((5, False), (3, False), (2, True)):
        before = traces(jitted)
        hg.grad(jitted, argnums=n)(*given)
        assert (traces(jitted) > before) is anew
