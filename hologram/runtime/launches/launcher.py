"""The launches of an executor: plans prepared once, and told at each call where their operands lie."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from hologram.foundation import debug, lazy
from hologram.foundation.debug import Rung
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.foundation.tally import Tally
from hologram.machine.choices import Choices, untuned
from hologram.machine.device import Device
from hologram.machine.kernel import Area, Call, Draft, Launch, Prepared, Repetition
from hologram.machine.limits import Limits
from hologram.machine.plan import Given, Plan, Step
from hologram.runtime.launches.observer import Observer, subject
from hologram.runtime.launches.validation import fitted, operation_of
from hologram.runtime.memory.blocks import Block, storage_bytes
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.memory_pool import Pool

if TYPE_CHECKING:
    from hologram.compiler import pipeline
    from hologram.compiler.fusion import memory
    from hologram.compiler.lowering import codes, parts
    from hologram.compiler.scheduling import ways
    from hologram.runtime.launches import printer
else:  # needed to compute, not to open
    pipeline = lazy.module("hologram.compiler.pipeline")
    memory = lazy.module("hologram.compiler.fusion.memory")
    codes = lazy.module("hologram.compiler.lowering.codes")
    parts = lazy.module("hologram.compiler.lowering.parts")
    ways = lazy.module("hologram.compiler.scheduling.ways")
    printer = lazy.module("hologram.runtime.launches.printer")

Sizes = Sequence[int | None]  # bytes of each operand; None for a number


@frozen(slots=True)
class Placed:
    """A step of a plan, and where among the arguments of a launch its operands lie."""

    step: Step
    areas: tuple[Area, ...]


class Scratch:
    """The scratch memory of a launch: a few arenas, taken for each call and given back at once.

    Later work in the queue may reuse them, for it runs later; work of other threads cannot come in between.
    """

    __slots__ = ("_pool", "_waiting")

    def __init__(self, pool: Pool, sizes: Sequence[int]) -> None:
        self._pool = pool
        self._waiting = [(pool.free_list(nbytes), nbytes) for nbytes in sizes]

    def take(self) -> list[Block]:
        """A block for each arena; raises OutOfMemory."""
        pool = self._pool
        blocks: list[Block] = []
        try:
            for free_list, nbytes in self._waiting:
                try:
                    blocks.append(pool.issue(free_list.pop()))
                except IndexError:  # none of that size waits
                    blocks.append(pool.take(nbytes))
        except BaseException:
            self.put_back(blocks)
            raise
        return blocks

    def put_back(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self._pool.recycle(block)

    def around(self, launch: Prepared) -> Prepared:
        """A launch of operands alone."""

        def call(arguments: list[Any]) -> None:
            blocks = self.take()
            try:
                launch([*arguments, *[block.place for block in blocks]])
            finally:
                self.put_back(blocks)

        return call


class Structure:
    """What runs for operands of one structure: their layouts, kinds of numbers, and which of them share memory.

    `steps` are made when they are first asked for, where they are given as what makes them.

    `launch` runs it, on a list with the place of each operand (Block.place, and bytes from there on) or its number; the
    arenas of scratch memory are arguments behind these. It is prepared at the first call, with that call's arguments as
    an example, and anew when somebody begins to watch.
    """

    __slots__ = (
        "__weakref__",
        "_steps",
        "arenas",
        "finish",
        "held",
        "kinds",
        "launch",
        "launches",
        "sizes",
        "values",
    )

    def __init__(
        self,
        launches: Launches,
        steps: Sequence[Placed] | Callable[[], Sequence[Placed]],
        sizes: Sizes,
        arenas: Sequence[int] = (),
        kinds: Sequence[Any] = (),
        values: tuple[int, ...] = (),
        finish: Callable[[], Prepared] | None = None,
        held: Sequence[Any] = (),
    ) -> None:
        self.launches = launches
        self.held = held  # whose memory is among the arguments, each time
        self.finish = finish  # makes the launch of a draft, where there is one
        self._steps = steps if callable(steps) else tuple(steps)
        self.sizes = tuple(sizes)
        self.arenas = tuple(arenas)  # bytes of each
        self.kinds = tuple(kinds)  # of the results
        self.values = values  # operands that are numbers it was planned for
        self.launch: Prepared = self._first
        with launches.lock:
            launches.structures.add(self)

    @property
    def steps(self) -> tuple[Placed, ...]:
        """The steps in order."""
        if callable(self._steps):
            self._steps = tuple(self._steps())
        return self._steps

    def _first(self, arguments: list[Any]) -> None:
        launches = self.launches
        generation = launches.generation
        launch = launches.prepared(self, arguments)
        with launches.lock:
            if generation == launches.generation:  # nobody began to watch since
                self.launch = launch
        launch(arguments)

    def forget(self) -> None:
        """Has the next call prepare the launch anew."""
        self.launch = self._first


class Launches:
    """How every plan is prepared, and who watches.

    Observers are wound around launches when those are prepared; `generation` grows when there are others.
    """

    def __init__(self, device: Device, pool: Pool, choices: Choices = untuned) -> None:
        self.device = device
        self.choices = choices
        self.pool = pool
        self.lock = threading.RLock()
        self.structures: weakref.WeakSet[Structure] = weakref.WeakSet()
        self.generation = 0
        self.made = Tally("planned", "prepared", "traced")  # once, for calls that find it
        self._observers: tuple[Observer, ...] = ()
        pool.on_release.append(lambda block: device.forget(block.place, block.nbytes))
        if debug.shows(Rung.LAUNCH):
            self.watch(printer.Printer(device))

    @cached_property  # not the executor's: Python reads what has a dictionary of its own more slowly
    def told(self) -> frozenset[DType]:
        """Dtypes of the numbers that launches are told at each call: another one prepares nothing."""
        return self.device.told

    def ready(self, plan: Plan, operands: int) -> Plan:
        """The plan as this device runs it: rows spread and shared as measured, scalars checked, programs canonical.

        `operands` counts inputs and outputs.

        Raises UnsupportedDType for a scalar that its dtype cannot hold.
        """
        return ways.measured(settled(plan, operands, self.device.limits), self.device.limits, self.choices)

    def structure(
        self, plan: Plan, sizes: Sizes, kinds: Sequence[Any] = (), values: tuple[int, ...] = ()
    ) -> Structure:
        """A plan for operands of these sizes, as this device runs it; see Structure."""
        plan = self.ready(plan, len(sizes))
        areas = [Area(k, 0, nbytes or 0) for k, nbytes in enumerate(sizes)]
        arenas: Sequence[int] = ()
        if plan.scratch:
            arranged = memory.arrange(plan, len(sizes), self.device.limits)
            arenas = arranged.sizes
            areas += [
                Area(len(sizes) + place.arena, place.offset, storage_bytes(s.size * s.dtype.itemsize))
                for s, place in zip(plan.scratch, arranged.places, strict=True)
            ]
        steps = [Placed(step, tuple([areas[k] for k in step.operands])) for step in plan.steps]
        return Structure(self, steps, sizes, arenas, kinds, values)

    def prepared(self, structure: Structure, arguments: list[Any]) -> Prepared:
        """A launch of a structure, for arguments like these."""
        scratch = Scratch(self.pool, structure.arenas) if structure.arenas else None
        if structure.finish is not None and not self._observers:
            launch = structure.finish()
            return launch if scratch is None else scratch.around(launch)
        if scratch is None:
            return self.pool.with_room(self._prepared, structure, arguments)  # code takes memory too
        blocks = scratch.take()
        try:
            example = [*arguments, *[block.place for block in blocks]]
            return scratch.around(self.pool.with_room(self._prepared, structure, example))
        finally:
            scratch.put_back(blocks)

    def draft(self, structure: Structure, example: list[Any]) -> Draft | None:
        """A structure's launch as a draft, where the device makes such, for arguments like these and arenas' places.

        Numbers that it is told are 0 in it.
        """
        calls = []
        for call in self._calls(structure):
            scalars = [Given.of(0.0, x.argument) if type(x) is Given else x for x in call.scalars]
            calls.append(replace(call, scalars=tuple(scalars)))
        return self.device.draft(calls, example)

    def repeated(self, structure: Structure, example: list[Any], again: Repetition) -> Prepared | None:
        """A structure's launch that repeats itself; None where the device has no such, or somebody watches."""
        if self._observers:
            return None
        scratch = Scratch(self.pool, structure.arenas) if structure.arenas else None
        blocks = [] if scratch is None else scratch.take()
        try:
            everything = [*example, *[block.place for block in blocks]]
            launch = self.device.repeat(self._calls(structure), everything, again)
        finally:
            if scratch is not None:
                scratch.put_back(blocks)
        return launch if scratch is None or launch is None else scratch.around(launch)

    def _calls(self, structure: Structure) -> list[Call]:
        compiled = self.device.compile
        return [Call(compiled(p.step.kernel), p.areas, p.step.scalars, p.step.grid) for p in structure.steps]

    def _prepared(self, structure: Structure, example: list[Any]) -> Prepared:
        device = self.device
        self.made.add("prepared")
        if not self._observers:
            return device.prepare(self._calls(structure), example, self.pool)
        watched = []
        for placed, call in zip(structure.steps, self._calls(structure), strict=True):
            what = subject(placed.step, call.kernel, call.spans(example))
            watched.append((what, device.prepare([call], example, self.pool)))
        return partial(_watched, self._observers, watched)

    def call(self, plan: Plan, buffers: Sequence[Buffer]) -> Launch:
        """A call without arguments that runs a plan on the same buffers each time; raises BufferFreed."""
        structure = self.structure(plan, [storage_bytes(b.nbytes) for b in buffers])
        return lambda: structure.launch([b.live_block().place for b in buffers])

    def watch(self, observer: Observer) -> None:
        """Shows an observer every launch from now on, inside of those that watch already; all are prepared anew."""
        with self.lock:
            self._observe((observer, *self._observers))

    def unwatch(self, observer: Observer) -> None:
        """Ends what `watch` began."""
        with self.lock:
            self._observe(tuple(o for o in self._observers if o is not observer))

    def _observe(self, observers: tuple[Observer, ...]) -> None:
        with self.lock:
            self._observers = observers
            self.generation += 1
            self.clear()

    def clear(self) -> None:
        """Has every launch prepared anew."""
        with self.lock:
            for structure in tuple(self.structures):
                structure.forget()


