"""Programs of one's own under a tape, `ex.run` and `@hg.kernel`: what they store into has another value afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from hologram.atlas.builder import Builder
from hologram.atlas.derivatives.disjoint import meeting
from hologram.atlas.derivatives.replayed import NoDerivative
from hologram.atlas.derivatives.reverse import Adjoint, adjoint_of
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import GradientError
from hologram.frontend import tensor as tensors
from hologram.frontend.gradient.tracked import Variable
from hologram.frontend.jit.launched import Launched, slots_of, with_data
from hologram.frontend.tensor import Tensor
from hologram.opset.forms.gradient import Rule
from hologram.opset.movement import cast, concat
from hologram.runtime.dispatch import traced_by
from hologram.runtime.engine import Engine


def launch(tape: Any, engine: Engine, kernel: Any, buffers: Sequence[Any], scalars: Any, grid: Any) -> None:
    """Runs a program on new copies of what it stores into, and notes its adjoint.

    Raises:
        GradientError: the program is written by hand, or stores into what is not the function's own.
        NoDerivative: one of its instructions cannot be followed backwards; nothing has run then.
    """
    views = [b if isinstance(b, Tensor) else tensors.as_tensor(b) for b in buffers]
    numbers = [*scalars] if isinstance(scalars, (list, tuple)) else scalars
    followed = any(map(tape.follows, [*views, *(numbers if isinstance(numbers, list) else ())]))
    if kernel.stem or not isinstance(numbers, list):
        if followed:
            raise GradientError(f"{tape.who}: {kernel.name}, which is written by hand, has no derivative")
        return tape.below(Engine._launch, kernel.name, engine, kernel, tape.beneath(views), scalars, grid)
    seen, places, stored = slots_of(kernel, views)
    told = {s.name: x for s, x in zip(kernel.scalars, numbers, strict=True) if isinstance(x, Tensor)}
    if not (followed or told or any(s and tape.owns(v) for v, s in zip(seen, stored, strict=True))):
        return tape.below(Engine._launch, kernel.name, engine, kernel, tape.beneath(views), scalars, grid)
    for view in (v for v, s in zip(seen, stored, strict=True) if s):
        tape.writable(view)
    names = [b.name for b in kernel.buffers]
    first = {k: names[places.index(k)] for k in range(len(seen))}
    same = tuple((n, first[k]) for n, k in zip(names, places, strict=True) if n != first[k])
    wanted = {first[k] for k, v in enumerate(seen) if tape.follows(v)}
    wanted |= {n for n, x in told.items() if tape.follows(x)}
    count = prod(grid) if all(type(n) is int for n in grid) else 0
    adjoint = adjoint_of(kernel, frozenset(wanted), same, int(count == 1)) if followed else None
    if followed:
        refuse_meeting(kernel, grid, dict(zip((s.name for s in kernel.scalars), numbers, strict=True)), same)
    plain = [tape.beneath(v) for v in seen]
    data = {n: tape.beneath(x) for n, x in told.items()}
    plainly = {s.name: x for s, x in zip(kernel.scalars, numbers, strict=True) if s.name not in told}

    def run() -> list[Any]:
        after = [x.clone() if s else x for x, s in zip(plain, stored, strict=True)]
        run_program(engine, kernel, [after[k] for k in places], plainly, data, grid)
        return after

    with traced_by(tape.outer):
        after = run()
    made = [
        Variable(new.layout) if followed and new.dtype.is_inexact else None
        for new, is_stored in zip(after, stored, strict=True)
        if is_stored
    ]
    if adjoint is not None:
        values = {first[k]: x for k, x in enumerate(plain)}
        given = {**{first[k]: v for k, v in enumerate(seen)}, **told}
        sources = {n: (x.buffer.variable, x.layout) for n, x in given.items() if n in wanted}
        outputs = [first[k] for k, s in enumerate(stored) if s and plain[k].dtype.is_inexact]

        def back(cotangents: Sequence[Tensor]) -> list[Tensor | None]:
            arrived = dict(zip(outputs, cotangents, strict=True))
            results = _backwards(engine, adjoint, values, data, plainly, arrived, grid)
            return [results.get(n) for n in sources]

        tape.note(Rule(tuple(sources), ("cotangents",), back), sources, made)
    variables = iter(made)
    for view, new in ((v, n) for v, n, s in zip(seen, after, stored, strict=True) if s):
        tape.replace(engine, view, tape.tracked(new, next(variables)))


def refuse_meeting(
    kernel: Program, grid: Any, numbers: Mapping[str, Any], same: Sequence[tuple[str, str]]
) -> None:
    """Raises NoDerivative where two lanes may store into one element."""
    one = all(type(n) is int for n in grid) and prod(grid) == 1
    store = None if one else meeting(kernel, grid, numbers, dict(same))
    if store is not None:
        raise NoDerivative(
            f"two points may store into one element of {store.attribute}, so which one wins is not known; where none "
            "do, say so: @hg.kernel(disjoint=True)",
            store,
            kernel.name,
        )


def launched_again(
    tape: Any, engine: Engine, operation: Launched, operands: Sequence[Any], launch: Any = launch
) -> Any:
    """The results of a launch that a graph holds, of a loop's body, as tensors of the tape; `launch` is its way."""
    launch_of, held = operation.launch, []
    for slot, given in zip(launch_of.slots, operands, strict=True):
        shape, dtype = slot.layout.shape, slot.layout.dtype
        if not slot.stored:
            held.append(given)
        elif given is not None:
            held.append(tape.apply(engine, cast, [given], {"dtype": dtype.name}))
        elif slot.begins is not None:
            held.append(tape.full(engine, shape, slot.begins, dtype))
        else:
            held.append(tape.empty(engine, shape, dtype))
    bound = [held[k] for k in launch_of.buffers]
    launch(tape, engine, launch_of.program, bound, launch_of.numbers, launch_of.grid)
    results: tuple[Any, ...] = tuple(x for x, slot in zip(held, launch_of.slots, strict=True) if slot.stored)
    return results if len(results) != 1 else results[0]


