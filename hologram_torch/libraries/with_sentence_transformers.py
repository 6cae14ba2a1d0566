"""sentence-transformers: models without a device.

It (6.2) asks for each device by name; `torch.accelerator` in `get_device_name` would make this needless.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any

from hologram_torch import accelerator
from hologram_torch.door import door
from hologram_torch.loading import NAME


def environment(module: ModuleType) -> None:
    """The name of the device that models are put on."""
    own: Any = module
    named = own.get_device_name

    @functools.wraps(named)
    def get_device_name() -> str:
        found = named()
        if found != "cpu" or accelerator.current() is None:
            return found
        return f"{NAME}:{int(os.environ.get('LOCAL_RANK', door.current_device())) % door.device_count()}"

    own.get_device_name = get_device_name
