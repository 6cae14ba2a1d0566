"""torch.hologram.amp: torch.amp with the device named, as torch.cuda.amp is."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from hologram_torch.loading import NAME

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):
    """Mixed precision on the device: torch.autocast("hologram", ...)."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True
    ) -> None:
        super().__init__(NAME, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """Scales losses on the device: torch.amp.GradScaler("hologram", ...)."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(NAME, **settings)


custom_fwd = partial(torch.amp.custom_fwd, device_type=NAME)
custom_bwd = partial(torch.amp.custom_bwd, device_type=NAME)
