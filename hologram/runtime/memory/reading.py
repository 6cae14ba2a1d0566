"""Reads that wait less: of several buffers at once, and of one while the device goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hologram.runtime.memory.buffer import Buffer

GAP_BYTES = 16 << 10  # between two buffers that are read at once with what lies between them


def read_together(buffers: Sequence[Buffer]) -> list[np.ndarray]:
    """The elements of buffers of one executor, each in an array of its own shape.

    Where the host has no view of the memory, those that lie near one another in one memory cost one read. Raises what
    `Buffer.to_numpy` raises.
    """
    if len(buffers) < 2 or buffers[0].executor.limits.host_resident:
        return [buffer.to_numpy() for buffer in buffers]
    device = buffers[0].executor.device
    blocks = [buffer.live_block("to_numpy") for buffer in buffers]
    order = sorted(range(len(buffers)), key=lambda k: (blocks[k].place, buffers[k].nbytes))
    arrays: dict[int, np.ndarray] = {}
    while order:
        first = blocks[order[0]]
        near = [order.pop(0)]
        end = first.offset + buffers[near[0]].nbytes
        while (
            order and blocks[order[0]].memory is first.memory and blocks[order[0]].offset <= end + GAP_BYTES
        ):
            near.append(order.pop(0))
            end = max(end, blocks[near[-1]].offset + buffers[near[-1]].nbytes)
        content = np.empty(end - first.offset, np.uint8)
        device.read(first.memory, first.offset, content.data)
        for k in near:
            start = blocks[k].offset - first.offset
            own = content[start : start + buffers[k].nbytes]
            arrays[k] = own.view(buffers[k].dtype.numpy).reshape(buffers[k].shape)
    return [arrays[k] for k in range(len(buffers))]


def fetched(buffer: Buffer) -> Callable[[], np.ndarray]:
    """What gives a small buffer's elements as they are now, whatever is launched meanwhile.

    It waits for what was launched before and for nothing else, where the device can tell these apart. It may be called
    once, or never.
    """
    block, dtype, shape = buffer.live_block("fetch"), buffer.dtype.numpy, buffer.shape
    landed = buffer.executor.device.fetch(block.memory, block.offset, buffer.nbytes)
    return lambda: np.frombuffer(landed(), dtype).reshape(shape)
