"""Products of groups: experts of a mixture, each with the rows that an offset says are its own."""

from __future__ import annotations

import torch

from hologram_torch.kernels.registry import register


def _check(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor | None, bias: torch.Tensor | None,
           out_dtype: torch.dtype | None) -> None:  # fmt: skip
    """Raises RuntimeError where PyTorch does."""
    flat = a.ndim == 2 or b.ndim == 2
    rules = [
        (a.ndim in (2, 3) and b.ndim in (2, 3), f"matrices of 2 or 3 axes are needed, got {a.ndim} and {b.ndim}"),
        (a.dtype == b.dtype and a.dtype.is_floating_point, f"floats of one dtype are needed, got {a.dtype}, {b.dtype}"),
        (flat == (offsets is not None), "Have to provide offsets if there is a 2d matrix, or no offset if both "
         "matrices are 3d"),
        (bias is None, "Bias not supported yet"),
        (out_dtype in (None, a.dtype), "Grouped gemm output dtype must match `mat_a` dtype"),
        (a.shape[-1] == b.shape[-2], f"contraction dimension of mat_a and mat_b must match, got {a.shape[-1]} and "
         f"{b.shape[-2]}"),
    ]  # fmt: skip
    groups = None
    if offsets is not None:
        groups = offsets.numel()
        rules += [
            (offsets.ndim == 1, f"offsets must have one axis, got {offsets.ndim}"),
            (offsets.dtype == torch.int32, f"Offsets have to be int32, got {offsets.dtype}"),
        ]
    elif a.ndim == 3:
        groups = a.shape[0]
    stacked = [x for x in (a, b) if x.ndim == 3]
    rules.append((all(x.shape[0] == groups for x in stacked), "matrix batch sizes have to match"))
    for holds, what in rules:
        if not holds:
            raise RuntimeError(f"hologram, _grouped_mm: {what}")


def _spans(offsets: torch.Tensor, total: int) -> list[tuple[int, int]]:
    """Where each group begins and ends."""
    ends: list[int] = offsets.tolist()
    begins = [0, *ends][: len(ends)]
    if any(begin > end for begin, end in zip(begins, ends, strict=True)) or (ends and ends[-1] > total):
        raise RuntimeError(f"hologram, _grouped_mm: offsets must rise and end by {total}, got {ends}")
    return list(zip(begins, ends, strict=True))


def grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """A product for each group, of which those without rows cost nothing.

    `offs` (groups) are the ends of the groups along the axis that a matrix of two axes has for them: rows of a
    (rows, k) beside b (groups, k, n), columns of b (k, columns) beside a (groups, m, k), or k where both have two axes.
    What lies behind the last is 0.
    """
    _check(a, b, offs, bias, out_dtype)
    if offs is None:
        return torch.bmm(a, b)
    inner = a.ndim == b.ndim == 2
    groups, (m, k), n = offs.shape[0], a.shape[-2:], b.shape[-1]
    spans = _spans(offs, k if inner else m if a.ndim == 2 else n)
    out = a.new_zeros((groups, m, n) if inner else (m, n))
    for g, (begin, end) in enumerate(spans):
        if begin == end:
            continue
        if inner:
            torch.mm(a[:, begin:end], b[begin:end], out=out[g])
        elif a.ndim == 2:
            torch.mm(a[begin:end], b[g], out=out[begin:end])
        else:
            torch.mm(a[g], b[:, begin:end], out=out[:, begin:end])
    return out


register("_grouped_mm", grouped_mm)
