"""Tensors of the host, for an executor to compute on: over their own memory where the device can use it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch

from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.ownership import reinterpreted
from hologram_torch.tensors.dtypes import DTYPES, dtype_of, host_array, host_tensor
from hologram_torch.watch import unread


@frozen
class Adopted:
    """A storage's memory as a Buffer. The storage carries it, so it may not hold the storage."""

    executor: Executor
    address: int
    buffer: Buffer


def on_executor(x: torch.Tensor, executor: Executor) -> Tensor:
    """A tensor of the host for an executor: the same memory where that can be, else a copy of each call's.

    Copies of parameters are not kept: `x.data` is written to without PyTorch's counting it.
    """
    if not executor.limits.host_resident or not x.numel() or x.is_neg():
        return executor.tensor(host_array(x))
    storage: Any = x.untyped_storage()
    adopted: Adopted | None = getattr(storage, "adopted", None)
    if adopted is None or adopted.address != storage.data_ptr() or adopted.executor is not executor:
        adopted = storage.adopted = _adopted(storage, x.dtype, executor)
    element, offset = DTYPES[x.dtype], int(x.storage_offset())
    buffer = adopted.buffer
    if buffer.kind.dtype is not element:
        buffer = reinterpreted(buffer, element)
    return Tensor(buffer, Layout(element, tuple(x.shape), x.stride(), offset))


def _adopted(storage: Any, dtype: torch.dtype, executor: Executor) -> Adopted:
    element = dtype_of(dtype)
    address, nbytes = storage.data_ptr(), storage.nbytes() // element.itemsize * element.itemsize
    memory = np.frombuffer((ctypes.c_char * nbytes).from_address(address), element.numpy)
    return Adopted(executor, address, executor.from_dlpack(memory).buffer)


def to_host(x: Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A tensor on the host, over the memory of a result where the host can see it."""
    if x.executor.limits.host_resident:
        return host_tensor(x.to_numpy(copy=False))
    unread.read(x.executor)
    tensor = host_tensor(x.to_numpy())
    if tensor.stride() == strides:
        return tensor
    once = tensor[tuple(slice(None) if stride else slice(1) for stride in strides)]  # of what is repeated
    kept = torch.empty_strided(once.shape, strides, dtype=tensor.dtype).copy_(once)
    return kept.expand(tensor.shape)
