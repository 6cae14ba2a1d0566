"""`x.at[index].set(value)` and its kin: copies with some elements changed, as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hologram.foundation import dtypes
from hologram.machine.layout import hashable
from hologram.opset import creation, indexing, logic, movement, scattering
from hologram.opset import math as arithmetic


class Updates:
    """What `x.at` gives: `x.at[index]` names a part of a tensor, whose methods give copies of the whole."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __getitem__(self, index: Any) -> Part:
        return Part(self._tensor, index)


class Part:
    """A part of a tensor, by an index of any kind that tensors take.

    Where it names an element more than once, `add`, `multiply`, `min` and `max` take every value; of `set` one is kept.
    Positions out of range raise IndexError, or are left out in a traced function.
    """

    __slots__ = ("_index", "_tensor")

    def __init__(self, tensor: Any, index: Any) -> None:
        self._tensor = tensor
        self._index = index

    def get(self) -> Any:
        """The part itself."""
        return self._tensor[self._index]

    def set(self, values: Any) -> Any:
        """With values in its place."""
        made = self._tensor.clone()
        made[self._index] = values
        return made

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """With what a function makes of it in its place; the function is given each named element once."""
        if not callable(function):
            raise TypeError(f"at[...].apply: a function is needed, got {type(function).__name__}")
        return self.set(function(self.get()))

    def add(self, values: Any) -> Any:
        """With values added."""
        return self._folded(values, arithmetic.add, lambda x, at, v: indexing.scatter_add(x, at, v, dim=0))

    def subtract(self, values: Any) -> Any:
        """With values subtracted."""
        return self.add(-values)

    def multiply(self, values: Any) -> Any:
        """Multiplied by values."""
        return self._folded(values, arithmetic.multiply, _reducing("prod"))

    mul = multiply

    def divide(self, values: Any) -> Any:
        """Divided by values."""
        return self.apply(lambda part: part / values)

    def power(self, values: Any) -> Any:
        """Raised to powers."""
        return self.apply(lambda part: part**values)

    def min(self, values: Any) -> Any:
        """With the smaller of it and values."""
        return self._folded(values, arithmetic.minimum, _reducing("min"))

    def max(self, values: Any) -> Any:
        """With the larger of it and values."""
        return self._folded(values, arithmetic.maximum, _reducing("max"))

    def _folded(self, values: Any, fold: Callable[..., Any], scatter: Callable[..., Any]) -> Any:
        x = self._tensor
        if hashable(self._index) is not None:  # no element is named twice
            return self.apply(lambda part: fold(part, values).astype(x.dtype, copy=False))
        # Where the elements lie, counted flat from 1 on: what is out of range in a traced function reads 0.
        places = (creation.arange(x.executor, x.size) + 1).reshape(x.shape)[self._index]
        given = values if hasattr(values, "__apply__") else x.executor.tensor(values, x.dtype)
        spread = given.astype(x.dtype, copy=False).expand(places.shape)
        at = logic.where(logic.equal(places, 0), x.size, places - 1).astype(dtypes.i64, copy=False)
        room = x.executor.zeros((1,), x.dtype)
        flat = movement.concat([x.reshape(x.size), room])
        changed = scatter(flat, at.reshape(places.size), spread.reshape(places.size))
        return changed[: x.size].reshape(x.shape)


def _reducing(fold: str) -> Callable[..., Any]:
    return lambda x, at, v: scattering.scatter_reduce(x, at, v, dim=0, reduce=fold)
