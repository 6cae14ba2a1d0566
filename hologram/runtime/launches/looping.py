"""Loops: a body's launches, prepared once, played again for each turn on memory that moves on.

What is carried lies in memory that a turn writes over where its kernels may; else two places take turns. Rows are read
and written where they lie: from one turn to the next their places move on.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hologram.compiler.fusion.assemble import Assembly, assemble
from hologram.compiler.fusion.control import whole_of
from hologram.compiler.fusion.graph import Loop
from hologram.machine.kernel import Area, Prepared, Repetition
from hologram.machine.layout import Layout
from hologram.opset.forms.map import copy_plan
from hologram.runtime.engine import Engine
from hologram.runtime.launches.joining import moved_to
from hologram.runtime.launches.launcher import Placed, Structure
from hologram.runtime.launches.recording import Recording, launching
from hologram.runtime.memory.blocks import storage_bytes
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import View, whole

recordings = Recording.open
FEW = 2  # turns of a first call; later ones have twice as many until they take so long: Ctrl-C is heard between them
CALL_S = 0.05
MOST = 1 << 40


class Turns:
    """The body of a loop, compiled; `run` plays turns of it."""

    def __init__(self, executor: Engine, loop: Loop, fast_math: bool) -> None:
        self.executor = executor
        self.loop = loop
        body = loop.body
        inputs = list(body.inputs)
        state = inputs[loop.constants : loop.constants + loop.carried]
        carried = dict(zip(body.outputs, state, strict=False))
        body = replace(body, donated=frozenset(state), carried=carried)
        self.assembly: Assembly = assemble(body, executor.target, fast_math)
        self.layouts = [body.layouts[v] for v in (*body.inputs, *body.outputs)]
        self.in_place = [self.assembly.donations.get(k) == loop.constants + k for k in range(loop.carried)]
        self.period = 1 if all(self.in_place) else 2
        count = len(inputs)
        self.rows_in = range(loop.constants + loop.carried, count)
        self.rows_out = range(count + loop.carried, len(self.layouts))
        self.strides = [executor.limits.row_stride(x.size * x.dtype.itemsize) for x in self.layouts]
        exact = executor.limits.host_resident
        nbytes = [x.reach_bytes for x in self.layouts]
        self.sizes = nbytes if exact else list(map(storage_bytes, nbytes))
        self._structure = executor.bound.structure(self.assembly.plan, self.sizes)
        for kernel in {placed.step.kernel for placed in self._structure.steps}:  # its own, as a replay's are
            if kernel.program is not None:
                weakref.finalize(self, executor.device.give_up, kernel).atexit = False
        self._units: dict[tuple[int, int, bool], _Unit] = {}

    def unit(self, first: int, turns: int, flagged: bool) -> _Unit:
        """So many turns as one launch, the first of which reads what is carried in its first or second place."""
        unit = self._units.get((first, turns, flagged))
        if unit is None:
            unit = self._units[first, turns, flagged] = self._made(first, turns, flagged)
        return unit

    def _made(self, first: int, turns: int, flagged: bool) -> _Unit:
        """Arguments are places: of inputs, of outputs; and of outputs in second places, then the number of turns."""
        loop, inputs = self.loop, self.rows_in.stop
        back = -1 if loop.reverse else 1
        steps = []
        spare = len(self.layouts)
        arenas = [Area(spare + 1 + k, 0, n) for k, n in enumerate(self._structure.arenas)]
        for turn in range(turns):
            areas = [Area(k, 0, n) for k, n in enumerate(self.sizes)]
            for k in (*self.rows_in, *self.rows_out):
                areas[k] = replace(areas[k], first=back * turn * self.strides[k])
            for k in range(loop.carried):
                before, after = loop.constants + k, inputs + k
                if self.in_place[k]:
                    areas[after] = areas[before]
                elif (first + turn) % 2:
                    areas[before], areas[after] = areas[after], areas[before]
            steps += [moved_to(placed, [*areas, *arenas]) for placed in self._structure.steps]
            if flagged:  # a turn may be the last
                for k in range(loop.carried):
                    steps += self._back(areas[inputs + k], areas[loop.constants + k], k)
        structure = Structure(self.executor.bound, steps, [*self.sizes, None], self._structure.arenas)
        moving = {k: back * turns * self.strides[k] for k in (*self.rows_in, *self.rows_out)}
        flag = loop.constants if flagged else None
        return _Unit(structure, Repetition(spare, flag, moving))

    def _back(self, made: Area, kept: Area, k: int) -> list[Placed]:
        """What copies a carried value from its second place."""
        layout = self.layouts[self.loop.constants + k]
        if made == kept or not layout.size:
            return []
        plan = copy_plan(layout, layout)
        structure = self.executor.bound.structure(plan, [kept.nbytes, kept.nbytes])
        return [moved_to(placed, [made, kept]) for placed in structure.steps]

    def run(
        self, arguments: list[Any], first: int, turns: int, goes_on: Callable[[], Any] | None = None
    ) -> int:
        """Plays turns from one on, whose rows the arguments name; gives where what is carried is then.

        With `goes_on`, what is carried first says whether there is another turn; that tells the host.
        """
        flagged = goes_on is not None
        period = 1 if flagged else self.period
        paired, rest = divmod(turns, period)
        place = 0 if flagged else first % 2
        if paired:
            self.unit(place, period, flagged).play(arguments, paired, goes_on)
        if rest:
            self.unit(place, 1, flagged).play(arguments, 1)
        return 0 if flagged else (first + turns) % 2


class _Unit:
    """A few turns as one launch, played so often."""

    def __init__(self, structure: Structure, again: Repetition) -> None:
        self._structure = structure
        self._again = again
        self._generation = -1
        self._native: Prepared | None = None

    def play(self, arguments: list[Any], times: int, goes_on: Callable[[], Any] | None = None) -> None:
        """Launches it so often, as long as it goes on; places move on in the arguments."""
        launches, again = self._structure.launches, self._again
        if self._generation != launches.generation:
            self._generation = launches.generation
            self._native = launches.repeated(self._structure, [*arguments, 1], again)
        if self._native is None or recordings:
            for _ in range(times):
                if goes_on is not None and not goes_on():
                    return
                given = [*arguments, 1]
                if not recordings or launching(self._structure, given):
                    self._structure.launch(given)
                self._move(arguments, 1)
            return
        self._native([*arguments, times])
        self._move(arguments, times)

    def _move(self, arguments: list[Any], times: int) -> None:
        for k, stride in self._again.strides.items():
            arguments[k] += times * stride


class Scan:
    """A loop of a known number of turns, whose body has no loops of its own. Any thread may call it."""

    def __init__(self, executor: Engine, loop: Loop, fast_math: bool = False) -> None:
        self.executor = executor
        self.loop = loop
        self.turns = Turns(executor, loop, fast_math)
        self.pace = Pace()

    @property
    def dispatches(self) -> int:
        """Kernels that a turn launches."""
        return len(self.turns.assembly.plan.steps)

    def __call__(self, inputs: Sequence[View]) -> list[Buffer]:
        """The results for operands; see Loop."""
        executor, loop, turns = self.executor, self.loop, self.turns
        state = inputs[loop.constants : loop.constants + loop.carried]
        firsts = [copied(executor, view) for view in state]
        held = [placed(executor, view) for view in inputs[: loop.constants]]
        rows = [
            self._rows(view, k) for view, k in zip(inputs[turns.rows_in.start :], turns.rows_in, strict=True)
        ]
        pairs = zip(firsts, turns.in_place, strict=True)
        seconds = [f if over else fresh(executor, f.kind.layout) for f, over in pairs]
        made = [fresh(executor, self._stacked(k)) for k in turns.rows_out]
        if loop.length:
            arguments = [
                *(place_of(v) for v in held),
                *(b.live_block().place for b in firsts),
                *(self._first(place_of(v), k) for v, k in zip(rows, turns.rows_in, strict=True)),
                *(b.live_block().place for b in seconds),
                *(self._first(b.live_block().place, k) for b, k in zip(made, turns.rows_out, strict=True)),
            ]
            self.pace.through(loop.length, lambda turn, count: turns.run(arguments, turn, count))
        last = seconds if loop.length % 2 else firsts
        return [*last, *(self._dense(b, k) for b, k in zip(made, turns.rows_out, strict=True))]

    def _first(self, place: int, k: int) -> int:
        """Where the row of the first turn lies."""
        return place + (self.loop.length - 1) * self.turns.strides[k] * self.loop.reverse

    def _stacked(self, k: int) -> Layout:
        """How rows lie below each other, with the room that a device wants between where they begin."""
        row, stride = self.turns.layouts[k], self.turns.strides[k]
        if stride == row.size * row.dtype.itemsize:
            return Layout.contiguous(row.dtype, (self.loop.length, *row.shape))
        return Layout.contiguous(row.dtype, (self.loop.length, stride // row.dtype.itemsize))

    def _rows(self, view: View, k: int) -> View:
        """Rows as they are to lie."""
        layout = self._stacked(k)
        if layout.shape == view.shape:
            return placed(self.executor, view)
        spaced = fresh(self.executor, layout)
        self.executor._copy_elements(view, View(spaced, self._within(k)))
        return whole(spaced)

    def _within(self, k: int) -> Layout:
        """The rows in `_stacked`."""
        row, stacked = self.turns.layouts[k], self._stacked(k)
        return Layout(row.dtype, (self.loop.length, *row.shape), (stacked.strides[0], *whole_of(row).strides))

    def _dense(self, buffer: Buffer, k: int) -> Buffer:
        row = self.turns.layouts[k]
        wanted = Layout.contiguous(row.dtype, (self.loop.length, *row.shape))
        if buffer.kind.layout == wanted:
            return buffer
        dense = fresh(self.executor, wanted)
        self.executor._copy_elements(View(buffer, self._within(k)), whole(dense))
        return dense


class Pace:
    """How many turns a call takes, so that Ctrl-C is heard between calls."""

    def __init__(self) -> None:
        self.turns = FEW

    def through(self, length: int, play: Any) -> None:
        """Plays all turns: `play` is given the first of a call, and how many."""
        turn = 0
        while turn < length:
            turn += self.timed(turn, length - turn, play)

    def timed(self, turn: int, most: int, play: Any) -> int:
        """Plays a call's turns and learns from how long they took; gives how many there were."""
        count = min(self.turns, most)
        begun = time.perf_counter()
        play(turn, count)
        taken = time.perf_counter() - begun
        if count == self.turns and taken < CALL_S:
            self.turns = min(MOST, 2 * count if taken < CALL_S / 2 else count)
        elif taken > 2 * CALL_S:
            self.turns = max(1, math.floor(count * CALL_S / taken))
        return count


def fresh(executor: Engine, layout: Layout) -> Buffer:
    """A buffer for what lies so, contents undefined."""
    return executor.new_buffer(executor.kind(layout.shape, layout.dtype))


def copied(executor: Engine, view: View) -> Buffer:
    """The elements of a view in a buffer of their own."""
    buffer = fresh(executor, view.layout)
    if view.size:
        executor._copy_elements(view, whole(buffer))
    return buffer


def placed(executor: Engine, view: View) -> View:
    """A view whose first element lies where a launch may be told that a buffer begins; a copy if need be."""
    layout = view.layout
    aligned = layout.offset * layout.dtype.itemsize % executor.limits.binding_alignment == 0
    return view if layout.is_contiguous and aligned else whole(copied(executor, view))


def place_of(view: View) -> int:
    """Where a view's first element lies."""
    return view.buffer.live_block().place + view.layout.offset * view.dtype.itemsize
