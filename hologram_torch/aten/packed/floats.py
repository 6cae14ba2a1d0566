"""Products of floats of 8 bits with scales, for whole matrices or for each row of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import hologram as hg
from hologram.foundation.dtypes import f8e5m2
from hologram.frontend.tensor import Tensor
from hologram.opset.packed.formats import UNIT
from hologram.opset.packed.linear import packed_linear
from hologram_torch.aten.packed.integers import check
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements, register

WHOLE, ROWS = 0, 1  # recipes of scales that are known, by PyTorch's numbers


HALF = 65504.0  # the largest float of 16 bits


def _saturate(weight: torch.Tensor) -> torch.Tensor:
    """In place, as PyTorch's own kernel, which takes any memory for the host's."""
    return weight.clamp_(-HALF, HALF)


register("_saturate_weight_to_fp16", _saturate)


@implements("_scaled_mm")
@fused
def scaled_mm(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Any = None, scale_result: Any = None,
    out_dtype: Any = None, use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """(a scale_a) @ (b scale_b) + bias, added up in f32; a (m, k), b (k, n).

    Results of 8 bits are divided by `scale_result`, others are as they are, as on PyTorch's CPU.
    """
    n, k = b.shape[1], b.shape[0]
    check("_scaled_mm", bias is None or bias.shape == (n,), f"bias must be 1d tensor with size {n}")
    x = a.astype(hg.float32)
    scales = scale_b.reshape(-1, 1)
    scales = scales if scales.shape[0] == n else scales.expand((n, 1))
    along = b.mT.layout.strides
    # As weights lie that are multiplied as they are: in whole units, behind which nothing is read.
    if k and not k % UNIT and along[1] == 1:
        format = "f8e5m2" if b.dtype is f8e5m2 else "f8e4m3"
        y = packed_linear(x, b.mT, scales, format=format, columns=k, activation="none")
    else:
        y = hg.matmul(x, b.astype(hg.float32)) * scales.mT
    y = y * scale_a.reshape(-1, 1)
    y = y if bias is None else y + bias.astype(hg.float32)
    out_dtype = out_dtype or a.dtype
    if scale_result is not None and out_dtype.itemsize == 1:
        y = y / scale_result
    return y.astype(out_dtype)


@implements("_scaled_mm_v2")
def scaled_mm_by_recipe(
    a: Tensor, b: Tensor, scale_a: Sequence[Tensor], recipe_a: Sequence[int], swizzle_a: Sequence[int],
    scale_b: Sequence[Tensor], recipe_b: Sequence[int], swizzle_b: Sequence[int], bias: Any, out_dtype: Any,
    contraction_dim: Sequence[int] = (), use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """The same, whose scales are told apart by recipes."""
    recipes = [*recipe_a, *recipe_b]
    if recipes not in ([WHOLE, WHOLE], [ROWS, ROWS]) or any((*swizzle_a, *swizzle_b)) or contraction_dim:
        raise NotImplementedError(
            "hologram, _scaled_mm_v2: scales are for whole matrices (TensorWise) or for rows (RowWise) of both, not "
            f"swizzled, got the recipes {recipes}"
        )
    return scaled_mm(a, b, scale_a[0], scale_b[0], bias, None, out_dtype)
