"""A kernel of the Metal backend: compiled once for each variant of its launches, and bound to memory as a launch."""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hologram.atlas.program import Launchable
from hologram.backends.metal.dialect import msl
from hologram.backends.metal.memory import Memory
from hologram.backends.metal.pipeline import Pipeline, Pipelines
from hologram.backends.metal.queue import BATCH, Queue
from hologram.compiled.text_kernel import TextKernel
from hologram.compiler.scheduling.schedule import most_lanes
from hologram.compiler.source.codegen import Source
from hologram.compiler.source.generator import Variant, generator
from hologram.compiler.source.report import generated
from hologram.compiler.source.shader import Shader
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Bindings, Launch, Scalars, in_turn, nothing
from hologram.machine.limits import Limits

FOLDER = Path(__file__).parent  # all that decides the text
POINTER_BYTES = 8
COUNTED = most_lanes(32)


@frozen
class KernelContext:
    """What kernels of a device share."""

    queue: Queue
    pipelines: Pipelines
    limits: Limits
    launch: Callable[[Sequence[Dispatch]], None]


class Dispatch(NamedTuple):
    """All that a dispatch tells the encoder. It holds what it refers to."""

    pipeline: Any  # MTLComputePipelineState
    buffers: tuple[tuple[Any, int, int], ...]  # MTLBuffer, offset, index
    constants: tuple[tuple[bytes, int, int], ...]  # bytes, how many, index
    indirect: tuple[Any, ...]  # buffers whose addresses lie in the constants
    groups: Any  # MTLSize
    threads: Any  # MTLSize
    memories: tuple[Memory, ...]
    foreign: bool  # some of the memory is the host's own
    bindings: tuple[Binding, ...]

    def seen(self) -> bool:
        """Whether others hold a view of bytes that it is bound to."""
        return any(b.memory.seen(b.offset, b.nbytes) for b in self.bindings)


class Recorded(functools.partial):
    """A launch that appends dispatches: a partial of `appender`'s function."""

    @property
    def dispatches(self) -> tuple[Dispatch, ...]:
        return self.args[0]


def appender(queue: Queue) -> Callable[[Sequence[Dispatch]], None]:
    """The function that appends dispatches to the open encoder.

    Who lent its memory may write to it when the call returns, as it could after any other function, and so may who
    holds a view of ours: such a launch is waited for. To launches it costs nothing while there are no views.
    """
    read = queue.framework.metal.MTLResourceUsageRead
    views = queue.views

    def append(dispatches: Sequence[Dispatch]) -> None:
        with queue.lock:
            encoder = queue.encoder or queue.begin()
            batch, foreign = queue.open(), False
            batch.held.append(dispatches)
            current = queue.pipeline
            for pipeline, buffers, constants, indirect, groups, threads, memories, lent, _ in dispatches:
                if pipeline is not current:
                    encoder.setComputePipelineState_(pipeline)
                    queue.pipeline = current = pipeline
                for buffer, offset, index in buffers:
                    encoder.setBuffer_offset_atIndex_(buffer, offset, index)
                for content, size, index in constants:
                    encoder.setBytes_length_atIndex_(content, size, index)
                for buffer in indirect:
                    encoder.useResource_usage_(buffer, read)
                encoder.dispatchThreadgroups_threadsPerThreadgroup_(groups, threads)
                for memory in memories:
                    memory.serial = batch.serial
                foreign |= lent
            batch.count += len(dispatches)
            awaited = foreign or (views and any(d.seen() for d in dispatches))
            if not awaited:
                queue.flush_full()
        if awaited:
            queue.wait(batch.serial)

    return append


