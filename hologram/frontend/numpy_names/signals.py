"""Convolution, differences and integrals of sampled functions, and windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hologram.foundation.dtypes import DType, c64, c128, dtype, f32, f64, i32
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.frontend import fft
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.default import executor_of
from hologram.frontend.numpy_names.operands import beside, floating, inexact
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import number
from hologram.machine.axes import normalize_axes, normalize_axis, whole
from hologram.opset import creation, logic, matmul, movement, padding, reduce
from hologram.opset import math as arithmetic
from hologram.opset.complex_numbers import conjugated
from hologram.opset.forms.accumulator import accumulated
from hologram.opset.forms.types import promoted
from hologram.opset.fourier.chirp import smooth
from hologram.opset.neural import convolution
from hologram.opset.special import modified_bessel

MODES = ("full", "same", "valid")
METHODS = ("direct", "fft", "auto")
# From which window, and how many products, transforms are faster on a CPU: 4,096 x 256 took 39 and 34 us, 1,024 x 1,024
# 59 and 30, 16,384 x 128 47 and 60.
LEAST_WINDOW, LEAST_PRODUCTS = 256, 1 << 20
TRANSFORMED = (f32, f64, c64, c128)


def convolve(a: Any, v: Any, mode: str = "full", *, method: str = "direct") -> Tensor:
    """The convolution of two vectors: 'full' has n + m - 1 elements, 'same' the longer's, 'valid' where both are.

    `method`: 'direct', by its sums; 'fft', by transforms, whose errors are relative to the largest element, and where
    a NaN or an infinity is in every result; 'auto', by transforms of floats where that was measured to be faster.
    Raises ValueError for other modes and methods, UnsupportedDType for transforms of integers.
    """
    x, y = _vectors("convolve", a, v)
    if y.size > x.size:
        x, y = y, x
    return _slid("convolve", x, y[::-1], mode, method)


def correlate(a: Any, v: Any, mode: str = "valid", *, method: str = "direct") -> Tensor:
    """The cross-correlation of two vectors: sums of a[n + k] times v[n], conjugated; see convolve for the rest."""
    x, y = _vectors("correlate", a, v)
    y = conjugated(y)
    if y.size > x.size:
        return _slid("correlate", y, x, mode, method)[::-1]
    return _slid("correlate", x, y, mode, method)


def _vectors(who: str, a: Any, v: Any) -> list[Tensor]:
    """Both as vectors, which numbers are too."""
    made = [x if x.ndim else x.reshape(1) for x in beside(a, v)]
    if any(x.ndim != 1 or not x.size for x in made):
        shapes = " and ".join(str(x.shape) for x in made)
        raise ShapeError(f"{who}: two vectors with elements are needed, got shapes {shapes}")
    return made


def _slid(who: str, x: Tensor, window: Tensor, mode: str, method: str) -> Tensor:
    """The sums of a window's elements times those of x below it, at each place."""
    if mode not in MODES:
        raise ValueError(f"{who}: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if method not in METHODS:
        raise ValueError(f"{who}: method must be one of {', '.join(METHODS)}, got {method!r}")
    m = window.size
    before, after = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[mode]
    dtype = promoted([x.dtype, window.dtype])
    x, window = x.astype(dtype, copy=False), window.astype(dtype, copy=False)
    if method == "fft" or (method == "auto" and _pays(dtype, x.size, m)):
        return _by_transforms(who, x, window, m - 1 - before, x.size + before + after - m + 1)
    padded = padding.pad(x, padding=((before, after),)) if before or after else x.contiguous()
    if dtype.is_float:
        return convolution.conv1d(padded[None, None, :], window[None, None, :])[0, 0]
    count = padded.size - m + 1
    layout = padded.layout
    windows = padded._view(replace(layout, shape=(count, m), strides=(1, 1), repeats=True))
    return matmul.matmul(windows, window)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences, of one or (edge_order=2) two sides at the ends: a tensor, or a list of one for each axis.

    `varargs` are nothing, one distance, or for each axis a distance or the coordinates.
    """
    x = inexact(f)
    axes = normalize_axes(axis, x.ndim, "gradient")
    if isinstance(axis, (tuple, list)):  # results come in the order that is asked for
        axes = tuple(normalize_axis(k, x.ndim, "gradient") for k in axis)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    spacing: Sequence[Any] = varargs or (1.0,)
    spacing = list(spacing) * len(axes) if len(spacing) == 1 else list(spacing)
    if len(spacing) != len(axes):
        raise TypeError(
            f"gradient: one distance, or one for each of {len(axes)} axes, is needed, got {len(varargs)}"
        )
    found = [_differences(x, k, h, edge_order) for k, h in zip(axes, spacing, strict=True)]
    return found[0] if len(found) == 1 else found


def _differences(x: Tensor, axis: int, spacing: Any, edge_order: int) -> Tensor:
    n = x.shape[axis]
    if n < edge_order + 1:
        raise ShapeError(
            f"gradient: at least {edge_order + 1} elements are needed along axis {axis}, got {x.shape}"
        )
    h = beside(x, spacing)[1]
    if h.ndim > 1 or (h.ndim and h.shape[0] != n):
        raise ShapeError(f"gradient: {n} coordinates are needed along axis {axis}, got shape {h.shape}")
    h = floating(h, "gradient").astype(x.dtype.part, copy=False)

    def part(begin: int, end: int) -> Tensor:
        return x.slice(axis, begin, end)

    def along(steps: Tensor) -> Tensor:
        return steps.reshape([-1 if k == axis else 1 for k in range(x.ndim)]) if steps.ndim else steps

    steps = h[1:] - h[:-1] if h.ndim else h
    left, right = (along(steps[:-1]), along(steps[1:])) if h.ndim else (h, h)
    first, last = (along(steps[:1]), along(steps[-1:])) if h.ndim else (h, h)
    if h.ndim:
        weights = (
            -right / (left * (left + right)),
            (right - left) / (left * right),
            left / (right * (left + right)),
        )
        middle = weights[0] * part(0, n - 2) + weights[1] * part(1, n - 1) + weights[2] * part(2, n)
    else:
        middle = (part(2, n) - part(0, n - 2)) / (2.0 * h)
    if edge_order == 1:
        begin, end = (part(1, 2) - part(0, 1)) / first, (part(n - 1, n) - part(n - 2, n - 1)) / last
    else:
        second, before = (along(steps[1:2]), along(steps[-2:-1])) if h.ndim else (h, h)
        begin = _end(first, second, part(0, 1), part(1, 2), part(2, 3))
        end = -_end(last, before, part(n - 1, n), part(n - 2, n - 1), part(n - 3, n - 2))
    return movement.concat([begin, middle, end], axis=axis)


def _end(near: Any, far: Any, x0: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    """The slope at x0 of the parabola through three points."""
    both = near + far
    return -(2.0 * near + far) / (near * both) * x0 + both / (near * far) * x1 - near / (far * both) * x2


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis by trapezoids, over equal distances dx or the coordinates x."""
    f = inexact(y)
    k = normalize_axis(axis, f.ndim, "trapezoid")
    n = f.shape[k]
    if x is None:
        steps: Any = float(number(dx, "trapezoid: dx"))
    else:
        at = floating(beside(f, x)[1], "trapezoid").astype(f.dtype.part, copy=False)
        if at.ndim == 1:
            at = at.reshape([-1 if a == k else 1 for a in range(f.ndim)])
            steps = at.slice(k, 1, None) - at.slice(k, None, -1)
        else:
            own = normalize_axis(axis, at.ndim, "trapezoid")
            steps = at.slice(own, 1, None) - at.slice(own, None, -1)
    return _trapezoids(f, steps, k) if n else reduce.sum_(f, axis=k)


@accumulated
def _trapezoids(f: Tensor, steps: Any, axis: int) -> Tensor:
    return reduce.sum_((f.slice(axis, 1, None) + f.slice(axis, None, -1)) * steps * 0.5, axis=axis)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """Differences of neighbours, flat, between what is put at the ends."""
    x = asarray(ary)
    flat = x.reshape(x.size)
    parts = [flat[1:] - flat[:-1] if flat.size > 1 else flat[:0]]
    if to_begin is not None:
        parts.insert(0, beside(x, to_begin)[1].reshape(-1).astype(x.dtype, copy=False))
    if to_end is not None:
        parts.append(beside(x, to_end)[1].reshape(-1).astype(x.dtype, copy=False))
    return parts[0] if len(parts) == 1 else movement.concat(parts)


def _pays(dtype: DType, n: int, m: int) -> bool:
    return dtype in TRANSFORMED and m >= LEAST_WINDOW and n * m >= LEAST_PRODUCTS


def _by_transforms(who: str, x: Tensor, window: Tensor, first: int, count: int) -> Tensor:
    """Elements of the whole convolution with the window turned around: its spectrum is a product."""
    if x.dtype not in TRANSFORMED:
        names = ", ".join(map(str, TRANSFORMED))
        raise UnsupportedDType(f"{who}: by transforms {names} can be convolved, got {x.dtype}")
    size = smooth(x.size + window.size - 1)
    there, back = (fft.fft, fft.ifft) if x.dtype.is_complex else (fft.rfft, fft.irfft)
    return back(there(x, n=size) * there(window[::-1], n=size), n=size)[first : first + count]


# Windows: what samples are multiplied with ahead of a transform.


def _window(who: str, m: Any, element: Any, device: Any, shape: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of m places in [-1, 1], equally far from one another; 1 of one place, nothing of none."""
    count = max(whole(m, f"{who}: M"), 0)
    kind = f32 if element is None else dtype(element)
    if not kind.is_float:
        raise UnsupportedDType(f"{who}: a float dtype is needed, got {kind}")
    executor = executor_of(device)
    if count < 2:
        return executor.ones((count,), kind)
    wide = kind.computed
    places = creation.arange(executor, 1 - count, count, step=2, dtype=i32)
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
