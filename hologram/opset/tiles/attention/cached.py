"""Keys and values that are cached, block by block or as codes, as they would lie otherwise."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import Number, f32, f64, i32
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention.attended import SCALES, TABLE, Attended, K, V
from hologram.opset.tiles.updates import inside_of


def gathered(steps: Steps, found: Attended) -> tuple[Attended, int, int]:
    """The same attention to keys and values in the queries' dtype, one behind the other, and where these are."""
    k, v = (_gathered(steps, found, number) for number in range(2))
    return replace(found, k=k.layout, v=v.layout, pages=None, scales=None), k.position, v.position


def _gathered(steps: Steps, found: Attended, number: int) -> Place:
    """Keys (0) or values (1), as small as before they were broadcast."""
    codes, told = (found.k, found.v)[number], dict[str, Number]()
    read = {"codes": Place((K, V)[number], codes)}
    if found.scales is not None:
        read["scales"] = Place(SCALES, found.scales.select(0, number))
    if found.pages is not None:
        pages = found.pages
        read["table"] = Place(TABLE, pages.table)
        told = {"block": pages.block, "blocks": pages.blocks, "codes_block": (pages.k, pages.v)[number]}
        told["scales_block"] = pages.scales
    strides = [p.layout.strides for p in read.values()]
    *batch, keys, width = codes.shape
    batch = [n if any(s[axis] for s in strides) else 1 for axis, n in enumerate(batch)]
    for name, place in read.items():
        layout = place.layout
        if name != "codes":  # which each column has in common
            layout = layout.unsqueeze(layout.ndim).expand((*layout.shape, width))
        read[name] = Place(place.position, replace(layout, shape=(*batch, *layout.shape[-2:])))
    target = steps.place(found.q.dtype, (*batch, keys, width))
    places = [*read.values(), target]
    layouts = [p.layout for p in places]
    program = gathered_program(tuple(read), tuple(map(Address.of, layouts)))
    numbers = numbers_of((*read, "out"), layouts, told)
    steps.add(
        step_of(program, range(len(places)), numbers, target.layout.shape), [p.position for p in places]
    )
    return Place(target.position, target.layout.expand(codes.shape))


@lru_cache(maxsize=64)
def gathered_program(names: tuple[str, ...], addresses: tuple[Address, ...]) -> Program:
    """out = codes * scales, of positions in the blocks that a table names."""
    *read, result = addresses
    b = Builder(f"atlas_attention_gathered_{result.dtype}", rank=len(result.steps))
    lane = [b.coordinate(axis) for axis in range(b.rank)]
    *batch, position, column = lane
    own = f64 if result.dtype is f64 else f32
    kinds = {"table": i32, "codes": own, "scales": own}
    given = {n: Operand(b, n, a, Access.READ, kinds[n]) for n, a in zip(names, read, strict=True)}
    table = given.pop("table", None)
    if table is None:
        places = [operand.position(lane) for operand in given.values()]
    else:
        block, blocks = (b.scalar(name, dtypes.index) for name in ("block", "blocks"))
        _, page = inside_of(table.at(*batch, position // block, column), blocks)
        inner = (*batch, position % block, column)
        places = [o.position(inner) + page * b.scalar(f"{n}_block", dtypes.index) for n, o in given.items()]
    value, *scales = (
        b.load(operand.parameter, place).to(own)
        for operand, place in zip(given.values(), places, strict=True)
    )
    for scale in scales:
        value = value * scale
    Operand(b, "out", result, Access.WRITE, result.dtype).put(value, *lane)
    return b.build()
