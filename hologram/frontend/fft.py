"""hg.fft: discrete Fourier transforms, named and parametrised as in the array API, of any length.

Lengths without prime factors above 13 are passes of small transforms (opset/fourier/passes.py); others are a
convolution of a length that is (opset/fourier/chirp.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.dtypes import DType, dtype, f32, f64, i64
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.frontend import tensor as tensors
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.default import executor_of
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import integers, normalize_axes, normalize_axis, whole
from hologram.opset import arrange, complex_numbers, creation, movement
from hologram.opset import math as arithmetic
from hologram.opset.fourier import chirp, passes, real
from hologram.opset.padding import pad
from hologram.runtime.dispatch import traced_by

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

NORMS = ("backward", "ortho", "forward")
Norm = str | None  # None: the first
MOST_TABLES = 64
_tables: WeakKeyDictionary[Any, FIFOCache[Any, Tensor]] = WeakKeyDictionary()  # constants, by executor


def fft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = None) -> Tensor:
    """The discrete Fourier transform along an axis, of which n elements are taken, zeros behind those that are there.

    `norm` says where the division by n stands: in the inverse ("backward"), here ("forward"), or its root in both
    ("ortho"). Raises ShapeError for n below 1, ValueError for another norm.
    """
    return _complex("fft", x, n, axis, norm, inverse=False)


def ifft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = None) -> Tensor:
    """The inverse of fft."""
    return _complex("ifft", x, n, axis, norm, inverse=True)


def fftn(x: Any, /, s: Any = None, axes: Any = None, norm: Norm = None) -> Tensor:
    """fft along several axes (all, if none is named), of the sizes `s`."""
    return _along("fftn", fft, x, s, axes, norm)


def ifftn(x: Any, /, s: Any = None, axes: Any = None, norm: Norm = None) -> Tensor:
    """The inverse of fftn."""
    return _along("ifftn", ifft, x, s, axes, norm)


def rfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = None) -> Tensor:
    """fft of real numbers: its first n // 2 + 1 elements, whose conjugates the others are."""
    x, n, k = _sized("rfft", _real("rfft", x), n, axis)
    return of_reals(x, n, k, _scale("rfft", n, norm, inverse=False))


def irfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = None) -> Tensor:
    """The inverse of rfft, n real numbers; 2 (m - 1) of m elements, if n is not named."""
    x = _made_complex("irfft", x)
    k = normalize_axis(axis, x.ndim, "irfft")
    count = _length("irfft", 2 * (x.shape[k] - 1) if n is None else n)
    x, _, k = _sized("irfft", x, count // 2 + 1, axis)
    return to_reals(x, count, k, _scale("irfft", count, norm, inverse=True))


def rfftn(x: Any, /, s: Any = None, axes: Any = None, norm: Norm = None) -> Tensor:
    """fftn of real numbers: rfft along the last of the axes, then fft along the others."""
    x = _real("rfftn", x)
    sizes, order = _axes("rfftn", x, s, axes)
    shape = x.shape  # an axis that is named twice has its size of before
    x = rfft(x, n=sizes[-1], axis=order[-1], norm=norm)
    for k in range(len(order) - 2, -1, -1):
        x = fft(x, n=shape[order[k]] if sizes[k] is None else sizes[k], axis=order[k], norm=norm)
    return x


def irfftn(x: Any, /, s: Any = None, axes: Any = None, norm: Norm = None) -> Tensor:
    """The inverse of rfftn."""
    x = _made_complex("irfftn", x)
    sizes, order = _axes("irfftn", x, s, axes)
    for n, axis in zip(sizes[:-1], order[:-1], strict=True):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return irfft(x, n=sizes[-1], axis=order[-1], norm=norm)


def fft2(x: Any, /, s: Any = None, axes: Any = (-2, -1), norm: Norm = None) -> Tensor:
    """fftn along two axes, the last ones."""
    return fftn(x, s, axes, norm)


def ifft2(x: Any, /, s: Any = None, axes: Any = (-2, -1), norm: Norm = None) -> Tensor:
    """The inverse of fft2."""
    return ifftn(x, s, axes, norm)


def rfft2(x: Any, /, s: Any = None, axes: Any = (-2, -1), norm: Norm = None) -> Tensor:
    """rfftn along two axes, the last ones."""
    return rfftn(x, s, axes, norm)


def irfft2(x: Any, /, s: Any = None, axes: Any = (-2, -1), norm: Norm = None) -> Tensor:
    """The inverse of rfft2."""
    return irfftn(x, s, axes, norm)


def hfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = None) -> Tensor:
    """fft, which is real, of what is conjugate about its middle, given by its first half."""
    _check_norm("hfft", norm)
    return irfft(complex_numbers.conj(_made_complex("hfft", x)), n=n, axis=axis, norm=_swapped(norm))


def ihfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = None) -> Tensor:
    """The inverse of hfft."""
    _check_norm("ihfft", norm)
    return complex_numbers.conj(rfft(x, n=n, axis=axis, norm=_swapped(norm)))


def fftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of fft's elements, in cycles per unit of the distance `d` of samples."""
    n = _length("fftfreq", n)
    k = creation.arange(executor_of(device), 0, n, dtype=i64)
    return _frequencies("fftfreq", arithmetic.subtract(k, (k >= (n + 1) // 2).astype(i64) * n), n, d, dtype)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of rfft's elements."""
    n = _length("rfftfreq", n)
    return _frequencies(
        "rfftfreq", creation.arange(executor_of(device), 0, n // 2 + 1, dtype=i64), n, d, dtype
    )


def fftshift(x: Any, /, axes: Any = None) -> Tensor:
    """The elements turned so that frequency 0 stands in the middle."""
    return _shifted("fftshift", asarray(x), axes, lambda n: n // 2)


def ifftshift(x: Any, /, axes: Any = None) -> Tensor:
    """The inverse of fftshift."""
    return _shifted("ifftshift", asarray(x), axes, lambda n: -(n // 2))


# What they are given.


def _made_complex(who: str, x: Any) -> Tensor:
    x = x if isinstance(x, Tensor) else asarray(x)
    return x if x.dtype.is_complex else _real(who, x).astype(x.dtype.complex)


def _real(who: str, x: Any) -> Tensor:
    x = x if isinstance(x, Tensor) else asarray(x)
    if x.dtype.is_complex:
        raise UnsupportedDType(f"{who}: real numbers are needed, got {x.dtype}")
    return x if x.dtype in (f32, f64) else x.astype(f32)


def _length(who: str, n: Any) -> int:
    n = whole(n, f"{who}: n")
    if n < 1:
        raise ShapeError(f"{who}: n must be at least 1, got {n}")
    return n


def _sized(who: str, x: Tensor, n: int | None, axis: int) -> tuple[Tensor, int, int]:
    """The first n elements along an axis, zeros behind them; n, and the axis counted from the front."""
    k = normalize_axis(axis, x.ndim, who)
    if n is None:
        n = x.shape[k]
        if n:
            return x, n, k
    n = whole(n, f"{who}: n")
    if n < 1:
        raise ShapeError(f"{who}: n must be at least 1, got {n}")
    if n < x.shape[k]:
        x = x.narrow(k, 0, n)
    elif n > x.shape[k]:
        x = pad(x, padding=tuple((0, n - x.shape[k] if j == k else 0) for j in range(x.ndim)), value=0.0)
    return x, n, k


def _axes(who: str, x: Tensor, s: Any, axes: Any) -> tuple[Sequence[int | None], Sequence[int]]:
    """The sizes along axes, None for those they have, and these: all, or the last ones."""
    sizes = None if s is None else integers(s, f"{who}: a size")
    if axes is None:
        order = tuple(range(x.ndim))[-x.ndim if sizes is None else x.ndim - len(sizes) :]
    else:
        given = axes if isinstance(axes, (tuple, list)) else (axes,)
        order = tuple([normalize_axis(a, x.ndim, who) for a in given])
    if not order or (sizes is not None and len(sizes) != len(order)):
        raise ShapeError(
            f"{who}: a size for each of some axes is needed, got s={s} and axes={axes} for shape {x.shape}"
        )
    if sizes is None:
        return [None] * len(order), order
    return [x.shape[k] if n == -1 else n for n, k in zip(sizes, order, strict=True)], order


def _along(who: str, one: Any, x: Any, s: Any, axes: Any, norm: Norm) -> Tensor:
    x = _made_complex(who, x)
    sizes, order = _axes(who, x, s, axes)
    for k in range(len(order) - 1, -1, -1):  # as NumPy, where one is named twice
        x = one(x, n=sizes[k], axis=order[k], norm=norm)
    return x


# What is computed, along an axis.


def _complex(who: str, x: Any, n: int | None, axis: int, norm: Norm, *, inverse: bool) -> Tensor:
    x, n, k = _sized(who, _made_complex(who, x), n, axis)
    return transformed(x, inverse, k, _scale(who, n, norm, inverse=inverse))


def transformed(x: Tensor, inverse: bool, axis: int = -1, scale: float = 1.0) -> Tensor:
    """The transform along an axis, of any length, times `scale`."""
    n = x.shape[axis]
    if n < 2 or passes.radices(n) is not None:
        return passes.transform(x, _table(x, "roots", max(n, 1)), **_how(x, axis, scale, inverse))
    tables = [_table(x, f"{name} {inverse}", n) for name in ("chirp", "spectrum")]
    return chirp.chirp_transform(x, *tables, _table(x, "roots", chirp.padded(n)), **_how(x, axis, scale))


def _how(x: Tensor, axis: int, scale: float, inverse: bool = False) -> dict[str, Any]:
    """The attributes that are not an operation's own: a call without any is told apart sooner (1.5 us, not 2.8)."""
    how: dict[str, Any] = {}
    if inverse:
        how["inverse"] = True
    if axis not in (-1, x.ndim - 1):
        how["axis"] = axis
    if scale != 1.0:
        how["scale"] = scale
    return how


def _table(x: Tensor, kind: str, n: int) -> Tensor:
    """Constants for a length, kept with the executor: they are its own also while a function is traced."""
    known = _tables.get(x.executor)
    if known is None:
        known = _tables.setdefault(x.executor, FIFOCache(MOST_TABLES))
    key = (kind, n, x.dtype)
    found = known.get(key)
    if found is None:
        with traced_by(None):
            found = tensors.constant(x.executor, _constants(kind, n, x.dtype.complex))
        known.keep(key, found)
    return found


def _constants(kind: str, n: int, element: DType) -> np.ndarray:
    name, _, inverse = kind.partition(" ")
    if name == "roots":
        return passes.roots(n, element)
    make = chirp.chirp_of if name == "chirp" else chirp.spectrum_of
    return make(n, inverse == "True", element)


def of_reals(x: Tensor, n: int, axis: int = -1, scale: float = 1.0) -> Tensor:
    """The first n // 2 + 1 elements of the transform of n real numbers, times `scale`."""
    if not x.executor.differentiated and passes.radices(n) is not None:
        halves = _table(x, "roots", n), _table(x, "roots", n if n % 2 else n // 2)
        return _last(real.real_transform(_last(x, axis), *halves, **_how(x, -1, scale)), axis)
    return transformed(x.astype(x.dtype.complex), False, axis, scale).narrow(axis, 0, n // 2 + 1)


def to_reals(x: Tensor, n: int, axis: int = -1, scale: float = 1.0) -> Tensor:
    """The n real numbers whose transform begins with these n // 2 + 1 elements, times n and `scale`."""
    if not n % 2 and not x.executor.differentiated and passes.radices(n) is not None:
        halves = _table(x, "roots", n), _table(x, "roots", n // 2)
        return _last(real.real_inverse(_last(x, axis), *halves, **_how(x, -1, scale)), axis)
    if n % 2 and not x.executor.differentiated:
        spectrum = transformed(real.odd_spectrum(_last(x, axis)), True, -1, scale)
        return _last(spectrum, axis).real
    rest = x.narrow(axis, 1, n - x.shape[axis]) if n > 1 else x.narrow(axis, 0, 0)
    both = movement.concat([x, complex_numbers.conj(arrange.flip(rest, axis=axis))], axis=axis)
    return transformed(both, True, axis, scale).real


def _last(x: Tensor, axis: int) -> Tensor:
    """The axis exchanged with the last one."""
    return x if axis in (-1, x.ndim - 1) else x.swapaxes(axis, -1)


def _check_norm(who: str, norm: Any) -> None:
    if norm is not None and norm not in NORMS:
        raise ValueError(f"{who}: norm must be one of {', '.join(NORMS)}, got {norm!r}")


def _scale(who: str, n: int, norm: Norm, *, inverse: bool) -> float:
    _check_norm(who, norm)
    if norm == "ortho":
        return 1.0 / math.sqrt(n)
    return 1.0 / n if (norm != "forward") is inverse else 1.0


def _swapped(norm: Norm) -> Norm:
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


def _frequencies(who: str, k: Tensor, n: int, d: float, wanted: Any) -> Tensor:
    if not d:
        raise ValueError(f"{who}: the distance of samples must not be 0, got {d}")
    element = f32 if wanted is None else dtype(wanted)
    if not element.is_float:
        raise UnsupportedDType(f"{who}: a float dtype is needed, got {element}")
    return k.astype(element) * (1.0 / (n * d))


def _shifted(who: str, x: Tensor, axes: Any, by: Any) -> Tensor:
    chosen = normalize_axes(axes, x.ndim, who)
    return arrange.roll(x, shift=tuple(by(x.shape[k]) for k in chosen), axis=chosen) if chosen else x
