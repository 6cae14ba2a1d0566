"""Launches that are told at the call where their operands lie: parameters, but for addresses and a few numbers.

The driver copies a launch's parameters while it is asked for it, so one block of them serves all calls. Launches that
come again and again on the same memory are graphs (graph.py).
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections.abc import Sequence
from typing import Any

from hologram.atlas import arithmetic
from hologram.backends.cuda import tensor_maps
from hologram.backends.cuda.context import Context
from hologram.backends.cuda.kernel import POINTER_BYTES, Arguments, Block, CudaKernel
from hologram.compiler.dialect import words
from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.dtypes import f32
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Call, Places, Prepared
from hologram.machine.plan import Given, TensorMap

OFTEN = 3  # calls on the same memory, from which on launches are bound to it
MANY = 4  # launches in order, from which on that is worth it
MAX_MET = 256  # sets of memory whose calls are counted
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


def parts(
    context: Context, calls: Sequence[Call], arguments: Sequence[Any], places: Places
) -> list[Told | list[Call]]:
    """Calls in order: those that can be told as one launch, and between them those that cannot."""
    found: list[Told | list[Call]] = []
    both = [(call, slots_of(call, arguments, places)) for call in calls]
    for told, group in itertools.groupby(both, lambda pair: pair[1] is not None):
        members = list(group)
        if told:
            found.append(Told(context, [slot for _, slots in members for slot in slots or ()]))
        else:
            found.append([call for call, _ in members])
    return found


def slots_of(call: Call, arguments: Sequence[Any], places: Places) -> tuple[Slot, ...] | None:
    """The launch of a call on memory like this, none for one over nothing; None where it cannot be told."""
    kernel: Any = call.kernel
    if not isinstance(kernel, CudaKernel):
        return None
    given = [Binding(*places.find(place), nbytes) for place, nbytes in call.spans(arguments)]
    checked = kernel.checked(given, call.scalars, call.grid)
    if checked is None:
        return ()
    bindings, scalars = checked
    form = kernel.form(scalars, call.grid, kernel.kernel.lengths(b.nbytes for b in bindings))
    if form is None:
        return ()
    # A binding may begin behind its area, for what lies too far behind that.
    lie = [
        (area.argument, area.first + bound.offset - binding.offset)
        for area, bound, binding in zip(call.areas, bindings, given, strict=True)
    ]
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
    numbers = _numbers(form.code.source, scalars, len(call.grid), block.places[count])
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


def _numbers(
    source: Any, scalars: Sequence[Any], axes: int, begin: int
) -> tuple[tuple[int, int], ...] | None:
    """Where in the block numbers stand that a call is told; None for one that is not f32."""
    found: list[tuple[int, int]] = []
    for k, x in enumerate(scalars):
        if type(x) is not Given:
            continue
        if source.parameters[axes + k].dtype is not f32:
            return None
        before = source.parameters[: axes + k]
        found.append((begin + 4 * sum(words(p.dtype, source.index_bits) for p in before), x.argument))
    return tuple(found)


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


class InTurn:
    """Launches in order, told what they are given; where they come often on the same memory, those bound to it."""

    def __init__(self, launches: Sequence[Prepared], bound: Prepared | None) -> None:
        self._launches = tuple(launches)
        self._bound = bound
        self._met: FIFOCache[tuple[Any, ...], int] = FIFOCache(MAX_MET)

    def __call__(self, arguments: list[Any]) -> None:
        if self._bound is not None:
            key = tuple(arguments)
            calls = self._met.get(key) or 0
            if calls >= OFTEN:
                self._bound(arguments)
                return
            self._met.keep(key, calls + 1)
        for launch in self._launches:
            launch(arguments)