def sequence(kernel_context: KernelContext, launches: Sequence[Launch]) -> Launch:
    """One call for launches in order: neighbours are appended together, under one lock."""
    calls: list[Launch] = []
    for recorded, group in itertools.groupby(launches, lambda launch: type(launch) is Recorded):
        found: Any = list(group)
        if recorded:
            every = [d for launch in found for d in launch.dispatches]
            parts = [tuple(every[k : k + BATCH]) for k in range(0, len(every), BATCH)]
            found = [Recorded(kernel_context.launch, part) for part in parts]
        calls += found
    return in_turn(calls)


class Form:
    """A variant of a kernel, compiled."""

    def __init__(self, kernel_context: KernelContext, source: Source | Shader) -> None:
        self.source = source
        generated(source.entry, "MSL", lambda: source.text)
        threads = math.prod(source.workgroup)
        self.pipeline: Pipeline = kernel_context.pipelines.get(source.entry, source.text, threads)
        self.threads: Any = kernel_context.queue.framework.metal.MTLSizeMake(*source.workgroup)


class MetalKernel(TextKernel):
    """See hologram.machine.device.Kernel."""

    def __init__(self, kernel: Launchable, kernel_context: KernelContext) -> None:
        super().__init__(
            kernel, kernel_context.limits, generator(kernel, msl(), kernel_context.limits, FOLDER)
        )
        self.kernel_context = kernel_context
        self._forms: dict[Variant, Form] = {}
        self._compiling = threading.Lock()  # not the queue's: while Metal compiles, others compute
        if self.generator.only is not None:
            self._form(self.generator.only)

    def launch(
        self, bindings: Bindings, scalars: Scalars, grid: Sequence[int], lengths: Sequence[int]
    ) -> Launch:
        """See TextKernel."""
        found = self.form(scalars, grid, lengths)
        if found is None:
            return nothing
        with self.kernel_context.queue.lock:
            return Recorded(self.kernel_context.launch, (self.dispatch(*found, bindings),))

    def form(
        self, scalars: Scalars, grid: Sequence[int], lengths: Sequence[int]
    ) -> tuple[Form, Any, bytes] | None:
        """A launch but for where its operands lie: its code, its groups (MTLSize), its numbers; None for no launch."""
        largest = max(math.prod(grid), *lengths, 0)
        if self.generator.only is None and largest > COUNTED:
            raise ShapeError(
                f"{self.name}: Metal's kernels count positions in 32 bits, up to {COUNTED}, got {largest}: split it"
            )
        form = self._form(self.generator.variant(grid, scalars, lengths))
        groups = form.source.groups(grid, self.kernel_context.limits)
        if math.prod(groups) == 0:
            return None
        size = self.kernel_context.queue.framework.metal.MTLSizeMake
        return form, size(*groups), form.source.pack(scalars, grid, lengths)

    def dispatch(self, form: Form, groups: Any, values: bytes, bindings: Sequence[Binding]) -> Dispatch:
        """Under the queue's lock."""
        through = self.kernel.read_by_epilogue
        places = [(b.memory.live, b.offset) for b in bindings]
        # An empty struct has one byte in C++: something has to be bound for it.
        constants = [(values or bytes(4), len(bindings))]
        if self.kernel.accumulates:
            pointers = [int(places[k][0].gpuAddress()) + places[k][1] for k in through]
            content = b"".join(p.to_bytes(POINTER_BYTES, "little") for p in pointers)
            constants.append((content or bytes(POINTER_BYTES), len(bindings) + 1))
        return Dispatch(
            form.pipeline.state,
            tuple((buffer, offset, k) for k, (buffer, offset) in enumerate(places) if k not in through),
            tuple((content, len(content), index) for content, index in constants),
            tuple(places[k][0] for k in through),
            groups,
            form.threads,
            tuple(b.memory for b in bindings),
            any(b.memory.owner is not None for b in bindings),
            tuple(bindings),
        )

    def _form(self, variant: Variant) -> Form:
        with self._compiling:
            if variant not in self._forms:
                self._forms[variant] = Form(self.kernel_context, self.generator.source(variant))
            return self._forms[variant]
