"""Launches that are told at the call where their operands lie: dispatches, but for bind groups and a few numbers.

Every buffer is declared read_write: which memories operands share, and so which may not be bound both ways, is known
only at the call. Bind groups are kept by the memory they see (Pipelines.placed), whoever launches.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from hologram.atlas import arithmetic
from hologram.backends.webgpu.compiled import MOST, builtin
from hologram.backends.webgpu.encoder import BATCHED, COUNT, PIPELINE, Encoder
from hologram.backends.webgpu.kernel import Bound, WebGPUKernel
from hologram.backends.webgpu.pipeline import Pipeline, Pipelines
from hologram.compiled import told
from hologram.compiled.machine_code.builtin import Builtin
from hologram.foundation.dtypes import f32
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Call, Places, Prepared


@frozen(slots=True, eq=False)
class Slot:
    """A dispatch, but for what a call is told."""

    pipeline: Pipeline
    areas: tuple[tuple[int, int], ...]  # an argument, and bytes behind its place
    sizes: tuple[int, ...]  # of the bindings, in bytes
    key: bytes  # the beginning of its bind groups' keys
    offsets: Any  # in the memories, for those bits of places that dispatches are told
    uniform: Any
    immediates: Any
    size: int  # of them, in bytes
    numbers: tuple[tuple[int, int], ...]  # byte of the immediates, argument
    groups: tuple[int, int, int]


def slots(
    calls: Sequence[Call], arguments: Sequence[Any], places: Places, pipelines: Pipelines
) -> list[Slot] | None:
    """The dispatches of calls on memory like this; None where one takes pages, or numbers that are no immediates."""
    dispatches: list[Slot] = []
    for call in calls:
        kernel: Any = call.kernel
        assert isinstance(kernel, WebGPUKernel)
        spans = call.spans(arguments)
        bindings = [Binding(*places.find(place), nbytes) for place, nbytes in spans]
        bound = kernel.told(bindings, call.scalars, call.grid)
        if bound is None:
            return None
        if bound.dispatched:
            slot = _slot(call, bindings, bound, pipelines)
            if slot is None:
                return None
            dispatches.append(slot)
    return dispatches


def _slot(call: Call, bindings: Sequence[Binding], bound: Bound, pipelines: Pipelines) -> Slot | None:
    areas: list[tuple[int, int]] = []
    for position, binding in zip(bound.positions, bound.bindings, strict=True):
        area = call.areas[position]
        areas.append((area.argument, area.first + binding.offset - bindings[position].offset))
    source, layout = bound.made.source, bound.made.pipeline.layout
    content = source.pack(bound.scalars, call.grid)
    size = layout.signature.immediate_bytes
    numbers = told.numbers(source, bound.scalars, len(call.grid))
    if numbers is None or (numbers and not size):
        return None
    uniform = pipelines.uniform(content) if layout.signature.uniform else None
    sizes = tuple([b.nbytes for b in bound.bindings])
    return Slot(
        bound.made.pipeline,
        tuple(areas),
        sizes,
        pipelines.key(layout, sizes, uniform),
        layout.offsets(pipelines.ffi, [0] * len(sizes)),
        uniform,
        pipelines.ffi.new("char[]", content) if size else None,
        size,
        numbers,
        bound.groups,
    )


def launch_of(encoder: Encoder, pipelines: Pipelines, dispatches: Sequence[Slot], places: Places) -> Prepared:
    """One call that appends the dispatches to the open pass."""

    def group(slot: Slot, at: Sequence[int]) -> Any:
        return pipelines.placed(slot.pipeline.layout, slot.key, at, slot.sizes, slot.uniform, places)

    def meet(number: int, arguments: Sequence[Any]) -> int:
        slot = dispatches[number]
        return group(slot, [arguments[k] + first for k, first in slot.areas])[0]

    if all(len(slot.areas) <= MOST for slot in dispatches):
        launch = builtin(encoder)
        if launch is not None:
            return _compiled(launch, encoder, pipelines, dispatches, meet)
    lib, ffi, words = encoder.lib, encoder.ffi, encoder.words
    set_pipeline = lib.wgpuComputePassEncoderSetPipeline
    set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
    set_immediates = lib.wgpuComputePassEncoderSetImmediates
    dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
    lock = encoder.lock

    def in_python(arguments: list[Any]) -> None:
        with lock:
            for slot in dispatches:
                at = [arguments[k] + first for k, first in slot.areas]
                seen = group(slot, at)[1]
                offsets, told = slot.offsets, slot.pipeline.layout.told
                for k in range(len(offsets)):
                    offsets[k] = at[k] & told
                for byte, argument in slot.numbers:
                    number = arithmetic.number(float(arguments[argument]), f32)
                    ffi.memmove(slot.immediates + byte, struct.pack("<f", number), 4)
                pass_ = encoder.pass_ or encoder.begin()
                if slot.pipeline.address != words[PIPELINE]:
                    set_pipeline(pass_, slot.pipeline.handle)
                    words[PIPELINE] = slot.pipeline.address
                set_bind_group(pass_, 0, seen, len(offsets), offsets)
                if slot.size:
                    set_immediates(pass_, 0, slot.immediates, slot.size)
                dispatch(pass_, *slot.groups)
                words[COUNT] += 1
                if words[COUNT] >= words[BATCHED]:
                    encoder.flush()

    return in_python


def _compiled(
    launch: Builtin,
    encoder: Encoder,
    pipelines: Pipelines,
    dispatches: Sequence[Slot],
    meet: Callable[..., int],
) -> Prepared:
    """The same, as compiled code does it; its words are described in launch.ll."""
    called = meet, encoder.begin, encoder.flush, encoder.lock.acquire, encoder.lock.release
    words = array(
        "q", [encoder.words.buffer_info()[0], id(pipelines.groups), *map(id, called), len(dispatches)]
    )
    for slot in dispatches:
        told = slot.pipeline.layout.told
        immediates = encoder.address(slot.immediates) if slot.size else 0
        words.extend((slot.pipeline.address, told, len(slot.areas), len(slot.offsets), immediates, slot.size))
        words.extend((len(slot.numbers), *slot.groups))
        words.frombytes(slot.key)
        for pair in (*slot.areas, *slot.numbers):
            words.extend(pair)
    return launch.of(words.buffer_info()[0], (words, called, pipelines.groups, encoder, dispatches))
