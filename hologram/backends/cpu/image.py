"""Images: launches of compiled code that are told at the call where their operands lie (launch.ll)."""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hologram.backends.cpu.workers import Pool
from hologram.compiled.machine_code.builtin import ONE, Builtin, keep
from hologram.compiled.machine_code.engine import Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Draft, Prepared, Repetition

ADDRESS, F32, F64, INTEGER = range(4)  # what a word is told
_TAIL = 3  # of a launch that is repeated: how often, while what is set, how many words move on
_CALLED = (
    *("PyLong_AsVoidPtr", "PyLong_AsLongLong", "PyFloat_AsDouble", "PyList_GetItem", "PyErr_Occurred"),
    *("PyErr_NoMemory", "PyEval_SaveThread", "PyEval_RestoreThread", "PyMem_RawMalloc", "PyMem_RawFree"),
    *("PyErr_CheckSignals", "Py_IncRef"),
)


@frozen(slots=True)
class Patch:
    """A word that a call is told: which, as what, from which argument, and for an address how many bytes behind it."""

    word: int
    kind: int
    argument: int
    first: int = 0


@frozen(slots=True)
class Step:
    """function(arguments, begin, end) over 0 .. total in slices; the arguments are the piece's words, or elsewhere.

    One with slices of 0 runs in interrupted launches as well.
    """

    function: int
    total: int
    slice: int
    arguments: int | None = None


@frozen(slots=True)
class Piece:
    """Steps of compiled code, and the words that are their arguments.

    `owner` keeps the functions. Of `scratch` words behind the others, the word `scratch_at` is told the address; of
    `room`, words whose contents are unknown, the word `room_at`.
    """

    steps: tuple[Step, ...]
    words: Sequence[int]
    patches: tuple[Patch, ...] = ()
    scratch: int = 0
    scratch_at: int = 0
    owner: Any = None
    room: int = 0
    room_at: int = 0


@functools.lru_cache(maxsize=1)
def _builtin(engine: Engine) -> Builtin:
    """The function of Python that launches images."""
    engine.provide(ctypes.pythonapi, _CALLED)
    text = Path(__file__).with_name("launch.ll").read_text()
    code = kept_code(engine, "launch", text, lambda: (text, ("launch",)))
    keep(code)
    return Builtin("launch", code.addresses[0], ONE)


def prepared(
    pieces: Sequence[Piece], pool: Pool, engine: Engine, again: Repetition | None = None
) -> Prepared:
    """The pieces in order as one launch; threads may call it at once."""
    return drafted(pieces, pool, engine, again).launch()


def drafted(pieces: Sequence[Piece], pool: Pool, engine: Engine, again: Repetition | None = None) -> Draft:
    """The pieces in order as words that a launch is made of."""
    if any(step.total > step.slice for piece in pieces for step in piece.steps):
        pool.start()
    launch = _builtin(engine)
    owners = (pool, [piece.owner for piece in pieces])

    def finish(words: Sequence[int]) -> Prepared:
        image = array("q", words)
        return launch.of(image.buffer_info()[0], (image, owners))

    return Draft(_written(pieces, pool, again), finish)


def _written(pieces: Sequence[Piece], pool: Pool, again: Repetition | None) -> tuple[int, ...]:
    steps = sum(len(piece.steps) for piece in pieces)
    body: list[int] = [pool.address, steps]
    tail = len(body) + 4 * steps
    moving = 0 if again is None else sum(p.argument in again.strides for x in pieces for p in x.patches)
    at = tail + (0 if again is None else _TAIL + 2 * moving)  # where a piece's words begin
    room_at = at + sum(len(piece.words) + piece.scratch for piece in pieces)
    room = max((piece.room for piece in pieces), default=0)  # which they use in turns
    relocations: list[int] = []
    patches: list[int] = []
    blocks: list[int] = []
    moves: list[int] = []  # a word of the launch, and by how much it moves on
    for piece in pieces:
        for step in piece.steps:
            if step.arguments is None:
                relocations.append(len(body) + 1)
            body += step.function, at if step.arguments is None else step.arguments, step.total, step.slice
        for patch in piece.patches:
            patches += at + patch.word, patch.kind, patch.argument, patch.first
            if again is not None and patch.argument in again.strides:
                moves += at + patch.word, again.strides[patch.argument]
        words = [*piece.words, *[0] * int(piece.scratch)]
        if piece.scratch:
            words[piece.scratch_at] = at + len(piece.words)
            relocations.append(at + piece.scratch_at)
        if piece.room:
            words[piece.room_at] = room_at
            relocations.append(at + piece.room_at)
        blocks += words
        at += len(words)
    run = pool.launch_address
    if again is not None:
        run = pool.repeat_address
        patches += tail, INTEGER, again.times, 0
        if again.flag is not None:
            patches += tail + 1, ADDRESS, again.flag, 0
        body += 0, 0, moving, *moves
    header = (len(body) + len(blocks), len(relocations), len(patches) // 4, run, room)
    return (*header, *body, *blocks, *relocations, *patches)