def handed_on(plan: Plan, told: Collection[DType]) -> set[int]:
    """The arguments that are numbers which kernels are told, as scalars of those dtypes."""
    arguments: dict[int, bool] = {}
    for step in plan.steps:
        takes = () if step.kernel.stem else told
        for s, x in zip(step.kernel.scalars, step.scalars, strict=True):
            if type(x) is Given:
                arguments[x.argument] = arguments.get(x.argument, True) and s.dtype in takes
    return {argument for argument, yes in arguments.items() if yes}


def _watched(
    observers: Sequence[Observer], launches: Sequence[tuple[Any, Prepared]], arguments: list[Any]
) -> None:
    for what, launch in launches:
        call: Any = partial(launch, arguments)
        for observer in observers:
            call = observer.observed(what, call)
        call()


def settled(plan: Plan, operands: int, limits: Limits) -> Plan:
    """A plan as devices of these limits run it; `operands` counts inputs and outputs."""
    plan = Plan(tuple(map(_checked, plan.steps)), plan.scratch)
    plan = pipeline.planned(plan, operands, limits)
    return Plan(tuple(map(_formed, plan.steps)), plan.scratch)


def _checked(step: Step) -> Step:
    """The step with numbers of its scalars' dtypes, and a program that is real."""
    if step.kernel.stem:
        return step
    name = operation_of(step.kernel.name)
    numbers: list[Any] = []
    for s, x in zip(step.kernel.scalars, step.scalars, strict=True):
        if type(x) is Given:
            numbers.append(x)
        else:
            held = codes.scalar(fitted(x, s.dtype, f"{name}, {s.name}"), s.dtype)
            numbers += parts.scalars(held, s.dtype)
    return Step(pipeline.held(step.program), step.operands, tuple(numbers), step.grid)


def _formed(step: Step) -> Step:
    """The step with its program in canonical form."""
    if step.kernel.stem:
        return step
    return Step(pipeline.canonical(step.program), step.operands, step.scalars, step.grid)
