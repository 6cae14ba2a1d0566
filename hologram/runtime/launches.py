"""The launches of an executor: plans bound to buffers, kept by key until the memory they touch goes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from hologram.atlas.program import Program
from hologram.device import Binding, Device, Launch
from hologram.opset.plan import Plan, Step
from hologram.runtime.buffer import Buffer
from hologram.runtime.fitting import fitted
from hologram.runtime.observer import Observer, subject
from hologram.runtime.planner import spread_rows, storage_bytes
from hologram.runtime.pool import Block, Pool

MAX_LAUNCHES = 8192
MAX_BOUND = 8  # launches of one plan, bound to different scratch memory

Operand = Buffer | None  # None stands for a number, which the steps' scalars hold


class Launches:
    """`cached` is the hot path's dictionary: it is looked up without a lock, and never replaced by another.

    Observers are wound around launches when those are bound. `generation` grows when that changes: whoever keeps
    launches elsewhere than here binds them anew then.
    """

    def __init__(self, device: Device, pool: Pool) -> None:
        self.cached: dict[Any, Launch] = {}
        self._device = device
        self._pool = pool
        self._lock = threading.RLock()
        self._keys_of: dict[int, set[Any]] = {}  # block token -> keys of launches that touch it
        self._tokens_of: dict[Any, set[int]] = {}  # and the reverse
        self.generation = 0
        self._observers: tuple[Observer, ...] = ()
        pool.on_release.append(self._forget)

    def prepare(self, key: Any, plan: Plan, operands: Sequence[Operand]) -> Launch:
        """A launch of a plan on operands, cached under `key` unless that is None.

        Raises UnsupportedDType for a scalar that its dtype cannot hold.
        """
        plan = spread_rows(plan, self._device.limits)
        steps = tuple(_checked(step) for step in plan.steps)
        plan = Plan(steps, plan.scratch)
        launch = self._with_scratch(key, plan, operands) if plan.scratch else self._bind(plan, operands)
        if key is not None:
            with self._lock:
                if len(self.cached) >= MAX_LAUNCHES:
                    self.clear()
                blocks: list[Any] = [o.block for o in operands if o is not None]
                if None not in blocks:  # freed by another thread since
                    self.cached[key] = launch
                    self._touches(key, [block.token for block in blocks])
        return launch

    def watch(self, observer: Observer) -> None:
        """Shows an observer every launch from now on; those cached so far are bound anew."""
        self._observe((*self._observers, observer))

    def unwatch(self, observer: Observer) -> None:
        """Ends what `watch` began."""
        self._observe(tuple(o for o in self._observers if o is not observer))

    def _observe(self, observers: tuple[Observer, ...]) -> None:
        with self._lock:
            self._observers = observers
            self.generation += 1
            self.clear()

    def clear(self) -> None:
        with self._lock:
            self.cached.clear()
            self._keys_of.clear()
            self._tokens_of.clear()

    def _bind(self, plan: Plan, operands: Sequence[Operand | Block]) -> Launch:
        """Every step's kernel, bound."""
        launches = []
        for step in plan.steps:
            kernel = self._device.compile(step.kernel)
            bindings = [_binding(operands[k]) for k in step.operands]
            launch = kernel.bind(bindings, step.scalars, step.grid)
            if self._observers:
                what = subject(step, kernel, bindings)
                for observer in self._observers:
                    launch = observer.observed(what, launch)
            launches.append(launch)
        return launches[0] if len(launches) == 1 else _sequence(tuple(launches))

    def _with_scratch(self, key: Any, plan: Plan, operands: Sequence[Operand]) -> Launch:
        """Scratch memory is taken for each call and given back at once: later work in the queue may reuse it."""
        bound: dict[tuple[int, ...], Launch] = {}

        def launch() -> None:
            blocks: list[Block] = []
            try:
                for scratch in plan.scratch:
                    blocks.append(self._pool.take(storage_bytes(scratch.size * scratch.dtype.itemsize)))
                tokens = tuple(b.token for b in blocks)
                call = bound.get(tokens)
                if call is None:
                    if len(bound) >= MAX_BOUND:
                        bound.clear()
                    call = bound[tokens] = self._bind(plan, [*operands, *blocks])
                    self._touches(key, tokens)
                call()
            finally:
                for block in blocks:
                    self._pool.give(block)

        return launch

    def _touches(self, key: Any, tokens: Sequence[int]) -> None:
        """Notes that a cached launch touches blocks: it goes when one of them does."""
        with self._lock:
            if key in self.cached:
                self._tokens_of.setdefault(key, set()).update(tokens)
                for token in tokens:
                    self._keys_of.setdefault(token, set()).add(key)

    def _forget(self, block: Block) -> None:
        """Drops the launches that touch a block which goes back to the device."""
        with self._lock:
            for key in self._keys_of.pop(block.token, ()):
                self.cached.pop(key, None)
                for token in self._tokens_of.pop(key, ()):
                    others = self._keys_of.get(token)
                    if others is not None:
                        others.discard(key)
                        if not others:
                            del self._keys_of[token]


def _checked(step: Step) -> Step:
    """The step with numbers of its scalars' dtypes."""
    if not isinstance(step.kernel, Program):
        return step
    name = step.kernel.name
    scalars = tuple(
        fitted(x, s.dtype, f"{name}, scalar {s.name}")
        for s, x in zip(step.kernel.scalars, step.scalars, strict=True)
    )
    return Step(step.kernel, step.operands, scalars, step.grid)


def _binding(operand: Any) -> Binding:
    if isinstance(operand, Block):
        return Binding(operand.memory, operand.offset, operand.nbytes)
    block = operand.block
    # Adopted memory may end where its array does.
    return Binding(block.memory, block.offset, min(storage_bytes(operand.nbytes), block.nbytes))


def _sequence(launches: tuple[Launch, ...]) -> Launch:
    def run() -> None:
        for launch in launches:
            launch()

    return run
