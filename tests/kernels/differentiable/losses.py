"""Losses of kernels, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import hologram as hg


def arrays(executor: Any, case: Any, dtype: Any) -> list[Any]:
    """The case's arguments: arrays of floats on the device, and the integers that it reads."""
    return [
        executor.tensor(x.astype(dtype.numpy) if x.dtype.kind == "f" else x)
        if isinstance(x, np.ndarray) and x.ndim
        else x
        for x in case.arguments()
    ]


def weights(shape: Any) -> np.ndarray:
    return np.cos(np.arange(math.prod(shape), dtype=np.float64)).reshape(shape)


def loss_of(executor: Any, case: Any, dtype: Any) -> Callable[..., Any]:
    kernel = case.kernel(dtype)

    def loss(*arguments: Any) -> Any:
        out = executor.zeros(case.shape, dtype) + 0.5
        kernel[case.grid](*arguments, out)
        return hg.sum(out * executor.tensor(weights(case.shape).astype(dtype.numpy)))

    return loss


def gradients(executor: Any, case: Any, dtype: Any, transform: Callable[[Any], Any] = lambda f: f) -> list:
    arguments = arrays(executor, case, dtype)
    number = [k for k, x in enumerate(arguments) if isinstance(x, float)]
    for k in number:
        arguments[k] = executor.tensor(np.array(arguments[k], dtype.numpy))
    places = tuple(k for k, x in enumerate(arguments) if isinstance(x, hg.Tensor) and x.dtype is dtype)
    found = transform(hg.grad(loss_of(executor, case, dtype), argnums=places))(*arguments)
    return [np.asarray(x.to_numpy(), np.float64) for x in found]
