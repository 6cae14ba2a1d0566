"""What the package of a backend offers, and what asking it gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hologram.atlas.program import Launchable
from hologram.foundation.frozen import frozen
from hologram.machine.device import Device, DeviceInfo
from hologram.machine.limits import Limits


@frozen
class Probe:
    """What asking a backend gave: its devices, or why there are none and what to do."""

    backend: str
    devices: tuple[DeviceInfo, ...] = ()
    reason: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = ()

    @property
    def available(self) -> bool:
        return bool(self.devices)


class BackendModule(Protocol):
    """What the package of a backend offers as attributes: a folder of hologram/backends, or an entry point's module.

    It may have DEVICE_FILES as well: patterns of files below /dev, of which Linux has one wherever there is a device
    that is not emulated by software. Where it has none, `auto` passes over the backend without loading its library.
    """

    NAME: str  # the folder's, or the entry point's
    PREFERENCE: int  # `auto` takes the available backend with the lowest; the CPU's is 100

    def probe(self) -> Probe:
        """Asks for devices without side effects; loads the vendor's library, never raises for its absence."""
        ...

    def open_device(self, index: int) -> Device:
        """Opens the device with that index in the probe's list; raises BackendUnavailable."""
        ...

    def source(
        self, kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()
    ) -> str:
        """As Device.source, on a reference device of this backend; none has to be here, and none is opened."""
        ...

    def reference_limits(self) -> Limits:
        """What `source` takes a reference device to be capable of."""
        ...
