"""Which element types of PyTorch and of hologram are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import UnsupportedDType
from hologram.runtime.interchange.dlpack import as_numpys_own
from hologram_torch.reach import reach

MOST_AXES = 64  # of an array of NumPy's, and of what PyTorch reduces
DTYPES: dict[torch.dtype, DType] = {
    getattr(torch, d.numpy_name): d for d in dtypes.ALL if hasattr(torch, d.numpy_name)
}
INTEGERS = frozenset(theirs for theirs, own in DTYPES.items() if own.is_integer)
NARROW = frozenset(  # floats that are computed in wider ones
    theirs for theirs, own in DTYPES.items() if own.computed is not own
)
TORCH_DTYPES: dict[DType, torch.dtype] = {own: theirs for theirs, own in DTYPES.items()}


def dtype_of(dtype: torch.dtype) -> DType:
    """hologram's name of a dtype; raises UnsupportedDType (a TypeError) for complex32 and quantised ones."""
    ours = DTYPES.get(dtype)
    if ours is None:
        raise UnsupportedDType(
            f"hologram has no {dtype}; it has {' '.join(str(d).removeprefix('torch.') for d in DTYPES)}"
        )
    return ours


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's name of a dtype."""
    return TORCH_DTYPES[dtype]


class _Exported:
    """What NumPy takes a tensor on the host from."""

    def __init__(self, tensor: torch.Tensor, capsule: Callable[[torch.Tensor], Any]) -> None:
        self.tensor, self.capsule = tensor, capsule

    def __dlpack__(self, **asked: Any) -> Any:
        return self.capsule(self.tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _through_dlpack() -> Callable[[torch.Tensor], np.ndarray]:
    capsule = torch._C._to_dlpack_versioned
    return lambda tensor: np.from_dlpack(_Exported(tensor, capsule))


# `Tensor.numpy` marks the storage: it can never be resized again.
_seen: Callable[[torch.Tensor], np.ndarray] = reach(
    "host-views",
    "torch._C._to_dlpack_versioned",
    "tensors of the host that were copied to or from the device can no longer be resized",
    _through_dlpack,
    torch.Tensor.numpy,
)


def host_array(tensor: torch.Tensor) -> Any:
    """A NumPy view of a tensor on the host; a copy where it has lazy negations or conjugates."""
    if tensor.ndim > MOST_AXES:
        raise RuntimeError(f"hologram: tensors of up to {MOST_AXES} axes are supported, got {tensor.ndim}")
    plain = tensor.detach().resolve_conj().resolve_neg()
    dtype = dtype_of(tensor.dtype)
    if dtype.is_foreign:
        return _seen(plain.view(TORCH_DTYPES[dtype.unsigned])).view(dtype.numpy)
    return _seen(plain)


def host_tensor(array: Any) -> torch.Tensor:
    """A tensor on the host over the memory of an array."""
    return torch.from_numpy(as_numpys_own(array)).view(TORCH_DTYPES[dtypes.dtype(array.dtype)])
