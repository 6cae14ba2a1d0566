"""Graphs with loops and choices, run: replays of what lies between, and Python that goes from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hologram.compiler.fusion.assemble import assemble
from hologram.compiler.fusion.control import staged, stepping
from hologram.compiler.fusion.graph import Choice, Control, Graph, Loop
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.runtime.engine import Engine
from hologram.runtime.launches.looping import Pace, Scan, Turns, copied, fresh, place_of, placed
from hologram.runtime.launches.recording import Recording, spoil
from hologram.runtime.launches.replay import Replay
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import View, whole

recordings = Recording.open
# Turns of a loop with a condition between two looks at it, at most, where a look waits for the device: a quarter of
# those that were needed so far.
LEAST, MOST = 16, 1024


class Runner(Protocol):
    """What makes results of operands."""

    def __call__(self, inputs: Sequence[View]) -> Sequence[Buffer]: ...

    @property
    def dispatches(self) -> int:
        """Kernels that it knows of; those of a loop count once."""
        ...


def runner(executor: Engine, what: Loop | Choice, fast_math: bool = False) -> Runner:
    """What runs a loop or a choice."""
    if isinstance(what, Choice):
        return Chosen(executor, what, fast_math)
    if what.condition is not None:
        nested = what.body.controls or what.condition.controls
        return (HostedWhile if nested else While)(executor, what, fast_math)
    return (HostedScan if what.body.controls else Scan)(executor, what, fast_math)


class Part:
    """A graph without controls."""

    def __init__(self, executor: Engine, graph: Graph, fast_math: bool) -> None:
        plan = assemble(graph, executor.target, fast_math).plan
        outputs = [graph.layouts[v] for v in graph.outputs]
        self.dispatches = len(plan.steps)
        self._replay = Replay(executor, plan, list(graph.inputs.values()), outputs)

    def __call__(self, inputs: Sequence[View]) -> Sequence[Buffer]:
        return self._replay(inputs)


@frozen
class _Stage:
    """A runner, the values it reads, in which shapes, and makes, and those that nobody reads after it."""

    run: Runner
    reads: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    results: tuple[int, ...]
    done: tuple[int, ...]


class Stages:
    """A graph, part after part. Any thread may call it."""

    def __init__(self, executor: Engine, graph: Graph, fast_math: bool = False) -> None:
        self._inputs = tuple(graph.inputs)
        self._outputs = graph.outputs
        self._stages: list[_Stage] = []
        used = set(graph.outputs)
        for part in reversed(staged(graph)):
            if isinstance(part, Control):
                run: Runner = runner(executor, part.what, fast_math)
                reads, results = tuple(r.value for r in part.operands), part.results
                shapes = tuple(r.layout.shape for r in part.operands)
            else:
                run, reads, results = Part(executor, part, fast_math), tuple(part.inputs), part.outputs
                shapes = tuple(x.shape for x in part.inputs.values())
            done = tuple({*reads, *results} - used)
            used.update(reads)
            self._stages.append(_Stage(run, reads, shapes, results, done))
        self._stages.reverse()

    @property
    def dispatches(self) -> int:
        return sum(stage.run.dispatches for stage in self._stages)

    def __call__(self, inputs: Sequence[View]) -> Sequence[Buffer]:
        """The outputs for inputs of the layouts that the graph was made for."""
        known = dict(zip(self._inputs, inputs, strict=True))
        for stage in self._stages:
            made = stage.run([_shaped(known[v], x) for v, x in zip(stage.reads, stage.shapes, strict=True)])
            known.update(zip(stage.results, map(whole, made), strict=True))
            for value in stage.done:
                del known[value]
        return [known[v].buffer for v in self._outputs]

    def over(self, buffers: Sequence[Buffer]) -> bool:
        """Nothing is written over inputs here; see Replay.over."""
        return False


class HostedScan:
    """A loop of a known number of turns whose body has loops or choices: Python goes through the turns."""

    def __init__(self, executor: Engine, loop: Loop, fast_math: bool) -> None:
        self.executor = executor
        self.loop = loop
        self._body = Stages(executor, loop.body, fast_math)

    @property
    def dispatches(self) -> int:
        return self._body.dispatches

    def __call__(self, inputs: Sequence[View]) -> list[Buffer]:
        executor, loop = self.executor, self.loop
        ends = (loop.constants, loop.constants + loop.carried)
        constants, state, rows = inputs[: ends[0]], list(inputs[slice(*ends)]), inputs[ends[1] :]
        made = [fresh(executor, layout) for layout in loop.infer()[loop.carried :]]
        for turn in reversed(range(loop.length)) if loop.reverse else range(loop.length):
            given = [whole(copied(executor, _row(view, turn))) for view in rows]
            results = self._body([*constants, *state, *given])
            state = [whole(b) for b in results[: loop.carried]]
            for target, b in zip(made, results[loop.carried :], strict=True):
                if b.size:
                    executor._copy_elements(whole(b), _row(whole(target), turn))
        # What nothing changed is still the operand's own memory.
        kept = [v.buffer if loop.length else copied(executor, v) for v in state]
        return [*kept, *made]


def _shaped(view: View, shape: tuple[int, ...]) -> View:
    """What lies contiguous, in another shape."""
    if view.shape == shape:
        return view
    layout = view.layout.reshape(shape)
    assert layout is not None
    return View(view.buffer, layout)


def _row(view: View, turn: int) -> View:
    return View(view.buffer, view.layout.select(0, turn))


class _Condition:
    """Whether a loop goes on, asked of the device."""

    def __init__(self, executor: Engine, loop: Loop, fast_math: bool) -> None:
        assert loop.condition is not None
        self._stages = Stages(executor, loop.condition, fast_math)
        self.dispatches = self._stages.dispatches

    def flag(self, inputs: Sequence[View]) -> Buffer:
        (flag,) = self._stages(inputs)
        return flag


class HostedWhile:
    """A loop with a condition, whose body or condition has loops or choices."""

    def __init__(self, executor: Engine, loop: Loop, fast_math: bool) -> None:
        self.loop = loop
        self.executor = executor
        self._condition = _Condition(executor, loop, fast_math)
        self._body = Stages(executor, loop.body, fast_math)

    @property
    def dispatches(self) -> int:
        return self._body.dispatches + self._condition.dispatches

    def __call__(self, inputs: Sequence[View]) -> list[Buffer]:
        count = self.loop.constants
        constants, state = inputs[:count], inputs[count:]
        while read(self._condition.flag([*constants, *state])):
            state = [whole(b) for b in self._body([*constants, *state])]
        begun = inputs[count:]
        return [
            copied(self.executor, v) if v is first else v.buffer
            for v, first in zip(state, begun, strict=True)
        ]


class While:
    """A loop with a condition, whose turns the device plays: until it fails, or some at a time between two looks."""

    def __init__(self, executor: Engine, loop: Loop, fast_math: bool) -> None:
        self.executor = executor
        self.loop = loop
        self._condition = _Condition(executor, loop, fast_math)
        self._guarded = not executor.limits.host_resident
        self._turns = Turns(executor, stepping(loop, self._guarded), fast_math)
        self._pace = Pace()

    @property
    def dispatches(self) -> int:
        return len(self._turns.assembly.plan.steps) + self._condition.dispatches

    def __call__(self, inputs: Sequence[View]) -> list[Buffer]:
        executor, loop, turns = self.executor, self.loop, self._turns
        held = [placed(executor, view) for view in inputs[: loop.constants]]
        flag = self._condition.flag(inputs)
        state = [flag, *(copied(executor, view) for view in inputs[loop.constants :])]
        seconds = [
            b if over else fresh(executor, b.kind.layout)
            for b, over in zip(state, turns.in_place, strict=True)
        ]
        places = [b.live_block().place for b in (*state, *seconds)]
        arguments = [*map(place_of, held), *places]
        turn, holds = 0, read(flag)

        def play(_: int, count: int) -> None:
            nonlocal holds
            # Where a look waits for the device it comes after all turns: turns too many change nothing.
            turns.run(arguments, 0, count, lambda: self._guarded or read(flag))
            holds = read(flag)

        while holds:
            most = min(MOST, max(LEAST, turn // 4)) if self._guarded else 1 << 62
            turn += self._pace.timed(turn, most, play)
        return state[1:]


class Chosen:
    """One of several graphs, by a number that is read back."""

    def __init__(self, executor: Engine, choice: Choice, fast_math: bool) -> None:
        self._executor = executor
        self._branches = [Stages(executor, graph, fast_math) for graph in choice.branches]

    @property
    def dispatches(self) -> int:
        return max(branch.dispatches for branch in self._branches)

    def __call__(self, inputs: Sequence[View]) -> Sequence[Buffer]:
        number = int(read(inputs[0].buffer, inputs[0].layout))
        chosen = self._branches[min(max(number, 0), len(self._branches) - 1)]
        return chosen(inputs[1:])


def read(buffer: Buffer, layout: Layout | None = None) -> Any:
    """The one element of a buffer, or that which a layout names; what is recorded cannot go on from there."""
    if recordings:
        spoil()
    view = buffer._view
    place = 0 if layout is None else layout.offset
    if view is not None:
        return view.reshape(-1)[place]
    return buffer.to_numpy().reshape(-1)[place]
