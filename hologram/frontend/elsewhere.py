"""What runs on another device than a tensor's own: copies of it, and operations that its device has no kernels for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hologram.foundation.config import config
from hologram.foundation.errors import UnsupportedOperation
from hologram.opset.forms.default import Default
from hologram.opset.forms.operation import Operation
from hologram.runtime.launches import checks
from hologram.runtime.memory.buffer import Buffer


def moved(x: Any, executor: Any) -> Any:
    """A contiguous copy of a tensor on another executor.

    Between devices of one driver its bytes go by the driver's own way; else they are copied on the host once, where one
    of the two computes in its memory, and twice where neither does. What a tensor of a function that is followed may
    not be asked for, it refuses itself.
    """
    executor.check_open()
    executor.supported(x.dtype, "to_device")
    if not isinstance(x.buffer, Buffer):
        return executor.tensor(x.to_numpy())
    checks.view(x.executor, "to_device", x)
    made, source = executor.empty(x.shape, x.dtype), x.buffer
    whole = x.layout.is_contiguous and x.size == source.size and x.dtype is source.dtype
    if x.executor.limits.host_resident and not whole:
        made.buffer.from_numpy(x.to_numpy(copy=False))
    else:
        made.buffer.copy_from(source if whole else x.clone().buffer)
    return made


def on_host(engine: Any, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """An operation's results on the engine's device, computed by the CPU backend: one copy there and one back.

    Raises UnsupportedOperation unless HOLOGRAM_HOST_LINALG=1.
    """
    operation.infer([x.layout for x in operands], attributes)  # what is refused anywhere
    if not config.host_linalg:
        info = engine.device.info
        raise UnsupportedOperation(
            f"{operation.name}: {info.backend} ({info.name}) has no kernels for it: HOLOGRAM_HOST_LINALG=1 runs it on "
            "the host, with one copy each way, or x.to_device('cpu') does"
        )
    host = Default.executor("cpu")
    results = host.apply(operation, [host.from_dlpack(x.to_numpy()) for x in operands], attributes)
    made = [
        engine.tensor(r.to_numpy(copy=False)) for r in (results if isinstance(results, tuple) else (results,))
    ]
    return tuple(made) if isinstance(results, tuple) else made[0]
