"""What NumPy's `where`, `initial`, `mean` and `dtype` mean to reductions: which elements count, and what with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.opset import logic
from hologram.opset.complex_numbers import imag, real
from hologram.opset.forms import types
from hologram.opset.forms.accumulator import accumulated
from hologram.opset.forms.default import Default
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.operation import ARRAYS


def _tensor(x: Any) -> Any:
    return Default.executor(None).tensor(x) if isinstance(x, ARRAYS) else x


def _mask(where: Any, x: Any) -> Any:
    made = where if hasattr(where, "executor") else x.executor.tensor(where)
    return logic.logical_and(made, True) if made.dtype.kind != "bool" else made


def _of_dtype(number: Any, dtype: DType) -> Any:
    """A number as NumPy takes it beside results of a dtype: whole where they are, true or not where they are bools."""
    return dtype.python(number) if isinstance(number, (bool, int, float, np.generic)) else number


def folding(pair: Any, identity: Any = None) -> Callable[..., Any]:
    """Of a reduction that is a fold by an operation of two; one without an identity needs an initial number."""

    def call(operation: Any, operands: Sequence[Any], attributes: Mapping[str, Any], where: Any = True,
             initial: Any = None) -> Any:  # fmt: skip
        x = _tensor(operands[0])
        if where is not True:
            if identity is None and initial is None:
                raise ShapeError(f"{operation.name}: where needs an initial number, of nothing there is none")
            x = logic.where(_mask(where, x), x, x.dtype.python(initial if identity is None else identity))
        if initial is None:
            return operation(x, **attributes)
        if not x.size and identity is None:  # what remains of the shape, by a fold that has an identity
            shape = logic.where(x, 1, 0).sum(axis=attributes["axis"], keepdims=attributes["keepdims"]).shape
            return x.executor.full(shape, _of_dtype(initial, x.dtype), x.dtype)
        found = operation(x, **attributes)
        return pair(found, _of_dtype(initial, found.dtype))

    return call


def averaging(operation: Any, operands: Sequence[Any], attributes: Mapping[str, Any], where: Any = True,
              mean: Any = None, dtype: Any = None) -> Any:  # fmt: skip
    """Of the mean, and of what is spread around it: of variances the root is taken where `operation` is std."""
    x = _tensor(operands[0])
    wanted = x.dtype if dtype is None else dtypes.dtype(dtype)
    if dtype is not None and not wanted.is_inexact:
        raise UnsupportedDType(
            f"{operation.name}: dtype must be one of floats, got {wanted}; convert the result where it is to be cut off"
        )
    x = x.astype(wanted, copy=False)
    if where is True and mean is None:
        return operation(x, **attributes)
    x = x if x.dtype.is_inexact else x.astype("f32")
    mask = logic.equal(x, x).logical_or(True) if where is True else _mask(where, x).expand(x.shape)
    return _averaged(x, mask, mean, operation, attributes)


@accumulated
def _averaged(x: Any, mask: Any, mean: Any, operation: Any, attributes: Mapping[str, Any]) -> Any:
    """Of the elements where the mask is set."""
    folded = {"axis": attributes["axis"], "keepdims": attributes["keepdims"]}
    count = mask.sum(**folded).astype(x.dtype.part)
    if operation.name == "mean":
        return logic.where(mask, x, 0).sum(**folded) / count
    if mean is None:
        along = {"axis": attributes["axis"], "keepdims": True}
        mean = logic.where(mask, x, 0).sum(**along) / mask.sum(**along).astype(x.dtype.part)
    away = logic.where(mask, x - mean, 0)
    squares = real(away) * real(away) + imag(away) * imag(away) if x.dtype.is_complex else away * away
    count = count - attributes["correction"]
    variance = squares.sum(**folded) / logic.where(count > 0, count, 0.0)
    return _root(variance) if operation.name == "std" else variance


def _root_slope(cotangent: Any, result: Any) -> Any:
    """Of a variance of 0 none, as std has it."""
    none = result == 0.0
    return select(none, 0.0, cotangent * 0.5 / select(none, 1.0, result))


_root = Elementwise(
    name="root_of_variance", function=lambda x: atlas.sqrt(x), reference=np.sqrt, samples=lambda rng, dtype: (),
    types=types.floating, gradient={"x": _root_slope},
)  # fmt: skip
