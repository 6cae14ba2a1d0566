"""Products with weights of 8 and 4 bits, as ATen has them: the weights are read as they lie.

Each is the product of packed weights (hologram/opset/packed) with what PyTorch's layout says as its planes.
"""

from __future__ import annotations

import torch

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.packed.linear import packed_linear
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.kept import kept
from hologram_torch.kernels.registry import implements, register
from hologram_torch.tensors.dtypes import dtype_of

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
GROUPS = (32, 64, 128, 256)
UNIT = 32  # neighbours whose codes of 4 bits lie together


def check(name: str, holds: bool, what: str) -> None:
    """Raises RuntimeError, as PyTorch does, where what must hold does not."""
    if not holds:
        raise RuntimeError(f"{name}: {what}")


def scales_name(dtype: torch.dtype) -> str:
    """What a format's name says of scales of a dtype."""
    return "" if dtype == torch.float32 else dtype_of(dtype).name


def _check_matrices(name: str, x: torch.Tensor, scales: torch.Tensor) -> None:
    check(name, x.dtype in FLOATS, "expect A to be either 32-bit or 16-bit float tensor.")
    check(name, x.ndim == 2, "expect A to be 2D tensor.")
    check(name, x.stride(1) == 1 or x.shape[1] < 2, "A must be contiguous on the last dimension.")
    check(name, scales.dtype == x.dtype, f"expected scalar type {x.dtype} but found {scales.dtype}")


