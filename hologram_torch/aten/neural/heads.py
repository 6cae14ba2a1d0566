"""Attention by several heads and layers of encoders in one operator, which PyTorch calls where no gradient is asked."""

from __future__ import annotations

import torch
from torch.nn import functional

from hologram_torch.kernels.registry import register

OF_PAIRS, OF_KEYS = 0, 1  # what a mask of two axes is about; of any axes otherwise


def _left_out(mask: torch.Tensor, kind: int | None, heads: int) -> torch.Tensor:
    """A mask, true (or -inf) where nothing is looked at, as one that broadcasts to (batch, heads, queries, keys)."""
    if kind == OF_KEYS:
        return mask[:, None, None, :]
    if mask.ndim == 3:  # by batch and head in one axis
        return mask.unflatten(0, (-1, heads))
    return mask


def _attended(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """nn.MultiheadAttention of (batch, positions, embed_dim): the result, and the weights if they are wanted."""
    if query.ndim != 3 or query.shape[-1] != embed_dim or embed_dim % num_head:
        raise RuntimeError(
            "hologram, _native_multi_head_attention: (batch, positions, embed_dim) in whole heads is needed, got "
            f"{tuple(query.shape)}, embed_dim {embed_dim} and {num_head} heads"
        )
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (functional.linear(x, w, b).unflatten(-1, (num_head, -1)).transpose(1, 2) for x, w, b in parts)
    bias = None
    if mask is not None:
        bias = _left_out(mask, mask_type, num_head)
        bias = (
            torch.zeros_like(bias, dtype=q.dtype).masked_fill(bias, -torch.inf)
            if bias.dtype is torch.bool
            else bias
        )
    weights = None
    if need_weights:
        scores = q @ k.transpose(-2, -1) * (embed_dim // num_head) ** -0.5
        weights = torch.softmax(scores if bias is None else scores + bias, dim=-1)
        heads = weights @ v
        weights = weights.mean(dim=1) if average_attn_weights else weights
    else:
        heads = functional.scaled_dot_product_attention(q, k, v, bias)
    return functional.linear(heads.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


def _encoded(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """nn.TransformerEncoderLayer without dropout."""
    own = qkv_weight, qkv_bias, proj_weight, proj_bias

    def first(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attended(x: torch.Tensor) -> torch.Tensor:
        return _attended(x, x, x, embed_dim, num_heads, *own, mask, False, True, mask_type)[0]

    def fed(x: torch.Tensor) -> torch.Tensor:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        return functional.linear(
            functional.gelu(inner) if use_gelu else functional.relu(inner), ffn_weight_2, ffn_bias_2
        )

    if norm_first:
        src = src + attended(first(src))
        return src + fed(second(src))
    src = first(src + attended(src))
    return second(src + fed(src))


register("_native_multi_head_attention", _attended)
register("_transformer_encoder_layer_fwd", _encoded)
# Encoders then keep padding where it is, instead of making nested tensors, which the device has not.
register("_nested_tensor_from_mask_left_aligned", lambda t, mask: False)
