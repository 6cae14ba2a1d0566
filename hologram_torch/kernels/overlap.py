"""Outputs whose elements share memory, with one another or with what is read: refused, as PyTorch refuses them."""

from __future__ import annotations

from collections.abc import Iterable

import torch

REMEDY = "Please clone() the tensor before performing the operation."
# Operators whose outputs may not be their operands either, though they are no other memory.
TAKING = """
bernoulli cat gather index index_add index_copy index_fill index_select kthvalue masked_select median nanmedian mode put
scatter scatter_add scatter_reduce take
"""
APART = frozenset(TAKING.split())


def refuse_overlap(packet: str, outputs: Iterable[torch.Tensor], read: Iterable[torch.Tensor]) -> None:
    """Raises RuntimeError where writing an output would change another element of it, or one that is read."""
    sources = list(read)
    for output in outputs:
        if not output.numel():
            continue
        if any(not step and n > 1 for n, step in zip(output.shape, output.stride(), strict=True)):
            raise RuntimeError(
                f"hologram, {packet}: unsupported operation: more than one element of the written-to tensor refers to "
                f"a single memory location. {REMEDY}"
            )
        if any(_overlap(packet, output, x) for x in sources):
            raise RuntimeError(
                f"hologram, {packet}: unsupported operation: some elements of the input tensor and the written-to "
                f"tensor refer to a single memory location. {REMEDY}"
            )


def _overlap(packet: str, output: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether both lie without gaps in one memory and share some of it; all of it, if that matters."""
    if not (output.numel() and x.numel()) or output.untyped_storage()._cdata != x.untyped_storage()._cdata:
        return False
    first, last = _ends(output)
    low, high = _ends(x)
    # Gaps make it too hard to tell.
    if last <= low or high <= first or not (is_dense(output) and is_dense(x)):
        return False
    return packet in APART or (first, last) != (low, high) or output.stride() != x.stride()


def is_dense(x: torch.Tensor) -> bool:
    """Whether a tensor's elements lie without gaps, each at a place of its own, whatever the order of its axes."""
    step = 1
    for stride, n in sorted((s, n) for n, s in zip(x.shape, x.stride(), strict=True) if n != 1):
        if stride != step:
            return False
        step *= n
    return True


def _ends(x: torch.Tensor) -> tuple[int, int]:
    start = int(x.storage_offset()) * x.element_size()
    return start, start + int(x.numel()) * x.element_size()
