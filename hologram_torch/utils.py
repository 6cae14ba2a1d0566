"""Between PyTorch's tensors and hologram's buffers, and which executor a tensor asks for."""

from __future__ import annotations

import torch

from hologram.foundation.errors import UnsupportedDType
from hologram.frontend.executor import Executor
from hologram.frontend.tensor import Tensor
from hologram.runtime.memory.buffer import Buffer
from hologram_torch.device.devices import devices
from hologram_torch.tensors.dtypes import DTYPES, dtype_of
from hologram_torch.tensors.memory import hologram_tensor, is_ours, torch_tensor
from hologram_torch.tensors.transfer import moved

__all__ = [
    "buffer_to_tensor",
    "create_executor_for_tensor",
    "match_device",
    "tensor_to_buffer",
    "validate_tensor_compatible",
]


def validate_tensor_compatible(tensor: torch.Tensor) -> None:
    """Raises TypeError for what is no tensor or has a dtype that hologram lacks, ValueError for a sparse tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"hologram: a torch.Tensor is needed, got {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise ValueError(f"hologram: tensors are strided, got {tensor.layout}")
    if tensor.dtype not in DTYPES:
        dtype_of(tensor.dtype)  # raises, with the dtypes there are


def tensor_to_buffer(executor: Executor, tensor: torch.Tensor) -> Buffer:
    """A Buffer with the elements of a tensor, in C order: over the tensor's memory where that can be, else a copy.

    Without a copy: contiguous tensors of the executor's own device, and of the host where the executor computes in host
    memory. Raises what `validate_tensor_compatible` does, UnsupportedDType for a dtype that the executor lacks.
    """
    validate_tensor_compatible(tensor)
    plain = tensor.detach()
    executor.supported(dtype_of(plain.dtype), "tensor_to_buffer")
    if is_ours(plain):
        own = hologram_tensor(plain)
        if own.executor is executor:
            return _whole(own)
        plain = plain.cpu()
    return _whole(executor.from_dlpack(plain.contiguous().resolve_neg()))


def _whole(x: Tensor) -> Buffer:
    """The buffer that a tensor is all of, else a copy: memory of others is taken from an aligned address on."""
    whole = x.layout.is_contiguous and x.size == x.buffer.size and not x.offset
    return x.buffer if whole else x.clone().buffer


def buffer_to_tensor(buffer: Buffer | Tensor, device: torch.device | str | None = None) -> torch.Tensor:
    """A torch.Tensor over a Buffer's memory: on its device of hologram, or on the one that is named.

    On the host without a copy where the executor computes in host memory.
    """
    own = buffer if isinstance(buffer, Tensor) else Tensor(buffer, buffer.kind.layout)
    result = torch_tensor(own)
    return result if device is None else moved(result, torch.device(device))


def match_device(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The tensor on the device of another; itself if it is there. Differentiable."""
    return moved(tensor, other.device)


def create_executor_for_tensor(tensor: torch.Tensor) -> Executor:
    """The executor that computes on a tensor: its device's, or the one of the default device for others.

    Executors are shared: every tensor of a device has the same one.
    """
    validate_tensor_compatible(tensor)
    index = tensor.device.index if is_ours(tensor) else devices.current
    executor = devices.executor(index or 0)
    if dtype_of(tensor.dtype) not in executor.limits.dtypes:
        raise UnsupportedDType(f"{executor} has no {tensor.dtype}")
    return executor
