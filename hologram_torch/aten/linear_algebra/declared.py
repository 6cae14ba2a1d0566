"""How operators on matrices are declared: by the operations of hologram's that they are made of.

These take f32 and f64, and complex matrices where their programs do. Others, and operations that a device has no
kernels for, go to LAPACK on the host (fallback.py says whether they may); `torch.hologram.fallbacks()` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._ops import OpOverload

from hologram.foundation.dtypes import c64
from hologram.frontend.tensor import Tensor
from hologram.opset.linear_algebra.factorisation import Factorisation
from hologram.runtime.dispatch import deferred
from hologram_torch.device.devices import devices
from hologram_torch.fallback import by_lapack, on_host_by_design
from hologram_torch.kernels.registry import add
from hologram_torch.tensors.memory import torch_tensor

F = TypeVar("F", bound=Callable[..., Any])
# Settings that PyTorch has on CUDA alone, where they are others: LAPACK refuses them in its words.
ELSEWHERE = {"pivot": True, "driver": None}


def matrices(
    name: str, *made_of: Factorisation, complex_results: bool = False, checked: str | None = None
) -> Callable[[F], F]:
    """Declares what a function of hologram's tensors computes: an operator, and of which operations it is made.

    `checked` is the operator's name in messages; its last result says which matrices failed, which is looked at where
    the caller asks for that.
    """

    def of_host(x: Any, *_: Any, device: Any = None, **settings: Any) -> bool:
        if any(settings.get(key, value) != value for key, value in ELSEWHERE.items()):
            return True
        limits = devices.executor(devices.current if x.device.index is None else x.device.index).limits
        return not all(operation.here(limits) for operation in made_of) or (
            complex_results and c64 not in limits.dtypes
        )

    def around(overload: OpOverload, kernel: Callable[..., Any]) -> Callable[..., Any]:
        on_host_by_design(overload, of_host)

        def call(*args: Any, **kwargs: Any) -> Any:
            if of_host(*args, **kwargs):
                return by_lapack(overload, args, kwargs)
            asked = {key: value for key, value in kwargs.items() if key not in (*ELSEWHERE, "check_errors")}
            results = kernel(*args, **asked)
            if checked is not None and kwargs.get("check_errors"):
                raise_failed(results[-1], checked, args[0].ndim)
            return results

        return call

    def declare(compute: F) -> F:
        add(name, compute, around=around)
        return compute

    return declare


def raise_failed(info: torch.Tensor, who: str, axes: int) -> None:
    """Raises torch.linalg.LinAlgError for the first matrix that failed."""
    torch.ops.aten._linalg_check_errors(info, who, is_matrix=axes == 2)


def succeeded(info: Tensor, who: str, axes: int) -> None:
    """As `raise_failed`; not while a function is traced, where nobody can know."""
    if not deferred():
        raise_failed(torch_tensor(info), who, axes)
