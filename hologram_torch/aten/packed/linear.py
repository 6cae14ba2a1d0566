"""Operators of ours over packed weights: a product, and rows of them, with the derivative for what is no weight.

A packed matrix is its planes and what they mean: a format's name and the columns; see hologram/opset/packed/formats.py.
"""

from __future__ import annotations

from typing import Any

import torch

from hologram.opset.matmul import matmul
from hologram.opset.packed.linear import packed_linear as linear_of
from hologram.opset.packed.weights import packed_numbers
from hologram.opset.packed.weights import packed_rows as rows_of
from hologram_torch.aten.indexing import positions as places
from hologram_torch.device.devices import devices
from hologram_torch.kernels.plain import Plain
from hologram_torch.kernels.short.quick import quick
from hologram_torch.tensors.dtypes import dtype_of
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor
from hologram_torch.tensors.transfer import computed_on

_MATRIX = "Tensor codes, Tensor scales, Tensor? high, Tensor? factors"
library = torch.library.Library("hologram", "FRAGMENT")


def _ours(*tensors: torch.Tensor | None) -> list[Any]:
    return [None if x is None else hologram_tensor(x) for x in tensors]


def _linear(x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, high: torch.Tensor | None,
            factors: torch.Tensor | None, bias: torch.Tensor | None, format: str,
            columns: int) -> torch.Tensor:  # fmt: skip
    own = _ours(x, codes, scales, high, factors, bias)
    return torch_tensor(linear_of(*own, format=format, columns=columns, activation="none"))


def _back(cotangent: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, high: torch.Tensor | None,
          factors: torch.Tensor | None, format: str, columns: int) -> torch.Tensor:  # fmt: skip
    own, *planes = _ours(cotangent, codes, scales, high, factors)
    weights = packed_numbers(*planes, format=format, columns=columns, dtype=own.dtype.name)
    return torch_tensor(matmul(own, weights))


def _rows(index: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, high: torch.Tensor | None,
          factors: torch.Tensor | None, format: str, columns: int, dtype: torch.dtype) -> torch.Tensor:  # fmt: skip
    own = _ours(index, codes, scales, high, factors)
    places.check("embedding", own[0], codes.shape[0])
    return torch_tensor(rows_of(*own, format=format, columns=columns, dtype=dtype_of(dtype).name))


def _linear_shape(x: torch.Tensor, codes: torch.Tensor, *_: Any) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], codes.shape[0]))


def _back_shape(cotangent: torch.Tensor, *rest: Any) -> torch.Tensor:
    return cotangent.new_empty((*cotangent.shape[:-1], rest[-1]))


def _rows_shape(index: torch.Tensor, *rest: Any) -> torch.Tensor:
    return index.new_empty((*index.shape, rest[-2]), dtype=rest[-1])


def _define(name: str, schema: str, kernel: Any, shape: Any) -> Any:
    library.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, quick(Plain(name, kernel), -1), "PrivateUse1")
    torch.library.register_fake(f"hologram::{name}", shape, lib=library)
    overload = getattr(torch.ops.hologram, name).default

    def from_host(*args: Any) -> Any:
        """Of tensors on the host: on the current device, without a copy where that computes in the host's memory."""
        return computed_on(torch.device("hologram", devices.current), overload, args, {})

    library.impl(name, from_host, "CPU")
    return overload


packed_linear = _define(
    "packed_linear",
    f"(Tensor x, {_MATRIX}, Tensor? bias, str format, int columns) -> Tensor",
    _linear,
    _linear_shape,
)
_linear_back = _define(
    "packed_linear_backward",
    f"(Tensor cotangent, {_MATRIX}, str format, int columns) -> Tensor",
    _back,
    _back_shape,
)
packed_rows = _define(
    "packed_rows",
    f"(Tensor index, {_MATRIX}, str format, int columns, ScalarType dtype) -> Tensor",
    _rows,
    _rows_shape,
)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, *planes, _, format, columns = inputs
    ctx.save_for_backward(*planes)
    ctx.settings = (format, columns)


def _derived(ctx: Any, cotangent: torch.Tensor) -> tuple[Any, ...]:
    wanted = ctx.needs_input_grad
    x = _linear_back(cotangent.contiguous(), *ctx.saved_tensors, *ctx.settings) if wanted[0] else None
    bias = cotangent.sum_to_size(cotangent.shape[-1:]) if wanted[5] else None
    return (x, None, None, None, None, bias, None, None)


def _setup_back(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, *planes, format, columns = inputs
    ctx.save_for_backward(*planes)
    ctx.settings = (format, columns)


def _derived_back(ctx: Any, cotangent: torch.Tensor) -> tuple[Any, ...]:
    x = packed_linear(cotangent.contiguous(), *ctx.saved_tensors, None, *ctx.settings)
    return (x, None, None, None, None, None, None)


torch.library.register_autograd(packed_linear, _derived, setup_context=_setup, lib=library)
torch.library.register_autograd(_linear_back, _derived_back, setup_context=_setup_back, lib=library)
