"""What answers a call of an operation."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=256)
def answers(kind: type) -> bool:
    """Whether objects of a type answer calls of operations: a Tensor, or what stands for one in a trace.

    Those have `__apply__(operation, operands, attributes)`, which gives the call's result.
    """
    return hasattr(kind, "__apply__")


@lru_cache(maxsize=256)
def outranks(kind: type, other: type) -> bool:
    """Whether an object of a type answers before one of another: one that stands for several tensors before these."""
    return issubclass(kind, other) or (
        hasattr(kind, "__apply_first__") and not hasattr(other, "__apply_first__")
    )
