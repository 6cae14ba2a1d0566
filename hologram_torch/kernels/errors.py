"""Errors as PyTorch's users know them."""

from __future__ import annotations

import torch

from hologram.foundation.errors import ShapeError, UnsupportedDType

# Ours, of which the first that fits counts, and PyTorch's for it.
KINDS: tuple[tuple[type[Exception], type[Exception]], ...] = (
    (IndexError, IndexError),
    (UnsupportedDType, NotImplementedError),
    (TypeError, TypeError),
    (ShapeError, RuntimeError),
    (ValueError, ValueError),
    (NotImplementedError, NotImplementedError),
    (MemoryError, torch.OutOfMemoryError),
)


def refusal(name: str, error: Exception) -> Exception:
    """An error of the type that PyTorch would raise, naming hologram and the operator."""
    kind = next((theirs for ours, theirs in KINDS if isinstance(error, ours)), RuntimeError)
    return kind(f"hologram, {name}: {error}")
