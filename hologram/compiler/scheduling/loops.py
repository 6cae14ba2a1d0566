"""How a launch runs on a CPU: which loops, in which order, on how many threads. Decided when it is bound."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hologram.atlas.opcodes import ACCESSES, ATOMICS, LOOPS, STRUCTURED, WRITES, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.atlas.ssa import deep
from hologram.compiler.analysis.accesses import Reference, unproven
from hologram.compiler.analysis.cost import instructions
from hologram.compiler.analysis.phases import may_store_early, rows
from hologram.compiler.analysis.ranges import Lanes, Range, positions_from, ranges
from hologram.compiler.analysis.reuse import ELEMENTS
from hologram.compiler.passes import Place
from hologram.compiler.scheduling.ahead import ahead
from hologram.compiler.scheduling.brief import brief
from hologram.compiler.scheduling.interior import Interior
from hologram.compiler.scheduling.orders import crosswise, innermost, strips_of
from hologram.compiler.scheduling.streams import Extent, streamed_store, streams
from hologram.compiler.scheduling.threads import Threads
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import whole

# Estimated from add, exp and sum on a Zen 4 core: nanoseconds an element costs per instruction and per 4 bytes moved.
_INSTRUCTION_NS = 0.012
_ACCESS_NS = 0.035
_UNVECTORED = 8  # times as much, where there is no vector of elements
_SHARE_NS = 6_000  # launches estimated shorter stay on the calling thread
_SLICE_NS = 3_000  # and no slice is made shorter
# What asks for interrupts after each slice has none that takes longer, and of lanes with loops nobody knows no more.
_LONGEST_NS, _UNKNOWN_LANES = 20_000_000, 1 << 12
# Elements of a row that are folded in its own precision before they join the total, along it and across.
BLOCK, COLUMN_BLOCK = 2048, 256
APART_BLOCK, _LIGHT_NS = 64, 0.2  # where they do not lie side by side, and little is computed of each
FAR_BLOCK, _FAR = 512, 1 << 23  # of a launch of so many, which wait for memory
COLUMN_TILE = 1024  # outputs that are accumulated side by side, at most
WORKGROUP = 256  # threads that meet, where a program does not say
# From which on copies of a buffer are better than atomics: so many additions, and as many to an element of each copy.
_ADDITIONS, _ADDITIONS_EACH = 4096, 2
_COPIED_BYTES = 64 << 20  # at most
_TOGETHER = 64  # lanes in a run, from which on some of them go through a loop together
_ROUNDING = frozenset({Opcode.REDUCE_ADD, Opcode.REDUCE_MUL})
_COUNTED = ("map", "row", "columns", "short")  # forms that may have code for a grid alone
_FEW = 4096  # elements of such a grid
_WRITTEN_OUT, _WRITTEN_NS = 8, 4.0  # elements of a row that are written out, at most, and what they cost
_ACROSS = 8  # of such rows, that are worth vectors
_SHORT = 16  # turns of a loop, from which on they are computed ahead
_TURNS = 16  # of a loop in a program whose threads meet: it goes over what they share, so it is seldom short


@frozen
class Variant:
    """How a program is compiled: what a launch knows and the code depends on."""

    form: str  # "map", "together", "scatter", "stream", "row", "columns", "short", "split" or "workgroup"
    order: tuple[int, ...]  # axes that are not reduced, the innermost loop last
    reduced: tuple[int, ...]  # reduced axes likewise
    constants: tuple[
        tuple[str, int], ...
    ] = ()  # index scalars that the code knows: strides of 0 and 1, mostly
    guarded: frozenset[Place] = frozenset()  # accesses that may miss their buffers
    split: int = -1  # form "split": the reduced axis that is cut into chunks
    keep: bool = False  # costly values of a row are kept from one sweep to the next
    once: bool = False  # forms "row" and "columns": the innermost axis of a row is one block
    block: int = BLOCK  # forms "row" and "split": elements that are folded in their own precision
    apart: bool = False  # those forms: elements do not lie side by side, so no vector runs along the row
    early: bool = False  # elements of rows are stored in the sweep that has them
    whole: bool = False  # form "workgroup": each has all of its threads
    copied: str = ""  # form "scatter": the buffer of which each part of the lanes has a copy
    parts: int = 1
    inside: Interior | None = None  # form "map": the lanes away from the border
    strips: int = (
        0  # form "map": elements of the innermost axis that go along all of the axis before together
    )
    short: bool = False  # form "together": loops have too few turns to compute any ahead
    brief: bool = False  # loops have too few turns to ask for interrupts
    row: tuple[int, ...] = ()  # form "short": the extents of the reduced axes
    grid: tuple[int, ...] = ()  # the only one that the code is for, all of it in one call; (): it is for any

    @property
    def text(self) -> str:
        """The same for equal variants, in every process."""
        own = {"guarded": sorted(self.guarded), "inside": None if self.inside is None else vars(self.inside)}
        return json.dumps({**vars(self), **own})


@frozen
class Schedule:
    """A variant and how its steps are shared out: totals and slice sizes, one for each step."""

    variant: Variant
    totals: tuple[int, ...]
    slices: tuple[int, ...]
    tile: int = 0  # "columns": outputs per tile; "split": chunks per row; "scatter": elements of the buffer
    scratch: int = 0  # slots of 8 bytes

    @property
    def alone(self) -> bool:
        """Whether one call on the calling thread does it."""
        return len(self.totals) == 1 and self.slices[0] >= self.totals[0]

    def only(self, grid: tuple[int, ...]) -> Schedule:
        """The same with code for this grid alone, where that is small: loops whose counts are known are few vectors."""
        variant = self.variant
        if variant.form not in _COUNTED or not self.alone or math.prod(grid) > _FEW:
            return self
        return replace(self, variant=replace(variant, grid=grid))


@frozen
class Facts:
    """What scheduling asks of a program, whatever its launch."""

    element_ns: float  # one element of a row, or of a map
    row_ns: float  # what is computed once a row
    # Buffers that a row program reads at positions without reduced coordinates.
    loads_uniformly: frozenset[str]
    writes_along: frozenset[str]  # buffers that it writes before it has read those for the last time
    loads: frozenset[str]
    early: bool  # it has fewer sweeps if it stores early
    splits: bool  # its rows may be cut
    steps: tuple[str, ...]  # of the form "split"
    folds: int
    strides: frozenset[str]  # index scalars that multiply something
    streamed: Instruction | None  # the store that may bypass the caches
    # What the bounds of the loops within a map's lanes are computed from; None: there are none.
    bounds: tuple[Instruction, ...] | None = None
    together: bool = False  # a loop within a map's lanes may go around them
    ahead: tuple[Instruction, ...] = ()  # loops whose turns are computed ahead, or, if few, go around lanes
    scattered: tuple[str, int] = ("", 0)  # a buffer of a map to which lanes only add, and how often each does
    rounds: bool = False  # folding a row rounds


def facts(program: Program) -> Facts:
    """The program's facts."""
    types = program.types
    everything = list(program.body.walk())
    cost = _total(program.body, types, _TURNS if _meets(program) else 1)
    scalars = {
        i.result: str(i.attribute) for i in everything if i.opcode is Opcode.SCALAR and i.type.kind == "index"
    }
    strides = {scalars[v] for i in everything if i.opcode is Opcode.MUL for v in i.operands if v in scalars}
    if not program.reduced:
        streamed = streamed_store(program)
        loops = [i for i in everything if i.opcode in LOOPS]
        bounds = (
            positions_from(everything, {v for i in loops if i.opcode is Opcode.LOOP for v in i.operands[:2]})
            if loops
            else None
        )
        together, short = (
            any(map(Threads.of(program, short).go_together, program.body.instructions))
            for short in (False, True)
        )
        return Facts(
            cost, 0.0, frozenset(), frozenset(), frozenset(), False, False, (), 0, frozenset(strides), streamed, bounds,
            together, tuple(filter(ahead, loops)) if short else (), _scattered(program),
        )  # fmt: skip
    swept = rows(program)
    uniform = [i for p in swept.phases for i in p.uniform] + list(swept.tail)
    once = _UNVECTORED * sum(_cost(i, types) for i in deep(uniform))
    loads = {str(i.attribute) for i in deep(uniform) if i.opcode is Opcode.LOAD}
    along = [i for p in swept.phases for i in p.sweep]
    writes = {str(i.attribute) for i in deep(along) if i.opcode in WRITES}
    steps = tuple("phase" for p in swept.phases if p.sweep or p.reductions) + ("tail",)
    folds = sum(len(p.reductions) for p in swept.phases)
    splits = not program.opcodes & ATOMICS
    loaded = frozenset(str(i.attribute) for i in everything if i.opcode is Opcode.LOAD)
    return Facts(
        cost - once / _UNVECTORED, once, frozenset(loads), frozenset(writes), loaded, may_store_early(program),
        splits, steps, folds, frozenset(strides), None,
        rounds=any(r.type.is_float and r.opcode in _ROUNDING for p in swept.phases for r in p.reductions),
    )  # fmt: skip


