"""The entry point of a row program: `threads` threads sweep a row once a phase and fold their partial results.

A sweep's code is a function of one element, `term_<phase>`: it takes what the row knows and what was loaded, and gives
what is folded or stored. Where operands lie at consecutive positions along the row, four elements are loaded at once
if the row starts at a multiple of four. Partial results are folded in a fixed order, so a result never changes from
run to run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from hologram.atlas.arithmetic import identity
from hologram.atlas.opcodes import ATOMICS, Opcode
from hologram.atlas.program import Instruction
from hologram.atlas.ssa import mentions, sources
from hologram.compiler.analysis.phases import Phase, rows
from hologram.compiler.scheduling.schedule import Schedule, row_units
from hologram.compiler.source.emit import Emitter
from hologram.compiler.source.entry_map import coordinates, lanes, used_coordinates
from hologram.compiler.source.row_folds import Tree, combine
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen

PARTS = 4  # partial results of a thread; also how far loops are unrolled
# Turns of a loop whose sums begin at 0 and join those of the turns before: one by one a long sum would lose them.
BLOCK = 32
_LOCAL = re.compile(r"[vi]\d+|lane|group|thread_index")


def write(emitter: Emitter, schedule: Schedule) -> None:
    """The functions of the sweeps, then the entry point that calls them."""
    _Rows(emitter, schedule).write()


@frozen
class _Sweep:
    """One phase's pass over a row: its function, what it is passed and what it gives."""

    function: str
    loads: tuple[Instruction, ...]  # done by the caller, four at a time where possible
    stores: tuple[Instruction, ...]
    positions: tuple[Instruction, ...]  # index arithmetic that the caller's loads and stores need
    given: tuple[str, ...]  # arguments that hold for the whole row
    results: tuple[tuple[str, DType], ...]  # field and dtype, of what is folded or stored
    folds: tuple[Instruction, ...]


