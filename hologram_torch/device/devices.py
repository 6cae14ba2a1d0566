"""The devices that `torch.device("hologram", i)` numbers, and the executor of each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from hologram.backends.registry import probe, probes
from hologram.foundation.config import config
from hologram.foundation.errors import BackendUnavailable
from hologram.foundation.frozen import frozen
from hologram.frontend.default import process_executor
from hologram.frontend.executor import Executor
from hologram.machine.device import DeviceInfo
from hologram.runtime import selector


@frozen
class Place:
    """A device: its backend and its number there."""

    backend: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.backend}:{self.number}"


class _Currents(threading.local):
    """The number of each thread's current device."""

    index = 0


class Devices:
    """Every device of every backend, the chosen one first; each has one executor, shared with `hg`.

    The first ones, `count` of them, are those of the chosen backend that no software emulates unless it is asked for:
    a machine's own, each once. A card that another backend reaches too, and the CPU beside it, have numbers after them.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._chosen = selector.AUTO
        self._places: tuple[Place, ...] | None = None
        self._count = 0
        self._executors: list[Executor | None] = []
        self._numbers: dict[Any, int] = {}  # of executors
        self.currents = _Currents()
        self.on_opening: list[Callable[[Executor], None]] = []  # who is told of each executor

    # Which there are.

    @property
    def places(self) -> tuple[Place, ...]:
        """In the order of their numbers."""
        if self._places is None:
            with self._lock:
                chosen = selector.choose(self._chosen)
                first = Place(chosen.name, chosen.index)
                places = [Place(info.backend, info.index) for p in probes() for info in p.devices]
                emulated = {
                    Place(i.backend, i.index) for p in probes() for i in p.devices if i.limits.software
                }

                def rank(place: Place) -> tuple[bool, bool, bool]:
                    return place != first, place.backend != first.backend, place in emulated

                places.sort(key=rank)
                self._count = sum(
                    p.backend == first.backend and (p in emulated) == (first in emulated) for p in places
                )
                self._executors = [None] * len(places)
                self._places = tuple(places)
        return self._places

    @property
    def count(self) -> int:
        """How many devices the machine has, as others count: those of the chosen backend."""
        return self._count if self.places else 0

    @property
    def on_gpu(self) -> bool:
        """Whether the first device is a GPU, or one that HOLOGRAM_DEVICE or `choose` named; opens none."""
        if self._chosen != selector.AUTO or config.device is not None:
            return True
        try:
            chosen = selector.choose(self._chosen)
        except BackendUnavailable:  # asked for and not here: whoever uses the device is told
            return True
        limits = probe(chosen.name).devices[chosen.index].limits
        return not (limits.host_resident or limits.software)

    def choose(self, backend: str) -> None:
        """Makes a backend's device number 0; raises BackendUnavailable, or RuntimeError once one is in use."""
        with self._lock:
            if self._chosen == backend or (self._places and self._places[0].backend == backend):
                return
            if any(self._executors):
                raise RuntimeError(
                    "torch.hologram.set_backend: must be called before the first tensor on the device, got "
                    f"{backend!r} while {self._places[0].name if self._places else 'a device'} is in use"
                )
            selector.choose(backend)  # raises
            self._chosen, self._places = backend, None

    def info(self, index: int) -> DeviceInfo:
        """What a device is; opens nothing."""
        place = self.place(index)
        (probe,) = (p for p in probes() if p.backend == place.backend)
        return probe.devices[place.number]

    def place(self, index: int) -> Place:
        """The device of a number; raises RuntimeError, as torch.cuda does, for a number that none has."""
        places = self.places
        if not 0 <= index < len(places):
            raise RuntimeError(
                f"hologram: there are {len(places)} devices ({', '.join(p.name for p in places)}), got "
                f"hologram:{index}"
            )
        return places[index]

    def index_of(self, device: Any) -> int:
        """The number that a device, a name or a number stands for; the current one for None."""
        if device is None:
            return self.current
        if isinstance(device, int):
            return device
        given = torch.device(device)
        if given.type != "hologram":
            raise ValueError(f"torch.hologram: a device of hologram is needed, got {given}")
        return self.current if given.index is None else given.index

    # Executors.

    def executor(self, index: int) -> Executor:
        """The executor of a device, opened when it is first needed, and again where it was closed."""
        if 0 <= index < len(self._executors):
            executor = self._executors[index]
            if executor is not None and executor.usable:
                return executor
        return self.open(index)

    def open(self, index: int) -> Executor:
        """As `executor`, of one that was not found open; another thread may be first."""
        place = self.place(index)
        with self._lock:
            known = self._executors[index]
            if known is not None and known.usable:  # another thread was first
                return known
            if known is not None and not known.closed:
                raise RuntimeError(
                    f"hologram: hologram:{index} was opened before this process was forked and cannot be used in it; "
                    "start workers with the method 'spawn', or keep tensors of theirs on the CPU"
                )
            try:
                executor = process_executor(place.name)
            except BackendUnavailable as error:
                raise RuntimeError(f"hologram:{index}: {error}") from error
            self._executors[index] = executor
            self._numbers[executor] = index
        for told in self.on_opening:
            told(executor)
        return executor

    def number(self, executor: Any) -> int:
        """The number of the device that an executor computes on."""
        number = self._numbers.get(executor)
        if number is None:
            place = Place(executor.backend, executor.device.info.index)
            number = self._numbers[executor] = self.places.index(place)
        return number

    def opened(self) -> list[Executor]:
        """Executors that are open now."""
        return [ex for ex in self._executors if ex is not None and ex.usable]

    # The current one, by thread.

    @property
    def current(self) -> int:
        return self.currents.index

    @current.setter
    def current(self, index: int) -> None:
        self.place(index)
        self.currents.index = index


devices = Devices()
