"""Loops that go on while a condition holds, and those that count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hologram.compiler.fusion.graph import Loop
from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError
from hologram.frontend.control.body import executor_of, tensor_of, traced_body, united
from hologram.frontend.control.primitives import controlled
from hologram.frontend.control.scan import turned
from hologram.frontend.control.state import State, named, who_of
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import mapped
from hologram.machine.axes import whole


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """`while cond_fun(val): val = body_fun(val)`, on the device: JAX's while_loop.

    Both functions are traced once. A device that the host waits for is asked now and then whether the condition still
    holds. Reverse mode needs a known number of turns (scan, fori_loop).

    Args:
        cond_fun: takes the state, gives one bool.
        body_fun: takes the state, gives one of the same structure, shapes and dtypes.
        init_val: tensors, arrays and numbers (ints are i32, floats f32), in any nesting.

    Raises:
        ShapeError, UnsupportedDType: the state changes its structure, a shape or a dtype; the condition is no bool.
    """
    who = who_of(body_fun, "while_loop")
    engine = executor_of(init_val)
    state = State(who, engine, init_val)
    body = state.traced(body_fun, (), lambda result: result)
    tensors = iter(state.tensors)
    like = mapped(init_val, lambda x: None if x is None else next(tensors))
    condition = traced_body(engine, who, cond_fun, [like])
    if [(x.shape, x.dtype) for x in condition.made] != [((), dtypes.bool_)]:
        got = ", ".join(f"{x.dtype} of shape {x.shape}" for x in condition.made) or "nothing"
        raise ShapeError(f"{who}: its condition must be one bool, a tensor without axes, got {got}")
    graphs, captured = united([body, condition])
    loop = Loop(who, graphs[0], len(captured), len(state.tensors), condition=graphs[1])
    results = iter(controlled(engine, loop, [*captured, *state.tensors]))
    return mapped(init_val, lambda x: None if x is None else next(results))


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)`, as one loop on the device: JAX's fori_loop.

    i is a tensor of i32. Where both bounds are Python's integers the number of turns is known, and reverse mode goes
    through the loop; bounds that are tensors are asked for on the device, as by while_loop.
    """
    who = who_of(body_fun, "fori_loop")
    if isinstance(lower, Tensor) or isinstance(upper, Tensor):
        engine = executor_of(lower, upper, init_val)
        end = tensor_of(engine, upper, who)
        _, _, value = while_loop(
            lambda state: state[0] < state[1],
            lambda state: (state[0] + 1, state[1], body_fun(state[0], state[2])),
            (tensor_of(engine, lower, who).astype(end.dtype), end, init_val),
        )
        return value
    first, last = whole(lower, f"{who}: a bound"), whole(upper, f"{who}: a bound")

    def step(state: Any, _: None) -> Any:
        return (state[0] + 1, body_fun(*state)), None

    turns = max(0, last - first)
    return turned(named(step, who), (first, init_val), None, turns, False, counted=True)[0][1]
