"""What loops carry from one turn to the next, and what their bodies must give back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.frontend.control.body import Body, number_dtype, tensor_of, traced_body
from hologram.frontend.jit.number import SCALARS
from hologram.frontend.tree import leaves, mapped, paths, same_structure


@frozen
class Like:
    """What a body is traced for: a tensor's shape and dtype."""

    shape: tuple[int, ...]
    dtype: DType


class State:
    """What a loop carries: tensors for the leaves of a tree, as it is given."""

    def __init__(self, who: str, engine: Any, tree: Any, name: str = "the state") -> None:
        self.who = who
        self.engine = engine
        self.tree = tree
        self.name = name
        self._leaves = [x for x in leaves(tree) if x is not None]
        self.tensors = [tensor_of(engine, x, who) for x in self._leaves]

    def traced(self, step: Any, rows: Sequence[Any], of: Callable[[Any], Any]) -> Body:
        """The body for this state; `of` its result is the state that it gives.

        Numbers take the dtype that the body makes of them, as tensors would not.
        """
        weak = [isinstance(x, SCALARS) and not isinstance(x, bool) for x in self._leaves]
        while True:  # a number changes its dtype once
            tensors = iter(self.tensors)
            state = mapped(self.tree, lambda x: None if x is None else next(tensors))  # noqa: B023
            body = traced_body(
                self.engine, self.who, step, [state, *rows], lambda result: self._dtypes(of(result), result)
            )
            changed = False
            for k, (made, is_weak) in enumerate(zip(body.made, weak, strict=False)):
                tensor = self.tensors[k]
                if is_weak and made.dtype != tensor.dtype and made.shape == tensor.shape:
                    number = self._leaves[k]
                    higher = number_dtype(number).is_float and not made.dtype.is_float
                    if not higher:
                        weak[k] = False
                        self.tensors[k] = tensor_of(self.engine, number, self.who, made.dtype)
                        changed = True
            if not changed:
                self._check(body)
                return body

    def _dtypes(self, state: Any, result: Any) -> list[DType | None]:
        """The dtypes of numbers among the leaves of a body's result, which begins with the state."""
        self._check_structure(state)
        count = sum(x is not None for x in leaves(result)) - len(self.tensors)
        return [*(t.dtype for t in self.tensors), *[None] * count]

    def _check_structure(self, state: Any) -> None:
        here, there = ([x is None for x in leaves(t)] for t in (self.tree, state))
        if here != there or not same_structure(self.tree, state):
            before, after = (", ".join(self._held(t)) or "nothing" for t in (self.tree, state))
            raise ShapeError(
                f"{self.who}: the body must give back a state of the structure that it was given, which holds "
                f"{before}; got {after}"
            )

    def _held(self, tree: Any) -> list[str]:
        """How a state's leaves are called; None is none."""
        return [p for p, x in zip(paths(tree, self.name), leaves(tree), strict=True) if x is not None]

    def _check(self, body: Body) -> None:
        for path, before, after in zip(self._held(self.tree), self.tensors, body.made, strict=False):
            if before.shape != after.shape:
                raise ShapeError(
                    f"{self.who}: {path} must keep its shape from one turn to the next, got {before.shape} before and "
                    f"{after.shape} after"
                )
            if before.dtype != after.dtype:
                raise UnsupportedDType(
                    f"{self.who}: {path} must keep its dtype from one turn to the next, got {before.dtype} before and "
                    f"{after.dtype} after: convert with astype"
                )


def who_of(function: Any, transform: str) -> str:
    """What errors call a transform of a function."""
    if not callable(function):
        raise TypeError(f"{transform}: a function is needed, got {type(function).__name__}")
    known = getattr(function, "called", None)  # see `named`
    own = known or getattr(function, "__name__", "<lambda>")
    return own if known else transform if own == "<lambda>" else f"{transform} of {own}"


def named(step: Any, who: str) -> Any:
    """A function that errors call so."""
    step.called = who
    return step
