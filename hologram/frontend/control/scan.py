"""Loops over rows: scan and map; and checkpoint, which is one of a single turn."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from hologram.compiler.fusion.control import without_first
from hologram.compiler.fusion.graph import Loop
from hologram.foundation.errors import ShapeError
from hologram.frontend.control.body import executor_of, tensor_of
from hologram.frontend.control.primitives import controlled
from hologram.frontend.control.state import Like, State, named, who_of
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import leaves, mapped, paths
from hologram.machine.axes import whole


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """Calls `carry, y = f(carry, x)` for each row x of xs, and stacks the ys: JAX's scan.

        total, sums = hg.scan(lambda total, x: (total + x, total + x), 0.0, x)

    f is traced once, also outside of hg.jit, and its kernels run for each turn on the device.

    Args:
        f: takes what is carried and a row of xs; gives what is carried on, of the same structure, shapes and dtypes,
            and what is to be stacked.
        init: what is carried at first: tensors, arrays and numbers (ints are i32, floats f32), in any nesting.
        xs: tensors with a common length along their first axis, in any nesting; None: f gets None.
        length: the number of turns, where xs does not say.
        reverse: whether rows are taken from the last to the first; the ys lie as the xs do.
        unroll: is taken for JAX's sake, and has no effect.

    Returns:
        What is carried at the end, and the ys stacked along a new first axis.

    Raises:
        ShapeError, UnsupportedDType: what is carried changes its structure, a shape or a dtype; lengths differ.
    """
    return turned(f, init, xs, length, reverse)


def turned(
    f: Any, init: Any, xs: Any, length: int | None, reverse: bool, counted: bool = False
) -> tuple[Any, Any]:
    """See scan. `counted`: what is carried begins with a number that nobody asks for at the end."""
    who = who_of(f, "scan")
    engine = executor_of(init, xs)
    rows = [tensor_of(engine, x, who) for x in leaves(xs) if x is not None]
    count = _length(who, xs, rows, length)
    state = State(who, engine, init)
    like = [Like(x.shape[1:], x.dtype) for x in rows]

    def step(carry: Any, *given: Any) -> Any:
        rest = iter(given)
        returned = f(carry, mapped(xs, lambda x: None if x is None else next(rest)))
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise TypeError(f"{who}: it must return (carry, y), got {type(returned).__name__}")
        return returned

    body = state.traced(step, like, lambda result: result[0])
    loop = Loop(who, body.graph, len(body.captured), len(state.tensors), count, reverse)
    fewer = without_first(loop) if counted else None
    carried = state.tensors if fewer is None else state.tensors[1:]
    results = controlled(engine, fewer or loop, [*body.captured, *carried, *rows])
    rest = iter(results if fewer is None else (state.tensors[0], *results))
    carry = mapped(state.tree, lambda x: None if x is None else next(rest))
    return carry, mapped(body.result[1], lambda x: None if x is None else next(rest))


def map_(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """f of each row of xs, stacked: JAX's map, a scan that carries nothing. `batch_size` has no effect."""

    def step(_: Any, x: Any) -> Any:
        return (), f(x)

    return scan(named(step, who_of(f, "map")), (), xs)[1]


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; reverse mode computes it once more instead of keeping what is between: JAX's checkpoint.

    Its positional arguments are tensors and numbers in any nesting; keyword arguments are constants.
    """

    @functools.wraps(function)
    def again(*args: Any, **kwargs: Any) -> Any:
        engine = executor_of(args)
        who = who_of(function, "checkpoint")
        rows = mapped(args, lambda x: None if x is None else tensor_of(engine, x, who).unsqueeze(0))

        def step(_: Any, x: Any) -> Any:
            return (), function(*x, **kwargs)

        _, ys = scan(named(step, who), (), rows, length=1)
        return mapped(ys, lambda y: None if y is None else y.select(0, 0))

    return again


def _length(who: str, xs: Any, rows: Sequence[Tensor], length: int | None) -> int:
    names = [p for p, x in zip(paths(xs, "xs"), leaves(xs), strict=True) if x is not None]
    found = {} if length is None else {"length": whole(length, f"{who}: length")}
    for name, row in zip(names, rows, strict=True):
        if not row.ndim:
            raise ShapeError(f"{who}: {name} must have rows to go over, got a tensor without axes")
        found[name] = row.shape[0]
    if not found:
        raise ShapeError(f"{who}: without xs it needs a length")
    if len(set(found.values())) > 1:
        lengths = ", ".join(f"{name} {n}" for name, n in found.items())
        raise ShapeError(f"{who}: xs must have one length along their first axis, got {lengths}")
    count = next(iter(found.values()))
    if count < 0:
        raise ShapeError(f"{who}: length must be at least 0, got {count}")
    return count
