"""A buffer: contiguous elements of one dtype in a device's memory, and how they get in and out."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import BufferFreed, InteropError, ShapeError, UnsupportedDType
from hologram.machine.limits import STREAMED_BYTES
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.interchange import dlpack
from hologram.runtime.launches.recording import Recording, spoil
from hologram.runtime.launches.validation import held
from hologram.runtime.memory.allocation import Allocation, BufferSpec, opened
from hologram.runtime.memory.blocks import Block
from hologram.runtime.memory.shared_block import SharedBlock

LONGEST_PATTERN = 8  # bytes that devices fill with
_tracers = Dispatch.tracers
recordings = Recording.open


def _require(buffer: Buffer, action: str, size: int, dtype: np.dtype) -> None:
    """Raises unless the other side has the buffer's number of elements and its dtype, in any byte order."""
    own = buffer.dtype.numpy
    if dtype is not own and dtype.newbyteorder("=") != own:
        raise UnsupportedDType(
            f"{action}: the buffer holds {own.name}, got {dtype.name}: convert first, for instance with "
            f"array.astype({own.name!r})"
        )
    if size != buffer.size:
        raise ShapeError(
            f"{action}: the buffer holds {buffer.size} elements (shape {buffer.shape}), got {size}"
        )


def _pattern(value: complex, dtype: DType) -> bytes:
    """The bytes of one element; raises UnsupportedDType unless the dtype can hold the number (rounding floats)."""
    element = held(value, dtype, "fill")
    if element.ndim:
        raise UnsupportedDType(f"fill: {dtype} cannot hold {value!r}")
    return element.tobytes()


