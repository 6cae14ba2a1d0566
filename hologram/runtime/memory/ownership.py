"""Buffers over the memory of others: handed over, taken back, kept by both, or lent."""

from __future__ import annotations

import weakref
from typing import Any

from hologram.foundation.dtypes import DType
from hologram.runtime.memory.allocation import BufferSpec
from hologram.runtime.memory.blocks import Block
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import View, whole


def hand_over(buffer: Buffer, kind: BufferSpec) -> Buffer:
    """A new buffer over a buffer's memory, which is large enough; that one is freed, its memory is not."""
    block, shared_block = buffer._let_go()
    if block is None:
        raise buffer._gone("donate")
    successor = Buffer(buffer.executor, block, kind)
    successor.lease = shared_block
    return successor


def reinterpreted(buffer: Buffer, dtype: DType) -> Buffer:
    """The whole elements of another dtype that a buffer's bytes hold, in the same memory, which both keep."""
    block, shared_block = buffer.live_block("reinterpret"), buffer.shared_block()
    successor = Buffer(
        buffer.executor, block, buffer.executor.kind((buffer.nbytes // dtype.itemsize,), dtype)
    )
    successor.lease = shared_block
    return successor


_NOBODYS: Any = object()  # in a lease's place: who ends gives nothing back


def over_borrowed_block(buffer: Buffer, kind: BufferSpec) -> Buffer:
    """A buffer of that kind where another lies, for who asks where that is and no more: it holds nothing."""
    block = buffer.live_block()
    holder = block.holder
    borrower = Buffer(buffer.executor, block, kind)
    borrower.lease = _NOBODYS
    block.holder = holder
    return borrower


def from_its_beginning(view: View) -> View:
    """What lies contiguous as all of a buffer that begins there, which holds nothing: whoever asks keeps the view."""
    block, kind = view.buffer.live_block(), view.buffer.executor.kind(view.shape, view.dtype)
    first = view.layout.offset * view.dtype.itemsize
    part = Block(
        block.pool, block.memory, block.offset + first, block.nbytes - first, block.free_list,
        block.place + first, block.adopted,
    )  # fmt: skip
    borrower = Buffer(view.buffer.executor, part, kind)
    borrower.lease = _NOBODYS
    return whole(borrower)


def take_back(buffer: Buffer, successor: Buffer) -> None:
    """Undoes hand_over, which gave `successor`: the buffer is as it was, that one is freed."""
    block, shared_block = successor._let_go()
    if block is not None:
        buffer.block, buffer.lease = block, shared_block
        block.holder = weakref.ref(buffer)
