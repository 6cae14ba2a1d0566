"""The attribute by which libraries of a device's vendor take a buffer's memory: `__..._array_interface__`."""

from __future__ import annotations

from typing import Any

from hologram.runtime.memory.buffer import Buffer


def offer(name: str) -> None:
    """Gives buffers the attribute by which libraries of a vendor take memory; those of other devices lack it."""

    def interface(buffer: Buffer) -> dict[str, Any]:
        if buffer.executor.device.array_interface != name:
            raise AttributeError(f"'Buffer' object has no attribute {name!r}", name=name, obj=buffer)
        buffer._touched(name)
        buffer.shared_block().hand_over(
            None
        )  # what the consumer enqueues where is not known: most take the default queue
        buffer.executor.device.synchronize()
        return {
            "version": 3,
            "shape": buffer.shape,
            "typestr": buffer.dtype.numpy.str,
            "data": (buffer.ptr, False),
            "strides": None,
            "stream": None,
        }

    setattr(Buffer, name, property(interface))
