"""Which element types of PyTorch and of hologram are the same."""

from __future__ import annotations

from typing import Any

import torch

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import UnsupportedDType

MOST_AXES = 64  # of an array of NumPy's, and of what PyTorch reduces
DTYPES: dict[torch.dtype, DType] = {getattr(torch, d.numpy_name): d for d in dtypes.ALL}
TORCH_DTYPES: dict[DType, torch.dtype] = {own: theirs for theirs, own in DTYPES.items()}


def dtype_of(dtype: torch.dtype) -> DType:
    """hologram's name of a dtype; raises UnsupportedDType (a TypeError) for complex numbers and quantised ones."""
    found = DTYPES.get(dtype)
    if found is None:
        raise UnsupportedDType(
            f"hologram has no {dtype}; it has {' '.join(str(d).removeprefix('torch.') for d in DTYPES)}"
        )
    return found


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's name of a dtype."""
    return TORCH_DTYPES[dtype]


def host_array(tensor: torch.Tensor) -> Any:
    """A NumPy view of a tensor on the host, bfloat16 included; a copy where it has lazy negations."""
    if tensor.ndim > MOST_AXES:
        raise RuntimeError(f"hologram: tensors of up to {MOST_AXES} axes are supported, got {tensor.ndim}")
    plain = tensor.detach().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(dtypes.bf16.numpy)
    return plain.numpy()


def host_tensor(array: Any) -> torch.Tensor:
    """A tensor on the host over the memory of an array, bfloat16 included."""
    if array.dtype == dtypes.bf16.numpy:
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)
