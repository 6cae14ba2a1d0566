"""The body of one lane as LLVM IR: memory, atomics, structured control flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction, LocalArray, Program, SharedArray
from hologram.backends.cpu.llvm.instructions import bitcast, convert, spell
from hologram.backends.cpu.llvm.listening import Loop, Way, in_parts, long, numbers, turned, turns
from hologram.backends.cpu.llvm.writer import (
    Writer,
    from_memory,
    literal,
    memory_type,
    register_type,
    to_memory,
)
from hologram.compiler.analysis.masks import masked
from hologram.compiler.scheduling.ahead import Ahead, ahead
from hologram.compiler.source.body import Body
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen

O = Opcode
_AT_ONCE = 512  # bytes of an array that one store fills
_TURNS = 64  # that are computed ahead


def zero_fill(w: Writer, memory: str, array: SharedArray | LocalArray, copies: int = 1) -> None:
    """Fills an array, or copies of it, with what Atlas says it begins with."""
    t, size = memory_type(array.dtype), array.size * copies
    if size * array.dtype.itemsize <= _AT_ONCE:
        w.do(f"store [{size} x {t}] zeroinitializer, ptr {memory}, align {array.dtype.itemsize}")
        return

    def body(place: str, _: list[str]) -> list[str]:
        w.do(f"store {t} zeroinitializer, ptr {w.element(memory, t, place)}, align {array.dtype.itemsize}")
        return []

    w.loop("0", str(size), "1", [], body)


@frozen
class Locals:
    """Where the local arrays of a workgroup's thread lie: each element beside that of the next thread."""

    memory: Mapping[str, str]
    thread: str
    threads: int

    def place(self, w: Writer, position: str) -> str:
        return w(f"add nsw i64 {w(f'mul nsw i64 {position}, {self.threads}')}, {self.thread}")


@dataclass
class Frame:
    """What the instructions of a program refer to: where memory, scalars and positions are found."""

    program: Program
    w: Writer
    memory: Mapping[str, str]  # pointers of buffers and shared arrays
    scalars: Mapping[str, str]
    extents: Mapping[int, str]
    alone: frozenset[str] = frozenset()  # memory that no other thread sees, which needs no atomics
    brief: bool = False  # loops have too few turns to ask for interrupts

    @cached_property
    def masked(self) -> Mapping[int, tuple[int, int]]:
        """Loads that count only where a condition holds: that, and the position."""
        return masked(self.program)

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        """Constants that loops may count with."""
        return numbers(self.program)


Position = Callable[[Opcode, int], str]


def atomic_add(w: Writer, d: DType, address: str, value: str) -> str:
    """Adds to an element, and gives what it was."""
    if d.is_integer:
        return w(f"atomicrmw add ptr {address}, {memory_type(d)} {value} seq_cst, align {d.itemsize}")
    return _compare_and_swap(w, O.ATOMIC_ADD, d, address, value)


def _compare_and_swap(w: Writer, opcode: Opcode, d: DType, address: str, value: str) -> str:
    t, bits = memory_type(d), f"i{max(d.bits, 8)}"
    first = w(f"load atomic {bits}, ptr {address} monotonic, align {d.itemsize}")
    before, again, done = w.block, w.label("again"), w.label("done")
    w.jump(again)
    w.place(again)
    seen, actual = w.name(), w.name()
    slot = len(w.lines)
    w.lines.append("")
    old = from_memory(w, seen if t == bits else w(f"bitcast {bits} {seen} to {t}"), d)
    updated = (
        value
        if opcode is O.ATOMIC_EXCHANGE
        else spell(w, O(opcode.value.removeprefix("atomic_")), d, old, value)
    )
    stored = to_memory(w, updated, d)
    stored = stored if t == bits else w(f"bitcast {t} {stored} to {bits}")
    pair = w(f"cmpxchg ptr {address}, {bits} {seen}, {bits} {stored} seq_cst seq_cst, align {d.itemsize}")
    w.do(f"{actual} = extractvalue {{ {bits}, i1 }} {pair}, 0")
    last = w.block
    w.branch(w(f"extractvalue {{ {bits}, i1 }} {pair}, 1"), done, again)
    w.lines[slot] = f"  {seen} = phi {bits} [ {first}, %{before} ], [ {actual}, %{last} ]"
    w.place(done)
    return old


