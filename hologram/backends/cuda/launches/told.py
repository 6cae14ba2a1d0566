"""Launches that are told at the call where their operands lie: parameters, but for addresses and a few numbers.

The driver copies a launch's parameters while it is asked for it, so one block of them serves all calls.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from typing import Any

from hologram.atlas import arithmetic
from hologram.backends.cuda.context import Context
from hologram.backends.cuda.kernel import POINTER_BYTES, Arguments, Block, CudaKernel
from hologram.backends.cuda.launches import tensor_maps
from hologram.compiled import told
from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.dtypes import f32
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Call, Places
from hologram.machine.plan import TensorMap

MAX_MAPS = 64  # maps of tensors that are kept, of a parameter


@frozen(slots=True, eq=False)
class Mapped:
    """A parameter that is a map of a tensor: at which byte of the block it is, and where the tensor lies."""

    byte: int
    argument: int
    first: int
    encode: Any  # of an address
    made: FIFOCache[int, bytes]


@frozen(slots=True, eq=False)
class Slot:
    """A launch, but for what a call is told."""

    arguments: Arguments
    pointers: memoryview  # the block in words
    content: memoryview  # the same in bytes
    areas: tuple[tuple[int, int, int], ...]  # a word, an argument, and bytes behind its place
    numbers: tuple[tuple[int, int], ...]  # a byte, and an argument
    maps: tuple[Mapped, ...]
    owners: tuple[Any, ...]


def slots_of(call: Call, arguments: Sequence[Any], places: Places) -> tuple[Slot, ...] | None:
    """The launch of a call on memory like this, none for one over nothing; None where it cannot be told."""
    kernel: Any = call.kernel
    if not isinstance(kernel, CudaKernel):
        return None
    found = told.lie(call, kernel, arguments, places)
    if found is None:
        return ()
    scalars, lie = found.scalars, found.areas
    form = kernel.form(scalars, call.grid, kernel.kernel.lengths(b.nbytes for b in found.bindings))
    if form is None:
        return ()
    tile, epilogue = kernel.kernel, [lie[k] for k in kernel.kernel.read_by_epilogue]
    count = len(lie) - len(epilogue)
    maps: dict[int, TensorMap] = {kernel.place_of(m): m for m in tile.maps}
    block = Block.of(
        [bytes(tensor_maps.MAP_BYTES if k in maps else POINTER_BYTES) for k in range(count)],
        form.values,
        bytes(POINTER_BYTES * len(epilogue)) if tile.accumulates else None,
    )
    ends = [(block.places[k], lie[k]) for k in range(count) if k not in maps]
    ends += [(block.places[-1] + POINTER_BYTES * k, where) for k, where in enumerate(epilogue)]
    numbers = told.numbers(form.code.source, scalars, len(call.grid), block.places[count])
    if numbers is None:
        return None
    content = memoryview(block.memory).cast("B")
    slot = Slot(
        kernel.arguments(form, block),
        content.cast("Q"),
        content,
        tuple((byte // POINTER_BYTES, argument, first) for byte, (argument, first) in ends),
        numbers,
        tuple(
            Mapped(block.places[k], *lie[k], kernel.encoder(m, scalars), FIFOCache(MAX_MAPS))
            for k, m in maps.items()
        ),
        (form.code, block),
    )
    return (slot,)


class Told:
    """A call of launches in order. Threads take turns: a block is told, and then copied by the driver."""

    def __init__(self, context: Context, slots: Sequence[Slot]) -> None:
        self.context = context
        self.slots = tuple(slots)
        self._launch_kernel = context.driver.cuLaunchKernel
        self._turns = threading.Lock()

    def __call__(self, arguments: list[Any]) -> None:
        context, launch_kernel = self.context, self._launch_kernel
        if context.unusable is not None:
            raise context.unusable
        with self._turns:
            for slot in self.slots:
                pointers = slot.pointers
                for word, argument, first in slot.areas:
                    pointers[word] = arguments[argument] + first
                for byte, argument in slot.numbers:
                    number = arithmetic.number(float(arguments[argument]), f32)
                    struct.pack_into("<f", slot.content, byte, number)
                for one in slot.maps:
                    made = one.made.get(arguments[one.argument]) or self._map(one, arguments[one.argument])
                    slot.content[one.byte : one.byte + len(made)] = made
                status = launch_kernel(*slot.arguments)[0]
                if status:
                    raise context.failed(status, "cuLaunchKernel")

    @staticmethod
    def _map(one: Mapped, place: int) -> bytes:
        return one.made.keep(place, one.encode(place + one.first))
