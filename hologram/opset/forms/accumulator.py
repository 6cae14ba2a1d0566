"""What is added up, counted and averaged without a loss: in the dtype that `types.accumulator` names, rounded once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from hologram.foundation.dtypes import DType
from hologram.opset.forms.types import accumulator, promoted

F = TypeVar("F", bound=Callable[..., Any])


def accumulated(function: F) -> F:
    """A function of tensors that takes floats of 16 bits in their accumulator, and whose results are rounded once.

    So sums and counts within it may be beyond the largest number of the operands. Derivatives go through it as well.
    """

    @functools.wraps(function)
    def wide(*args: Any, **kwargs: Any) -> Any:
        kinds = [x.dtype for x in (*args, *kwargs.values()) if _is_inexact(x)]
        kind = promoted(kinds)
        if not kind.is_float or accumulator(kind) is kind:
            return function(*args, **kwargs)
        args = tuple(map(_widened, args))
        result = function(*args, **{name: _widened(x) for name, x in kwargs.items()})
        if isinstance(result, tuple):
            return tuple(_narrowed(x, kind) for x in result)
        return _narrowed(result, kind)

    return wide  # type: ignore[return-value]


def _is_inexact(x: Any) -> bool:
    return hasattr(x, "astype") and isinstance(x.dtype, DType) and x.dtype.is_inexact


def _widened(x: Any) -> Any:
    return x.astype(accumulator(x.dtype), copy=False) if _is_inexact(x) else x


def _narrowed(x: Any, kind: DType) -> Any:
    return x.astype(kind, copy=False) if _is_inexact(x) and x.dtype is accumulator(kind) else x