def _int8(x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """x (m, k) times int8 (n, k), turned round, each row of which has a scale."""
    name = "_weight_int8pack_mm"
    _check_matrices(name, x, scales)
    check(name, codes.dtype == torch.int8, f"expect B to be int8 tensor, got {codes.dtype}.")
    check(name, codes.is_contiguous(), "expect B to be contiguous.")
    k = x.shape[1]
    check(name, codes.ndim == 2 and codes.shape[1] == k, f"expect B.size(1) == {k}")
    n = codes.shape[0]
    check(name, scales.shape == (n,), f"expect scales to be 1d tensor with size {n}")
    return packed_linear(x, codes, scales.unsqueeze(1), None, None, None, f"i8{scales_name(scales.dtype)}", k)


register("_weight_int8pack_mm", _int8, recorded=True)


# 4 bits. A weight is scale (code - 8) + zero. Packed codes have a shape of PyTorch's, and lie as those of a plane do.


def _plane(codes: torch.Tensor) -> torch.Tensor:
    """Codes (n, k), a byte each, two to a byte (n, k / 2), where they lie in the plane; see opset/packed/formats.py."""
    n, k = codes.shape
    halves = codes.reshape(n, k // UNIT, 2, UNIT // 2)
    return (halves[:, :, 0] | halves[:, :, 1] << 4).reshape(n, k // 2)


def _packed_tiles(weight: torch.Tensor, tiles: int) -> torch.Tensor:
    """Codes two to a byte (n, k / 2), the first in the upper bits, as CUDA takes them."""
    name = "_convert_weight_to_int4pack"
    check(name, weight.ndim == 2, "expect in to be 2D tensor.")
    check(name, weight.dtype == torch.uint8, f"expect in to be uint8 tensor, got {weight.dtype}.")
    check(name, tiles in (2, 4, 8), f"innerKTiles must be 2, 4 or 8, got {tiles}")
    n, k = weight.shape[0], weight.shape[1] * 2
    check(name, not n % 8, f"expect n to be dividable by 8, got {n}")
    check(name, not k % (tiles * 16), f"expect k to be dividable by {tiles * 16}, got {k}")
    codes = torch.stack([weight >> 4, weight & 15], dim=2).reshape(n, k)
    return _plane(codes).view(torch.int32).reshape(n // 8, k // (tiles * 16), 32, tiles // 2)


def _packed_rows(weight: torch.Tensor, tiles: int) -> torch.Tensor:
    """Codes of int32 (n, k), as the CPU takes them."""
    name = "_convert_weight_to_int4pack_cpu"
    check(name, weight.ndim == 2, "expect weight to be 2D tensor.")
    check(name, weight.dtype == torch.int32, f"expect weight to be kInt tensor, got {weight.dtype}.")
    n, k = weight.shape
    check(name, not n % 16, "expect N to be dividable by 16")
    check(name, not k % UNIT, f"expect K to be dividable by {UNIT}, got {k}")
    return _plane(weight.to(torch.uint8))


def _pairs(scales_and_zeros: torch.Tensor) -> torch.Tensor:
    """Scales and zeros (groups, n, 2) as a plane (n, groups * 2) has them: what is subtracted is kept."""
    turned = scales_and_zeros.transpose(0, 1)
    return torch.stack([turned[..., 0], -turned[..., 1]], dim=2).flatten(1)


def _int4(
    name: str, x: torch.Tensor, codes: torch.Tensor, n: int, group: int, pairs: torch.Tensor
) -> torch.Tensor:
    """x (m, k) times codes (n, k / 8) in words, turned round, whose groups have a scale and a zero."""
    _check_matrices(name, x, pairs)
    k = x.shape[1]
    check(name, group in GROUPS, f"expect qGroupSize to be 32, 64, 128 or 256, got {group}")
    check(name, not k % group, f"expect K to be divisible by qGroupSize, got K:{k}, qGroupSize:{group}")
    check(name, codes.numel() * 8 == n * k, f"expect B to have {n * k // 8} words, got {codes.numel()}")
    check(
        name,
        pairs.shape == (k // group, n, 2),
        f"expect qScaleAndZeros to be 3d tensor with sizes [{k // group}, {n}, 2]",
    )
    planes = codes.reshape(n, k // 8), kept(pairs, "pairs", _pairs)
    return packed_linear(x, *planes, None, None, None, f"int4m{scales_name(x.dtype)}g{group}", k)


def _int4_tiles(x: torch.Tensor, tiles: torch.Tensor, group: int, pairs: torch.Tensor) -> torch.Tensor:
    name = "_weight_int4pack_mm"
    check(name, tiles.dtype == torch.int32, f"expect B to be int32 tensor, got {tiles.dtype}.")
    check(name, tiles.is_contiguous(), "expect B to be contiguous.")
    check(name, tiles.ndim == 4, "expect B to 4d tensor.")
    return _int4(name, x, tiles, tiles.shape[0] * 8, group, pairs)


def _int4_rows(x: torch.Tensor, rows: torch.Tensor, group: int, pairs: torch.Tensor) -> torch.Tensor:
    name = "_weight_int4pack_mm_cpu"
    check(name, rows.dtype == torch.uint8, f"expect B to be uint8 tensor, got {rows.dtype}.")
    check(name, rows.is_contiguous(), "expect B to be contiguous.")
    check(name, rows.ndim == 2, "expect B to 2d tensor.")
    return _int4(name, x, rows.view(torch.int32), rows.shape[0], group, pairs)


register("_convert_weight_to_int4pack", _packed_tiles)
register("_weight_int4pack_mm", _int4_tiles)
register("_convert_weight_to_int4pack_for_cpu", _packed_rows)
register("_weight_int4pack_mm_for_cpu", _int4_rows)


# Products of bytes. Sums of a thousand of them are exact in f32, whose products are quick on every device.
EXACT = 1024


@implements("_int_mm", by_class=True)
@fused
def int_mm(a: Tensor, b: Tensor) -> Tensor:
    """a (m, k) times b (k, n), of int8, exactly, in int32."""
    total = None
    for first in range(0, max(a.shape[1], 1), EXACT):
        count = min(EXACT, a.shape[1] - first)
        left, right = (x.narrow(axis, first, count).astype(hg.float32) for x, axis in ((a, 1), (b, 0)))
        part = hg.matmul(left, right).astype(hg.int32)
        total = part if total is None else total + part
    assert total is not None
    return total
