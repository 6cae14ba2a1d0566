"""Operations that a device has no kernels for, on the host: where HOLOGRAM_HOST_LINALG lets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hologram.foundation.config import config
from hologram.foundation.errors import UnsupportedOperation
from hologram.opset.forms.default import Default
from hologram.opset.forms.operation import Operation


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
