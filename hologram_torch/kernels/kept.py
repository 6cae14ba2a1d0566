"""What is made of a tensor once, and kept beside its memory until that is written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hologram.foundation.frozen import frozen
from hologram.runtime.dispatch import deferred


@frozen
class Kept:
    """What was made of a tensor: where in its storage, at which version, and what."""

    place: tuple[Any, ...]
    version: int
    made: torch.Tensor


def kept(x: torch.Tensor, name: str, make: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """make(x), the last of which the storage keeps by name for as long as it lives.

    It is made anew where x lies elsewhere, or was written to as PyTorch counts it: what is written through `x.data` it
    does not count. Tensors of inference mode count nothing, and a trace may keep nothing.
    """
    if deferred() or x.is_inference():
        return make(x)
    storage: Any = x.untyped_storage()
    place = (x.storage_offset(), x.shape, x.stride(), x.dtype)
    all_kept = getattr(storage, "kept", None)
    if all_kept is None:
        all_kept = storage.kept = {}
    known: Kept | None = all_kept.get(name)
    if known is None or known.version != x._version or known.place != place:
        known = all_kept[name] = Kept(place, x._version, make(x))
    return known.made
