"""Random numbers: Philox streams, one for each device that torch.manual_seed starts anew, and one for each generator.

PyTorch has no generators of devices written in Python. One of ours is a generator of the host to PyTorch's C++, which
hands it on to kernels, and these know it again by its address there.
"""

from __future__ import annotations

import operator
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch

from hologram.opset.random import Key
from hologram.runtime.launches.recording import spoil
from hologram_torch.device.devices import devices
from hologram_torch.stand_in import StandIn

LANES = 1 << 32  # elements of one draw that have numbers of their own
WORDS = 1 << 64  # seeds there are, and offsets of each
UNSEEDED = 67280421310721  # PyTorch's seed where nobody gives one


@dataclass
class Stream:
    """A seed and how many elements were drawn."""

    seed: int = UNSEEDED
    drawn: int = 0

    def start(self, seed: int) -> None:
        """Begins anew."""
        self.seed, self.drawn = int(seed) % WORDS, 0

    def take(self, count: int) -> tuple[int, int]:
        """The seed and the offset for `count` numbers: no other draw of the stream has them."""
        if self.drawn % LANES + count > LANES:  # an element's number within a draw has 32 bits
            self.drawn += -self.drawn % LANES
        offset = self.drawn
        self.drawn = (offset + count) % WORDS
        return self.seed, offset

    @property
    def state(self) -> torch.Tensor:
        """Bytes on the host."""
        return torch.tensor(list(struct.pack("<QQ", self.seed, self.drawn)), dtype=torch.uint8)

    @state.setter
    def state(self, given: torch.Tensor) -> None:
        if not isinstance(given, torch.Tensor) or given.dtype != torch.uint8 or given.numel() != 16:
            raise TypeError(f"hologram: the state of a generator is 16 bytes (torch.uint8), got {given!r}")
        self.seed, self.drawn = struct.unpack("<QQ", bytes(given.tolist()))


def _seed(given: Any) -> int:
    """A seed; raises RuntimeError, as PyTorch does, for what is none."""
    if not hasattr(given, "__index__") or not -WORDS // 2 <= operator.index(given) < WORDS:
        raise RuntimeError(f"hologram: a seed is an integer within [-2**63, 2**64 - 1], got {given!r}")
    return operator.index(given)


Theirs: Any = torch._C.Generator


class Generator(Theirs, metaclass=StandIn):
    """torch.Generator: of a device of hologram one with a stream, of others PyTorch's."""

    _device: torch.device
    _stream: Stream

    def __new__(cls, device: Any = "cpu") -> Any:
        if torch.device(device or "cpu").type != "hologram":
            return Theirs(device)
        index = devices.index_of(device)
        devices.place(index)
        generator = super().__new__(cls)
        generator._device = torch.device("hologram", index)
        generator._stream = Stream()
        _generators[generator._cdata] = generator
        return generator

    @property
    def device(self) -> torch.device:
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        """Starts its stream anew: it draws what the device draws after torch.manual_seed(seed)."""
        self._stream.start(_seed(seed))
        return self

    def initial_seed(self) -> int:
        return self._stream.seed

    def seed(self) -> int:
        """Starts its stream anew with a number that nobody knows before."""
        number = Theirs().seed()
        self._stream.start(number)
        return number

    def get_state(self) -> torch.Tensor:
        return self._stream.state

    def set_state(self, new_state: torch.Tensor) -> Generator:
        self._stream.state = new_state
        return self

    def clone_state(self) -> Generator:
        return Generator(self.device).set_state(self.get_state())

    def get_offset(self) -> int:
        return self._stream.drawn

    def set_offset(self, offset: int) -> Generator:
        if not isinstance(offset, int) or not 0 <= offset < WORDS:
            raise RuntimeError(f"hologram: an offset is an integer within [0, 2**64 - 1], got {offset!r}")
        self._stream.drawn = offset
        return self

    def __reduce__(self) -> Any:
        return _continued, (str(self.device), self.get_state())


def _continued(device: str, state: torch.Tensor) -> Generator:
    return Generator(device).set_state(state)


_generators: WeakValueDictionary[int, Generator] = WeakValueDictionary()  # by their addresses in C++


class _Defaults(dict[int, Generator]):
    """The generators of devices, which draw where none is named."""

    seed = UNSEEDED

    def __missing__(self, index: int) -> Generator:
        generator = self[index] = Generator(torch.device("hologram", index)).manual_seed(self.seed)
        return generator


defaults = _Defaults()


def manual_seed_all(seed: int) -> None:
    """Starts the streams of all devices anew."""
    defaults.seed = _seed(seed)
    for generator in defaults.values():
        generator.manual_seed(seed)


def manual_seed(seed: int) -> None:
    """Starts the stream of the current device anew."""
    defaults[devices.current].manual_seed(seed)


def initial_seed() -> int:
    """What the current device's stream began with."""
    return defaults[devices.current].initial_seed()


def seed() -> None:
    """Starts the stream of the current device anew with a number that nobody knows before."""
    defaults[devices.current].seed()


def seed_all() -> None:
    """Starts the streams of all devices anew with one number that nobody knows before."""
    manual_seed_all(Theirs().seed())


@dataclass
class Traced:
    """What a traced function draws: by a key that is another at each call, which gives all of them their numbers."""

    key: Key
    drawn: int = 0

    def take(self, count: int) -> tuple[Key, int]:
        """The key, and the offset from its own."""
        before = self.drawn
        self.drawn += count
        return self.key, before


class _Local(threading.local):
    traced: Traced | Stream | None = None


_local = _Local()


@contextmanager
def drawn_by(traced: Traced | Stream | None) -> Iterator[None]:
    """Lets this thread draw from a key, or one stream, instead of the devices' streams."""
    before, _local.traced = _local.traced, traced
    try:
        yield
    finally:
        _local.traced = before


def drawing() -> Traced | Stream | None:
    """What this thread draws by instead of the streams."""
    return _local.traced


def draw(index: int, count: int, generator: torch.Generator | None = None) -> tuple[Any, int]:
    """Seed and offset for `count` random numbers on a device.

    The seed is a Key in a function that is traced for later calls. Raises RuntimeError, as PyTorch does, for a
    generator of another device.
    """
    spoil()
    if _local.traced is not None:
        if generator is not None:
            raise RuntimeError("hologram: a generator of one's own cannot draw in a compiled function")
        return _local.traced.take(count)
    if generator is None:
        return defaults[index]._stream.take(count)
    own = _generators.get(generator._cdata)  # pyright: ignore[reportAttributeAccessIssue]
    if own is None:
        found = generator.device.type
        raise RuntimeError(
            f"hologram: Expected a 'hologram' device type for generator but found '{found}': make it with "
            "torch.Generator('hologram')"
        )
    if own.device.index != index:
        raise RuntimeError(f"hologram: a generator of hologram:{index} was expected, got one of {own.device}")
    return own._stream.take(count)


def get_rng_state(device: Any = None) -> torch.Tensor:
    """The state of a device's stream, as bytes on the host."""
    return defaults[devices.index_of(device)].get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Continues a device's stream from a state that get_rng_state gave."""
    defaults[devices.index_of(device)].set_state(new_state.cpu())


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' streams."""
    return [get_rng_state(index) for index in range(devices.count)]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Continues all devices' streams, each from its state."""
    if len(new_states) != devices.count:
        raise RuntimeError(
            f"hologram: there are {devices.count} devices, got {len(new_states)} states of generators"
        )
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
