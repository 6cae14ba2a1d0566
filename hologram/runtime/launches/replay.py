"""Replay: a plan made once, run again and again on other buffers with next to no Python.

A plan's kernels are prepared once; a call takes memory for outputs and scratch, says where it lies, and launches.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hologram.foundation.bounded_caches import FIFOCache
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan
from hologram.runtime.engine import Engine
from hologram.runtime.launches import checks
from hologram.runtime.launches.launcher import Structure
from hologram.runtime.launches.recording import Recording, launching
from hologram.runtime.memory.allocation import BufferSpec
from hologram.runtime.memory.blocks import Block, storage_bytes
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.ownership import hand_over, take_back
from hologram.runtime.memory.view import View

recordings = Recording.open
MAX_STRUCTURES = 16  # that outputs in the memory of inputs make of one plan
_NOTHING: Mapping[int, int] = MappingProxyType({})


class Replay:
    """A plan for inputs of those layouts, whose outputs are new buffers. Any thread may call it.

    `donated` gives outputs the memory of inputs: output k that of input donated[k], whose buffer is then freed for
    the caller. Such an output starts with its input's contents: where others were given the memory (DLPack,
    `to_numpy(copy=False)`), where it is foreign, too small, or another input's too, it gets a copy.
    """

    def __init__(
        self,
        executor: Engine,
        plan: Plan,
        inputs: Sequence[Layout],
        outputs: Sequence[Layout],
        donated: Mapping[int, int] = _NOTHING,
    ) -> None:
        self._executor = executor
        self._outputs = tuple(outputs)
        self._kinds = [executor.kind(layout.shape, layout.dtype) for layout in outputs]
        self._donated = dict(donated)
        self._in_place = all(self._donated.get(k) == k for k in range(len(self._outputs)))
        # Elements that buffers must have for layouts to lie in them; below 0, they never do.
        self._reached = [high if low >= 0 else sys.maxsize for low, high in (x.span for x in inputs)]
        inputs_bytes = [x.reach_bytes for x in inputs]
        if not executor.limits.host_resident:
            inputs_bytes = list(map(storage_bytes, inputs_bytes))
        sizes = [*inputs_bytes, *(storage_bytes(kind.nbytes) for kind in self._kinds)]
        self._structure = executor.bound.structure(plan, sizes)
        # By which outputs lie in which inputs' memory.
        self._structures: FIFOCache[tuple[tuple[int, int], ...], Structure] = FIFOCache(MAX_STRUCTURES)
        self._plain = len(self._outputs) == 1 and not self._donated
        # Programs are this plan's own, and so are tiles with epilogues; plain tiles are everybody's.
        for kernel in {placed.step.kernel for placed in self._structure.steps}:
            if kernel.program is not None:
                weakref.finalize(self, executor.device.give_up, kernel).atexit = False

    @property
    def scratch_bytes(self) -> int:
        """Of the arenas that a call takes."""
        return sum(self._structure.arenas)

    def __call__(self, inputs: Sequence[View]) -> Sequence[Buffer]:
        """Runs the plan; the inputs' layouts are those it was made for.

        Raises BufferFreed for an input that was freed or donated, OutOfMemory.
        """
        if self._plain:
            return (self._one(inputs),)
        given = inputs
        taken: Mapping[int, int] = _NOTHING
        if self._donated:
            inputs, memories, taken = self._claimed(given)
        else:
            memories = [Buffer(self._executor, self._executor.block(kind), kind) for kind in self._kinds]
        try:
            arguments = self._places(inputs)
            for memory in memories:
                arguments.append(memory.live_block().place)
            self._launch(self._structure_for(taken) if taken else self._structure, arguments)
        except BaseException:
            for before, now in zip(given, inputs, strict=True):
                if before is not now:
                    take_back(before.buffer, now.buffer)
            raise
        for number in self._donated.values():
            buffer = given[number].buffer
            if buffer.block is not None:  # an output has a copy
                buffer.free()
        return memories

    def over(self, buffers: Sequence[Buffer]) -> bool:
        """Runs the plan with each output written over the input of its number, donated, which stays its owner's.

        False, and nothing is done, where one of the inputs' `buffers` was freed, or where an output cannot be written
        so: its memory is that of another input too, or foreign.
        """
        if not self._in_place or not self._executor.usable:
            return False
        blocks: list[Any] = []
        for buffer in buffers:
            blocks.append(buffer.block)
        count = len(self._outputs)
        if not self._writable(blocks[:count], blocks) or any(
            b.executor is not self._executor for b in buffers
        ):
            return False
        arguments = [block.place for block in blocks]
        self._launch(self._structure_for(self._donated), arguments + arguments[:count])
        return True

    def _structure_for(self, taken: Mapping[int, int]) -> Structure:
        """What runs where outputs take the memory of inputs."""
        key = tuple(taken.items())
        structure = self._structures.get(key)
        if structure is None:
            first = self._structure
            structure = Structure(self._executor.bound, first.steps, first.sizes, first.arenas)
            self._structures.keep(key, structure)
        return structure

    @staticmethod
    def _launch(structure: Structure, arguments: list[Any]) -> None:
        if not recordings or launching(structure, arguments):
            structure.launch(arguments)

    def _writable(self, targets: Sequence[Block | None], blocks: Sequence[Block | None]) -> bool:
        """Whether outputs fit into memory, each of which is one input's and of our own allocating."""
        once = len(set(blocks)) == len(blocks)
        for kind, target in zip(self._kinds, targets, strict=True):
            if target is None or target.adopted or storage_bytes(kind.nbytes) > target.nbytes:
                return False
            if not once and blocks.count(target) > 1:
                return False
        return None not in blocks

    def _places(self, inputs: Sequence[View]) -> list[Any]:
        """Where the inputs' buffers begin; raises what is wrong with one."""
        executor = self._executor
        places: list[Any] = []
        try:
            for view, reached in zip(inputs, self._reached, strict=True):
                buffer = view.buffer
                if buffer.executor is not executor or buffer.kind.size < reached:
                    checks.view(executor, "call", view)
                places.append(buffer.block.place)  # type: ignore[union-attr]
        except AttributeError:
            for view in inputs:
                checks.view(executor, "call", view)
            raise
        return places

    def _one(self, inputs: Sequence[View]) -> Buffer:
        """The common case: one output, in memory of its own."""
        executor = self._executor
        arguments = self._places(inputs)
        kind = self._kinds[0]
        block = executor.block(kind)
        arguments.append(block.place)
        memory = Buffer(executor, block, kind)
        self._launch(self._structure, arguments)
        return memory

    def _claimed(self, inputs: Sequence[View]) -> tuple[Sequence[View], list[Buffer], Mapping[int, int]]:
        """The inputs, the buffers that outputs are written to, and which of these are inputs': those that may be.

        These end for everybody else before anything is written: of threads that donate the same one, one gets it. A
        call that fails gives them back.
        """
        self._executor.check_open()
        buffers = [view.buffer for view in inputs]
        for buffer in buffers:
            if buffer.block is None:
                buffer.live_block("call")
        once = len(set(buffers)) == len(buffers)
        taken = {
            k: j
            for k, j in self._donated.items()
            if _may_take(self._kinds[k], buffers[j]) and (once or buffers.count(buffers[j]) == 1)
        }
        memories = {
            k: self._executor.new_buffer(kind) for k, kind in enumerate(self._kinds) if k not in taken
        }
        for k, j in self._donated.items():
            if k not in taken:
                layout = inputs[j].layout.reshape(self._kinds[k].shape)  # of a contiguous part of its buffer
                assert layout is not None
                self._executor.copy(View(buffers[j], layout), View(memories[k], self._outputs[k]))
        views = list(inputs)
        for k, j in taken.items():
            memories[k] = hand_over(buffers[j], self._kinds[k])
            views[j] = View(memories[k], inputs[j].layout)
        return views, [memories[k] for k in range(len(self._kinds))], taken


def _fits(kind: BufferSpec, buffer: Buffer) -> bool:
    """Whether the memory of a buffer is large enough for one of a kind."""
    return storage_bytes(kind.nbytes) <= buffer.live_block("donate").nbytes


def _may_take(kind: BufferSpec, buffer: Buffer) -> bool:
    """Whether a buffer of a kind fits into the memory of another, which nobody else was given."""
    return _fits(kind, buffer) and not buffer.shared
