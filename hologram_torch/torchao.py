"""torchao's `quantize_` on the device: `import hologram_torch.torchao`.

torchao's weights of 8 bits (Int8WeightOnlyConfig) are then multiplied as they lie; without the import they become
floats at each call. `PackedWeightConfig(format)` has linears keep packed weights in any format of hg.Packed's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torchao.core.config import AOBaseConfig
from torchao.quantization import Int8Tensor
from torchao.quantization.transform_module import register_quantize_module_handler

from hologram.frontend.packed import Packed
from hologram_torch.device.devices import devices
from hologram_torch.packed import PackedLinear
from hologram_torch.tensors.dtypes import host_array
from hologram_torch.tensors.memory import is_ours

_TABLE: dict[Any, Callable[..., Any]] = Int8Tensor._TORCH_FN_TABLE[Int8Tensor]
_theirs = _TABLE[nn.functional.linear]


@dataclass
class PackedWeightConfig(AOBaseConfig):
    """Has `quantize_` put a PackedLinear in each linear's place: "int8", "int4g32", "uint4g64", "f8e4m3", ..."""

    format: str = "int4g32"


@register_quantize_module_handler(PackedWeightConfig)
def _packed(module: nn.Module, config: PackedWeightConfig) -> nn.Module:
    if type(module) is not nn.Linear:
        return module
    here = module.weight.device
    index = here.index if here.type == "hologram" else None
    executor = devices.executor(devices.current if index is None else index)
    weight = host_array(module.weight.detach().float().cpu())
    packed = PackedLinear(Packed.quantize(weight, config.format, executor))
    packed.bias, packed.compute_dtype = module.bias, module.weight.dtype
    return (
        packed.train(module.training) if here.type == "hologram" else packed.train(module.training).to(here)
    )


def _linear(function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """torch.nn.functional.linear with torchao's weight of 8 bits."""
    x, weight, *rest = args
    bias = rest[0] if rest else kwargs.get("bias")
    codes = weight.qdata
    by_rows = tuple(weight.block_size) == (1, weight.shape[-1]) and codes.is_contiguous()
    alone = weight.act_quant_kwargs is None and weight.act_pre_scale is None
    derived = torch.is_grad_enabled() and x.requires_grad
    if not is_ours(codes) or not by_rows or not alone or derived:
        return _theirs(function, types, args, kwargs)
    scales = weight.scale.reshape(-1).to(x.dtype)
    y = torch.ops.aten._weight_int8pack_mm(x.reshape(-1, x.shape[-1]), codes, scales)
    y = y.reshape(*x.shape[:-1], codes.shape[0])
    return y if bias is None else y + bias


Int8Tensor.implements_torch_function(nn.functional.linear)(_linear)
