"""`x.at[index].set(value)` and its kin: copies with some elements changed, as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.sizes import fixed_range
from hologram.machine.layout import hashable
from hologram.machine.strided import Strided
from hologram.opset import creation, indexing, logic, movement, power, reduce, scattering, searching, sort
from hologram.opset import math as arithmetic
from hologram.runtime.dispatch import deferred


class Updates:
    """What `x.at` gives: `x.at[index]` names a part of a tensor, whose methods give copies of the whole."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __getitem__(self, index: Any) -> Part:
        return Part(self._tensor, index)


class Part:
    """A part of a tensor, by an index of any kind that tensors take.

    Where it names an element more than once, every value counts, as in NumPy's `ufunc.at`; of `set` one is kept.
    Positions out of range raise IndexError; tensors of them are left out in a traced function.
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
        """With what a function makes of its elements in their places, as often as each is named."""
        if not callable(function):
            raise TypeError(f"at[...].apply: a function is needed, got {type(function).__name__}")
        return self._in_turns(lambda part, _: function(part), 0)

    def add(self, values: Any) -> Any:
        """With values added."""
        return self._folded(values, arithmetic.add, lambda x, at, v: indexing.scatter_add(x, at, v, dim=0))

    def subtract(self, values: Any) -> Any:
        """With values subtracted."""
        return self._in_turns(arithmetic.subtract, values)

    def multiply(self, values: Any) -> Any:
        """Multiplied by values."""
        return self._reduced(values, arithmetic.multiply, "prod")

    mul = multiply

    def divide(self, values: Any) -> Any:
        """Divided by values."""
        return self._in_turns(arithmetic.divide, values)

    def power(self, values: Any) -> Any:
        """Raised to powers."""
        return self._in_turns(power.pow_, values)

    def min(self, values: Any) -> Any:
        """With the smaller of it and values."""
        return self._reduced(values, arithmetic.minimum, "min")

    def max(self, values: Any) -> Any:
        """With the larger of it and values."""
        return self._reduced(values, arithmetic.maximum, "max")

    def _reduced(self, values: Any, fold: Callable[..., Any], name: str) -> Any:
        if self._tensor.dtype.is_complex:  # which scatter_reduce does not take
            return self._in_turns(fold, values)
        return self._folded(
            values, fold, lambda x, at, v: scattering.scatter_reduce(x, at, v, dim=0, reduce=name)
        )

    def _folded(self, values: Any, fold: Callable[..., Any], scatter: Callable[..., Any]) -> Any:
        x = self._tensor
        if hashable(self._index) is not None:  # no element is named twice
            return self.set(fold(self.get(), values).astype(x.dtype, copy=False))
        at, shape = self._places()
        return self._whole(scatter(self._flat(), at, self._spread(values, shape, x.dtype)))

    def _places(self) -> tuple[Any, tuple[int, ...]]:
        """Where the elements lie, counted flat, and their shape; what is out of range lies behind all."""
        x = self._tensor
        # From 1 on: what is out of range in a traced function reads 0.
        places = (creation.arange(x.executor, x.size) + 1).reshape(x.shape)[self._index]
        at = logic.where(logic.equal(places, 0), x.size, places - 1).astype(dtypes.i64, copy=False)
        return at.reshape(places.size), places.shape

    def _flat(self) -> Any:
        """All elements, and room behind them."""
        x = self._tensor
        return movement.concat([x.reshape(x.size), x.executor.zeros((1,), x.dtype)])

    def _whole(self, flat: Any) -> Any:
        return flat[: self._tensor.size].reshape(self._tensor.shape)

    def _spread(self, values: Any, shape: tuple[int, ...], dtype: Any = None) -> Any:
        """A value for each place."""
        executor = self._tensor.executor
        given = values if hasattr(values, "__apply__") else executor.tensor(values, dtype)
        given = given if dtype is None else given.astype(dtype, copy=False)
        spread = given.expand(shape)
        return spread.reshape(spread.size)

    def _in_turns(self, function: Callable[[Any, Any], Any], values: Any) -> Any:
        """With what a function makes of elements and values: of an element that is named again, of what was made."""
        x = self._tensor
        known = _known(self._index)
        turns = (
            np.zeros(0) if known is None else _turns(np.arange(x.size).reshape(x.shape)[known].reshape(-1))
        )
        if hashable(self._index) is not None or (
            known is not None and not turns.any()
        ):  # none is named again
            return self.set(function(self.get(), values).astype(x.dtype, copy=False))
        at, shape = self._places()
        single = isinstance(values, (bool, int, float))
        given = None if single else self._spread(values, shape)

        def turned(flat: Any, chosen: Any, some: Any) -> Any:
            made = function(indexing.index_select(flat, chosen), some).astype(x.dtype, copy=False)
            return indexing.scatter(flat, chosen, made, dim=0)

        flat = self._flat()
        if known is None:
            turns = _turns_of(at)
            last = reduce.max_(turns) + 1
            behind = x.size

            def body(k: Any, state: Any) -> Any:
                return turned(
                    state, logic.where(logic.equal(turns, k), at, behind), values if single else given
                )

            loop = x.__array_namespace__().fori_loop  # which stands above
            return self._whole(loop(0, last, body, flat))
        for turn in fixed_range(int(turns.max()) + 1):
            chosen = x.executor.tensor(np.flatnonzero(turns == turn))
            some = values if given is None else indexing.index_select(given, chosen)
            flat = turned(flat, indexing.index_select(at, chosen), some)
        return self._whole(flat)


def _known(index: Any) -> Any:
    """An index with arrays of the host in the places of tensors; None where nobody knows these yet."""
    items = index if isinstance(index, tuple) else (index,)
    if deferred() and any(isinstance(item, Strided) for item in items):
        return None
    return tuple(np.asarray(item) if isinstance(item, (Strided, list)) else item for item in items)


def _turns(places: np.ndarray) -> np.ndarray:
    """How often each place stood before."""
    order = np.argsort(places, kind="stable")
    ordered, turns = places[order], np.empty(places.size, np.int64)
    turns[order] = np.arange(places.size) - np.searchsorted(ordered, ordered)
    return turns


def _turns_of(places: Any) -> Any:
    """The same of places that a traced function is given."""
    order = sort.argsort(places)
    ordered = indexing.index_select(places, order)
    turns = creation.arange(places.executor, places.size) - searching.searchsorted(ordered, ordered)
    return indexing.scatter(turns, order, turns, dim=0)