def _backwards(
    engine: Engine,
    adjoint: Adjoint,
    values: Mapping[str, Tensor],
    data: Mapping[str, Tensor],
    numbers: Mapping[str, Any],
    cotangents: Mapping[str, Tensor],
    grid: Any,
) -> dict[str, Tensor]:
    """Runs an adjoint; the cotangents of buffers and scalars as they were before the program, by name."""
    results: dict[str, Tensor] = {n: c.clone() for n, c in cotangents.items()}
    buffers: list[Tensor] = []
    bits: dict[str, DType] = {}
    for (role, of), parameter in zip(adjoint.roles, adjoint.program.buffers, strict=True):
        if role == "gradient":
            like = values[of] if of in values else data[of]
            results[of] = tensors.full(engine, like.shape, 0, parameter.dtype)
            bits[of] = like.dtype
        buffers.append(values[of] if role == "value" else results[of])
    lengths = [s.name for s in adjoint.program.scalars if s.name not in adjoint.scalars]
    sized = {n: values[of].size for n, of in zip(lengths, adjoint.lengths, strict=True)}
    run_program(engine, adjoint.program, buffers, {**numbers, **sized}, data, grid)
    for of, dtype in bits.items():
        sums = results[of]
        if sums.dtype.is_float:
            results[of] = sums.astype(dtype) if sums.dtype is not dtype else sums
        else:
            results[of] = tensors.empty(engine, sums.shape, dtype)
            engine.launch(_from_bits(sums.dtype, dtype), [sums, results[of]], (), (max(sums.size, 1),))
    return results


@lru_cache(8)
def _from_bits(integer: DType, dtype: DType) -> Program:
    b = Builder(f"sums_of_{dtype.name}")
    x, out, i = b.buffer("x", integer, Access.READ), b.buffer("out", dtype, Access.WRITE), b.coordinate(0)
    b.store(out, i, b.load(x, i).bitcast(dtype))
    return b.build()


def stated(
    tape: Any, who: str, arguments: Sequence[Any], written: Sequence[int], run: Any, rule: Callable[..., Any]
) -> None:
    """Runs a kernel whose author states its gradient; `written` are the arguments that it stores into."""
    for k in written:
        tape.writable(arguments[k])
        if any(
            x is not arguments[k] and getattr(x, "buffer", None) is arguments[k].buffer for x in arguments
        ):
            raise GradientError(f"{who}: with a gradient of its own, what is written must be given once")
    plain = [x.item() if _is_number(x) else x for x in tape.beneath([*arguments])]
    with traced_by(tape.outer):
        after = [x.clone() if k in written else x for k, x in enumerate(plain)]
        run(*after)
    made = [Variable(after[k].layout) if after[k].dtype.is_inexact else None for k in written]
    sources = {str(k): (x.buffer.variable, x.layout) for k, x in enumerate(arguments) if tape.follows(x)}

    def back(cotangents: Sequence[Tensor]) -> list[Any]:
        pulled = rule(*plain, *cotangents)
        if not isinstance(pulled, (tuple, list)) or len(pulled) != len(arguments):
            got = len(pulled) if isinstance(pulled, (tuple, list)) else type(pulled).__name__
            raise GradientError(
                f"{who}: its gradient must give a cotangent, or None, for each of {len(arguments)} arguments, "
                f"got {got}"
            )
        for k, x in enumerate(pulled):
            if str(k) in sources and x is not None and getattr(x, "shape", None) != arguments[k].shape:
                raise GradientError(
                    f"{who}: its gradient for argument {k} must have shape {arguments[k].shape}, "
                    f"got {getattr(x, 'shape', type(x).__name__)}"
                )
        return [pulled[int(k)] for k in sources]

    tape.note(Rule(tuple(sources), ("cotangents",), back), sources, made)
    for k, variable in zip(written, made, strict=True):
        tape.replace(arguments[k].executor, arguments[k], tape.tracked(after[k], variable))


def _is_number(x: Any) -> bool:
    return isinstance(x, Tensor) and not x.shape


def run_program(
    engine: Engine,
    program: Program,
    buffers: Sequence[Any],
    numbers: Mapping[str, Any],
    data: Mapping[str, Tensor],
    grid: Any,
) -> None:
    """Launches a program, some of whose scalars are on the device."""
    kinds = dict.fromkeys(s.dtype for s in program.scalars if s.name in data)
    held = []
    at: dict[str, int] = {}
    for dtype in kinds:
        names = [s.name for s in program.scalars if s.name in data and s.dtype is dtype]
        at.update((n, k) for k, n in enumerate(names))
        parts = [data[n].reshape(1) for n in names]
        held.append(concat(parts, axis=0) if len(parts) > 1 else parts[0].contiguous())
    chosen = with_data(program, at, kinds) if at else program
    engine.launch(chosen, [*buffers, *held], [numbers[s.name] for s in chosen.scalars], grid)
