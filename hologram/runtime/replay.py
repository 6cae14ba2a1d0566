"""Replay: a plan made once, run again and again on other buffers with next to no Python.

A plan's kernels are bound to memory once for each set of buffers it meets: inputs, the memory that outputs get, and
scratch. A program in its steady state meets the same few sets, since the pool hands the same blocks out again; then a
call is a look-up, and one launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hologram.device import Launch
from hologram.opset.layout import Layout
from hologram.opset.plan import Plan
from hologram.runtime.buffer import Buffer
from hologram.runtime.launches import Records, Workspace, binding
from hologram.runtime.planner import storage_bytes
from hologram.runtime.pool import Block

if TYPE_CHECKING:
    from hologram.executor import Executor
    from hologram.tensor import Tensor

MAX_SETS = 64  # of buffers that one replay is bound to at a time

_NOTHING: Mapping[int, int] = MappingProxyType({})


class Replay:
    """A plan with `inputs` inputs, whose outputs are new contiguous tensors. Any thread may call it.

    `donated` gives outputs the memory of inputs: output k that of input donated[k], whose buffer is then freed for
    the caller. Such an output starts with its input's contents: where others were given the memory (DLPack,
    `to_numpy(copy=False)`), where it is foreign, too small, or another input's too, it gets a copy.
    """

    def __init__(
        self,
        executor: Executor,
        plan: Plan,
        inputs: int,
        outputs: Sequence[Layout],
        donated: Mapping[int, int] = _NOTHING,
    ) -> None:
        self._executor = executor
        self._outputs = tuple(outputs)
        self._donated = dict(donated)
        operands = inputs + len(self._outputs)
        self._plan = executor.bound.ready(plan, operands)
        self._workspace = Workspace(self._plan, operands, executor.device, executor.pool)
        self._records = Records()
        executor.bound.others.add(self._records)

    @property
    def scratch_bytes(self) -> int:
        """Of the arenas that a call takes."""
        return self._workspace.arenas.nbytes

    def __call__(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Runs the plan; the inputs' layouts are those it was made for.

        Raises BufferFreed for an input that was freed or donated, OutOfMemory.
        """
        self._executor.check_open()
        buffers = [tensor.buffer for tensor in inputs]
        given: dict[int, Buffer] = self._given(buffers) if self._donated else {}
        memories = [
            given[k] if k in given else self._executor.new_buffer(layout)
            for k, layout in enumerate(self._outputs)
        ]
        for k, j in self._donated.items():
            if k not in given:
                memories[k].copy_from(buffers[j])
        scratch = self._workspace.take()
        try:
            blocks = [*[b.live_block() for b in memories], *scratch]
            key = (*[b.key for b in buffers], *[b.token for b in blocks])
            launch = self._records.cached.get(key) or self._bind(key, buffers, blocks)
            launch()
        finally:
            self._workspace.give(scratch)
        for k, buffer in given.items():
            memories[k] = buffer.hand_over(self._outputs[k].shape, self._outputs[k].dtype)
        for j in self._donated.values():
            buffers[j].free()
        return tuple(map(self._executor.tensor_over, memories, self._outputs))

    def _given(self, buffers: Sequence[Buffer]) -> dict[int, Buffer]:
        """For each output the donated buffer whose memory it takes."""
        return {
            k: buffers[j]
            for k, j in self._donated.items()
            if _may_take(self._outputs[k], buffers[j]) and buffers.count(buffers[j]) == 1
        }

    def _bind(
        self, key: tuple[int | None, ...], buffers: Sequence[Buffer], blocks: Sequence[Block]
    ) -> Launch:
        """The plan bound to inputs and to blocks for outputs and scratch; kept, unless some are gone by now."""
        count = len(self._outputs)
        bindings = [binding(b.live_block(), b.nbytes) for b in buffers]
        bindings += [binding(b, _nbytes(o)) for b, o in zip(blocks, self._outputs, strict=False)]
        bindings += self._workspace.bindings(blocks[count:])
        bound = self._executor.bound
        generation = bound.generation
        launch = bound.bind(self._plan, bindings)
        touched: list[Any] = [*[b.block for b in buffers], *blocks]
        # Another thread may have freed an input since, or begun to watch.
        if None not in key and None not in touched and generation == bound.generation:
            self._records.keep(key, launch, [b.token for b in touched], MAX_SETS)
        return launch


def _nbytes(layout: Layout) -> int:
    return layout.size * layout.dtype.itemsize


def _may_take(output: Layout, buffer: Buffer) -> bool:
    """Whether an output fits into a buffer's memory, and nobody else was given that."""
    block = buffer.live_block("donate")
    return storage_bytes(_nbytes(output)) <= block.nbytes and not (block.adopted or buffer.exported)
