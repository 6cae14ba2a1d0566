"""HOLOGRAM_DEBUG=2: prints every launch with its time, after waiting for it."""

from __future__ import annotations

from hologram.foundation import debug
from hologram.foundation.debug import Rung
from hologram.foundation.display import duration, size
from hologram.machine.device import Device
from hologram.machine.kernel import Launch
from hologram.runtime.launches.observer import Subject


class Printer:
    """An Observer; see there."""

    def __init__(self, device: Device) -> None:
        self._timeline = device.timeline()

    def observed(self, subject: Subject, launch: Launch) -> Launch:
        """The launch, followed by a line about it."""
        facts = [f"grid {' x '.join(map(str, subject.grid))}"]
        if subject.workgroups is not None:
            facts.append(f"{subject.workgroups} workgroups")
        facts.append(f"{size(subject.bytes_bound)} bound")
        clock = self._timeline

        def run() -> None:
            start, end = clock.times(clock.around(launch))
            debug.show(Rung.LAUNCH, f"{subject.kernel}, {', '.join(facts)}, {duration((end - start) * 1e-9)}")

        return run
