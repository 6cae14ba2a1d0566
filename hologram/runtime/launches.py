"""The launches of an executor: plans bound to buffers, kept by key until the memory they touch goes."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hologram import debug, lazy
from hologram.atlas.program import Program
from hologram.choices import Choices, untuned
from hologram.debug import Rung
from hologram.device import Binding, Device, Kernel, Launch, in_turn
from hologram.plan import Plan, Step
from hologram.records import frozen
from hologram.runtime.buffer import Buffer
from hologram.runtime.memory_pool import Block, Pool, storage_bytes
from hologram.runtime.observer import Observer, subject
from hologram.runtime.validation import fitted

if TYPE_CHECKING:
    from hologram.compiler.canonical import form
    from hologram.compiler.fusion import memory
    from hologram.compiler.scheduling import split, ways
    from hologram.runtime import printer
else:  # needed to compute, not to open
    form = lazy.module("hologram.compiler.canonical.form")
    memory = lazy.module("hologram.compiler.fusion.memory")
    split = lazy.module("hologram.compiler.scheduling.split")
    ways = lazy.module("hologram.compiler.scheduling.ways")
    printer = lazy.module("hologram.runtime.printer")

MAX_LAUNCHES = 8192
MAX_BOUND = 8  # launches of one plan, bound to different scratch memory


@frozen
class Part:
    """Bytes of a buffer, from `first` on."""

    buffer: Buffer
    first: int
    nbytes: int


Operand = Buffer | Part | None  # None stands for a number, which the steps' scalars hold


class Records:
    """Launches by key. `cached` is looked up without a lock, and never replaced by another dictionary."""

    def __init__(self) -> None:
        self.cached: dict[Any, Launch] = {}
        self.lock = threading.RLock()
        self._keys_of: dict[int, set[Any]] = {}  # block token -> keys of launches that touch it
        self._tokens_of: dict[Any, set[int]] = {}  # and the reverse

    def keep(self, key: Any, launch: Launch, tokens: Sequence[int], most: int) -> None:
        """Caches a launch that touches blocks, instead of the oldest where `most` are held."""
        with self.lock:
            while len(self.cached) >= most:
                self._drop(next(iter(self.cached)))
            self.cached[key] = launch
            self.touches(key, tokens)

    def touches(self, key: Any, tokens: Sequence[int]) -> None:
        """Notes that a cached launch touches blocks: it goes when one of them does."""
        with self.lock:
            if key in self.cached:
                self._tokens_of.setdefault(key, set()).update(tokens)
                for token in tokens:
                    self._keys_of.setdefault(token, set()).add(key)

    def forget(self, token: int) -> None:
        """Drops the launches that touch a block."""
        if token in self._keys_of:
            with self.lock:
                for key in tuple(self._keys_of.get(token, ())):
                    self._drop(key)

    def clear(self) -> None:
        with self.lock:
            self.cached.clear()
            self._keys_of.clear()
            self._tokens_of.clear()

    def _drop(self, key: Any) -> None:
        self.cached.pop(key, None)
        for token in self._tokens_of.pop(key, ()):
            others = self._keys_of[token]
            others.discard(key)
            if not others:
                del self._keys_of[token]


class Workspace:
    """The scratch memory of a plan: a few arenas, taken for each call and given back at once.

    Later work in the queue may reuse them, for it runs later; work of other threads cannot come in between.
    """

    def __init__(self, plan: Plan, first: int, device: Device, pool: Pool) -> None:
        self._pool = pool
        self._scratch = plan.scratch
        self.arenas = memory.arrange(plan, first, device.limits)
        self._sizes = self.arenas.sizes

    def take(self) -> list[Block]:
        """A block for each arena; raises OutOfMemory."""
        blocks: list[Block] = []
        try:
            for nbytes in self._sizes:
                blocks.append(self._pool.take(nbytes))
        except BaseException:
            self.put_back(blocks)
            raise
        return blocks

    def put_back(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self._pool.recycle(block)

    def bindings(self, blocks: Sequence[Block]) -> list[Binding]:
        """Of each scratch area; of none where no step uses any."""
        if not blocks:
            return []
        return [
            Binding(block.memory, block.offset + place.offset, storage_bytes(s.size * s.dtype.itemsize))
            for s, place in zip(self._scratch, self.arenas.places, strict=True)
            for block in (blocks[place.arena],)
        ]


class Launches(Records):
    """Those of single operations; and how every plan is bound.

    Observers are wound around launches when those are bound. `generation` grows when that changes: launches bound
    before are not kept, nor those of `others`.
    """

    def __init__(self, device: Device, pool: Pool, choices: Choices = untuned) -> None:
        super().__init__()
        self.device = device
        self.choices = choices
        self.pool = pool
        self.others: weakref.WeakSet[Records] = weakref.WeakSet()
        self.generation = 0
        self._observers: tuple[Observer, ...] = ()
        pool.on_release.append(self._released)
        if debug.shows(Rung.LAUNCH):
            self.watch(printer.Printer(device))

    def prepare(self, key: Any, plan: Plan, operands: Sequence[Operand]) -> Launch:
        """A launch of a plan on operands, cached under `key` unless that is None.

        Raises UnsupportedDType for a scalar that its dtype cannot hold.
        """
        generation = self.generation
        plan = self.ready(plan, len(operands))
        parts = [Part(o, 0, o.nbytes) if isinstance(o, Buffer) else o for o in operands]
        bindings = [p and binding(p.buffer.live_block(), p.nbytes, p.first) for p in parts]
        launch = self._with_scratch(key, plan, bindings) if plan.scratch else self.bind(plan, bindings)
        blocks: list[Any] = [p.buffer.block for p in parts if p is not None]
        # Another thread may have freed an operand since, or begun to watch.
        if key is not None and None not in blocks and generation == self.generation:
            self.keep(key, launch, [block.token for block in blocks], MAX_LAUNCHES)
        return launch

    def ready(self, plan: Plan, operands: int) -> Plan:
        """The plan as this device runs it: rows spread and shared as measured, scalars checked, programs canonical.

        `operands` counts inputs and outputs.

        Raises UnsupportedDType for a scalar that its dtype cannot hold.
        """
        plan = split.spread_rows(plan, operands, self.device.limits)
        plan = Plan(tuple(map(_checked, plan.steps)), plan.scratch)
        return ways.measured(plan, self.device.limits, self.choices)

    def bind(self, plan: Plan, bindings: Sequence[Binding | None]) -> Launch:
        """Every step's kernel, bound, and shown to the observers."""
        launches = []
        for step in plan.steps:
            bound: list[Any] = [bindings[k] for k in step.operands]
            kernel, launch = self.pool.with_room(self._bound, step, bound)  # code takes memory as well
            if self._observers:
                what = subject(step, kernel, bound)
                for observer in self._observers:
                    launch = observer.observed(what, launch)
            launches.append(launch)
        if len(launches) == 1 or self._observers:
            return in_turn(launches)
        return self.device.sequence(launches)

    def _bound(self, step: Step, bindings: Sequence[Binding]) -> tuple[Kernel, Launch]:
        kernel = self.device.compile(step.kernel)
        return kernel, kernel.bind(bindings, step.scalars, step.grid)

    def watch(self, observer: Observer) -> None:
        """Shows an observer every launch from now on, inside of those that watch already; all are bound anew."""
        self._observe((observer, *self._observers))

    def unwatch(self, observer: Observer) -> None:
        """Ends what `watch` began."""
        self._observe(tuple(o for o in self._observers if o is not observer))

    def _observe(self, observers: tuple[Observer, ...]) -> None:
        with self.lock:
            self._observers = observers
            self.generation += 1
            self.clear()

    def clear(self) -> None:
        super().clear()
        for records in tuple(self.others):
            records.clear()

    def _with_scratch(self, key: Any, plan: Plan, bindings: Sequence[Binding | None]) -> Launch:
        workspace = Workspace(plan, len(bindings), self.device, self.pool)
        bound: dict[tuple[int, ...], Launch] = {}

        def launch() -> None:
            blocks = workspace.take()
            try:
                tokens = tuple([b.token for b in blocks])
                call = bound.get(tokens)
                if call is None:
                    if len(bound) >= MAX_BOUND:
                        bound.clear()
                    call = bound[tokens] = self.bind(plan, [*bindings, *workspace.bindings(blocks)])
                    self.touches(key, tokens)
                call()
            finally:
                workspace.put_back(blocks)

        return launch

    def _released(self, block: Block) -> None:
        self.forget(block.token)
        for records in tuple(self.others):
            records.forget(block.token)


def _checked(step: Step) -> Step:
    """The step with numbers of its scalars' dtypes, and its program in canonical form."""
    if not isinstance(step.kernel, Program):
        return step
    name = step.kernel.name
    scalars = tuple(
        fitted(x, s.dtype, f"{name}, scalar {s.name}")
        for s, x in zip(step.kernel.scalars, step.scalars, strict=True)
    )
    return Step(form.canonical(step.kernel), step.operands, scalars, step.grid)


def binding(block: Block, nbytes: int, first: int = 0) -> Binding:
    """The bytes of an array in a block."""
    # Adopted memory may end where its array does.
    return Binding(block.memory, block.offset + first, min(storage_bytes(nbytes), block.nbytes - first))
