"""What loops and choices refuse, in the words of who calls them."""

from __future__ import annotations

from typing import Any

import pytest

import hologram as hg


def test_a_state_that_changes(executor: hg.Executor) -> None:
    x, xs = executor.ones((3,)), executor.ones((4, 3))

    def narrowed(c: Any, x: Any) -> Any:
        return {"a": [c["a"][0].astype("f16")]}, None

    with pytest.raises(
        hg.UnsupportedDType, match=r"narrowed: the state\['a'\]\[0\] must keep its dtype.*f32.*f16"
    ):
        hg.scan(narrowed, {"a": [x]}, xs)

    def grown(c: Any, x: Any) -> Any:
        return (c[0], hg.concat([c[1], x])), None

    with pytest.raises(
        hg.ShapeError, match=r"grown: the state\[1\] must keep its shape.*\(3,\) before.*\(6,\) after"
    ):
        hg.scan(grown, (0, x), xs)
    with pytest.raises(hg.ShapeError, match=r"structure .* the state; got the state\[0\], the state\[1\]"):
        hg.scan(lambda c, x: ((c, c), None), x, xs)
    with pytest.raises(
        hg.ShapeError, match=r"fori_loop: .* holds the state\[0\], the state\[1\]; got the state\[0\]$"
    ):
        hg.fori_loop(0, 3, lambda i, v: None, x)
    with pytest.raises(hg.ShapeError, match=r"scan: .* holds the state; got nothing"):
        hg.scan(lambda c, x: (None, c), x, xs)
    with pytest.raises(hg.ShapeError, match=r"while_loop: the state must keep its shape"):
        hg.while_loop(lambda v: hg.sum(v) < 10, lambda v: hg.concat([v, v]), x)
    with pytest.raises(hg.UnsupportedDType, match=r"fori_loop: the state\[1\] must keep its dtype.*i32.*f32"):
        hg.fori_loop(0, 3, lambda i, v: v * 0.5, hg.asarray([1, 2], dtype="i32"))


def test_a_number_takes_the_dtype_that_the_body_makes(executor: hg.Executor) -> None:
    assert hg.fori_loop(0, 3, lambda i, v: v * 0.5, 8).item() == 1.0
    with pytest.raises(hg.UnsupportedDType, match=r"f32 before and i32 after"):
        hg.fori_loop(0, 3, lambda i, v: v.astype("i32"), 8.0)


def test_rows_of_different_lengths(executor: hg.Executor) -> None:
    x, y = executor.ones((3, 2)), executor.ones((4,))
    with pytest.raises(hg.ShapeError, match=r"one length.*xs\['a'\] 3, xs\['b'\] 4"):
        hg.scan(lambda c, x: (c, None), 0.0, {"a": x, "b": y})
    with pytest.raises(hg.ShapeError, match=r"one length.*length 5, xs 3"):
        hg.scan(lambda c, x: (c, None), 0.0, x, length=5)
    with pytest.raises(hg.ShapeError, match="needs a length"):
        hg.scan(lambda c, x: (c, None), 0.0)
    with pytest.raises(hg.ShapeError, match="length must be at least 0, got -1"):
        hg.scan(lambda c, x: (c, None), 0.0, length=-1)
    with pytest.raises(hg.ShapeError, match="rows to go over"):
        hg.scan(lambda c, x: (c, None), 0.0, executor.ones(()))


def test_bodies_that_give_something_else(executor: hg.Executor) -> None:
    x = executor.ones((3,))
    with pytest.raises(TypeError, match=r"must return \(carry, y\), got Traced"):
        hg.scan(lambda c, x: c, 0.0, x)
    with pytest.raises(TypeError, match="a function is needed, got int"):
        hg.scan(3, 0.0, x)  # type: ignore[arg-type]
    with pytest.raises(hg.ShapeError, match=r"condition must be one bool.*f32"):
        hg.while_loop(lambda v: v, lambda v: v, 1.0)
    with pytest.raises(TypeError, match="can be carried through it, got str"):
        hg.scan(lambda c, x: (c, None), "state", x)


def test_elements_are_not_known_inside(executor: hg.Executor) -> None:
    x = executor.ones((3,))
    with pytest.raises(hg.TraceError, match="fori_loop: the value of a traced tensor"):
        hg.fori_loop(0, 3, lambda i, v: v * v.item(), 1.0)

    def writes(c: Any, _: Any) -> Any:
        x[0] = c
        return c, None

    with pytest.raises(hg.TraceError, match="closes over is written to"):
        hg.scan(writes, 1.0, length=2)
    kept: list[Any] = []
    hg.fori_loop(0, 3, lambda i, v: kept.append(v) or v + 1, 1.0)
    with pytest.raises(hg.TraceError, match="kept and used after it"):
        hg.sum(kept[0])


def test_choices(executor: hg.Executor) -> None:
    x = executor.ones((3,))
    with pytest.raises(
        hg.ShapeError, match=r"result must be the same.*false_fun gives .*\(3,\).*true_fun .*\(6,\)"
    ):
        hg.cond(True, lambda x: hg.concat([x, x]), lambda x: x, x)
    with pytest.raises(hg.UnsupportedDType, match=r"branch 0 gives f32.*branch 1 f16"):
        hg.switch(0, [lambda x: x, lambda x: x.astype("f16")], x)
    with pytest.raises(hg.ShapeError, match="one structure"):
        hg.cond(True, lambda x: (x, x), lambda x: x, x)
    with pytest.raises(hg.ShapeError, match=r"one number.*got shape \(3,\)"):
        hg.cond(x > 0, lambda x: x, lambda x: x, x)
    with pytest.raises(hg.UnsupportedDType, match="index must be an integer, got f32"):
        hg.switch(1.0, [lambda: 1.0])
    with pytest.raises(ValueError, match="at least one branch"):
        hg.switch(0, [])


def test_tensors_of_another_executor(executor: hg.Executor) -> None:
    with hg.Executor(backend="cpu") as other:
        x, y = executor.ones((3,)), other.ones((3,))
        with pytest.raises(hg.TraceError, match="must belong to"):
            hg.fori_loop(0, 3, lambda i, v: v + y, x)
