"""How rows are put in order: ranked where short, else merged in workgroup memory, or by a pass for each digit."""

from __future__ import annotations

import math

from hologram.atlas.program import Access, BufferParameter
from hologram.foundation.dtypes import DType, index, u32, u64
from hologram.machine.layout import Layout
from hologram.machine.plan import ORDER, Step, Target, Tile, reading, told, writing
from hologram.opset.forms.address import Address
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles import merge_sort, radix_sort
from hologram.opset.tiles.scan import chunk_length, scan_steps

# Rows up to this length are ranked by counting, n comparisons an element; longer ones are merged in workgroup memory,
# or cost a pass for each digit where there is none.
SHORT_ROW = 128
FEW = 16  # likewise where a device has code of its own


def order_steps(steps: Steps, x: Place, descending: bool, target: Target) -> Place:
    """Appends the stable order of every row of x (outer..., n); gives it as u32 of that shape."""
    if x.layout.dtype.is_complex:
        return _complex_order_steps(steps, x, descending, target)
    order = order_of_keys(steps, key_steps(steps, x, descending), x.layout.dtype, target)
    return Place(order.position, Layout.contiguous(u32, x.layout.shape))


def _complex_order_steps(steps: Steps, x: Place, descending: bool, target: Target) -> Place:
    """By the low words of keys, then by the high ones in that order: both orders are stable."""
    *outer, n = x.layout.shape
    rows, dtype = (math.prod(outer), n), x.layout.dtype
    address, numbers = Address.of(x.layout), numbers_of(("x",), (x.layout,), {})
    orders: list[Place] = []
    for high in (False, True):
        keys = steps.place(radix_sort.key_dtype(dtype.part), rows)
        program = radix_sort.complex_key_program(address, descending, high)
        places = [x, *orders, keys]
        making = step_of(program, range(len(places)), numbers, x.layout.shape)
        steps.add(making, [p.position for p in places])
        orders.append(order_of_keys(steps, keys, dtype.part, target))
    first, then = orders
    order = steps.place(u32, x.layout.shape)
    flat = Place(order.position, Layout.contiguous(u32, rows))
    pick_steps(steps, Place(first.position, flat.layout), Place(then.position, flat.layout), flat)
    return order


def key_steps(steps: Steps, x: Place, descending: bool, signs: bool = False) -> Place:
    """Appends keys (rows, n) whose unsigned order is that of x (outer..., n); see radix_sort.key_of."""
    *outer, n = x.layout.shape
    keys = steps.place(radix_sort.key_dtype(x.layout.dtype), (math.prod(outer), n))
    program = radix_sort.key_program(Address.of(x.layout), descending, signs)
    numbers = numbers_of(("x",), (x.layout,), {})
    steps.add(step_of(program, (0, 1), numbers, x.layout.shape), (x.position, keys.position))
    return keys


def order_of_keys(steps: Steps, keys: Place, dtype: DType, target: Target, bits: int | None = None) -> Place:
    """Appends the stable order, u32, of every row of keys (rows, n) of a dtype's elements; they are overwritten.

    `bits`: how many of the last ones differ, if fewer than the dtype has.
    """
    rows, n = keys.layout.shape
    differing = radix_sort.key_bits(dtype) if bits is None else (0, bits)
    if n > FEW and target.limits.own_orders:
        return _own_steps(steps, keys, differing)
    if n > SHORT_ROW and merge_sort.merges(keys, target.limits):
        return merge_sort.merge_steps(steps, keys, target.limits)
    if n > SHORT_ROW:
        return _radix_steps(steps, keys, differing, target)
    order = steps.place(u32, (rows, n))
    ranking = step_of(radix_sort.rank_program(keys.layout.dtype), (0, 1), {}, (rows, n))
    steps.add(ranking, (keys.position, order.position))
    return order