class Buffer:
    """Contiguous elements of one dtype in a device's memory; made by `Executor.allocate`.

    Methods raise BufferFreed once it is freed. Memory that a view of it still uses (`to_numpy` with
    `copy=False`, DLPack) is not used again before the view is gone, whatever happens to the buffer.
    """

    __slots__ = ("__weakref__", "_view", "block", "executor", "kind", "lease")

    def __init__(self, executor: Allocation, block: Block, kind: BufferSpec) -> None:
        # The right to the block is the buffer's own until others are given the memory: then they share a lease.
        self.lease: SharedBlock | None = None
        self.block: Block | None = block
        self.executor = executor
        self.kind = kind
        self._view: np.ndarray | None = None  # of memory that is always the host's: see Limits.host_resident
        block.holder = weakref.ref(self)

    def __del__(self) -> None:
        block = self.block
        if block is not None and self.lease is None:
            pool = block.pool  # as `recycle` does, without a call: every result ends here
            pool.issued_bytes -= block.nbytes
            if block.spare:
                pool.forget_spare(block)
            block.free_list.append(block)
            if pool.closed:
                pool.reclaim()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.kind.shape

    @property
    def dtype(self) -> DType:
        return self.kind.dtype

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self.kind.size

    @property
    def nbytes(self) -> int:
        return self.kind.nbytes

    @property
    def freed(self) -> bool:
        """Whether `free()` was called, or the executor closed."""
        return self.block is None

    @property
    def ptr(self) -> int:
        """The address of the first byte, on the host or the device; raises InteropError where memory has none."""
        block, device = self._touched("ptr"), self.executor.device
        self.shared_block()
        address = device.address(block.memory, block.offset)
        if address is not None:
            return address
        memory = device.host_view(block.memory, block.offset, max(self.nbytes, 1))
        if memory is None:
            raise InteropError(f"ptr: the memory of {device.info.name} has no address")
        return dlpack.address_of(memory)

    def from_numpy(self, array: Any) -> Buffer:
        """Copies an array in, in C order, and returns the buffer; one copy at most.

        The array may be of any strides, alignment and byte order and anything that `np.asarray` or DLPack takes. Raises
        ShapeError when it has another number of elements, UnsupportedDType when it has another dtype.
        """
        view = self._view
        if (
            view is not None
            and not _tracers
            and not recordings
            and type(array) is np.ndarray
            and array.dtype is view.dtype
            and array.shape == view.shape
        ):
            np.copyto(view, array)
            return self
        self._touched("from_numpy")
        self._write(dlpack.host_array(array))
        return self

    def to_numpy(self, copy: bool | None = True, *, out: np.ndarray | None = None) -> np.ndarray:
        """The elements as an array: a copy, or with `copy=False` a view of the memory itself.

        With `copy=None` a view where there can be one. Raises InteropError for `copy=False` where the host cannot
        address the memory. A view shows what later operations write, and may be written to: operations on its bytes are
        done when their call returns. `out`, of the buffer's shape and dtype, is what is copied into and given back:
        large arrays that are there already take a third of the time that fresh ones take. Raises ShapeError and
        UnsupportedDType for others.
        """
        if copy and out is None and (view := self._view) is not None and not _tracers and not recordings:
            return view.copy()
        self._touched("to_numpy")
        if out is not None:
            dlpack.require_target(out, self.shape, self.dtype, copy)
            if out.flags.c_contiguous:
                return self._read(out)
            out[...] = self.to_numpy(copy=None)
            return out
        if not copy:
            view = self._host_view()
            if view is not None:
                return view
            if copy is False:
                name = self.executor.device.info.name
                raise InteropError(
                    f"to_numpy: the host cannot address the memory of {name}: copy=False is impossible"
                )
        elif self.nbytes < STREAMED_BYTES and (view := self._resident()) is not None:
            return view.copy()
        return self._read()

    def part(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray | None:
        """A copy of elements that lie so, counted in elements; None where the memory is not always the host's."""
        self._touched("to_numpy")
        view = self._resident()
        return None if view is None else dlpack.strided(view, shape, strides, offset).copy()

    def from_bytes(self, data: Any) -> Buffer:
        """Copies the bytes of a bytes-like object in; raises ShapeError when they are not exactly `nbytes` many."""
        self._touched("from_bytes")
        try:
            source = memoryview(data).cast("B")
        except TypeError as error:
            raise TypeError(
                f"from_bytes: contiguous bytes are needed, got {type(data).__name__}: {error}"
            ) from error
        if source.nbytes != self.nbytes:
            raise ShapeError(f"from_bytes: the buffer holds {self.nbytes} bytes, got {source.nbytes}")
        if source.nbytes:
            array = np.frombuffer(source, self.dtype.numpy)
            # A bool is 0 or 1 in memory; kernels rely on it.
            self._write(array.view(np.uint8) != 0 if self.dtype is dtypes.bool_ else array)
        return self

    def to_bytes(self) -> bytes:
        """The elements as they lie in memory, little-endian."""
        return self.to_numpy(copy=None).tobytes()

    def fill(self, value: complex) -> Buffer:
        """Sets every element; raises UnsupportedDType for a number the dtype cannot hold."""
        block = self._touched("fill")
        pattern = _pattern(value, self.dtype)
        if len(pattern) > LONGEST_PATTERN and pattern != pattern[:LONGEST_PATTERN] * 2:
            self._write(np.full(self.size, np.frombuffer(pattern, self.dtype.numpy)[0]))
        elif self.nbytes:
            pattern = pattern[:LONGEST_PATTERN]
            executor = self.executor  # by a kernel, on some devices, whose code takes memory
            executor.pool.with_room(executor.device.fill, block.memory, block.offset, self.nbytes, pattern)
        return self

    def copy_from(self, source: Any) -> Buffer:
        """Copies another buffer, of this or another executor, or an array; sizes and dtypes must agree."""
        if not isinstance(source, Buffer):
            return self.from_numpy(source)
        target_block, source_block = self._touched("copy_from"), source._touched("copy_from")
        _require(self, "copy_from", source.size, source.dtype.numpy)
        device, sender = self.executor.device, source.executor.device
        with_room = self.executor.pool.with_room
        if sender is not device:
            ends = (source_block.memory, source_block.offset, target_block.memory, target_block.offset)
            past_the_host = self.nbytes > 0 and with_room(device.receive, sender, *ends, self.nbytes)
            view = None if past_the_host or source.executor.limits.host_resident else self._resident()
            if view is not None:
                source.to_numpy(out=view.reshape(source.shape))
            elif not past_the_host:
                self.from_numpy(source.to_numpy(copy=None))
            return self
        if self.nbytes and source_block is not target_block:
            with_room(
                device.copy,
                source_block.memory,
                source_block.offset,
                target_block.memory,
                target_block.offset,
                self.nbytes,
            )
        return self

    def free(self) -> None:
        """Gives the memory back; the buffer cannot be used afterwards. Freeing again does nothing."""
        if _tracers:
            self.executor.dispatch(Buffer._end, "free of a buffer", self)
        else:
            self._end()

    def _end(self) -> None:
        block, shared_block = self._let_go()
        if block is not None and shared_block is None:
            block.pool.recycle(block)

    def _let_go(self) -> tuple[Block | None, SharedBlock | None]:
        """Ends the buffer; the caller, and no other thread that does the same, gets what it held."""
        self._view = None
        block = self.block
        if block is None:
            return None, None
        with block.pool.lock:
            block, self.block = self.block, None
            shared_block, self.lease = self.lease, None
        return block, shared_block

    def shared_block(self) -> SharedBlock:
        """The right to the memory, for others to hold as well; the buffer counts as shared from now on."""
        with self.live_block("buffer").pool.lock:
            if self.lease is None:
                self.lease = SharedBlock(self.live_block("buffer"), self.executor.pool)
            return self.lease

    @property
    def shared(self) -> bool:
        """Whether others were ever given the memory (a view of it, or its address), or it is theirs."""
        return self.lease is not None or self.live_block("buffer").adopted

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if dtype is None or np.dtype(dtype) == self.dtype.numpy:
            return self.to_numpy(copy=copy)
        if copy is False:
            raise InteropError(
                f"__array__: {self.dtype} to {np.dtype(dtype)} needs a copy: copy=False is impossible"
            )
        return self.to_numpy(copy=None).astype(dtype)

    def __buffer__(self, flags: int) -> memoryview:
        """The buffer protocol (Python 3.12 and later; before that, `memoryview(buffer.to_numpy(copy=False))`)."""
        return self.to_numpy(copy=False).data

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule, of version 1 where the consumer takes one; without a copy where the memory allows it.

        Memory that only a GPU of a kind DLPack's consumers do not know can address comes as one copy on the host.
        """
        self._touched("__dlpack__")
        strides = dlpack.contiguous_strides(self.shape)
        return dlpack.export(self, self.shape, strides, 0, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.executor.device.dlpack_device

    def __copy__(self) -> Buffer:
        """A new buffer with the same contents; so is a deep copy."""
        self._touched("copy")
        return Buffer(self.executor, self.executor.block(self.kind), self.kind).copy_from(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        return self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a Buffer is memory of a device and cannot be pickled: pickle its to_numpy()")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d buffer")
        return self.shape[0]

    def __repr__(self) -> str:
        place = "freed" if self.freed else self.executor.device.info.name
        return f"Buffer(shape={self.shape}, dtype={self.dtype}, {place})"

    def _touched(self, action: str) -> Block:
        """The block, which is about to be read, written or shown to others."""
        if recordings:
            spoil()
        return self.executor.dispatch(Buffer.live_block, f"{action} of a buffer", self, action)

    def live_block(self, action: str = "launch") -> Block:
        """The block; raises BufferFreed, or BackendUnavailable in a forked process."""
        block = self.block
        if block is None:
            raise self._gone(action)
        if not self.executor.usable:
            self.executor.check_open()
        return block

    def _gone(self, action: str) -> BufferFreed:
        return BufferFreed(
            f"{action}: the buffer of shape {self.shape} and dtype {self.dtype} was freed, or its executor closed"
        )

    def _resident(self) -> np.ndarray | None:
        """A view for copies in and out, kept where they are small; None: the memory is not always the host's."""
        view = self._view
        if view is None and self.executor.device.limits.host_resident:
            block = self.live_block("buffer")
            memory = self.executor.device.host_view(block.memory, block.offset, self.nbytes)
            if memory is not None:
                view = np.frombuffer(memory, self.dtype.numpy, self.size).reshape(self.shape)
                self._view = view if self.nbytes < STREAMED_BYTES else None
        return view

    def _host_view(self) -> np.ndarray | None:
        """A view for others to keep: it holds the lease."""
        block = self.live_block("to_numpy")
        memory = self.executor.device.host_view(block.memory, block.offset, self.nbytes)
        if memory is None:
            return None
        base = dlpack.HostRange(
            (self.shared_block(), memory), dlpack.address_of(memory), self.nbytes, memory.readonly
        )
        return np.asarray(base).view(self.dtype.numpy).reshape(self.shape)

    def _write(self, array: np.ndarray) -> None:
        block, device = self.live_block("from_numpy"), self.executor.device
        _require(self, "from_numpy", array.size, array.dtype)
        if array.size == 0:
            return
        plain = array.flags.c_contiguous and array.dtype.isnative
        view = None if plain and self.nbytes >= STREAMED_BYTES else self._resident()
        if view is not None:
            # The contiguous side takes the other's shape: no copy.
            np.copyto(view.reshape(array.shape), array)
            return
        if not plain:
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        device.write(block.memory, block.offset, array.reshape(-1).view(np.uint8).data)

    def _read(self, out: np.ndarray | None = None) -> np.ndarray:
        block = self.live_block("to_numpy")
        out = np.empty(self.shape, self.dtype.numpy) if out is None else out
        if out.size:
            self.executor.device.read(block.memory, block.offset, out.reshape(-1).view(np.uint8).data)
        return out


def _after_fork() -> None:
    """The child has the parent's executors, but neither the threads nor the drivers behind them."""
    for executor in opened:
        executor.usable = False
        for holder in (*executor.pool.holders(), *executor.boundary.holders()):
            if isinstance(holder, Buffer):
                holder._view = None  # by which copies pass the checks


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
