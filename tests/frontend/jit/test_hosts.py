"""NumPy's arrays that a jitted function closes over count with what they hold when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg

FORMS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "operand": lambda x, c: x * c,
    "left operand": lambda x, c: c - x,
    "of a function": lambda x, c: hg.where(x > 0, c, x),
    "tensor of it": lambda x, c: x + hg.asarray(c),
    "of another dtype": lambda x, c: x + hg.asarray(c, dtype="i32"),
    "a view": lambda x, c: x[:2] * c[1:],
    "written": lambda x, c: (lambda y: (y.__setitem__(slice(None), c), y)[1])(x + 0),
    "in a loop": lambda x, c: hg.scan(lambda s, _: (s + c, None), x, None, length=3)[0],
    "in a derivative": lambda x, c: hg.grad(lambda x: (x * x * c).sum())(x),
    "vectorised": lambda x, c: hg.vmap(lambda x: x * c)(x[None])[0],
    "in another compiled function": lambda x, c: hg.jit(lambda x: x * c)(x),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_arrays_hold_counts(executor: hg.Executor, name: str) -> None:
    c, x = np.array([1.0, 2.0, 3.0], np.float32), executor.tensor([1.0, 2.0, 3.0])
    calls = 0

    def f(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return FORMS[name](x, c)

    jitted = hg.jit(f)
    for change in (None, (0, 7.0), (2, -1.0), (1, 2.0)):
        if change is not None:
            c[change[0]] = change[1]
        with hg.use_executor(executor):
            np.testing.assert_array_equal(jitted(x).to_numpy(), FORMS[name](x, c).to_numpy())
    assert calls == 1


def test_arrays_that_nobody_else_holds_are_not_compared(executor: hg.Executor) -> None:
    held = np.ones(3, np.float32)
    jitted = hg.jit(lambda x: x * np.arange(3.0, dtype=np.float32) + held)
    x = executor.tensor([1.0, 2.0, 3.0])
    assert jitted(x).tolist() == [1.0, 3.0, 7.0]
    assert [h.array is held for h in jitted.compiled(x).hosted] == [True]
    assert hg.jit(lambda x: x * 2).compiled(x).hosted == ()


def test_arrays_keep_their_shape(executor: hg.Executor) -> None:
    c, x = np.ones(3, np.float32), executor.tensor([1.0, 2.0, 3.0])
    jitted = hg.jit(lambda x: x * c)
    jitted(x)
    c.resize((1, 3), refcheck=False)
    with pytest.raises(hg.TraceError, match=r"had shape \(3,\) when it was traced, now \(1, 3\)"):
        jitted(x)
