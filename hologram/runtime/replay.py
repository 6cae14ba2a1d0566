"""Replay: a plan made once, run again and again on other buffers with next to no Python.

A plan's kernels are bound to memory once for each set of buffers it meets: inputs, the memory that outputs get, and
scratch. A program in its steady state meets the same few sets, since the pool hands the same blocks out again; then a
call is a look-up, and one launch.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

from hologram.device import Launch
from hologram.layout import Layout
from hologram.plan import Plan, Tile
from hologram.runtime import checks
from hologram.runtime.allocation import Kind
from hologram.runtime.buffer import Buffer
from hologram.runtime.engine import Engine
from hologram.runtime.launches import Records, Workspace, binding
from hologram.runtime.memory_pool import Block, storage_bytes
from hologram.runtime.succession import hand_over, take_back
from hologram.runtime.view import View

# Sets of buffers that one replay is bound to at a time: as many batches of training data as one keeps on the device,
# times the two sets of parameters that take turns; to bind anew takes milliseconds.
MAX_SETS = 512

_NOTHING: Mapping[int, int] = MappingProxyType({})


class Replay:
    """A plan with `inputs` inputs, whose outputs are new buffers. Any thread may call it.

    `donated` gives outputs the memory of inputs: output k that of input donated[k], whose buffer is then freed for
    the caller. Such an output starts with its input's contents: where others were given the memory (DLPack,
    `to_numpy(copy=False)`), where it is foreign, too small, or another input's too, it gets a copy.
    """

    def __init__(
        self,
        executor: Engine,
        plan: Plan,
        inputs: int,
        outputs: Sequence[Layout],
        donated: Mapping[int, int] = _NOTHING,
    ) -> None:
        self._executor = executor
        self._outputs = tuple(outputs)
        self._kinds = [executor.kind(layout.shape, layout.dtype) for layout in outputs]
        self._donated = dict(donated)
        self._in_place = all(self._donated.get(k) == k for k in range(len(self._outputs)))
        operands = inputs + len(self._outputs)
        self._plan = executor.bound.ready(plan, operands)
        self._workspace = Workspace(self._plan, operands, executor.device, executor.pool)
        self._new = executor.new_buffer
        self._alike = _alike(self._kinds)
        self._records = Records()
        self._cached = self._records.cached
        self._plain = len(self._outputs) == 1 and not self._donated and not self._plan.scratch
        executor.bound.others.add(self._records)
        # Programs are this plan's own, and so are tiles with epilogues; plain tiles are everybody's.
        for kernel in {s.kernel for s in self._plan.steps}:
            if not isinstance(kernel, Tile) or kernel.epilogue is not None:
                weakref.finalize(self, executor.device.give_up, kernel).atexit = False

    @property
    def scratch_bytes(self) -> int:
        """Of the arenas that a call takes."""
        return self._workspace.arenas.nbytes

    def __call__(self, inputs: Sequence[View]) -> Sequence[Buffer]:
        """Runs the plan; the inputs' layouts are those it was made for.

        Raises BufferFreed for an input that was freed or donated, OutOfMemory.
        """
        if self._plain:
            return (self._one(inputs),)
        # Loops, not comprehensions, which before Python 3.12 are calls.
        memories = []
        given = inputs
        if self._donated:
            inputs, memories = self._claimed(given)
        elif self._alike:
            memories = self._ordered()
        else:
            for kind in self._kinds:
                memories.append(self._new(kind))
        key = []
        for view in inputs:
            key.append(view.buffer.key)
        for memory in memories:
            key.append(memory.key)
        scratch = self._workspace.take() if self._plan.scratch else ()
        try:
            for block in scratch:
                key.append(block.token)
            launch = self._cached.get(tuple(key))
            if launch is None:
                launch = self._bind(tuple(key), inputs, memories, scratch)
            launch()
        except BaseException:
            for before, now in zip(given, inputs, strict=True):
                if before is not now:
                    take_back(before.buffer, now.buffer)
            raise
        finally:
            if scratch:
                self._workspace.put_back(scratch)
        for number in self._donated.values():
            buffer = given[number].buffer
            if buffer.key is not None:  # an output has a copy
                buffer.free()
        return memories

    def over(self, buffers: Sequence[Buffer], *, met: bool = False) -> bool:
        """Runs the plan with each output written over the input of its number, donated, which stays its owner's.

        False, and nothing is done, where one of the inputs' `buffers` was freed, or where an output cannot be written
        so: its memory is that of another input too, or foreign; or where the buffers must have been `met` by an
        earlier such call, and were not.
        """
        if not self._in_place or not self._executor.usable:
            return False
        key = []
        for buffer in buffers:
            key.append(buffer.key)
        key += key[: len(self._outputs)]
        scratch = self._workspace.take() if self._plan.scratch else ()
        try:
            for block in scratch:
                key.append(block.token)
            launch = self._cached.get(tuple(key))
            if launch is None:
                targets = buffers[: len(self._outputs)]
                if met or None in key or not self._writable(targets, buffers):
                    return False
                views = [View(b, b.kind.layout) for b in buffers]
                launch = self._bind(tuple(key), views, targets, scratch)
            launch()
        finally:
            if scratch:
                self._workspace.put_back(scratch)
        return True

    def _writable(self, targets: Sequence[Buffer], buffers: Sequence[Buffer]) -> bool:
        """Whether outputs fit into the memory of buffers, each of which is one input's and of our own allocating."""
        blocks = [b.live_block() for b in buffers]
        return all(
            _fits(kind, target) and blocks.count(target.live_block()) == 1 and not target.live_block().adopted
            for kind, target in zip(self._kinds, targets, strict=True)
        )

    def _one(self, inputs: Sequence[View]) -> Buffer:
        """The common case: one output, in memory of its own, and no scratch."""
        memory = self._new(self._kinds[0])
        key = [memory.key]
        for view in inputs:
            key.append(view.buffer.key)
        launch = self._cached.get(tuple(key))
        if launch is None:
            launch = self._bind(tuple(key), inputs, [memory], ())
        launch()
        return memory

    def _ordered(self) -> list[Buffer]:
        """Buffers for the outputs; of blocks that wait in one list, outputs get them in the order of their making.

        The order in which blocks come back is another at each call, for as long as the cycles of the permutation that
        the caller makes of them take together. The set of blocks is soon the same, and so is what is bound.
        """
        executor = self._executor
        blocks: list[Block] = []
        try:
            for kind in self._kinds:
                blocks.append(executor.block(kind))
        except BaseException:
            for block in blocks:
                block.pool.recycle(block)
            raise
        for places in self._alike:
            found = sorted([blocks[k] for k in places], key=_token)
            for k, block in zip(places, found, strict=True):
                blocks[k] = block
        return [Buffer(executor, b, kind) for b, kind in zip(blocks, self._kinds, strict=True)]

    def _claimed(self, inputs: Sequence[View]) -> tuple[Sequence[View], list[Buffer]]:
        """The inputs, and the buffers that outputs are written to: new ones, and donated ones where they may be.

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
        memories = {k: self._new(kind) for k, kind in enumerate(self._kinds) if k not in taken}
        for k, j in self._donated.items():
            if k not in taken:
                layout = inputs[j].layout.reshape(self._kinds[k].shape)  # of a contiguous part of its buffer
                assert layout is not None
                self._executor.copy(View(buffers[j], layout), View(memories[k], self._outputs[k]))
        found = list(inputs)
        for k, j in taken.items():
            memories[k] = hand_over(buffers[j], self._kinds[k])
            found[j] = View(memories[k], inputs[j].layout)
        return found, [memories[k] for k in range(len(self._kinds))]

    def _bind(
        self,
        key: tuple[int | None, ...],
        inputs: Sequence[View],
        memories: Sequence[Buffer],
        scratch: Sequence[Block],
    ) -> Launch:
        """The plan bound to memory; kept, unless some of it is gone by now."""
        for view in inputs:
            checks.view(self._executor, "call", view)
        bound = self._executor.bound
        generation = bound.generation
        blocks = [*[t.buffer.live_block() for t in inputs], *[m.live_block() for m in memories]]
        nbytes = [*[t.buffer.nbytes for t in inputs], *[kind.nbytes for kind in self._kinds]]
        bindings = [*map(binding, blocks, nbytes), *self._workspace.bindings(scratch)]
        launch = bound.bind(self._plan, bindings)
        # Another thread may have freed an input since, or begun to watch.
        if None not in [t.buffer.key for t in inputs] and generation == bound.generation:
            self._records.keep(key, launch, [b.token for b in (*blocks, *scratch)], MAX_SETS)
        return launch


_token = attrgetter("token")


def _alike(kinds: Sequence[Kind]) -> tuple[tuple[int, ...], ...]:
    """Which outputs take blocks from the same list, where several do."""
    found: dict[int, list[int]] = {}
    for k, kind in enumerate(kinds):
        found.setdefault(id(kind.free_list), []).append(k)
    return tuple(tuple(places) for places in found.values() if len(places) > 1)


def _fits(kind: Kind, buffer: Buffer) -> bool:
    """Whether the memory of a buffer is large enough for one of a kind."""
    return storage_bytes(kind.nbytes) <= buffer.live_block("donate").nbytes


def _may_take(kind: Kind, buffer: Buffer) -> bool:
    """Whether a buffer of a kind fits into the memory of another, which nobody else was given."""
    return _fits(kind, buffer) and not buffer.shared