def _scattered(program: Program) -> tuple[str, int]:
    """The buffer that is added to most often, of those that are not read or written in another way."""
    counts: dict[str, int] = {}
    everything = tuple(program.body.walk())
    used = {v for i in everything for v in (*i.operands, *(v for b in i.blocks for v in b.yields))}
    for i in everything:
        if i.opcode in ACCESSES:
            name, adds = str(i.attribute), i.opcode is Opcode.ATOMIC_ADD and i.result not in used
            counts[name] = counts.get(name, 0) + 1 if adds and counts.get(name) != 0 else 0
    return max(((name, n) for name, n in counts.items()), key=lambda one: one[1], default=("", 0))


def _meets(program: Program) -> bool:
    """Whether threads of a workgroup share memory or wait for one another."""
    return bool(program.shared) or Opcode.BARRIER in program.opcodes


def _total(block: Block, types: Mapping[int, Any], turns: int) -> float:
    """Nanoseconds of a block, whose loops take so many turns."""
    inner = (
        _total(b, types, turns) * (turns if i.opcode in LOOPS else 1)
        for i in block.instructions
        for b in i.blocks
    )
    return sum(_cost(i, types) for i in block.instructions) + sum(inner)


def _cost(i: Instruction, types: Mapping[int, Any]) -> float:
    """Nanoseconds of an instruction in vector code; transcendental functions have become arithmetic by now."""
    if i.opcode in (Opcode.LOAD, Opcode.STORE):
        dtype = i.type if i.results else types[i.operands[1]]
        return _ACCESS_NS * dtype.itemsize / 4
    if i.opcode in STRUCTURED or i.opcode in ATOMICS:
        return 1.0
    return _INSTRUCTION_NS * instructions(i)


