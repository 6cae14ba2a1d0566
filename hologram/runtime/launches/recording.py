"""Recordings: what a thread launches while one is open; see joining.py for what becomes of it."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from hologram.runtime.memory.blocks import Block


class _Shelf:
    """Where blocks wait, once their holders are done with them, in place of their own free lists."""

    def __init__(self) -> None:
        self._waiting: list[Block] = []
        self._own: dict[Block, list[Any]] = {}

    def keep(self, block: Block) -> None:
        """Has a block come here."""
        if block.free_list is not self._waiting:
            self._own[block] = block.free_list
            block.free_list = self._waiting

    def clear(self) -> None:
        """Has blocks go to their own lists, those that are here at once."""
        while self._own:
            block, own = self._own.popitem()
            block.free_list = own
        while self._waiting:
            block = self._waiting.pop()
            block.free_list.append(block)
            if block.pool.closed:
                block.pool.reclaim()


class Recording:
    """What a thread launches, and the blocks it is given for buffers, from `begin` to `end`.

    It is `void` once the thread does what a launch on other memory would not repeat: elements that go to the host or
    come from there, numbers that are drawn. A `dry` one has nothing launched, and ends with Unrepeatable there; it is
    given no block twice, since what asks for as many bytes at these sizes does not at others.
    """

    open: ClassVar[dict[int, Recording]] = {}  # by thread; asked by whatever launches

    def __init__(self, dry: bool = False) -> None:
        self.dry = dry
        self.void = False
        self.launched: list[tuple[Any, list[Any]]] = []
        self.blocks: dict[Block, int] = {}  # and the most bytes that were asked for
        self.constants: dict[Block, Any] = {}  # memory that stays as it is, and who holds it
        self._shelf = _Shelf()
        # Buffers whose element says that a complaint is due, and which.
        self.asked: list[tuple[Any, Any]] = []
        self._before: Recording | None = None

    def begin(self) -> Recording:
        before = self._before = self.open.get(threading.get_ident())
        if before is not None and before.dry:
            self.dry, self._shelf = True, before._shelf
        self.open[threading.get_ident()] = self
        return self

    def end(self, keep: bool = False) -> None:
        """What was recorded in it is part of one that was open before it as well.

        Who keeps the blocks of a dry one, so that nobody else is given them, calls `release` in the end.
        """
        before = self._before
        if not keep and (before is None or not before.dry):
            self.release()
        if before is None:
            self.open.pop(threading.get_ident(), None)
            return
        self.open[threading.get_ident()] = before
        before.void |= self.void
        before.asked += self.asked
        before.launched += self.launched
        before.constants |= self.constants
        for block, nbytes in self.blocks.items():
            before.given(block, nbytes)

    def release(self) -> None:
        """Has the blocks of a dry one be anybody's, once their holders are done with them."""
        self._shelf.clear()

    def given(self, block: Block, nbytes: int) -> None:
        """Notes a block for a buffer, and how many bytes of it that asked for."""
        self.blocks[block] = max(nbytes, self.blocks.get(block, 0))
        if self.dry:
            self._shelf.keep(block)


class Unrepeatable(Exception):
    """A dry recording came to what needs elements."""


def launching(structure: Any, arguments: list[Any]) -> bool:
    """Notes a launch of a Structure, in this thread's recording; whether it is to run."""
    recording = Recording.open.get(threading.get_ident())
    if recording is None:
        return True
    recording.launched.append((structure, list(arguments)))
    return not recording.dry


def dry() -> bool:
    """Whether this thread's recording is."""
    recording = Recording.open.get(threading.get_ident())
    return recording is not None and recording.dry


def given(block: Block, nbytes: int) -> None:
    """As Recording.given, of this thread's."""
    recording = Recording.open.get(threading.get_ident())
    if recording is not None:
        recording.given(block, nbytes)


def constant(buffer: Any) -> None:
    """Notes a buffer that others than the call's arguments hold, and that launches like these read as well."""
    recording = Recording.open.get(threading.get_ident())
    if recording is not None and buffer.block is not None:
        recording.constants[buffer.block] = buffer


def ask(flag: Any, complaint: Any) -> bool:
    """Whether the one element of a buffer is set, and so a complaint is due: asked at each call of a recording."""
    thread = threading.get_ident()
    recording = Recording.open.pop(thread, None)
    try:
        return not (recording is not None and recording.dry) and _is_set(flag)
    finally:
        if recording is not None:
            recording.asked.append((flag, complaint))
            Recording.open[thread] = recording


def asked() -> list[Any]:
    """The buffers that `ask` was given so far in this thread's recording."""
    recording = Recording.open.get(threading.get_ident())
    return [] if recording is None else [flag for flag, _ in recording.asked]


def _is_set(flag: Any) -> bool:
    """Whether the one element of a buffer is not 0; by its first byte where the host has the memory at hand."""
    if flag.nbytes == 1 and flag.executor.limits.host_resident:
        block = flag.live_block("ask")
        memory = flag.executor.device.host_view(block.memory, block.offset, 1)
        if memory is not None:
            return memory[0] != 0
    return bool(flag.to_numpy())


def spoil() -> None:
    """Makes this thread's recordings void."""
    recording = Recording.open.get(threading.get_ident())
    while recording is not None:
        if recording.dry:
            raise Unrepeatable
        recording.void = True
        recording = recording._before
