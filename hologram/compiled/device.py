"""A device that keeps what it compiled at hand."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from hologram.atlas.program import Launchable
from hologram.foundation import lazy
from hologram.foundation.bounded_caches import LRUCache
from hologram.machine.device import Device, DeviceInfo
from hologram.machine.kernel import Kernel

if TYPE_CHECKING:
    from hologram.compiler.source import report
else:
    report = lazy.module("hologram.compiler.source.report")


MAX_KERNELS = 512  # that a device keeps at hand; launches keep those that they run
SPARED_KERNELS = 8  # of those that were given up

K = TypeVar("K", bound=Kernel)


class CompilingDevice(Device, Generic[K]):
    """A device that keeps what it compiled, until it is not asked for any more."""

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self._kernels: LRUCache[Launchable, K] = LRUCache(MAX_KERNELS, SPARED_KERNELS)

    @abstractmethod
    def make(self, kernel: Launchable) -> K:
        """New compiled code; raises CompileError or UnsupportedDType."""

    def check(self) -> None:
        """Raises why the device cannot be used any more."""

    def compile(self, kernel: Launchable) -> K:
        """Compiled code for a program or tile, cached; raises CompileError or UnsupportedDType."""
        self.check()
        return self._kernels.get(kernel, self._reported)

    def source(
        self, kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()
    ) -> str:
        """See Device.source; a program takes its passes once more, for who watches them."""
        made = self.compile(kernel) if kernel.stem else self.make(kernel)
        return made.source(grid, scalars)

    def give_up(self, kernel: Launchable) -> None:
        self._kernels.give_up(kernel)

    def forget_kernels(self) -> None:
        self._kernels.clear()

    @property
    def compiled(self) -> int:
        return self._kernels.made

    def close(self) -> None:
        self.forget_kernels()

    def _reported(self, kernel: Launchable) -> K:
        report.compiled(kernel)
        return self.make(kernel)
