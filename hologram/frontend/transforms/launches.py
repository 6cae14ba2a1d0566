"""Programs of one's own, `ex.run` and `@hg.kernel`, with tangents and for batches of examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from hologram.atlas.batched import batched, grid_of
from hologram.atlas.derivatives.tangent import tangent_of
from hologram.atlas.program import Program
from hologram.foundation.errors import GradientError, TraceError
from hologram.foundation.frozen import frozen
from hologram.frontend import tensor as tensors
from hologram.frontend.gradient.launches import refuse_meeting, run_program
from hologram.frontend.jit.launched import slots_of
from hologram.frontend.tensor import Tensor
from hologram.runtime.dispatch import traced_by
from hologram.runtime.engine import Engine


@frozen(eq=False)
class Call:
    """A launch as a tracer sees it: what the program sees, each once, and its scalars."""

    engine: Engine
    program: Program
    seen: Sequence[Any]
    places: Sequence[int]  # which of these each buffer is
    stored: Sequence[bool]
    numbers: Mapping[str, Any]  # Python's
    told: Mapping[str, Any]  # tensors
    grid: Any

    @property
    def first(self) -> dict[int, str]:
        """The name of each thing seen: its first buffer's."""
        return {k: self.program.buffers[self.places.index(k)].name for k in range(len(self.seen))}

    @property
    def same(self) -> tuple[tuple[str, str], ...]:
        """Buffers that are another one by another name."""
        names = [b.name for b in self.program.buffers]
        return tuple(
            (n, self.first[k]) for n, k in zip(names, self.places, strict=True) if n != self.first[k]
        )

    def run(self, program: Program, held: Sequence[Tensor], *more: Any, told: Mapping[str, Any]) -> None:
        """Runs a program on what is seen, as `held`, and on more buffers."""
        buffers = [*(held[k] for k in self.places), *more]
        run_program(self.engine, program, buffers, self.numbers, told, self.grid)


def launch(tracer: Any, engine: Engine, kernel: Any, buffers: Sequence[Any], scalars: Any, grid: Any) -> None:
    """What a program stores into has another value from now on.

    Raises:
        GradientError: it stores into what is not the function's own.
        NoDerivative: one of its instructions has no tangent.
        TraceError: it is written by hand.
    """
    views = [b if isinstance(b, Tensor) else tensors.as_tensor(b) for b in buffers]
    numbers = [*scalars] if isinstance(scalars, (list, tuple)) else None
    if kernel.stem or numbers is None:
        raise TraceError(f"{tracer.who}: {kernel.name}, which is written by hand, is launched inside")
    seen, places, stored = slots_of(kernel, views)
    for view, is_stored in zip(seen, stored, strict=True):
        if is_stored and not tracer.owns(view):
            raise GradientError(
                f"{tracer.who}: a tensor of shape {view.shape} that it closes over is written to; return the new value"
            )
    named = dict(zip((s.name for s in kernel.scalars), numbers, strict=True))
    told = {n: x for n, x in named.items() if isinstance(x, Tensor)}
    plain = {n: x for n, x in named.items() if n not in told}
    call = Call(engine, kernel, seen, places, stored, plain, told, grid)
    results = iter(tracer.launched(call))
    for view in (v for v, is_stored in zip(seen, stored, strict=True) if is_stored):
        new, cell = next(results), view.buffer
        if view.layout == cell.layout:
            cell.tensor, cell.beside = new.buffer.tensor, new.buffer.beside
        else:
            tracer.copy(engine, new, view)


def with_tangents(tracer: Any, call: Call) -> list[Any]:
    """What a program stores, with tangents."""
    slopes = [tracer.tangent(x) for x in call.seen]
    told_slopes = {n: tracer.tangent(x) for n, x in call.told.items()}
    primals = [tracer.primal(x) for x in call.seen]
    told = {n: tracer.primal(x) for n, x in call.told.items()}
    first = call.first
    wanted = {first[k] for k, s in enumerate(slopes) if s is not None}
    wanted |= {n for n, s in told_slopes.items() if s is not None}
    with traced_by(tracer.outer):
        after = [x.clone() if s else x for x, s in zip(primals, call.stored, strict=True)]
        if not wanted:
            call.run(call.program, after, told=told)
            return [tracer.constant(x) for x, s in zip(after, call.stored, strict=True) if s]
        refuse_meeting(call.program, call.grid, call.numbers, call.same)
        tangent = tangent_of(call.program, frozenset(wanted), call.same)
        numbers = {v: k for k, v in first.items()}
        beside: dict[int, Tensor] = {}
        for name in tangent.buffers:
            k = numbers[name]
            slope = slopes[k]
            if slope is None:
                slope = tensors.full(call.engine, after[k].shape, 0, after[k].dtype)
            beside[k] = slope.clone() if call.stored[k] else slope
        own = {s.name for s in call.program.scalars}
        more = [s.name for s in tangent.program.scalars if s.name not in own]
        of_numbers = {at: told_slopes[name] for at, name in zip(more, tangent.scalars, strict=True)}
        held = [beside[numbers[name]] for name in tangent.buffers]
        call.run(tangent.program, after, *held, told={**told, **of_numbers})
        return [
            tracer.with_tangent(x, beside.get(k))
            for k, (x, s) in enumerate(zip(after, call.stored, strict=True))
            if s
        ]


def for_all(tracer: Any, call: Call) -> list[Any]:
    """What a program stores, for all examples."""
    different = [tracer.batched(x) for x in call.seen]
    numbers = frozenset(n for n, x in call.told.items() if tracer.batched(x))
    told = {n: tracer.all(x) for n, x in call.told.items()}
    every = any(different) or bool(numbers)
    with traced_by(tracer.outer):
        if not every:
            after = [
                tracer.all(x).clone() if s else tracer.all(x)
                for x, s in zip(call.seen, call.stored, strict=True)
            ]
            call.run(call.program, after, told=told)
            return [tracer.constant(x) for x, s in zip(after, call.stored, strict=True) if s]
        held: list[Tensor] = []
        for x, other, stored in zip(call.seen, different, call.stored, strict=True):
            whole = tracer.repeated(x) if stored else tracer.all(x)
            held.append(whole.clone() if stored else whole.contiguous() if other else whole)
        names = [b.name for b in call.program.buffers]
        apart = frozenset(
            n for n, k in zip(names, call.places, strict=True) if different[k] or call.stored[k]
        )
        made = batched(call.program, apart, numbers)
        own = [s.name for s in call.program.scalars if s.name not in numbers]
        more = iter(s.name for s in made.program.scalars if s.name not in own)
        counted = {next(more): prod(call.grid)} if made.counts else {}
        sizes = dict(zip(names, (held[k].size // tracer.size for k in call.places), strict=True))
        counted |= {next(more): sizes[name] for name in made.lengths}
        run_program(
            call.engine,
            made.program,
            [*(held[k] for k in call.places), *(told[n].contiguous() for n in made.numbers)],
            {**call.numbers, **counted},
            {n: x for n, x in told.items() if n not in numbers},
            grid_of(call.program, call.grid, tracer.size),
        )
        return [tracer.examples(x) for x, s in zip(held, call.stored, strict=True) if s]
