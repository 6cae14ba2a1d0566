"""Plans of products with packed weights: read as they lie for few rows, and slab by slab as floats for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import reduce_add, select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, BufferParameter, Instruction, Program
from hologram.atlas.rewrite import Parameters, rewrite
from hologram.foundation.dtypes import DType, f32, i64, index
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import fixed_range
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset.forms.address import Address
from hologram.opset.forms.epilogue import add_epilogue, identity, storing
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.map import IndexedOperand
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.matmul import ACTIVATIONS
from hologram.opset.packed.formats import UNIT, Format
from hologram.opset.packed.own import own, own_experts, own_product
from hologram.opset.packed.reading import Weights
from hologram.opset.packed.weights import PLANES, packed_numbers
from hologram.opset.tiles.product import product_plan
from hologram.opset.tiles.updates import inside_of

FEW = 8  # rows up to which every row reads the weights anew
OWN_FEW = 3  # where the backend makes them floats by code of its own, once for all rows; none of codes that are floats
OWN_SLAB = 1 << 20  # weights that are floats at once, where rows are many, and a cache is to hold them
SLAB = 1 << 22  # and elsewhere

Planes = Mapping[str, Place]


@frozen
class Sent:
    """Rows of x that are sent to experts, the rows of one behind those of another: each pair is a row of the product.

    `chosen` are the experts of all pairs, integers that lie in order; `each` are the pairs that a row of x has.
    """

    chosen: Place
    experts: int
    each: int


def packed_product(
    steps: Steps,
    format: Format,
    x: Place,
    planes: Planes,
    final: Place,
    target: Target,
    epilogue: Program | None,
    reads: Sequence[int],
    gate: str | None = None,
    sent: Sent | None = None,
) -> None:
    """Appends final = epilogue(x @ weights.T); `reads` are the positions of what else the epilogue reads.

    Where there is a `gate`, an activation by its name, its value is gate(x @ one half.T) * (x @ the other.T). Where
    rows are `sent` to experts, each reads the rows of its own alone.
    """
    m, n = final.layout.size // final.layout.shape[-1], final.layout.shape[-1]
    rows = Layout.contiguous(x.layout.dtype, (m // (sent.each if sent else 1), x.layout.shape[-1]))
    x = Place(steps.gathered(x).position, rows)
    few = m <= _few(format, target) or not rows.shape[1] or sent is not None
    bound = 1 + len(planes) + len(reads) + 1 + (sent is not None) <= target.limits.max_bindings
    held = _own(format, x, planes, target, sent)
    if few and bound and not held:
        _dots(steps, format, x, planes, final, epilogue or identity(f32), reads, gate, sent)
        return
    direct = not (epilogue or gate) and final.layout == Layout.contiguous(f32, final.layout.shape)
    whole = Layout.contiguous(f32, (m, n if gate is None else 2 * n))
    value = Place(final.position, whole) if direct else steps.place(f32, whole.shape)
    if held and sent is not None:
        chosen = sent.chosen if sent.chosen.layout.dtype == i64 else steps.converted(sent.chosen, i64)
        steps.add(*own_experts(format, x, chosen, planes, value, sent.experts, 1 if gate is None else 2))
    elif held:
        steps.add(*own_product(format, x, planes, value))
    elif few:
        _dots(steps, format, x, planes, value, identity(f32), (), None, sent)
    else:
        _slabs(steps, format, x, planes, value, target)
    if not direct:
        program = epilogue or identity(f32)
        add_epilogue(steps, program if gate is None else _opening(program, gate), value, reads, final, n)


@lru_cache(maxsize=64)
def _opening(epilogue: Program, gate: str) -> Program:
    """The epilogue of gates and what they open, which lie beside each other in each row of values."""

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode is not Opcode.LOAD or i.attribute != "value":
            return None
        columns, value = b.extent(1), epilogue.buffer("value")
        place = b.coordinate(0) * (columns * 2) + b.coordinate(1)
        return ACTIVATIONS[gate](b.load(value, place)) * b.load(value, place + columns)

    return replace(rewrite(epilogue, rule), name=f"{epilogue.name}_{gate}_opening")


def _few(format: Format, target: Target) -> int:
    """Up to how many rows the weights are read anew for each."""
    if not target.limits.own_packed:
        return FEW
    return 0 if format.code is not None and format.code.is_float else OWN_FEW


def _own(format: Format, x: Place, planes: Planes, target: Target, sent: Sent | None) -> bool:
    """Whether the backend has a kernel of its own for a product of so few rows, or of any number sent to experts."""
    m, columns = x.layout.shape
    few = m <= target.limits.packed_rows or sent is not None
    return few and columns > 0 and own(format, [p.layout for p in planes.values()], columns, target)


def _dots(
    steps: Steps,
    format: Format,
    x: Place,
    planes: Planes,
    final: Place,
    epilogue: Program,
    reads: Sequence[int],
    gate: str | None = None,
    sent: Sent | None = None,
) -> None:
    """Every result as a row of its own: a sum over units of codes, and the epilogue."""
    stored = final.layout.dtype
    direct = final.layout.is_contiguous and not final.layout.offset
    result = final if direct else steps.place(stored, final.layout.shape)
    if stored != f32:
        epilogue = storing(epilogue, stored)
    names, layouts = tuple(planes), [p.layout for p in planes.values()]
    columns, n = x.layout.shape[1], final.layout.shape[-1]
    addresses = tuple(map(Address.of, layouts))
    integers = sent.chosen.layout.dtype if sent else None
    program = _dot_program(
        format, x.layout.dtype, names, addresses, epilogue, bool(columns % UNIT), gate, integers
    )
    ends = {"x": x.position, "result": result.position} | {n: p.position for n, p in planes.items()}
    settings = {"columns": columns}
    if sent:
        ends["chosen"] = sent.chosen.position
        settings |= {"experts": sent.experts, "each": sent.each}
    further = iter(reads)
    places = [ends[b.name] if b.name in ends else next(further) for b in program.buffers]
    grid = (result.layout.size // n, n, -(-columns // UNIT))
    step = step_of(program, range(len(places)), numbers_of(names, layouts, settings), grid)
    steps.add(step, places)
    if result is not final:
        steps.copy(result, final)


@lru_cache(maxsize=256)
def _dot_program(
    format: Format,
    x: DType,
    names: tuple[str, ...],
    addresses: tuple[Address, ...],
    epilogue: Program,
    ragged: bool,
    gate: str | None,
    chosen: DType | None,
) -> Program:
    """The epilogue, whose value is the dot product of a row of x and a row of weights, unit by unit.

    Or of two rows of weights: one result is the gate of the other. Of which expert they are, the integers `chosen` say;
    what no expert is asked for is 0.
    """

    def buffer(parameter: BufferParameter) -> BufferParameter:
        return replace(parameter, name="x", dtype=x) if parameter.name == "value" else parameter

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode is not Opcode.LOAD or i.attribute != "value":
            return None
        planes = {
            name: IndexedOperand(b, name, address, Access.READ, address.dtype.computed)
            for name, address in zip(names, addresses, strict=True)
        }
        x, weights = buffer(epilogue.buffer("value")), Weights(format, **planes)
        row, column, height, inside = b.coordinate(0), b.coordinate(1), b.extent(1), None
        if chosen is not None:
            experts = b.scalar("experts", index)
            named = b.load(b.buffer("chosen", chosen, Access.READ), row)
            inside, expert = inside_of(named, experts)
            row, column, height = row / b.scalar("each", index), expert * height + column, experts * height
        value = _dot(b, x, weights, row, column, ragged)
        if gate is not None:
            value = ACTIVATIONS[gate](value) * _dot(b, x, weights, row, column + height, ragged)
        return value if inside is None else select(inside, value, 0.0)

    tall = replace(epilogue, rank=3, reduced=1)
    program = rewrite(tall, rule, parameters=Parameters(buffer=buffer))
    suffix = f"{'_gated' if gate is not None else ''}{'_experts' if chosen is not None else ''}"
    return replace(program, name=f"atlas_packed_{format.name.lower()}_{x}{suffix}")


def _dot(b: Builder, x: BufferParameter, weights: Weights, row: Value, column: Value, ragged: bool) -> Value:
    """The sum over one unit of a row of x and a row of weights, which gives a column, folded over all of them."""
    columns, unit = b.scalar("columns", index), b.coordinate(2)

    def neighbour(k: int) -> Value:
        value = b.load(x, row * columns + unit * UNIT + k).to(f32)
        return select(unit * UNIT + k < columns, value, 0.0) if ragged else value

    return reduce_add(weights.dot(column, unit, neighbour))


def _slabs(steps: Steps, format: Format, x: Place, planes: Planes, value: Place, target: Target) -> None:
    """Some rows of weights at a time as floats, and the matrix product with them."""
    columns, n = x.layout.shape[1], value.layout.shape[1]
    kept = target.limits.own_packed or x.layout.dtype not in target.limits.product_dtypes
    used = f32 if kept else x.layout.dtype
    if used != x.layout.dtype:
        x = steps.converted(x, used)
    height = min(n, max(1, (OWN_SLAB if target.limits.own_packed else SLAB) // columns))
    slab = steps.place(used, (height, columns))
    settings = {"format": format.name, "columns": columns, "dtype": used.name}
    given = [planes.get(name) for name in PLANES]
    for first in fixed_range(0, n, height):
        count = min(height, n - first)
        inputs = [p and p.layout.narrow(0, first, count) for p in given]
        weights = slab.layout.narrow(0, 0, count)
        numbers = packed_numbers.plan(inputs, (weights,), settings, target)
        steps.extend(numbers, [*(p.position if p else 0 for p in given), slab.position])
        out = value.layout.narrow(1, first, count)
        product = product_plan(x.layout, weights.permute((1, 0)), out, out.dtype, target)
        steps.extend(product, (x.position, slab.position, value.position))
