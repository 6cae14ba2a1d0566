"""The body of one lane as LLVM IR: memory with and without bounds checks, atomics, structured control flow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hologram.atlas.opcodes import ATOMICS, POSITIONS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.backends.cpu.llvm.instructions import bitcast, convert, spell
from hologram.backends.cpu.llvm.writer import (
    Writer,
    from_memory,
    literal,
    memory_type,
    register_type,
    to_memory,
)
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType

O = Opcode

_ATOMIC = {
    O.ATOMIC_ADD: O.ADD,
    O.ATOMIC_MIN: O.MIN,
    O.ATOMIC_MAX: O.MAX,
    O.ATOMIC_AND: O.AND,
    O.ATOMIC_OR: O.OR,
    O.ATOMIC_XOR: O.XOR,
}


def align_of(dtype: DType) -> int:
    return dtype.itemsize


@dataclass
class Frame:
    """What the instructions of a program refer to: where buffers, scalars and positions are found."""

    program: Program
    w: Writer
    buffers: Mapping[str, str]  # pointers
    scalars: Mapping[str, str]
    extents: Mapping[int, str]
    shared: dict[str, str] = field(default_factory=dict)


Position = Callable[[Opcode, int], str]


class Lane:
    """Emits instructions for one lane; `values` maps value numbers to registers in scope."""

    def __init__(
        self, frame: Frame, position: Position, values: Mapping[int, str] | None = None, *, group: str = ""
    ) -> None:
        self.frame = frame
        self.w = frame.w
        self.position = position
        self.values: dict[int, str] = dict(values or {})
        self.group = group  # metadata of memory accesses
        self.types = frame.program.types

    def emit(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            self._emit(instruction)

    def _emit(self, i: Instruction) -> None:
        w, opcode = self.w, i.opcode
        operands = [self.values[v] for v in i.operands]
        if opcode in POSITIONS:
            self.values[i.result] = self.position(opcode, int(i.attribute or 0))
        elif opcode is O.CONSTANT:
            self.values[i.result] = literal(i.attribute, i.type)  # type: ignore[arg-type]
        elif opcode is O.SCALAR:
            self.values[i.result] = self.frame.scalars[str(i.attribute)]
        elif opcode is O.LOAD:
            self.values[i.result] = self._load(i)
        elif opcode is O.STORE:
            self._store(str(i.attribute), *operands)
        elif opcode is O.SHARED_LOAD:
            self.values[i.result] = self._shared_load(i)
        elif opcode is O.SHARED_STORE:
            self._shared_store(i, operands[1])
        elif opcode is O.ATOMIC_EXCHANGE or opcode in ATOMICS:
            self.values[i.result] = self._atomic(i)
        elif opcode is O.IF:
            self._if(i)
        elif opcode is O.LOOP:
            self._loop(i)
        elif opcode is O.SELECT:
            t = register_type(i.type)
            self.values[i.result] = w(f"select i1 {operands[0]}, {t} {operands[1]}, {t} {operands[2]}")
        elif opcode is O.CONVERT:
            self.values[i.result] = convert(w, operands[0], self.types[i.operands[0]], i.type)
        elif opcode is O.BITCAST:
            self.values[i.result] = bitcast(w, operands[0], self.types[i.operands[0]], i.type)
        else:
            self.values[i.result] = spell(w, opcode, self.types[i.operands[0]], *operands)

    # Memory.

    def _dtype(self, buffer: str) -> DType:
        return self.frame.program.buffer(buffer).dtype

    def _load(self, i: Instruction) -> str:
        w, d = self.w, i.type
        t = memory_type(d)
        address = w.element(self.frame.buffers[str(i.attribute)], t, self.values[i.operands[0]])
        return from_memory(w, w(f"load {t}, ptr {address}, align {align_of(d)}{self.group}"), d)

    def _store(self, name: str, position: str, value: str) -> None:
        w, d = self.w, self._dtype(name)
        t = memory_type(d)
        address = w.element(self.frame.buffers[name], t, position)
        w.do(f"store {t} {to_memory(w, value, d)}, ptr {address}, align {align_of(d)}{self.group}")

    def _shared_place(self, i: Instruction) -> tuple[str, DType]:
        """The address of an element, and its dtype."""
        array = next(a for a in self.frame.program.shared if a.name == i.attribute)
        place = self.frame.shared[array.name]
        return self.w.element(place, memory_type(array.dtype), self.values[i.operands[0]]), array.dtype

    def _shared_load(self, i: Instruction) -> str:
        address, d = self._shared_place(i)
        loaded = self.w(f"load {memory_type(d)}, ptr {address}, align {align_of(d)}{self.group}")
        return from_memory(self.w, loaded, d)

    def _shared_store(self, i: Instruction, value: str) -> None:
        w, (address, d) = self.w, self._shared_place(i)
        t = memory_type(d)
        w.do(f"store {t} {to_memory(w, value, d)}, ptr {address}, align {align_of(d)}{self.group}")

    def _atomic(self, i: Instruction) -> str:
        """One atomic: LLVM's own for integers, a compare-and-swap loop around the operation for the rest."""
        w, name = self.w, str(i.attribute)
        d, position, value = self._dtype(name), *(self.values[v] for v in i.operands)
        t = memory_type(d)
        address = w.element(self.frame.buffers[name], t, position)
        align = align_of(d)
        if i.opcode is O.ATOMIC_EXCHANGE and not d.is_float:
            return from_memory(
                w, w(f"atomicrmw xchg ptr {address}, {t} {to_memory(w, value, d)} seq_cst, align {align}"), d
            )
        if d.is_integer:
            unsigned = "u" if not d.is_signed and i.opcode in (O.ATOMIC_MIN, O.ATOMIC_MAX) else ""
            operation = unsigned + i.opcode.value.removeprefix("atomic_")
            return w(f"atomicrmw {operation} ptr {address}, {t} {value} seq_cst, align {align}")
        return self._compare_and_swap(i, d, address, value)

    def _compare_and_swap(self, i: Instruction, d: DType, address: str, value: str) -> str:
        w, bits = self.w, f"i{max(d.bits, 8)}"
        t = memory_type(d)
        first = w(f"load atomic {bits}, ptr {address} monotonic, align {align_of(d)}")
        before, again, done = w.block, w.label("again"), w.label("done")
        w.jump(again)
        w.place(again)
        seen, actual = w.name(), w.name()
        slot = len(w.lines)
        w.lines.append("")
        old = from_memory(w, seen if t == bits else w(f"bitcast {bits} {seen} to {t}"), d)
        updated = value if i.opcode is O.ATOMIC_EXCHANGE else spell(w, _ATOMIC[i.opcode], d, old, value)
        stored = to_memory(w, updated, d)
        stored = stored if t == bits else w(f"bitcast {t} {stored} to {bits}")
        pair = w(
            f"cmpxchg ptr {address}, {bits} {seen}, {bits} {stored} seq_cst seq_cst, align {align_of(d)}"
        )
        w.do(f"{actual} = extractvalue {{ {bits}, i1 }} {pair}, 0")
        last = w.block
        w.branch(w(f"extractvalue {{ {bits}, i1 }} {pair}, 1"), done, again)
        w.lines[slot] = f"  {seen} = phi {bits} [ {first}, %{before} ], [ {actual}, %{last} ]"
        w.place(done)
        return old

    # Structure.

    def inner(self) -> Lane:
        """A scope inside this one."""
        return Lane(self.frame, self.position, self.values, group=self.group)

    def _if(self, i: Instruction) -> None:
        w = self.w
        labels = w.label("then"), w.label("else")
        done = w.label("done")
        w.branch(self.values[i.operands[0]], *labels)
        ends: list[tuple[list[str], str]] = []
        for label, block in zip(labels, i.blocks, strict=True):
            w.place(label)
            scope = self.inner()
            scope.emit(block.instructions)
            ends.append(([scope.values[v] for v in block.yields], w.block))
            w.jump(done)
        w.place(done)
        for k, (result, dtype) in enumerate(zip(i.results, i.types, strict=True)):
            choices = ", ".join(f"[ {values[k]}, %{block} ]" for values, block in ends)
            self.values[result] = w(f"phi {register_type(dtype)} {choices}")

    def _loop(self, i: Instruction) -> None:
        start, stop, step, *first = (self.values[v] for v in i.operands)
        block = i.blocks[0]
        counter = block.argument_types[0]

        def body(number: str, carried: list[str]) -> list[str]:
            scope = self.inner()
            scope.values |= dict(zip(block.arguments, (number, *carried), strict=True))
            scope.emit(block.instructions)
            return [scope.values[v] for v in block.yields]

        types = [register_type(t) for t in block.argument_types[1:]]
        results = self.w.loop(
            start, stop, step, list(zip(types, first, strict=True)), body,
            counter=register_type(counter),
            less="slt" if counter.is_signed else "ult",
            flags=" nsw" if counter == dtypes.index else "",
        )  # fmt: skip
        self.values |= dict(zip(i.results, results, strict=True))
