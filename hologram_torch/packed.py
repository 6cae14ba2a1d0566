"""Modules whose weights stay packed: PackedLinear and PackedEmbedding, and others made to keep theirs so."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from hologram.frontend.packed import Packed
from hologram.frontend.tensor import Tensor
from hologram.opset.packed.formats import format_of
from hologram.opset.packed.weights import PLANES
from hologram_torch.aten.packed.linear import packed_linear, packed_rows
from hologram_torch.device.devices import devices
from hologram_torch.tensors.dtypes import host_tensor
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor


class PackedWeight(nn.Module):
    """What packed modules share: planes as buffers, which keep their dtypes when a module is converted.

    Where columns lie in another order than theirs, `order` says which each is.
    """

    format: str
    columns: int
    compute_dtype: torch.dtype  # of what embeddings give
    order: torch.Tensor | None

    def planes(self) -> tuple[torch.Tensor | None, ...]:
        """In the order of operators' arguments; None where the format has none."""
        return tuple(self._buffers.get(name) for name in PLANES)

    def keep(
        self,
        format: str,
        columns: int,
        planes: Mapping[str, torch.Tensor],
        order: torch.Tensor | None = None,
    ) -> None:
        """Takes planes in the weight's place; see hologram/opset/packed/formats.py."""
        self._parameters.pop("weight", None)
        self.format, self.columns = format_of(format).name, columns
        self.compute_dtype = torch.get_default_dtype()
        for name, plane in planes.items():
            self.register_buffer(name, plane)
        self.register_buffer("order", order)

    @property
    def packed(self) -> Packed:
        """The same weights as hologram has them, in the same memory; for modules on the device."""
        own = {
            name: hologram_tensor(x) for name, x in zip(PLANES, self.planes(), strict=True) if x is not None
        }
        order = None if self.order is None else hologram_tensor(self.order)
        return Packed(format_of(self.format), self.columns, own, order)

    @property
    def weight(self) -> torch.Tensor:
        """All weights as floats, made anew at each access: for code that asks for them."""
        codes = self.planes()[0]
        assert codes is not None
        return self.rows(torch.arange(codes.shape[0], device=codes.device))

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """The rows that an index names, as floats."""
        rows = packed_rows(index, *self.planes(), self.format, self.columns, self.compute_dtype)
        return rows if self.order is None else rows.index_select(-1, self.order.argsort())

    def linear(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """x @ weights.T + bias, in x's dtype."""
        bias = None if bias is None else bias.to(x.dtype)
        x = x if self.order is None else x.index_select(-1, self.order)
        return packed_linear(x, *self.planes(), bias, self.format, self.columns)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        kept = {name: x for name, x in self._buffers.items() if name in PLANES and x is not None}
        for name in kept:
            self._buffers[name] = None
        super()._apply(fn, recurse)
        for name, x in kept.items():
            changed = fn(x)
            self._buffers[name] = changed if changed.dtype == x.dtype else x.to(changed.device)
        self.compute_dtype = fn(torch.empty(0, dtype=self.compute_dtype)).dtype
        return self

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, format={self.format}"


class PackedLinear(PackedWeight, nn.Linear):  # pyright: ignore[reportIncompatibleVariableOverride]
    """torch.nn.Linear with packed weights: PackedLinear(hg.Packed(...), bias).

    It is differentiated with respect to its input and its bias. `to` moves it; conversions to other dtypes leave the
    weights as they are. On the host it computes on the current device.
    """

    def __init__(self, packed: Packed, bias: torch.Tensor | None = None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = packed.shape
        _take(self, packed)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.linear(input, self.bias)


class PackedEmbedding(PackedWeight, nn.Embedding):  # pyright: ignore[reportIncompatibleVariableOverride]
    """torch.nn.Embedding with packed rows: PackedEmbedding(hg.Packed(...)); rows come in the default dtype.

    Positions out of range raise IndexError, as with torch.nn.Embedding.
    """

    def __init__(self, packed: Packed) -> None:
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim = packed.shape
        self.padding_idx = self.max_norm = None
        self.norm_type, self.scale_grad_by_freq, self.sparse = 2.0, False, False
        _take(self, packed)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.rows(input)


def _take(module: PackedWeight, packed: Packed) -> None:
    order = None if packed.order is None else _taken(packed.order)
    planes = {n: _taken(x) for n, x in packed.planes.items()}
    module.keep(packed.format.name, packed.columns, planes, order)


def _taken(x: Tensor) -> torch.Tensor:
    """A tensor that PyTorch's device computes with; copied from an executor that is another one of the same device."""
    return torch_tensor(x.to_device(devices.executor(devices.number(x.executor))))


KEEPERS: dict[type[nn.Module], type[PackedWeight]] = {nn.Linear: PackedLinear, nn.Embedding: PackedEmbedding}


def keeper_of(module: nn.Module) -> type[PackedWeight] | None:
    """The class that a module has when its weight is packed; None if it has none."""
    if isinstance(module, PackedWeight):
        return None
    own = next((own for base, own in KEEPERS.items() if isinstance(module, base)), None)
    return own if own is None or type(module) in KEEPERS else _below(type(module), own)


@functools.cache
def _below(theirs: Any, own: Any) -> Any:
    """A class whose own forward passes call a class above it, or read the weight."""
    return type(f"Packed{theirs.__name__}", (theirs, own), {"__module__": __name__})


def keep_packed(module: nn.Module, format: str, columns: int, planes: Mapping[str, Any]) -> None:
    """Has a module (torch.nn.Linear, torch.nn.Embedding or of a class below) keep planes in its weight's place.

    Planes are tensors, or arrays, which go to the host. Raises TypeError for other modules.
    """
    keeper = keeper_of(module)
    if keeper is None:
        raise TypeError(
            f"hologram_torch: weights of {', '.join(k.__name__ for k in KEEPERS)} stay packed, got {type(module)}"
        )
    module.__class__ = keeper
    own = {n: host_tensor(x) if isinstance(x, np.ndarray) else x for n, x in planes.items()}
    PackedWeight.keep(module, format, columns, own)  # pyright: ignore[reportArgumentType]
