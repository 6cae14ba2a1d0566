"""Norms of vectors along any axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.functions import reduce_add, reduce_max, reduce_min, select
from hologram.foundation.dtypes import DType
from hologram.machine.arguments import number
from hologram.opset.forms import types
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.row import row
from hologram.opset.forms.samples import reduction

ORDERS = (2.0, 1.0, 0.0, math.inf, -math.inf, 3.0, -1.0, 0.5)


def _reference(x, order=2.0, axis=None, keepdims=False):
    magnitude = np.abs(x)
    axes: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if math.isinf(order):
        return np.max(magnitude, **axes, initial=0.0) if order > 0 else np.min(magnitude, **axes)
    if order == 0:
        return np.sum(x != 0, **axes).astype(np.float64)
    with np.errstate(all="ignore"):
        return np.sum(magnitude**order, **axes) ** (1 / order)


def _samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for sample in reduction()(rng, dtype):
        for order in ORDERS:
            if order != -math.inf or all(np.size(x) for x in sample.operands):
                yield Sample(sample.operands, {**sample.attributes, "order": order})


def _gradient(cotangent: Any, x: Any, result: Any, order: float) -> Any:
    """0 where the norm is 0, which has no derivative there, and shared by elements that are equally large."""
    if order == 0:
        return cotangent * 0.0 * x
    none = result == 0.0
    length = select(none, 1.0, result)
    if (
        order == 2
    ):  # by the element itself: with a sign of its own an element of 0 would have no second derivative
        return select(none, 0.0, cotangent * (x / length))
    sign = select(x > 0.0, 1.0, select(x < 0.0, -1.0, x * 0.0))
    if math.isinf(order):
        extreme = (atlas.absolute(x) == result).to(x.dtype)
        return cotangent * sign * extreme / reduce_add(extreme)
    if order == 1:
        return cotangent * sign
    ratio = atlas.absolute(x) / length
    steep = atlas.power(ratio, order - 1.0)
    if order >= 2:  # at 0 from the right, as magnitudes are differentiated
        sign = select(x < 0.0, -1.0, x.builder.constant(1.0, x.dtype))
    else:
        steep = select(ratio == 0.0, 0.0, steep)
    return select(none, 0.0, cotangent * sign * steep)


@row(
    types=types.floating,
    samples=_samples,
    ulp=16,
    absolute=16.0,
    reference=_reference,
    gradient={"x": _gradient},
)
def vector_norm(x, *, axis=None, order=2.0, keepdims=False):
    """(sum |x|^order)^(1 / order): 2 is Euclid's norm, inf the largest magnitude, 0 how many elements are not 0."""
    order = float(number(order, "vector_norm: order"))
    if order == 2:
        return atlas.sqrt(reduce_add(x * x))
    magnitude = atlas.absolute(x)
    if order == math.inf:
        return atlas.maximum(reduce_max(magnitude), 0.0)  # 0 of a row without elements
    if order == -math.inf:
        return reduce_min(magnitude)
    if order == 0:
        return reduce_add((x != 0.0).to(x.dtype))
    if order == 1:
        return reduce_add(magnitude)
    return atlas.power(reduce_add(atlas.power(magnitude, order)), 1.0 / order)
