"""What a device's limits promise, held to what the device has: once, when it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from hologram.foundation.errors import BackendUnavailable
from hologram.machine.device import Device

COUNTS = (
    "max_buffer_bytes", "max_binding_bytes", "max_bindings", "max_workgroups", "max_workgroup_threads", "subgroup",
    "binding_alignment",
)  # fmt: skip


def check(device: Device) -> None:
    """Raises BackendUnavailable, naming device and capability, where limits promise what the device lacks."""
    for capability, lack in _broken(device):
        info = device.info
        device.close()
        raise BackendUnavailable(
            f"{info.backend}: {info.name} promises {capability} in its limits, but {lack}"
        )


def _broken(device: Device) -> Iterator[tuple[str, str]]:
    limits = device.limits
    for name in COUNTS:
        if getattr(limits, name) < 1:
            yield name, f"that must be at least 1, got {getattr(limits, name)}"
    for field in fields(limits):
        value = getattr(limits, field.name)
        known = device.compiles if field.name == "dtypes" else limits.dtypes
        if isinstance(value, frozenset) and not value <= known:
            unknown = ", ".join(sorted(d.name for d in value - known))
            yield field.name, f"{'it compiles' if known is device.compiles else 'dtypes has'} no {unknown}"
    for capability, kernels in limits.promised:
        for stem in kernels:
            if stem not in device.hand_written:
                yield capability, f"it has no hand-written kernel {stem}"
    if limits.host_resident and type(device).host_view is Device.host_view:
        yield "host_resident", "it has no host_view"