def _turning_ns(
    body: Sequence[Instruction], types: Mapping[int, Any], known: Mapping[int, Range], turns: float
) -> float:
    """Nanoseconds of instructions with their loops; one of unknown length goes through a lane's share of the memory."""
    total = 0.0
    for i in body:
        count = 1.0
        if i.opcode is Opcode.LOOP:
            start, stop = (known.get(v) for v in i.operands[:2])
            if start is None or stop is None:
                count = turns
            else:
                count = max(stop.high - start.low, 0)
                count = count if start.number is not None and stop.number is not None else min(count, turns)
        elif i.opcode is Opcode.WHILE:
            count = max(turns, _TURNS)
        total += _cost(i, types)
        total += count * sum(_turning_ns(b.instructions, types, known, turns) for b in i.blocks)
    return total


def _few(loops: Sequence[Instruction], known: Mapping[int, Range]) -> bool:
    """Whether all of the loops, and there are some, have fewer turns than are worth to be computed ahead."""
    for i in loops:
        start, stop, step = (known.get(v) for v in i.operands[:3])
        by = 1 if step is None else max(step.low, 1)
        if start is None or stop is None or stop.high - start.low >= _SHORT * by:
            return False
    return bool(loops)


def schedule(
    known: Facts,
    accesses: Sequence[Reference],
    launch: Lanes,
    grid: tuple[int, ...],
    extents: Sequence[Extent],
    threads: int,
) -> Schedule:
    """The schedule of a launch whose grid is not empty."""
    program, scalars = launch.program, launch.scalars
    kept = program.rank - program.reduced
    lengths = {p.name: nbytes // p.dtype.itemsize for _, nbytes, p in extents}
    lengths |= {s.name: s.size for s in (*program.shared, *program.local)}
    constants = tuple((n, int(scalars[n])) for n in sorted(known.strides) if scalars[n] in (0, 1))
    guarded = unproven(accesses, lengths)
    order = innermost(range(kept), accesses, grid)
    reduced = innermost(range(kept, program.rank), accesses, grid)
    lanes, row = math.prod(grid[:kept]), math.prod(grid[kept:])
    row_ns = row * known.element_ns + known.row_ns
    if _meets(program):
        groups = -(-lanes // (program.workgroup or WORKGROUP))
        size = _slice(groups, lanes / groups * known.element_ns, threads, 1)
        whole = lanes % (program.workgroup or WORKGROUP) == 0
        variant = Variant("workgroup", (), (), constants, guarded, whole=whole)
        return Schedule(variant, (groups,), (size,))
    if not program.reduced:
        short, few = False, False
        if known.bounds is None:
            size = _slice(lanes, known.element_ns, threads, 1024)
        else:  # a lane is no vector's
            turns = max(1.0, max(lengths.values(), default=1) / lanes)
            found = ranges(known.bounds, launch)
            each_ns = _turning_ns(program.body.instructions, program.types, found, turns)
            short, few = _few(known.ahead, found), brief(program.body.instructions, found)
            size = _slice(lanes, each_ns, threads, 1)
            size = size if few else min(size, _UNKNOWN_LANES)
        copied = _copied(known, lengths, extents, lanes, threads) if order else 0
        if copied:
            name = known.scattered[0]
            variant = Variant("scatter", order, (), constants, guarded, copied=name, parts=threads, brief=few)
            scratch = -(-threads * copied * program.buffer(name).dtype.itemsize // 8)
            each = max(1024, -(-copied // threads))
            return Schedule(variant, (threads, copied), (1, each), copied, scratch)
        if (known.together or short) and order and grid[order[-1]] >= _TOGETHER:
            variant = Variant("together", order, (), constants, guarded, short=short, brief=few)
            return Schedule(variant, (lanes,), (size,))
        form = "stream" if streams(known.streamed, accesses, extents, guarded) else "map"
        buffers = [p for *_, p in extents]
        strips = strips_of(order, accesses, grid, buffers, known.element_ns) if form == "map" else 0
        return Schedule(
            Variant(form, order, (), constants, guarded, strips=strips, brief=few), (lanes,), (size,)
        )
    apart = not _overlaps(known.loads_uniformly, known.writes_along, extents)
    early = known.early and not _overlaps(known.loads, known.writes_along, extents)
    written = row <= _WRITTEN_OUT and row * known.element_ns <= _WRITTEN_NS
    if apart and written and row and order and grid[order[-1]] >= _ACROSS:
        size = _slice(lanes, row_ns, threads, 64)
        # Strides from row to row, which LLVM would otherwise have to guess.
        steps = tuple((n, int(scalars[n])) for n in sorted(known.strides) if 0 <= scalars[n] <= row)
        sizes = tuple(map(int, grid[kept:]))
        variant = Variant("short", order, reduced, steps, guarded, early=early, row=sizes)
        return Schedule(variant, (lanes,), (size,))
    if apart and crosswise(order, reduced, accesses, grid):
        tile = _tile(grid[order[-1]], lanes, row_ns, threads)
        size = _slice(lanes, row_ns, threads, tile)
        once = grid[reduced[-1]] <= COLUMN_BLOCK
        variant = Variant("columns", order, reduced, constants, guarded, early=early, once=once)
        return Schedule(variant, (lanes,), (size,), tile)
    light = known.rounds and known.element_ns < _LIGHT_NS
    scattered = light and any(s.stride(reduced[-1]) not in (0, 1) for s in accesses)
    block = APART_BLOCK if scattered else FAR_BLOCK if lanes * row >= _FAR else BLOCK
    pieces = _pieces(lanes * row_ns, threads)
    if apart and known.splits and pieces > 1 and lanes < 2 * threads and row >= 4096:
        axis = max(reduced, key=lambda a: grid[a])
        chunks = max(1, min(-(-pieces // lanes), grid[axis]))
        units = lanes * chunks
        totals = tuple(units if s == "phase" else lanes for s in known.steps)
        slices = tuple(1 if s == "phase" else lanes for s in known.steps)
        variant = Variant(
            "split", order, reduced, constants, guarded, split=axis, block=block, apart=scattered
        )
        return Schedule(variant, totals, slices, chunks, units * known.folds)
    size = _slice(lanes, row_ns, threads, 1)
    keep = len(reduced) == 1 and row <= ELEMENTS and known.folds > 0
    once = grid[reduced[-1]] <= block
    variant = Variant(
        "row",
        order,
        reduced,
        constants,
        guarded,
        keep=keep,
        early=early,
        once=once,
        block=block,
        apart=scattered,
    )
    return Schedule(variant, (lanes,), (size,))


def _copied(
    known: Facts, lengths: Mapping[str, int], extents: Sequence[Extent], lanes: int, threads: int
) -> int:
    """Elements of the buffer that each thread has a copy of; 0: there are fewer additions than copies have elements."""
    name, count = known.scattered
    if lanes * count < max(_ADDITIONS, _ADDITIONS_EACH * threads * lengths.get(name, 0)):
        return 0
    address, nbytes, _ = next(e for e in extents if e[2].name == name)
    if threads * nbytes > _COPIED_BYTES:
        return 0
    apart = not any(a < address + nbytes and address < a + n for a, n, p in extents if p.name != name)
    return lengths[name] if apart else 0


def _pieces(total_ns: float, threads: int) -> int:
    """Into how many slices a launch is cut; 1: it stays where it is."""
    fewest = whole(total_ns / _LONGEST_NS)
    if threads == 1 or total_ns < _SHARE_NS:
        return max(1, fewest)
    pieces = max(2, fewest, min(whole(total_ns / _SLICE_NS), 8 * threads))
    # Everybody gets as many: three slices on two threads take as long as four.
    return pieces if pieces < threads else pieces // threads * threads


def _slice(count: int, each_ns: float, threads: int, multiple: int) -> int:
    """Elements of a slice, a multiple of `multiple` where that is fair."""
    pieces = _pieces(count * each_ns, threads)
    if pieces == 1:
        return count
    size = -(-count // pieces)
    return -(-size // multiple) * multiple


def _tile(width: int, lanes: int, each_ns: float, threads: int) -> int:
    """Outputs accumulated side by side: as many as fit, but every thread should get some."""
    pieces = min(_pieces(lanes * each_ns, threads), 2 * threads)  # no more: short runs are slow to read
    fair = -(-width // pieces) if lanes == width else width
    return max(64, min(COLUMN_TILE, -(-fair // 64) * 64))


def _overlaps(read: frozenset[str], written: frozenset[str], extents: Sequence[Extent]) -> bool:
    """Whether memory of parameters that are read is memory of some that are written.

    Where rows read as a whole what is written along them, a row must be finished by whoever began it. What is written
    once a row comes last; that it is read by none but its own row, other schedules need as well.
    """
    reads = [(a, a + n) for a, n, p in extents if p.name in read]
    writes = [(a, a + n) for a, n, p in extents if p.name in written]
    return any(a < d and c < b for a, b in reads for c, d in writes)
