"""Buffers over the memory of others: handed over, taken back, kept by both, or lent."""

from __future__ import annotations

import weakref
from typing import Any

from hologram.dtypes import DType
from hologram.runtime.allocation import Kind
from hologram.runtime.buffer import Buffer


def hand_over(buffer: Buffer, kind: Kind) -> Buffer:
    """A new buffer over a buffer's memory, which is large enough; that one is freed, its memory is not."""
    block, lease = buffer._let_go()
    if block is None:
        raise buffer._gone("donate")
    successor = Buffer(buffer.executor, block, kind)
    successor._lease = lease
    return successor


def reinterpreted(buffer: Buffer, dtype: DType) -> Buffer:
    """The whole elements of another dtype that a buffer's bytes hold, in the same memory, which both keep."""
    block, lease = buffer.live_block("reinterpret"), buffer.lease()
    successor = Buffer(
        buffer.executor, block, buffer.executor.kind((buffer.nbytes // dtype.itemsize,), dtype)
    )
    successor._lease = lease
    return successor


_NOBODYS: Any = object()  # in a lease's place: who ends gives nothing back


def lent(buffer: Buffer, kind: Kind) -> Buffer:
    """A buffer of that kind where another lies, for who asks where that is and no more: it holds nothing."""
    block = buffer.live_block()
    holder = block.holder
    borrower = Buffer(buffer.executor, block, kind)
    borrower._lease = _NOBODYS
    block.holder = holder
    return borrower


def take_back(buffer: Buffer, successor: Buffer) -> None:
    """Undoes hand_over, which gave `successor`: the buffer is as it was, that one is freed."""
    block, lease = successor._let_go()
    if block is not None:
        buffer.block, buffer._lease = block, lease
        block.holder = weakref.ref(buffer)
