"""NumPy's arguments that any call may have beside those that are declared: `out`, `where`, and those of reductions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from hologram.foundation.errors import ShapeError
from hologram.machine.axes import broadcast
from hologram.opset.forms.numpys import instead, taken_by

FURTHER = frozenset(("out", "where", "initial", "mean", "dtype", "kind"))
# What says nothing.
UNSAID = {"where": True, "initial": None, "mean": None, "dtype": None, "out": None, "kind": None}


def taken(function: Any) -> frozenset[str]:
    """Which of them a function takes: of an operation's all, if it says what they mean."""
    return FURTHER if getattr(function, "further", None) is not None else frozenset()


@functools.cache
def meant(function: Any) -> tuple[str, ...]:
    """The names that a declaration's `further` gives a meaning to."""
    return tuple(inspect.signature(function).parameters)[3:]  # after the operation, operands and attributes


def further(operation: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A call that has such arguments: what is computed, in `out` if that is given.

    Reductions say by their declaration's `further` what `where` and `initial` mean. What works element by element
    writes only `where` that holds, which needs an `out`.
    """
    names = (*operation.operands, *operation.attributes)
    own = {n: v for n, v in kwargs.items() if n not in FURTHER or n in names}
    given = {n: v for n, v in kwargs.items() if n not in own and v is not UNSAID[n] and v is not np._NoValue}
    out = only(given.pop("out", None), operation.name)
    if isinstance(given.get("dtype"), (bool, int, float)):
        number = given["dtype"]
        hint = instead(number, operation.attributes)
        raise TypeError(f"{operation.name}: dtype must be a dtype, got {number!r}{hint}")
    if not given:
        result = operation(*args, **own)
    elif operation.further is not None and given.keys() <= {*meant(operation.further)}:
        result = operation.further(operation, *operation.bind(args, own), **given)
    elif operation.pointwise and given.keys() == {"where"} and out is not None:
        return into(operation(*args, **own), out, operation.name, given["where"])
    else:
        also = "" if out is not None or not operation.pointwise else "; `where` needs an `out`"
        raise TypeError(
            f"{operation.name} has no argument {next(iter(given))!r}: it has {', '.join(names)}{also}"
        )
    return result if out is None else into(result, out, operation.name)


def only(out: Any, who: str) -> Any:
    """The output of a call that has one, which may come as a tuple."""
    if not isinstance(out, tuple):
        return out
    if len(out) != 1:
        raise ValueError(f"{who}: out must be one tensor or array, got a tuple of {len(out)}")
    return out[0]


def into(result: Any, target: Any, who: str, where: Any = True) -> Any:
    """The result, written to a tensor or an array of its shape, whose dtype holds such numbers.

    Of its elements those are written for which `where`, a tensor or an array, holds.
    """
    if not isinstance(target, np.ndarray) and not hasattr(target, "executor"):
        hint = instead(target, taken_by(who))
        raise TypeError(f"{who}: out must be a tensor or an array, got {target!r}{hint}")
    holds = where
    if where is not True:
        holds = where if hasattr(where, "executor") else result.executor.tensor(where)
        result = result.expand(broadcast([result.shape, holds.shape], who))
    if result.shape != target.shape:
        raise ShapeError(f"{who}: out must have shape {result.shape}, got {target.shape}")
    if isinstance(target, np.ndarray):
        written = True if where is True else holds.astype("bool", copy=False).to_numpy()
        np.copyto(target, result.to_numpy(), casting="same_kind", where=written)
    elif np.can_cast(result.dtype.numpy, target.dtype.numpy, "same_kind"):
        target.executor.copy(result if where is True else holds.where(result, target), target)
    else:
        raise TypeError(f"{who}: out is {target.dtype}, which cannot hold {result.dtype}")
    return target