def _own_steps(
    steps: Steps,
    keys: Place,
    bits: tuple[int, int],
    zeros: tuple[int, int] | None = None,
    out: Place | None = None,
    descending: bool = False,
) -> Place:
    """Appends the order of keys, or with `zeros`, the keys of two zeros that stay as they were, keys in order.

    With `out`, numbers of its dtype stand for their keys and are put in order there, which may be `descending`.
    """
    *outer, n = keys.layout.shape
    rows = math.prod(outer)
    key = keys.layout.dtype
    result = u32 if zeros is None else key
    order = out or steps.place(result, (rows, n))
    words = key.bits // 32 * (2 if zeros is None else 1)
    spare = steps.place(u32, (2 * rows * n * words,))  # elements between passes, twice
    tile = Tile(
        stem=ORDER,
        buffers=(
            *reading(key, "keys"),
            *writing(result, "order"),
            BufferParameter("spare", u32, Access.READ_WRITE),
        ),
        scalars=(*told(index, "rows", "n", "first_bit", "last_bit"), *told(u64, "zero", "other_zero")),
        constants=(("POSITIONS", zeros is None), *((("DESCENDING", descending),) if out else ())),
    )
    places = (keys.position, order.position, spare.position)
    steps.add(Step(tile, (0, 1, 2), (rows, n, *bits, *(zeros or (0, 0))), (rows, 1, 1)), places)
    return order


def value_steps(steps: Steps, x: Place, out: Place, descending: bool, target: Target) -> bool:
    """Appends out = the elements of x (outer..., n) in order, without their positions; False where that is no way."""
    dtype = x.layout.dtype
    if x.layout.shape[-1] <= FEW or dtype.is_complex or not target.limits.own_orders:
        return False
    zeros = radix_sort.zero_keys(dtype, descending)
    if dtype.bits >= 32 and all(p.layout == Layout.contiguous(dtype, p.layout.shape) for p in (x, out)):
        _own_steps(steps, x, radix_sort.key_bits(dtype), zeros, out, descending)
        return True
    keys = key_steps(steps, x, descending, signs=True)
    ordered = _own_steps(steps, keys, radix_sort.key_bits(dtype), zeros)
    program = radix_sort.value_program(Address.of(out.layout), descending)
    numbers = numbers_of(("out",), (out.layout,), {})
    steps.add(step_of(program, (0, 1), numbers, out.layout.shape), (ordered.position, out.position))
    return True


def _radix_steps(steps: Steps, keys: Place, bits: tuple[int, int], target: Target) -> Place:
    rows, n = keys.layout.shape
    order = steps.place(u32, (rows, n))
    key = keys.layout.dtype
    length = max(chunk_length(rows, n, target.limits), min(n, radix_sort.DIGITS))
    chunks = -(-n // length)
    grid = (rows, chunks)
    numbers = {"n": n, "length": length}
    histogram = (rows, radix_sort.DIGITS * chunks)
    counts, ends = steps.place(u32, histogram), steps.place(u32, histogram)
    spare_keys, spare_order = steps.place(key, (rows, n)), steps.place(u32, (rows, n))
    first, last = bits
    for shift in range(first, last, 8):
        scalars = {**numbers, "shift": shift}
        counting = step_of(radix_sort.count_program(key), (0, 1), scalars, grid)
        steps.add(counting, (keys.position, counts.position))
        scan_steps(steps, counts, ends, u32, target)
        moving = radix_sort.scatter_program(key, shift == first)
        reads = [keys] if shift == first else [keys, order]
        places = [*reads, ends, spare_keys, spare_order]
        steps.add(step_of(moving, range(len(places)), scalars, grid), [p.position for p in places])
        keys, order, spare_keys, spare_order = spare_keys, spare_order, keys, order
    return order


def pick_steps(steps: Steps, x: Place, order: Place, out: Place) -> None:
    """Appends out (outer..., k) = the elements of x that come first in order."""
    program = radix_sort.pick_program(Address.of(x.layout), Address.of(out.layout))
    numbers = numbers_of(("x", "order", "out"), (x.layout, order.layout, out.layout), {})
    step = step_of(program, (0, 1, 2), numbers, out.layout.shape)
    steps.add(step, (x.position, order.position, out.position))
