"""Plans as launches: compiled code in as few calls as can be, and between them what Python runs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from hologram.backends.cpu import image
from hologram.backends.cpu.image import ADDRESS, Piece
from hologram.backends.cpu.kernel import Host, ProgramKernel
from hologram.backends.cpu.memory import borrowed
from hologram.compiler.pipeline import observed
from hologram.foundation import debug
from hologram.foundation.debug import Rung
from hologram.foundation.errors import HologramError
from hologram.machine.kernel import Binding, Call, Draft, Prepared, Repetition
from hologram.machine.plan import Given


def prepared(calls: Sequence[Call], arguments: Sequence[Any], host: Host | None) -> Prepared:
    """The calls in order as one launch; see hologram.machine.device.Device.prepare."""
    parts: list[Any] = []
    by_call = _parts(calls, arguments, host)
    for compiled, group in itertools.groupby(by_call, lambda x: type(x) is list):
        if compiled and host is not None:
            pieces = [piece for part in group for piece in part]
            if pieces:
                parts.append(image.prepared(pieces, host.pool(), host.engine()))
        else:
            parts += group
    return parts[0] if len(parts) == 1 else InTurn(tuple(parts))


def repeated(
    calls: Sequence[Call], arguments: Sequence[Any], host: Host | None, again: Repetition
) -> Prepared | None:
    """The calls in order as one launch that is repeated; None where not all is compiled code."""
    parts = _parts(calls, arguments, host, often=True)
    if host is None or any(type(part) is not list for part in parts):
        return None
    pieces = [piece for part in parts for piece in part]
    return image.prepared(pieces, host.pool(), host.engine(), again) if pieces else None


def drafted(calls: Sequence[Call], arguments: Sequence[Any], host: Host | None) -> Draft | None:
    """As `prepared`, as a draft; None where not all is compiled code."""
    parts: list[Any] = [_part(c, arguments, host, False) for c in calls]  # a trace of sizes is one thread's
    if host is None or any(type(part) is not list for part in parts):
        return None
    pieces = [piece for part in parts for piece in part]
    return image.drafted(pieces, host.pool(), host.engine()) if pieces else None


def _parts(
    calls: Sequence[Call], arguments: Sequence[Any], host: Host | None, often: bool = False
) -> list[Any]:
    """What each call is, as `_part`. Where several programs have no code yet, other threads come from the last on."""
    programs = {c.kernel for c in calls if isinstance(c.kernel, ProgramKernel) and c.kernel.fresh}
    left = list(calls)

    def ahead() -> None:
        with suppress(IndexError, HologramError):  # until none is left; what fails, fails below as well
            while True:
                _part(left.pop(), arguments, host, often)

    helpers = []
    # What is shown is shown in order; an interpreter that is about to end starts no threads.
    if not observed() and not debug.shows(Rung.SOURCE) and threading.main_thread().is_alive():
        count = min(1 if host is None else host.threads, len(programs)) - 1
        helpers = [threading.Thread(target=ahead, name="hologram compiler") for _ in range(count)]
    started: list[threading.Thread] = []
    engine = host.engine() if host is not None and programs else None
    try:
        if engine is not None and helpers:
            engine.released()
            with suppress(RuntimeError):  # no more threads can be had: those that there are compile all
                for helper in helpers:
                    helper.start()
                    started.append(helper)
        return [_part(c, arguments, host, often) for c in calls]
    finally:
        left.clear()
        if engine is not None:
            engine.released()
        for helper in started:
            helper.join()


def _part(call: Call, arguments: Sequence[Any], host: Host | None, often: bool) -> list[Piece] | Prepared:
    """The pieces of a call, told which of the launch's arguments its operands are; or what Python runs."""
    write = getattr(call.kernel, "pieces", None)
    if often and isinstance(call.kernel, ProgramKernel):
        write = partial(call.kernel.pieces, often=True)
    pieces = None if host is None or write is None else write(call.spans(arguments), call.scalars, call.grid)
    if pieces is None:
        placed = getattr(call.kernel, "placed", None)
        return (placed and placed(call)) or InPlace(call)
    areas = call.areas

    def moved(patch: Any) -> Any:
        if patch.kind != ADDRESS:
            return patch
        area = areas[patch.argument]
        return replace(patch, argument=area.argument, first=area.first + patch.first)

    return [replace(piece, patches=tuple(map(moved, piece.patches))) for piece in pieces]


class InTurn:
    """Launches one after another, told the same."""

    def __init__(self, parts: tuple[Prepared, ...]) -> None:
        self._parts = parts

    def __call__(self, arguments: list[Any]) -> None:
        for part in self._parts:
            part(arguments)


class InPlace:
    """A kernel that is bound at every call, to the memory it is told."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._told = any(type(x) is Given for x in call.scalars)

    def __call__(self, arguments: list[Any]) -> None:
        call = self._call
        bindings = [Binding(borrowed(place, nbytes), 0, nbytes) for place, nbytes in call.spans(arguments)]
        scalars = call.scalars
        if self._told:
            scalars = [arguments[x.argument] if type(x) is Given else x for x in scalars]
        call.kernel.bind(bindings, scalars, call.grid)()
