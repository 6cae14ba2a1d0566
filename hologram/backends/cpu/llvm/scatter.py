"""Maps that add to many places of one buffer: each part of the lanes adds to a copy of its own, without atomics.

An atomic addition of floats is a locked loop of comparing and exchanging, 5 ns on a core that nobody disturbs. Where
there are more of them than the buffer has elements, copies cost less, even with the step that adds them up.
"""

from __future__ import annotations

from dataclasses import replace

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Program
from hologram.backends.cpu.llvm.arguments import Slots, load_slot, open_frame
from hologram.backends.cpu.llvm.instructions import spell
from hologram.backends.cpu.llvm.lane import Frame, Lane, atomic_add
from hologram.backends.cpu.llvm.loops import GROUP, positions, runs
from hologram.backends.cpu.llvm.writer import Writer, from_memory, literal, memory_type
from hologram.compiler.scheduling.loops import Variant

O = Opcode


class _Copies:
    """The scratch memory: a copy of the buffer for each part of the lanes."""

    def __init__(self, w: Writer, frame: Frame, variant: Variant) -> None:
        slots = Slots(frame.program)
        self.w = w
        self.dtype = frame.program.buffer(variant.copied).dtype
        self.length = load_slot(w, slots.tile, "i64")
        self.pointer = load_slot(w, slots.scratch, "ptr")

    def place(self, part: str, element: str) -> str:
        position = self.w(f"add nsw i64 {self.w(f'mul nsw i64 {part}, {self.length}')}, {element}")
        return self.w.element(self.pointer, memory_type(self.dtype), position)


def own_body(w: Writer, program: Program, variant: Variant) -> None:
    """Parts of the lanes, each with a copy of zeros."""
    frame = open_frame(w, program, variant)
    copies = _Copies(w, frame, variant)
    t, size = memory_type(copies.dtype), copies.dtype.itemsize
    lanes = "1"
    for axis in range(program.rank):
        lanes = w(f"mul nsw i64 {lanes}, {frame.extents[axis]}")

    def part(number: str, _: list[str]) -> list[str]:
        def clear(element: str, _: list[str]) -> list[str]:
            w.do(f"store {t} zeroinitializer, ptr {copies.place(number, element)}, align {size}{GROUP}")
            return []

        w.loop("0", copies.length, "1", [], clear, lanes=True)
        memory = {**frame.memory, variant.copied: copies.place(number, "0")}
        own = replace(frame, memory=memory, alone=frame.alone | {variant.copied})

        def run(outer: dict[int, str], start: str, stop: str) -> None:
            def element(i: str, _: list[str]) -> list[str]:
                lane = Lane(own, positions(own, outer | {variant.order[-1]: i}), group=GROUP)
                lane.clear_locals()
                lane.instructions(program.body.instructions)
                return []

            w.loop(start, stop, "1", [], element)

        begin = w(f"udiv i64 {w(f'mul nsw i64 {lanes}, {number}')}, {variant.parts}")
        after = w(f"mul nsw i64 {lanes}, {w(f'add nsw i64 {number}, 1')}")
        runs(w, own, variant.order, begin, w(f"udiv i64 {after}, {variant.parts}"), run)
        return []

    w.loop("%begin", "%end", "1", [], part)


def joined_body(w: Writer, program: Program, variant: Variant) -> None:
    """Adds up the copies' elements, and adds what is not 0 to the buffer, which others may be adding to."""
    frame = open_frame(w, program, variant)
    copies = _Copies(w, frame, variant)
    d = copies.dtype
    t = memory_type(d)

    def element(place: str, _: list[str]) -> list[str]:
        total = literal(0, d)
        for part in range(variant.parts):
            stored = w(f"load {t}, ptr {copies.place(str(part), place)}, align {d.itemsize}")
            total = spell(w, O.ADD, d, total, from_memory(w, stored, d))
        then, done = w.label("then"), w.label("done")
        w.branch(spell(w, O.NE, d, total, literal(0, d)), then, done)
        w.place(then)
        atomic_add(w, d, w.element(frame.memory[variant.copied], t, place), total)
        w.jump(done)
        w.place(done)
        return []

    w.loop("%begin", "%end", "1", [], element)