class _Rows:
    def __init__(self, emitter: Emitter, schedule: Schedule) -> None:
        self.emitter = emitter
        self.dialect = emitter.dialect
        self.program = emitter.program
        self.threads = schedule.threads
        self.workgroup = schedule.workgroup
        self.tree = Tree(emitter, schedule)
        self.phases = rows(self.program)
        self.units = row_units(self.program)
        self.last = self.program.rank - 1
        self.outer = self.program.rank - self.program.reduced
        # Several threads share the places of a row that has several axes by counting them.
        self.flat = self.program.reduced > 1 and self.threads > 1
        self.captured = self.dialect.capture(emitter.declarations)

    def write(self) -> None:
        body = self._body()  # names values and learns what functions need, so the functions come out first
        emitter = self.emitter
        emitter.lines += [*self.dialect.open(emitter.declarations), *body, "}"]

    def _body(self) -> list[str]:
        emitter, number = self.emitter, self.emitter.number
        functions: list[str] = []
        emitter.lines, emitter.depth = [], 1
        emitter.let("lanes", dtypes.index, lanes(emitter, self.outer))
        if self.threads == 1:
            emitter.let("lane", dtypes.index, f"group * {number(self.workgroup)} + thread_index")
            emitter.line("if (lane >= lanes) { return; }")
        else:
            per_group = self.workgroup // self.threads
            slot = f"thread_index / {number(self.threads)}"
            place = f"group * {number(per_group)} + {slot}" if per_group > 1 else "group"
            member = f"thread_index % {number(self.threads)}" if per_group > 1 else "thread_index"
            emitter.let("number", dtypes.index, place)
            emitter.let("member", dtypes.index, member)
            # Threads past the last row sweep nothing, but meet the others at the barriers.
            emitter.let("inside", dtypes.bool_, "number < lanes")
            emitter.let("lane", dtypes.index, f"min(number, lanes - {number(1)})")
        used = {k for k in used_coordinates(emitter) if k < self.outer}
        coordinates(emitter, used, self.outer, "lane")
        for k, phase in enumerate(self.phases.phases):
            emitter.instructions(phase.uniform)
            if phase.sweep or phase.reductions:
                sweep, text = self._function(k, phase)
                functions += text
                self._sweep(sweep)
                for fold in phase.reductions:
                    self.tree.write(fold)
        self._tail()
        body, emitter.lines, emitter.depth = emitter.lines, functions, 0
        return body

    def _tail(self) -> None:
        if not self.phases.tail:
            return
        if self.threads == 1:
            self.emitter.instructions(self.phases.tail)
            return
        with self.emitter.scope(f"if (inside && member == {self.emitter.number(0)}) {{"):
            self.emitter.instructions(self.phases.tail)

    # The function of one element.

    def _function(self, k: int, phase: Phase) -> tuple[_Sweep, list[str]]:
        emitter, program = self.emitter, self.program
        handled = [i for i in phase.sweep if self._by_caller(i)]
        loads = tuple(i for i in handled if i.opcode is Opcode.LOAD)
        stores = tuple(i for i in handled if i.opcode is Opcode.STORE)
        inside = self._needed(phase, handled)
        defined = {r for i in inside for r in i.results}
        yielded = [i.operands[0] for i in phase.reductions] + [i.operands[1] for i in stores]
        mentioned = {v for i in inside for v in mentions(i)} | set(yielded)
        loaded = [i for i in loads if i.result in mentioned]
        own = {i.result for i in loaded}
        given = sorted(v for v in mentioned - defined - own if _LOCAL.fullmatch(emitter.values.get(v, "")))
        results = tuple((f"r{n}", program.types[v]) for n, v in enumerate(yielded))
        saved, emitter.lines = emitter.lines, []
        depth, emitter.depth = emitter.depth, 0
        names = dict(emitter.values)
        index = emitter.type(dtypes.index)
        arguments = [(emitter.values[v], emitter.type(program.types[v])) for v in given]
        arguments += [(n, index) for n in self._counters()]
        for i in loaded:
            emitter.values[i.result] = f"v{i.result}"
            arguments.append((f"v{i.result}", emitter.type(i.type)))
        name = f"term_{k}"
        result = ""
        if len(results) == 1:
            result = emitter.type(results[0][1])
        elif results:
            result = f"Term_{k}"
            fields = [(n, emitter.type(t)) for n, t in results]
            emitter.lines += [*self.dialect.structure(result, fields), ""]
        emitter.line(self.dialect.function(name, arguments, result, emitter.declarations))
        emitter.depth = 1
        self._flat_coordinates(inside)
        emitter.instructions(inside)
        values = [emitter.values[v] for v in yielded]
        if len(values) == 1:
            emitter.line(f"return {values[0]};")
        elif values:
            emitter.line(f"return {self.dialect.construct.format(name=result, values=', '.join(values))};")
        text = [*emitter.lines, "}", ""]
        emitter.lines, emitter.depth, emitter.values = saved, depth, names
        positions = self._positions(phase, [*loaded, *stores])
        log_pass = tuple(emitter.values[v] for v in given)
        return _Sweep(name, tuple(loaded), stores, positions, log_pass, results, phase.reductions), text

    def _by_caller(self, i: Instruction) -> bool:
        return i.opcode in (Opcode.LOAD, Opcode.STORE) and id(i) in self.units and not self.flat

    def _needed(self, phase: Phase, handled: list[Instruction]) -> list[Instruction]:
        """The sweep without what the caller does and what only that needs."""
        outside = set(map(id, handled))
        wanted = {i.operands[0] for i in phase.reductions}
        wanted |= {i.operands[1] for i in handled if i.opcode is Opcode.STORE}
        inside = [i for i in phase.sweep if id(i) not in outside]
        return [
            *sources(inside, wanted, keep=lambda i: not i.results or i.opcode in ATOMICS or bool(i.blocks))
        ]

    def _positions(self, phase: Phase, accesses: Iterable[Instruction]) -> tuple[Instruction, ...]:
        return sources(phase.sweep, {i.operands[0] for i in accesses}, reads=lambda i: i.operands)

    def _counters(self) -> list[str]:
        """The arguments that say where in the row an element is."""
        return ["place"] if self.flat else [f"i{k}" for k in range(self.outer, self.last + 1)]

    def _flat_coordinates(self, inside: Iterable[Instruction]) -> None:
        if not self.flat:
            return
        emitter = self.emitter
        rest = "place"
        for k in range(self.last, self.outer, -1):
            emitter.let(f"i{k}", dtypes.index, f"{rest} % {emitter.extent(k)}")
            emitter.let(f"places_{k}", dtypes.index, f"{rest} / {emitter.extent(k)}")
            rest = f"places_{k}"
        emitter.let(f"i{self.outer}", dtypes.index, rest)

    # The loops over a row.

    def _sweep(self, sweep: _Sweep) -> None:
        emitter = self.emitter
        for fold in sweep.folds:
            start = emitter.literal(identity(fold.opcode, fold.type), fold.type)
            for part in range(PARTS):
                emitter.var(f"v{fold.result}_{part}", fold.type, start)
                if fold in self._sums(sweep):
                    emitter.var(f"before{fold.result}_{part}", fold.type, start)
        if self.flat:
            total = " * ".join(emitter.extent(k) for k in range(self.outer, self.last + 1))
            with emitter.scope("{"):
                self._loops(sweep, "place", total)
        else:
            self._nest(sweep, self.outer)
        self._joined(sweep)

    def _nest(self, sweep: _Sweep, axis: int) -> None:
        emitter = self.emitter
        if axis == self.last:
            with emitter.scope("{"):
                self._loops(sweep, f"i{axis}", emitter.extent(axis))
            return
        with emitter.loop(
            f"i{axis}", dtypes.index, emitter.number(0), emitter.extent(axis), emitter.number(1)
        ):
            self._nest(sweep, axis + 1)

    def _loops(self, sweep: _Sweep, counter: str, extent: str) -> None:
        """Four elements a turn, as a vector where they lie so and else each by itself; then the rest one by one."""
        emitter, number = self.emitter, self.emitter.number
        index = dtypes.index
        shared = self.threads > 1
        length = (
            self.dialect.operators[Opcode.SELECT, index].format("inside", extent, number(0))
            if shared
            else extent
        )
        emitter.let("length", index, length)
        emitter.var("start", index, "member" if shared else number(0))
        step = self.threads
        vectors = self._vectors(sweep)
        stop = f"length - min(length, {number((PARTS - 1) * step)})"
        if vectors:
            self._aligned(sweep, counter, vectors)
            with emitter.scope("if (aligned) {", "} else {"):
                emitter.let("whole", index, f"length / {number(4)} * {number(4)}")
                first = f"member * {number(4)}" if shared else number(0)
                with self._blocks(sweep, counter, first, "whole", 4 * step):
                    self._vector_turn(sweep, counter, vectors)
                emitter.line(f"start = whole{' + member' if shared else ''};")
            emitter.depth += 1
        emitter.let("stop", index, stop)
        with self._blocks(sweep, "next", "start", "stop", PARTS * step):
            for part in range(PARTS):
                with emitter.scope("{"):
                    emitter.let(counter, index, f"next + {number(part * step)}" if part else "next")
                    self._turn(sweep, counter, part)
            emitter.line(f"start = next + {number(PARTS * step)};")
        if vectors:
            emitter.depth -= 1
            emitter.line("}")
        with emitter.loop(counter, index, "start", "length", number(step)):
            self._turn(sweep, counter, 0)

    @contextmanager
    def _blocks(self, sweep: _Sweep, counter: str, start: str, stop: str, step: int) -> Iterator[None]:
        """A loop, in blocks of BLOCK turns where it adds up floats."""
        emitter, number = self.emitter, self.emitter.number
        if not self._sums(sweep):
            with emitter.loop(counter, dtypes.index, start, stop, number(step)):
                yield
            return
        with emitter.loop("block", dtypes.index, start, stop, number(BLOCK * step)):
            emitter.let("block_end", dtypes.index, f"min(block + {number(BLOCK * step)}, {stop})")
            with emitter.loop(counter, dtypes.index, "block", "block_end", number(step)):
                yield
            self._joined(sweep, again=True)

    def _sums(self, sweep: _Sweep) -> list[Instruction]:
        return [i for i in sweep.folds if i.opcode is Opcode.REDUCE_ADD and i.type.is_float]

    def _joined(self, sweep: _Sweep, *, again: bool = False) -> None:
        """Blocks' sums join those before, and begin `again` or are the row's."""
        emitter = self.emitter
        for fold in self._sums(sweep):
            for part in range(PARTS):
                own, before = f"v{fold.result}_{part}", f"before{fold.result}_{part}"
                if again:
                    emitter.line(f"{before} = {combine(emitter, fold, before, own)};")
                    emitter.line(f"{own} = {emitter.literal(identity(fold.opcode, fold.type), fold.type)};")
                else:
                    emitter.line(f"{own} = {combine(emitter, fold, before, own)};")

    def _vectors(self, sweep: _Sweep) -> frozenset[str]:
        """The buffers that the sweep touches four elements at a time."""
        accesses = (*sweep.loads, *sweep.stores)
        return frozenset(str(i.attribute) for i in accesses if self.emitter.buffers[str(i.attribute)].vector)

    def _aligned(self, sweep: _Sweep, counter: str, vectors: frozenset[str]) -> None:
        emitter, number = self.emitter, self.emitter.number
        emitter.var("aligned", dtypes.bool_, self.dialect.literal(dtypes.bool_, True))
        with emitter.scope("{"):
            emitter.let(counter, dtypes.index, number(0))
            self._place(sweep)
            for i in (*sweep.loads, *sweep.stores):
                if i.attribute in vectors:
                    position = emitter.values[i.operands[0]]
                    emitter.line(f"aligned = aligned && {position} % {number(4)} == {number(0)};")

    def _place(self, sweep: _Sweep) -> None:
        self.emitter.instructions(sweep.positions)

    def _vector_turn(self, sweep: _Sweep, counter: str, vectors: frozenset[str]) -> None:
        emitter, number = self.emitter, self.emitter.number
        self._place(sweep)
        values: list[list[str]] = [[], [], [], []]
        for i in sweep.loads:
            name = str(i.attribute)
            position = emitter.values[i.operands[0]]
            if name in vectors:
                vector = f"v{i.result}_4"
                text = f"{emitter.buffer_names[name]}[{position} / {number(4)}]"
                emitter.line(
                    self.dialect.let.format(name=vector, type=self.dialect.vectors[i.type], value=text)
                )
                emitter.help("vector", i.type, "")
                for k in range(4):
                    values[k].append(self.dialect.element[i.type][k].format(vector))
            else:
                for k in range(4):
                    values[k].append(emitter.load(i, f"{position} + {number(k)}" if k else position))
        places = [counter, *(f"{counter} + {number(k)}" for k in range(1, 4))]
        results = [self._term(sweep, places[k], values[k], k) for k in range(4)]
        for n, i in enumerate(sweep.stores):
            name = str(i.attribute)
            dtype = self.program.buffer(name).dtype
            position = emitter.values[i.operands[0]]
            stored = [results[k][len(sweep.folds) + n] for k in range(4)]
            if name in vectors:
                emitter.help("vector", dtype, "")
                text = self.dialect.vector[dtype].format(*stored)
                emitter.line(f"{emitter.buffer_names[name]}[{position} / {number(4)}] = {text};")
            else:
                for k in range(4):
                    emitter.store(i, f"{position} + {number(k)}" if k else position, stored[k])

    def _turn(self, sweep: _Sweep, counter: str, part: int) -> None:
        """One element: loads, the function, folds and stores."""
        emitter = self.emitter
        self._place(sweep)
        values = [emitter.load(i, emitter.values[i.operands[0]]) for i in sweep.loads]
        results = self._term(sweep, counter, values, part)
        for i, value in zip(sweep.stores, results[len(sweep.folds) :], strict=True):
            emitter.store(i, emitter.values[i.operands[0]], value)

    def _term(self, sweep: _Sweep, place: str, values: list[str], part: int) -> list[str]:
        """Calls the function for an element and folds; gives the names of all results."""
        emitter = self.emitter
        counters = [place] if self.flat else [*(f"i{k}" for k in range(self.outer, self.last)), place]
        call = f"{sweep.function}({', '.join([*self.captured, *sweep.given, *counters, *values])})"
        if not sweep.results:
            emitter.line(f"{call};")
            return []
        if len(sweep.results) == 1:
            emitter.let(f"e{part}", sweep.results[0][1], call)
            results = [f"e{part}"]
        else:
            kind = sweep.function.replace("term", "Term")
            emitter.line(self.dialect.let.format(name=f"e{part}", type=kind, value=call))
            results = [f"e{part}.{n}" for n, _ in sweep.results]
        for fold, value in zip(sweep.folds, results, strict=False):
            target = f"v{fold.result}_{part}"
            emitter.line(f"{target} = {combine(emitter, fold, target, value)};")
        return results
