"""Launches that are told at the call where their operands lie: dispatches, but for bind groups and a few numbers.

Every buffer is declared read_write: which memories operands share, and so which may not be bound both ways, is known
only at the call. Bind groups are kept by the memory they see (Pipelines.placed), whoever launches.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from hologram.atlas import arithmetic
from hologram.backends.webgpu.encoder import Encoder
from hologram.backends.webgpu.kernel import Bound, WebGPUKernel
from hologram.backends.webgpu.pipeline import Pipelines
from hologram.compiler.dialect import words
from hologram.device import Binding, Call, Places, Prepared
from hologram.dtypes import f32
from hologram.plan import Given
from hologram.records import frozen


@frozen(slots=True, eq=False)
class Slot:
    """A dispatch, but for what a call is told."""

    pipeline: Any
    layout: Any
    areas: tuple[tuple[int, int], ...]  # an argument, and bytes behind its place
    sizes: Any  # of the bindings, in bytes; what bind groups are kept by beside their places
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
    found: list[Slot] = []
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
            found.append(slot)
    return found


def _slot(call: Call, bindings: Sequence[Binding], bound: Bound, pipelines: Pipelines) -> Slot | None:
    areas: list[tuple[int, int]] = []
    for position, binding in zip(bound.positions, bound.bindings, strict=True):
        area = call.areas[position]
        areas.append((area.argument, area.first + binding.offset - bindings[position].offset))
    source, layout = bound.made.source, bound.made.pipeline.layout
    content = source.pack(bound.scalars, call.grid)
    size = layout.signature.immediate_bytes
    numbers = _numbers(bound, len(call.grid))
    if numbers is None or (numbers and not size):
        return None
    uniform = pipelines.uniform(content) if layout.signature.uniform else None
    sizes: Any = tuple([b.nbytes for b in bound.bindings])
    immediates = pipelines.ffi.new("char[]", content) if size else None
    handle = bound.made.pipeline.handle
    offsets = layout.offsets(pipelines.ffi, [0] * len(sizes))
    kept = object() if uniform is not None else sizes  # a uniform buffer is this slot's own
    return Slot(
        handle, layout, tuple(areas), (kept, sizes), offsets, uniform, immediates, size, numbers, bound.groups
    )


def _numbers(bound: Bound, axes: int) -> tuple[tuple[int, int], ...] | None:
    """Where in the immediates numbers stand that a call is told; None for one that is not f32."""
    source: Any = bound.made.source
    found: list[tuple[int, int]] = []
    for k, x in enumerate(bound.scalars):
        if type(x) is not Given:
            continue
        if source.parameters[axes + k].dtype is not f32:
            return None
        before = source.parameters[: axes + k]
        found.append((4 * sum(words(p.dtype, source.index_bits) for p in before), x.argument))
    return tuple(found)


def launch_of(encoder: Encoder, pipelines: Pipelines, dispatches: Sequence[Slot], places: Places) -> Prepared:
    """One call that appends the dispatches to the open pass."""
    lib, ffi = encoder.lib, encoder.ffi
    set_pipeline = lib.wgpuComputePassEncoderSetPipeline
    set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
    set_immediates = lib.wgpuComputePassEncoderSetImmediates
    dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
    lock, placed = encoder.lock, pipelines.placed

    def launch(arguments: list[Any]) -> None:
        with lock:
            for slot in dispatches:
                at = [arguments[k] + first for k, first in slot.areas]
                group = placed(slot.layout, slot.sizes, at, slot.uniform, places)
                offsets, told = slot.offsets, slot.layout.told
                for k in range(len(offsets)):
                    offsets[k] = at[k] & told
                for byte, argument in slot.numbers:
                    number = arithmetic.number(float(arguments[argument]), f32)
                    ffi.memmove(slot.immediates + byte, struct.pack("<f", number), 4)
                pass_ = encoder.pass_ or encoder.begin()
                if slot.pipeline is not encoder.pipeline:
                    set_pipeline(pass_, slot.pipeline)
                    encoder.pipeline = slot.pipeline
                set_bind_group(pass_, 0, group, len(offsets), offsets)
                if slot.size:
                    set_immediates(pass_, 0, slot.immediates, slot.size)
                dispatch(pass_, *slot.groups)
                encoder.count += 1
                if encoder.count >= encoder.batch:
                    encoder.flush()

    return launch