class Lane(Body):
    """Emits instructions for one lane; `values` maps value numbers to registers in scope.

    `branches`: it is a lane of vectors, for which loads by conditions are quicker than gathers.
    """

    def __init__(
        self,
        frame: Frame,
        position: Position,
        values: Mapping[int, str] | None = None,
        *,
        group: str = "",
        branches: bool = False,
    ) -> None:
        super().__init__(frame.program, values or {})
        self.frame = frame
        self.w = frame.w
        self._position = position
        self.group = group  # metadata of memory accesses
        self.locals: Locals | None = None  # where the lane's arrays are, if not in the frame
        self.branches = branches

    def position(self, opcode: Opcode, axis: int) -> str:
        return self._position(opcode, axis)

    def constant(self, i: Instruction) -> str:
        return literal(i.attribute, i.type)  # type: ignore[arg-type]

    def scalar(self, i: Instruction) -> str:
        return self.frame.scalars[str(i.attribute)]

    def pure(self, i: Instruction, operands: Sequence[str]) -> str:
        w, d = self.w, i.type
        if i.opcode is O.LOCAL_LOAD:
            return from_memory(w, w(f"load {memory_type(d)}, {self._local(i, d, operands[0])}"), d)
        if self.branches and i.result in self.frame.masked:
            return self._masked(i, *(self.values[v] for v in self.frame.masked[i.result]))
        if i.opcode in (O.LOAD, O.SHARED_LOAD, O.SHARED_AGREED):
            place = self._at(str(i.attribute), d, operands[0])
            return from_memory(w, w(f"load {memory_type(d)}, {place}{self.group}"), d)
        source = self.types[i.operands[0]]
        if i.opcode is O.SELECT:
            t = register_type(d)
            return w(f"select i1 {operands[0]}, {t} {operands[1]}, {t} {operands[2]}")
        if i.opcode is O.CONVERT:
            return convert(w, operands[0], source, d)
        if i.opcode is O.BITCAST:
            return bitcast(w, operands[0], source, d)
        return spell(w, i.opcode, source, *operands)

    # Memory.

    def _at(self, name: str, dtype: DType, position: str) -> str:
        """The address of an element of a buffer or shared array, as loads and stores take it."""
        return f"ptr {self.w.element(self.frame.memory[name], memory_type(dtype), position)}, align {dtype.itemsize}"

    def _masked(self, i: Instruction, condition: str, position: str) -> str:
        """The element there if a condition holds, else 0: a branch, of which LLVM makes a masked load of a vector."""
        w, d, before = self.w, i.type, self.w.block
        t = memory_type(d)
        raw = "i16" if t == "half" else t  # of which there are masked loads
        inside, done = w.label("inside"), w.label("done")
        w.branch(condition, inside, done)
        w.place(inside)
        found = w(f"load {raw}, {self._at(str(i.attribute), d, position)}{self.group}")
        w.jump(done)
        w.place(done)
        value = w(f"phi {raw} [ {found}, %{inside} ], [ zeroinitializer, %{before} ]")
        return from_memory(w, value if raw == t else w(f"bitcast {raw} {value} to {t}"), d)

    def store(self, i: Instruction, position: str, value: str) -> None:
        d = self.types[i.operands[1]]
        place = self._at(str(i.attribute), d, position)
        self.w.do(f"store {memory_type(d)} {to_memory(self.w, value, d)}, {place}{self.group}")

    shared_store = store

    def _local(self, i: Instruction, dtype: DType, position: str) -> str:
        """The address of an element of the lane's own array.

        Where it lies in the frame neighbours have it after the lane: no group of accesses.
        """
        name, group = str(i.attribute), ""
        base = self.frame.memory[name] if self.locals is None else self.locals.memory[name]
        if self.locals is not None:
            position, group = self.locals.place(self.w, position), self.group
        return f"ptr {self.w.element(base, memory_type(dtype), position)}, align {dtype.itemsize}{group}"

    def local_store(self, i: Instruction, position: str, value: str) -> None:
        d = self.types[i.operands[1]]
        place = self._local(i, d, position)
        self.w.do(f"store {memory_type(d)} {to_memory(self.w, value, d)}, {place}")

    def clear_locals(self) -> None:
        """Local arrays begin as zeros."""
        for array in self.program.local:
            zero_fill(self.w, self.frame.memory[array.name], array)

    def atomic(self, i: Instruction, position: str, *values: str) -> str:
        """LLVM's own for integers, a compare-and-swap loop around the operation for the rest.

        Memory that one core alone sees, such as a workgroup's, needs neither.
        """
        w, d = self.w, i.type
        t = memory_type(d)
        if i.attribute in self.frame.alone:
            return self._alone(i, position, *values)
        address = w.element(self.frame.memory[str(i.attribute)], t, position)
        align, value = d.itemsize, values[-1]
        if i.opcode is O.ATOMIC_COMPARE_EXCHANGE:
            pair = w(f"cmpxchg ptr {address}, {t} {values[0]}, {t} {value} seq_cst seq_cst, align {align}")
            return w(f"extractvalue {{ {t}, i1 }} {pair}, 0")
        if i.opcode is O.ATOMIC_EXCHANGE and not d.is_float:
            return from_memory(
                w, w(f"atomicrmw xchg ptr {address}, {t} {to_memory(w, value, d)} seq_cst, align {align}"), d
            )
        if i.opcode is O.ATOMIC_ADD:
            return atomic_add(w, d, address, value)
        if d.is_integer:
            unsigned = "u" if not d.is_signed and i.opcode in (O.ATOMIC_MIN, O.ATOMIC_MAX) else ""
            operation = unsigned + i.opcode.value.removeprefix("atomic_")
            return w(f"atomicrmw {operation} ptr {address}, {t} {value} seq_cst, align {align}")
        return _compare_and_swap(w, i.opcode, d, address, value)

    def _alone(self, i: Instruction, position: str, *values: str) -> str:
        w, d = self.w, i.type
        place = self._at(str(i.attribute), d, position)
        old, value = from_memory(w, w(f"load {memory_type(d)}, {place}"), d), values[-1]
        if i.opcode is O.ATOMIC_COMPARE_EXCHANGE:
            t = register_type(d)
            value = w(f"select i1 {spell(w, O.EQ, d, old, values[0])}, {t} {value}, {t} {old}")
        elif i.opcode is not O.ATOMIC_EXCHANGE:
            value = spell(w, O(i.opcode.value.removeprefix("atomic_")), d, old, value)
        w.do(f"store {memory_type(d)} {to_memory(w, value, d)}, {place}")
        return old

    # Structure.

    def inner(self) -> Lane:
        """A scope inside this one."""
        scope = Lane(self.frame, self._position, self.values, group=self.group)
        scope.locals = self.locals
        return scope

    def barrier(self) -> None:
        raise AssertionError(f"{self.program.name}: a lane meets nobody, its program is cut at barriers")

    def if_(self, i: Instruction, condition: str) -> None:
        w = self.w
        labels = w.label("then"), w.label("else")
        done = w.label("done")
        w.branch(condition, *labels)
        ends: list[tuple[list[str], str]] = []
        for label, block in zip(labels, i.blocks, strict=True):
            w.place(label)
            scope = self.inner()
            scope.instructions(block.instructions)
            ends.append(([scope.values[v] for v in block.yields], w.block))
            w.jump(done)
        w.place(done)
        for k, (result, dtype) in enumerate(zip(i.results, i.types, strict=True)):
            choices = ", ".join(f"[ {values[k]}, %{block} ]" for values, block in ends)
            self.values[result] = w(f"phi {register_type(dtype)} {choices}")

    def while_(self, i: Instruction, condition: str, *first: str) -> None:
        w, block = self.w, i.blocks[0]
        before, head, inside, done = w.block, w.label("head"), w.label("body"), w.label("done")
        w.jump(head)
        w.place(head)
        types = ["i1", *(register_type(t) for t in block.argument_types)]
        phis = [w.name("c") for _ in types]
        slot = len(w.lines)
        w.lines += [""] * len(types)
        w.branch(phis[0], inside, done)
        w.place(inside)
        scope = self.inner()
        scope.values |= dict(zip(block.arguments, phis[1:], strict=True))
        scope.instructions(block.instructions)
        following = [scope.values[v] for v in block.yields]
        turned(w, turns(block, self.frame.numbers))
        latch = w.block
        w.jump(head)
        for k, (type_, phi, x, y) in enumerate(zip(types, phis, (condition, *first), following, strict=True)):
            w.lines[slot + k] = f"  {phi} = phi {type_} [ {x}, %{before} ], [ {y}, %{latch} ]"
        w.looped()
        w.place(done)
        self.values |= dict(zip(i.results, phis[1:], strict=True))

    def loop_(self, i: Instruction, start: str, stop: str, step: str, *first: str) -> None:
        block, parts = i.blocks[0], ahead(i)
        if parts is not None:
            self._ahead(i, parts, (start, stop, step), first)
            return
        counter, types = block.argument_types[0], [register_type(t) for t in block.argument_types[1:]]
        flags: dict[str, Any] = {
            "counter": register_type(counter),
            "less": "slt" if counter.is_signed else "ult",
            "flags": " nsw" if counter == dtypes.index else "",
        }
        carried, bounds, known = list(zip(types, first, strict=True)), (start, stop, step), self.frame.numbers
        each = turns(block, known)

        def write(way: Way) -> list[str]:
            def body(number: str, carried: list[str]) -> list[str]:
                scope = self.inner()
                scope.values |= dict(zip(block.arguments, (number, *carried), strict=True))
                scope.instructions(block.instructions)
                if way in (Way.COUNTED, Way.AROUND):
                    turned(self.w, each, way is Way.AROUND)
                return [scope.values[v] for v in block.yields]

            if way is Way.IN_PARTS:
                return in_parts(self.w, bounds, carried, body, each, flags)
            return self.w.loop(*bounds, carried, body, **flags)

        results = Loop(i, bounds, flags, each, write).written(self.w, known, self.frame.brief)
        self.values |= dict(zip(i.results, results, strict=True))

    def _ahead(
        self, i: Instruction, parts: Ahead, bounds: tuple[str, str, str], first: Sequence[str]
    ) -> None:
        """A loop some turns at a time: the first part of them all, as vectors, and then the rest of each."""
        w, block, (start, stop, step) = self.w, i.blocks[0], bounds
        arrays = {k.result: w.alloca(register_type(k.type), _TURNS) for k in parts.kept}
        distance = w(f"add nsw i64 {w(f'sub nsw i64 {stop}, {start}')}, {w(f'sub nsw i64 {step}, 1')}")
        all_turns = w(f"sdiv i64 {distance}, {step}")
        known, each = self.frame.numbers, turns(block, self.frame.numbers)
        asks = long(i, known, each, self.frame.brief)

        def some(begin: str, carried: list[str]) -> list[str]:
            count = w.intrinsic(
                "llvm.smin.i64", "i64", ("i64", w(f"sub nsw i64 {all_turns}, {begin}")), ("i64", str(_TURNS))
            )

            def scope(turn: str) -> Lane:
                made = self.inner()
                number = w(f"mul nsw i64 {w(f'add nsw i64 {begin}, {turn}')}, {step}")
                made.values[block.arguments[0]] = w(f"add nsw i64 {start}, {number}")
                return made

            def place(k: Instruction, turn: str) -> str:
                t = register_type(k.type)
                return f"ptr {w.element(arrays[k.result], t, turn)}, align {k.type.computed.itemsize}"

            def early(turn: str, _: list[str]) -> list[str]:
                made = scope(turn)
                made.instructions(parts.first)
                for k in parts.kept:
                    w.do(f"store {register_type(k.type)} {made.values[k.result]}, {place(k, turn)}")
                return []

            def late(turn: str, carried: list[str]) -> list[str]:
                made = scope(turn)
                made.values |= dict(zip(block.arguments[1:], carried, strict=True))
                for k in parts.kept:
                    made.values[k.result] = w(f"load {register_type(k.type)}, {place(k, turn)}")
                made.instructions(parts.rest)
                return [made.values[v] for v in block.yields]

            w.loop("0", count, "1", [], early, lanes=True)
            results = w.loop("0", count, "1", list(zip(types, carried, strict=True)), late)
            if asks:
                turned(w, _TURNS * each)
            return results

        types = [register_type(t) for t in block.argument_types[1:]]
        results = w.loop("0", all_turns, str(_TURNS), list(zip(types, first, strict=True)), some)
        self.values |= dict(zip(i.results, results, strict=True))
