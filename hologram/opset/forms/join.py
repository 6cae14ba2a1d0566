"""Operands that are copied behind one another along an axis, several by one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.merging import collapse
from hologram.machine.plan import Step
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.map import copy_plan

JOINED = 8  # operands that one kernel copies
# Elements of a result up to which launches cost more than telling for each element whose it is; FEW where launches are
# cheap: two halves of 112 take 3.4 us in one launch and 2.8 in two there, and 49 and 91 us on WebGPU in software.
FEW, SMALL = 1 << 9, 1 << 14


def most_together(size: int, limits: Limits) -> int:
    """How many operands one kernel copies to a result of so many elements."""
    return min(JOINED, limits.max_bindings - 1) if size <= (FEW if limits.cheap_launches else SMALL) else 1


def join_step(parts: Sequence[tuple[int, Layout, Layout]], out: int, axis: int) -> Step:
    """Copies operands to parts of the output that follow one another along an axis."""
    if len(parts) == 1:
        operand, layout, part = parts[0]
        (step,) = copy_plan(layout, part).steps
        return replace(step, operands=(operand, out))
    first = parts[0][2]
    length = sum(part.shape[axis] for _, _, part in parts)
    whole = replace(first, shape=(*first.shape[:axis], length, *first.shape[axis + 1 :]))
    layouts, place = _plain([*(layout for _, layout, _ in parts), whole], axis)
    names = (*(f"x{k}" for k in range(len(parts))), "out")
    program = join_program(tuple(map(Address.of, layouts)), place)
    return step_of(
        program, (*(k for k, _, _ in parts), out), numbers_of(names, layouts, {}), layouts[-1].shape
    )


def _plain(layouts: Sequence[Layout], axis: int) -> tuple[list[Layout], int]:
    """The same arrays with as few axes around one as describe them all, and where that one is then."""
    before = collapse([Layout(v.dtype, v.shape[:axis], v.strides[:axis], v.offset) for v in layouts])
    behind = collapse([Layout(v.dtype, v.shape[axis + 1 :], v.strides[axis + 1 :]) for v in layouts])
    return [
        replace(
            a, shape=(*a.shape, v.shape[axis], *b.shape), strides=(*a.strides, v.strides[axis], *b.strides)
        )
        for a, v, b in zip(before, layouts, behind, strict=True)
    ], before[0].ndim


@lru_cache(maxsize=1024)
def join_program(addresses: tuple[Address, ...], axis: int) -> Program:
    """Copies all but the last to the last, behind one another along an axis."""
    *sources, target = addresses
    rank = len(target.steps)
    builder = Builder(f"atlas_join_{target.dtype}", rank=rank)
    at = [builder.coordinate(k) for k in range(rank)]
    operands = [
        Operand(builder, f"x{k}", source, Access.READ, source.dtype) for k, source in enumerate(sources)
    ]
    out = Operand(builder, "out", target, Access.WRITE, target.dtype)

    def chosen(number: int, place: Value) -> tuple[Value, ...]:
        """The element of the operand in whose part a place lies, of those from a number on."""

        def own() -> tuple[Value, ...]:
            return (operands[number].at(*at[:axis], place, *at[axis + 1 :]).to(target.dtype),)

        if number == len(operands) - 1:
            return own()
        length = builder.scalar(f"x{number}_extent_{axis}", dtypes.index)
        return builder.if_(place < length, own, lambda: chosen(number + 1, place - length))

    out.put(chosen(0, at[axis])[0], *at)
    return builder.build()
