"""What PyTorch's own compiler asks a device's module for: it writes no kernels for this device, and says so.

Inductor asks before it compiles its first graph, for whatever device.
"""

from __future__ import annotations

from typing import Any, NoReturn

from torch._inductor.codegen.common import DeviceOpOverrides, register_device_op_overrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen

register_device_op_overrides("hologram", DeviceOpOverrides())


class Refusal(PythonWrapperCodegen):
    """Refuses the graph that is to be compiled."""

    @staticmethod
    def create(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "hologram: Inductor writes no kernels for this device; torch.compile(model), or with backend='hologram', "
            "does"
        )
