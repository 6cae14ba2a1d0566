"""Recordings: what a thread launches while one is open; see joining.py for what becomes of it."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from hologram.runtime.memory_pool import Block


class Recording:
    """What a thread launches, and the blocks it is given for buffers, from `begin` to `end`.

    It is `void` once the thread does what a launch on other memory would not repeat: elements that go to the host or
    come from there, numbers that are drawn. A `dry` one has nothing launched, and ends with Unrepeatable there.
    """

    open: ClassVar[dict[int, Recording]] = {}  # by thread; asked by whatever launches

    def __init__(self, dry: bool = False) -> None:
        self.dry = dry
        self.void = False
        self.launched: list[tuple[Any, list[Any]]] = []
        self.blocks: dict[Block, int] = {}  # and the bytes that were asked for
        # Buffers whose element says that a complaint is due, the complaints, and how many launches came before.
        self.asked: list[tuple[Any, Any, int]] = []
        self._before: Recording | None = None

    def begin(self) -> Recording:
        self._before = self.open.get(threading.get_ident())
        self.dry = self.dry or (self._before is not None and self._before.dry)
        self.open[threading.get_ident()] = self
        return self

    def end(self) -> None:
        """What was recorded in it is part of one that was open before it as well."""
        before = self._before
        if before is None:
            self.open.pop(threading.get_ident(), None)
            return
        self.open[threading.get_ident()] = before
        before.void |= self.void
        before.asked += [(flag, complaint, n + len(before.launched)) for flag, complaint, n in self.asked]
        before.launched += self.launched
        before.blocks.update(self.blocks)

    def until(self, launches: int) -> Recording:
        """The first so many launches of it."""
        found = Recording()
        found.launched, found.blocks = self.launched[:launches], self.blocks
        return found


class Unrepeatable(Exception):
    """A dry recording came to what needs elements."""


def launching(structure: Any, arguments: list[Any]) -> bool:
    """Notes a launch of a Structure, in this thread's recording; whether it is to run."""
    recording = Recording.open.get(threading.get_ident())
    if recording is None:
        return True
    recording.launched.append((structure, list(arguments)))
    return not recording.dry


def given(block: Block, nbytes: int) -> None:
    """Notes a block for a buffer, and how many bytes of it that asked for."""
    recording = Recording.open.get(threading.get_ident())
    if recording is not None:
        recording.blocks[block] = nbytes


def ask(flag: Any, complaint: Any) -> bool:
    """Whether the one element of a buffer is set, and so a complaint is due: asked at each call of a recording."""
    thread = threading.get_ident()
    recording = Recording.open.pop(thread, None)
    try:
        return not (recording is not None and recording.dry) and bool(flag.to_numpy())
    finally:
        if recording is not None:
            recording.asked.append((flag, complaint, len(recording.launched)))
            Recording.open[thread] = recording


def spoil() -> None:
    """Makes this thread's recordings void."""
    recording = Recording.open.get(threading.get_ident())
    while recording is not None:
        if recording.dry:
            raise Unrepeatable
        recording.void = True
        recording = recording._before
