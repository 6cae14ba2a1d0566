"""Launches that are told at the call where their operands lie: dispatches, but for buffers and a few numbers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from hologram.atlas import arithmetic
from hologram.backends.metal.kernel import Dispatch, Form, KernelContext, MetalKernel
from hologram.backends.metal.queue import BATCH
from hologram.compiled import told
from hologram.foundation.dtypes import f32
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Call, Places


@frozen(slots=True, eq=False)
class Slot:
    """A dispatch, but for what a call is told."""

    kernel: MetalKernel
    form: Form
    groups: Any  # MTLSize
    values: bytes
    numbers: tuple[tuple[int, int], ...]  # a byte of the values, and an argument
    areas: tuple[tuple[int, int, int], ...]  # an argument, bytes behind its place, and how many are bound


def slots_of(call: Call, arguments: Sequence[Any], places: Places) -> tuple[Slot, ...] | None:
    """The dispatch of a call on memory like this, none for one over nothing; None where it cannot be told."""
    kernel: Any = call.kernel
    found = told.lie(call, kernel, arguments, places)
    if found is None:
        return ()
    form = kernel.form(found.scalars, call.grid, kernel.kernel.lengths(b.nbytes for b in found.bindings))
    if form is None:
        return ()
    numbers = told.numbers(form[0].source, found.scalars, len(call.grid))
    if numbers is None:
        return None
    code, groups, values = form
    pairs = zip(found.areas, found.bindings, strict=True)
    return (Slot(kernel, code, groups, values, numbers, tuple([(*lies, b.nbytes) for lies, b in pairs])),)


class Told:
    """A call that appends dispatches, BATCH at most at a time."""

    def __init__(self, kernel_context: KernelContext, slots: Sequence[Slot], places: Places) -> None:
        self._lock = kernel_context.queue.lock
        self._launch = kernel_context.launch
        self._parts = [tuple(slots[k : k + BATCH]) for k in range(0, len(slots), BATCH)]
        self._places = places

    def __call__(self, arguments: list[Any]) -> None:
        for part in self._parts:
            with self._lock:
                dispatches = tuple([self._dispatch(slot, arguments) for slot in part])
            self._launch(dispatches)

    def _dispatch(self, slot: Slot, arguments: list[Any]) -> Dispatch:
        find, values = self._places.find, slot.values
        bindings = [Binding(*find(arguments[k] + first), nbytes) for k, first, nbytes in slot.areas]
        for byte, argument in slot.numbers:
            number = arithmetic.number(float(arguments[argument]), f32)
            values = values[:byte] + struct.pack("<f", number) + values[byte + 4 :]
        return slot.kernel.dispatch(slot.form, slot.groups, values, bindings)
