"""Choices: which of several functions runs, by a number that the device knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hologram.compiler.fusion.graph import Choice
from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.frontend.control.body import Body, executor_of, tensor_of, traced_body, united
from hologram.frontend.control.primitives import controlled
from hologram.frontend.control.state import who_of
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import leaves, mapped, paths, same_structure
from hologram.machine.arguments import sequence


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """`true_fun(*operands) if pred else false_fun(*operands)`: JAX's cond.

    Both functions are traced, and must give results of one structure, shapes and dtypes. In a trace those that are
    cheap are both computed; of others one runs, for which the predicate is read back.
    """
    who = who_of(true_fun, "cond")
    engine = executor_of(pred, operands)
    number = tensor_of(engine, pred, who)
    if number.dtype is not dtypes.bool_ and not number.shape:
        number = number != 0
    return chosen(who, number, (false_fun, true_fun), operands, ("false_fun", "true_fun"))


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`, the index clamped to those there are: JAX's switch; see cond."""
    functions = sequence(branches, "switch: branches")
    if not functions:
        raise ValueError("switch: at least one branch is needed")
    who, *_ = [who_of(function, "switch") for function in functions]
    number = tensor_of(executor_of(index, operands), index, who)
    if not number.dtype.is_integer:
        raise UnsupportedDType(f"{who}: the index must be an integer, got {number.dtype}")
    return chosen(who, number, functions, operands)


def chosen(
    who: str,
    number: Tensor,
    functions: Sequence[Callable[..., Any]],
    operands: Any,
    names: Sequence[str] | None = None,
) -> Any:
    """The result of the function of a number, which errors call by its name."""
    if number.shape:
        raise ShapeError(f"{who}: it chooses by one number, a tensor without axes, got shape {number.shape}")
    engine = executor_of(number)
    names = names or [f"branch {k}" for k in range(len(functions))]
    tensors = [tensor_of(engine, x, who) for x in leaves(operands) if x is not None]
    rest = iter(tensors)
    like = mapped(operands, lambda x: None if x is None else next(rest))
    bodies = [traced_body(engine, who, f, like) for f in functions]
    for name, body in zip(names[1:], bodies[1:], strict=True):
        _check(who, names[0], bodies[0], name, body)
    graphs, captured = united(bodies)
    made = iter(controlled(engine, Choice(who, tuple(graphs)), [number, *captured, *tensors]))
    return mapped(bodies[0].result, lambda x: None if x is None else next(made))


def _check(who: str, first: str, body: Body, second: str, other: Body) -> None:
    if not same_structure(body.result, other.result):
        forms = [", ".join(paths(b.result, "result")) for b in (body, other)]
        raise ShapeError(
            f"{who}: results must have one structure, {first} gives {forms[0]}, {second} {forms[1]}"
        )
    names = [
        p for p, x in zip(paths(body.result, "result"), leaves(body.result), strict=True) if x is not None
    ]
    for name, a, b in zip(names, body.made, other.made, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            error = ShapeError if a.shape != b.shape else UnsupportedDType
            raise error(
                f"{who}: {name} must be the same of every branch, {first} gives {a.dtype} of shape {a.shape}, {second} "
                f"{b.dtype} of shape {b.shape}"
            )
