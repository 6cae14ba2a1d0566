"""Loops of so many turns that they ask for interrupts (Ctrl-C, see workers.ll).

A loop whose end nobody knows asks in one turn of so many. One that counts is known to be long by its constants: where
its bounds are told at run time it does not ask, for short ones would take up to half longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hologram.backends.cpu.llvm.writer import Writer

PART = 1 << 20  # turns between which a long loop asks


def many(start: str, stop: str, step: str) -> bool:
    """Whether a loop is known to have more turns than one part; its counter then has 32 bits at least."""
    if not (start.removeprefix("-").isdigit() and stop.isdigit() and step.isdigit()):
        return False
    return int(stop) - int(start) > PART * int(step)


def in_parts(
    w: Writer,
    bounds: tuple[str, str, str],
    carried: Sequence[tuple[str, str]],
    body: Any,
    flags: Any,
    turns: int,
) -> list[str]:
    """A loop of any length, as Writer.loop, in parts of so many turns; between two it asks for interrupts."""
    (start, stop, step), t = bounds, flags["counter"]
    before, head, inside, done = w.block, *(w.label(s) for s in ("head", "part", "done"))
    w.jump(head)
    w.place(head)
    begin, phis = w.name("i"), [w.name("c") for _ in carried]
    slot = len(w.lines)
    w.lines += [""] * (1 + len(carried))
    w.branch(w(f"icmp {flags['less']} {t} {begin}, {stop}"), inside, done)
    w.place(inside)
    long = w(f"icmp ugt {t} {w(f'sub {t} {stop}, {begin}')}, {turns * int(step)}")
    end = w(f"select i1 {long}, {t} {w(f'add {t} {begin}, {turns * int(step)}')}, {t} {stop}")
    parts = [(type_, phi) for (type_, _), phi in zip(carried, phis, strict=True)]
    results = w.loop(begin, end, step, parts, body, **flags)
    heard = w.interrupted(long)
    w.branch(heard, done, head)
    for k, (type_, phi, x, y) in enumerate(
        zip([t, *(c for c, _ in carried)], [begin, *phis], [start, *(x for _, x in carried)], [end, *results],
            strict=True)
    ):  # fmt: skip
        w.lines[slot + k] = f"  {phi} = phi {type_} [ {x}, %{before} ], [ {y}, %{w.block} ]"
    w.place(done)
    return phis
