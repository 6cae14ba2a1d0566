"""Lists of tensors that a function overwrites, or makes others from: all of them in as few launches as they fuse into.

Floats among the arguments are numbers of each call: another learning rate compiles nothing anew.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram.opset.forms import types
from hologram.runtime.buffer import Buffer
from hologram.runtime.dispatch import deferred
from hologram.runtime.succession import take_back
from hologram_torch.kernels.results import write

Lists = list[list[Tensor]]


class Updates:
    """Overwrites lists of tensors: `function(written, *others)` gives what they become, in the same structure.

    Kernels write where the tensors lie, if these are all of their memory and nobody else was given it.
    """

    def __init__(self, function: Callable[..., Lists]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._fresh = hg.jit(function)
        self._over = hg.jit(function, donate=0)

    def __call__(self, written: Lists, *others: Any) -> None:
        targets = [x for each in written for x in each]
        if not targets:
            return
        if deferred():
            found = self.function(written, *others)
        elif _replaceable(targets):
            buffers = [x.buffer for x in targets]
            found = self._over(written, *others)
            results = [x for each in found for x in each]
            for target, buffer, result in zip(targets, buffers, results, strict=True):
                if buffer.key is not None:
                    write(result, target)
                else:
                    take_back(buffer, result.buffer)
            return
        else:
            found = self._fresh(written, *others)
        for target, result in zip(targets, (x for each in found for x in each), strict=True):
            write(result, target)


def updates(function: Callable[..., Lists]) -> Updates:
    """Compiles what overwrites lists."""
    return Updates(function)


def _replaceable(targets: Sequence[Tensor]) -> bool:
    """Whether each is all of its memory, which nobody shares."""
    buffers = set()
    for x in targets:
        buffer = x.buffer
        if type(buffer) is not Buffer or (
            x.layout is not buffer.kind.layout and x.layout != buffer.kind.layout
        ):
            return False
        if buffer.block is None or buffer.shared or buffer in buffers:
            return False
        buffers.add(buffer)
    return True


def wide(x: Tensor) -> Tensor:
    """In the dtype that sums of its dtype are computed in."""
    return x.astype(types.computing(x.dtype), copy=False)


def alike(lists: Sequence[Sequence[Any]]) -> bool:
    """Whether lists have as many tensors of the device, of the same shapes and float dtypes; the first has some."""
    first = lists[0]
    for each in lists:
        if len(each) != len(first) or not first:
            return False
        for x, y in zip(each, first, strict=True):
            if x.device != first[0].device or x.device.type != "hologram" or not x.is_floating_point():
                return False
            if x.dtype != y.dtype or x.shape != y.shape:
                return False
    return True


def numbers(values: Sequence[Any]) -> list[float] | None:
    """Numbers as floats of a call; None unless all are real."""
    found = [float(v) for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return found if len(found) == len(values) else None


def is_device_scalar(x: Any) -> bool:
    """Whether it is a float tensor of the device without axes."""
    return (
        isinstance(x, torch.Tensor) and x.device.type == "hologram" and not x.ndim and x.is_floating_point()
    )
