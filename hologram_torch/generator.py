"""Random numbers: Philox streams, one for each device, that torch.manual_seed starts anew."""

from __future__ import annotations

import struct
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from hologram.opset.random import Key
from hologram_torch.devices import devices

LANES = 1 << 32  # of a stream's counter


@dataclass
class Stream:
    """A seed and how many elements were drawn."""

    seed: int = 0
    drawn: int = 0

    def take(self, count: int) -> tuple[int, int]:
        """The seed and the offset for `count` numbers: no other draw of the stream has them."""
        epoch, offset = divmod(self.drawn, LANES)
        if offset + count > LANES:  # blocks of one draw are not split
            epoch, offset = epoch + 1, 0
        self.drawn = epoch * LANES + offset + count
        return (self.seed + 0x9E37_79B9 * epoch) % LANES, offset


_streams: defaultdict[int, Stream] = defaultdict(Stream)


def manual_seed(seed: int) -> None:
    """Starts the streams of all devices anew."""
    _streams.clear()
    mixed = (seed ^ seed >> 32) % LANES
    _streams.default_factory = lambda: Stream(mixed)


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
    traced: Traced | None = None


_local = _Local()


@contextmanager
def drawn_by(traced: Traced | None) -> Iterator[None]:
    """Lets this thread draw from a key instead of the streams."""
    before, _local.traced = _local.traced, traced
    try:
        yield
    finally:
        _local.traced = before


def draw(index: int, count: int, generator: torch.Generator | None = None) -> tuple[Any, int]:
    """Seed and offset for `count` random numbers on a device; of a generator on the host, by what it draws.

    The seed is a Key in a function that is traced for later calls.
    """
    if _local.traced is not None:
        if generator is not None:
            raise RuntimeError("hologram: a generator of one's own cannot draw in a compiled function")
        return _local.traced.take(count)
    if generator is not None:
        words = torch.randint(0, 2**32, (2,), dtype=torch.int64, generator=generator)
        return int(words[0]), 0
    return _streams[index].take(count)


def get_rng_state(device: Any = None) -> torch.Tensor:
    """The state of a device's stream, as bytes on the host."""
    stream = _streams[_index(device)]
    return torch.tensor(list(struct.pack("<QQ", stream.seed, stream.drawn)), dtype=torch.uint8)


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Continues a device's stream from a state that get_rng_state gave."""
    seed, drawn = struct.unpack("<QQ", bytes(new_state.cpu().tolist()))
    _streams[_index(device)] = Stream(seed, drawn)


def _index(device: Any) -> int:
    if device is None or isinstance(device, int):
        return devices.current if device is None else device
    found = torch.device(device).index
    return devices.current if found is None else found
