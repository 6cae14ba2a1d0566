"""Windows of samples: what a signal is multiplied with ahead of a transform. Names and formulas are NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hologram.foundation import dtypes
from hologram.foundation.errors import UnsupportedDType
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.default import executor_of
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import whole
from hologram.opset import creation, logic
from hologram.opset import math as arithmetic
from hologram.opset.special import modified_bessel


def _window(who: str, m: Any, dtype: Any, device: Any, shape: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of m places in [-1, 1], equally far from one another; 1 of one place, nothing of none."""
    count = max(whole(m, f"{who}: M"), 0)
    kind = dtypes.f32 if dtype is None else dtypes.dtype(dtype)
    if not kind.is_float:
        raise UnsupportedDType(f"{who}: a float dtype is needed, got {kind}")
    executor = executor_of(device)
    if count < 2:
        return executor.ones((count,), kind)
    wide = kind.computed
    places = creation.arange(executor, 1 - count, count, step=2, dtype=dtypes.i32)
    return shape(places.astype(wide) / (count - 1)).astype(kind, copy=False)


def hanning(M: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """0.5 + 0.5 cos(pi x) (von Hann)."""
    return _window("hanning", M, dtype, device, lambda x: 0.5 + 0.5 * arithmetic.cos(math.pi * x))


def hamming(M: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """0.54 + 0.46 cos(pi x)."""
    return _window("hamming", M, dtype, device, lambda x: 0.54 + 0.46 * arithmetic.cos(math.pi * x))


def blackman(M: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """0.42 + 0.5 cos(pi x) + 0.08 cos(2 pi x)."""

    def shape(x: Tensor) -> Tensor:
        return 0.42 + 0.5 * arithmetic.cos(math.pi * x) + 0.08 * arithmetic.cos(2 * math.pi * x)

    return _window("blackman", M, dtype, device, shape)


def bartlett(M: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """1 - |x|, a triangle that ends in 0."""
    return _window("bartlett", M, dtype, device, lambda x: 1.0 - arithmetic.abs_(x))


def kaiser(M: int, beta: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """I0(beta sqrt(1 - x^2)) over I0(beta): 0 is a rectangle, 14 a start where little may leak."""

    def shape(x: Tensor) -> Tensor:
        slope = asarray(beta, device=x.executor).astype(x.dtype, copy=False)
        inner = (1.0 - x) * (1.0 + x)
        root = arithmetic.sqrt(logic.where(inner < 0.0, 0.0, inner))
        return modified_bessel.i0(slope * root) / modified_bessel.i0(slope)

    return _window("kaiser", M, dtype, device, shape)
