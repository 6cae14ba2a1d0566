"""Tensors made of arrays and numbers, on the default executor or that of a `device`: the array API's functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.errors import InteropError
from hologram.frontend.default import executor_of
from hologram.frontend.tensor import Tensor, as_tensor
from hologram.frontend.values import host_values
from hologram.runtime.memory.buffer import Buffer

Shape = int | Sequence[int]
Number = complex  # bools, integers and floats as well


def asarray(obj: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A Tensor of a tensor, a Buffer, an array of NumPy or another library (DLPack), a number, or nested lists of some.

    A tensor that is on the device and of the dtype is given back as it is, a Buffer as a tensor over its memory, unless
    `copy` is true. Arrays of the host are copied unless `copy` is false, which raises ValueError where that cannot be:
    then tensor and array share memory. Dtypes are those of `Executor.tensor`: Python's floats become f32.
    """
    made = as_tensor(obj) if isinstance(obj, Buffer) else obj
    if isinstance(made, Tensor):
        executor = made.executor if device is None else executor_of(device)
        wanted = made.dtype if dtype is None else dtypes.dtype(dtype)
        if executor is made.executor and wanted is made.dtype:
            return made.clone() if copy else made
        if copy is False:
            raise ValueError(
                f"asarray: {wanted} on {executor} needs a copy of a {made.dtype} on {made.executor}"
            )
        return made.to_device(executor).astype(wanted, copy=False)
    executor = executor_of(device)
    if copy is not False and (isinstance(obj, np.ndarray) or not hasattr(obj, "__dlpack__")):
        return executor.tensor(obj, dtype)
    try:
        shared = executor.from_dlpack(obj, copy=copy) if hasattr(obj, "__dlpack__") else None
    except InteropError as error:
        raise ValueError(f"asarray: {error}") from error
    if shared is None or (copy is False and dtype is not None and shared.dtype is not dtypes.dtype(dtype)):
        raise ValueError(f"asarray: {type(obj).__name__} needs a copy here: copy=False is impossible")
    return shared if dtype is None else shared.astype(dtype, copy=False)


def from_dlpack(source: Any, executor: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A Tensor of another library's array, on an executor, or that of a device; see Executor.from_dlpack."""
    return executor_of(device if executor is None else executor).from_dlpack(source, copy=copy)


def empty(shape: Shape, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A Tensor with undefined contents; f32 unless a dtype is named."""
    return executor_of(device).empty(shape, dtypes.f32 if dtype is None else dtype)


def zeros(shape: Shape, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A Tensor of zeros; f32 unless a dtype is named."""
    return executor_of(device).zeros(shape, dtypes.f32 if dtype is None else dtype)


def ones(shape: Shape, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A Tensor of ones; f32 unless a dtype is named."""
    return executor_of(device).ones(shape, dtypes.f32 if dtype is None else dtype)


def full(shape: Shape, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A Tensor filled with a number, which says the dtype if none is named: bool, i64, f32 or c64.

    An array is repeated to the shape.
    """
    if getattr(fill_value, "ndim", 0) or isinstance(fill_value, (list, tuple)):
        given = asarray(fill_value, dtype=dtype, device=device)
        sizes: Any = shape if isinstance(shape, (tuple, list)) else (shape,)
        return given.expand(sizes).clone()
    if dtype is None:
        dtype = host_values(fill_value, None).dtype
    return executor_of(device).full(shape, fill_value, dtype)


def _like(x: Any, dtype: Any, device: Any, shape: Any) -> tuple[Any, dict[str, Any]]:
    """The shape of x unless one is named, and what a new tensor like it is made with."""
    x = x if isinstance(x, Tensor) else asarray(x, device=device)
    return x.shape if shape is None else shape, {
        "dtype": x.dtype if dtype is None else dtype,
        "device": x.executor if device is None else device,
    }


def empty_like(x: Any, /, dtype: Any = None, *, device: Any = None, shape: Any = None) -> Tensor:
    """A Tensor with undefined contents, of the shape, dtype and executor of x unless they are named."""
    shape, rest = _like(x, dtype, device, shape)
    return empty(shape, **rest)


def zeros_like(x: Any, /, dtype: Any = None, *, device: Any = None, shape: Any = None) -> Tensor:
    """A Tensor of zeros; see empty_like."""
    shape, rest = _like(x, dtype, device, shape)
    return zeros(shape, **rest)


def ones_like(x: Any, /, dtype: Any = None, *, device: Any = None, shape: Any = None) -> Tensor:
    """A Tensor of ones; see empty_like."""
    shape, rest = _like(x, dtype, device, shape)
    return ones(shape, **rest)


def full_like(
    x: Any, /, fill_value: Any, dtype: Any = None, *, device: Any = None, shape: Any = None
) -> Tensor:
    """A Tensor filled with a number; see empty_like."""
    shape, rest = _like(x, dtype, device, shape)
    return full(shape, fill_value, **rest)
