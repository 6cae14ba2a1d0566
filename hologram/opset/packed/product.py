"""Plans of products with packed weights: read as they lie for few rows, and slab by slab as floats for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hologram.atlas.builder import Builder, Value, reduce_add, select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, BufferParameter, Instruction, Program
from hologram.atlas.rewrite import Parameters, rewrite
from hologram.foundation.dtypes import DType, f32, index
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
from hologram.opset.packed.own import own, own_product
from hologram.opset.packed.reading import Weights
from hologram.opset.packed.weights import PLANES, packed_numbers
from hologram.opset.tiles.product import product_plan

OWN_ROWS = 16  # up to which the backend's own kernel is asked
FEW = 8  # rows up to which every row reads the weights anew
OWN_FEW = 3  # where the backend makes them floats by code of its own, once for all rows; none of codes that are floats
OWN_SLAB = 1 << 20  # weights that are floats at once, where rows are many, and a cache is to hold them
SLAB = 1 << 22  # and elsewhere

Planes = Mapping[str, Place]


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
) -> None:
    """Appends final = epilogue(x @ weights.T); `reads` are the positions of what else the epilogue reads.

    Where there is a `gate`, an activation by its name, its value is gate(x @ one half.T) * (x @ the other.T).
    """
    m, n = final.layout.size // final.layout.shape[-1], final.layout.shape[-1]
    rows = Layout.contiguous(x.layout.dtype, (m, x.layout.shape[-1]))
    x = Place(steps.gathered(x).position, rows)
    few = m <= _few(format, target) or not rows.shape[1]
    bound = 1 + len(planes) + len(reads) + 1 <= target.limits.max_bindings
    held = _own(format, x, planes, target)
    if few and bound and not held:
        _dots(steps, format, x, planes, final, epilogue or identity(f32), reads, gate)
        return
    direct = not (epilogue or gate) and final.layout == Layout.contiguous(f32, final.layout.shape)
    whole = Layout.contiguous(f32, (m, n if gate is None else 2 * n))
    value = Place(final.position, whole) if direct else steps.place(f32, whole.shape)
    if held:
        steps.add(*own_product(format, x, planes, value))
    elif few:
        _dots(steps, format, x, planes, value, identity(f32), ())
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


def _own(format: Format, x: Place, planes: Planes, target: Target) -> bool:
    """Whether the backend has a kernel of its own for a product of so few rows."""
    m, columns = x.layout.shape
    return m <= OWN_ROWS and columns > 0 and own(format, [p.layout for p in planes.values()], columns, target)


def _dots(
    steps: Steps,
    format: Format,
    x: Place,
    planes: Planes,
    final: Place,
    epilogue: Program,
    reads: Sequence[int],
    gate: str | None = None,
) -> None:
    """Every result as a row of its own: a sum over units of codes, and the epilogue."""
    stored = final.layout.dtype
    direct = final.layout.is_contiguous and not final.layout.offset
    result = final if direct else steps.place(stored, final.layout.shape)
    if stored != f32:
        epilogue = storing(epilogue, stored)
    names, layouts = tuple(planes), [p.layout for p in planes.values()]
    m, columns = x.layout.shape
    addresses = tuple(map(Address.of, layouts))
    program = _dot_program(format, x.layout.dtype, names, addresses, epilogue, bool(columns % UNIT), gate)
    ends = {"x": x.position, "result": result.position} | {n: p.position for n, p in planes.items()}
    further = iter(reads)
    places = [ends[b.name] if b.name in ends else next(further) for b in program.buffers]
    grid = (m, result.layout.size // max(m, 1), -(-columns // UNIT))
    step = step_of(program, range(len(places)), numbers_of(names, layouts, {"columns": columns}), grid)
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
) -> Program:
    """The epilogue, whose value is the dot product of a row of x and a row of weights, unit by unit.

    Or of two rows of weights: one result is the gate of the other.
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
        x, weights, column = buffer(epilogue.buffer("value")), Weights(format, **planes), b.coordinate(1)
        value = _dot(b, x, weights, column, ragged)
        if gate is None:
            return value
        return ACTIVATIONS[gate](value) * _dot(b, x, weights, column + b.extent(1), ragged)

    tall = replace(epilogue, rank=3, reduced=1)
    program = rewrite(tall, rule, parameters=Parameters(buffer=buffer))
    return replace(program, name=f"atlas_packed_{format.name.lower()}_{x}{'' if gate is None else '_gated'}")


def _dot(b: Builder, x: BufferParameter, weights: Weights, column: Value, ragged: bool) -> Value:
    """The sum over one unit of a row of weights, which gives a column, folded over all of them."""
    columns = b.scalar("columns", index)
    row, unit = b.coordinate(0), b.coordinate(2)

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
