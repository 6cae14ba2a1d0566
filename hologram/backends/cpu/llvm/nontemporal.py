"""Map programs whose result is larger than the caches: it is stored past them, a few vectors at a time.

An ordinary store reads the line it is about to overwrite; a non-temporal one does not, so a sum of two large arrays
moves a quarter less memory. LLVM vectorises such stores only when it knows them to be aligned, hence the strips:
a strip is computed by an ordinary vectorised loop into an array that LLVM then turns into registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hologram.atlas.program import Instruction, Program
from hologram.backends.cpu.llvm.arguments import open_frame
from hologram.backends.cpu.llvm.lane import Frame, Lane
from hologram.backends.cpu.llvm.loops import GROUP, positions
from hologram.backends.cpu.llvm.writer import Writer, memory_type, to_memory
from hologram.compiler.scheduling.loops import Variant
from hologram.compiler.scheduling.orders import VECTOR_BYTES
from hologram.compiler.scheduling.streams import streamed_store

STRIP_BYTES = 4 * VECTOR_BYTES


class _Strip(Lane):
    """A lane that stores into the strip."""

    def __init__(self, frame: Frame, coordinate: str, strip: str, place: str) -> None:
        super().__init__(frame, positions(frame, {0: coordinate}), group=GROUP)
        self._strip = strip
        self._place = place

    def store(self, i: Instruction, position: str, value: str) -> None:
        w, d = self.w, self.types[i.operands[1]]
        t = memory_type(d)
        stored = to_memory(w, value, d)
        w.do(f"store {t} {stored}, ptr {w.element(self._strip, t, self._place)}, align {d.itemsize}{GROUP}")


def _made_for(position: Any, before: Sequence[Instruction]) -> list[Instruction]:
    """The instructions that a position follows from: others' operands, as what a gather reads, are not there."""
    wanted, found = {position}, []
    for i in reversed(before):
        if wanted.intersection(i.results):
            found.append(i)
            wanted.update(i.operands)
    return found[::-1]


def stream_body(w: Writer, program: Program, variant: Variant) -> None:
    """Whole strips, then the rest of the slice as usual. The first element of a slice is aligned to a vector."""
    frame = open_frame(w, program, variant)
    store = streamed_store(program)
    assert store is not None
    d = program.buffer(str(store.attribute)).dtype
    t = memory_type(d)
    count, lanes = STRIP_BYTES // d.itemsize, VECTOR_BYTES // d.itemsize
    strip = w.alloca(t, count)
    nontemporal = len(w.metadata)
    w.metadata.append("!{i32 1}")
    before = program.body.instructions[: program.body.instructions.index(store)]
    indices = _made_for(store.operands[0], before)

    def one(begin: str, _: list[str]) -> list[str]:
        def element(j: str, _: list[str]) -> list[str]:
            _Strip(frame, w(f"add nsw i64 {begin}, {j}"), strip, j).instructions(program.body.instructions)
            return []

        w.loop("0", str(count), "1", [], element, lanes=True)
        first = Lane(frame, positions(frame, {0: begin}))
        first.instructions(indices)
        target = w.element(frame.memory[str(store.attribute)], t, first.values[store.operands[0]])

        def flush(j: str, _: list[str]) -> list[str]:
            vector = f"<{lanes} x {t}>"
            value = w(f"load {vector}, ptr {w.element(strip, t, j)}, align {VECTOR_BYTES}")
            place = w.element(target, t, j)
            w.do(f"store {vector} {value}, ptr {place}, align {VECTOR_BYTES}, !nontemporal !{nontemporal}")
            return []

        w.loop("0", str(count), str(lanes), [], flush)
        return []

    whole = w(f"and i64 {w('sub nsw i64 %end, %begin')}, {-count}")
    middle = w(f"add nsw i64 %begin, {whole}")
    w.loop("%begin", middle, str(count), [], one)

    def rest(i: str, _: list[str]) -> list[str]:
        Lane(frame, positions(frame, {0: i}), group=GROUP).instructions(program.body.instructions)
        return []

    w.loop(middle, "%end", "1", [], rest, lanes=True)
    # Other threads must see these stores before they see that the slice is done.
    w.declarations.add("declare void @llvm.x86.sse.sfence()")
    w.do("call void @llvm.x86.sse.sfence()")
