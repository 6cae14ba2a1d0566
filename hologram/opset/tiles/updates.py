"""What many updates make of few places, without atomics: folded by a lane for each place, or sorted and shared out.

Sorted by place, stably, the updates of one place are a run. A lane folds the runs of a chunk. Those that begin and end
in it are nobody else's, and go to their places; the first and the last one may go on in the chunks beside, so what they
fold to is an update of the next round, which has two for each chunk (segmented reduction: Blelloch, Prefix sums and
their applications, 1990). So no lane's work grows with how often a place repeats, and the result is always the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from hologram.atlas import arithmetic
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, index, u32
from hologram.machine.axes import normalize_axis
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.merging import collapse
from hologram.machine.plan import Plan, Step, Target
from hologram.opset.creation import fill
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.operation import Inputs, Layouts
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.reduce import sum_
from hologram.opset.tiles.scan import along, chunk_length
from hologram.opset.tiles.sort import order_of_keys

ROUNDING = frozenset({Opcode.REDUCE_ADD, Opcode.REDUCE_MUL})
Combine = Callable[[Value, Value], Value]
SHORTEST_RUN = 16  # of elements side by side that one lane of a CPU folds
# Updates along the axis that one lane takes in turn: a GPU's are many and slow; a software adapter's are few, and its
# sort takes a launch for each digit. It may take three loop turns for each.
IN_TURN, IN_TURN_SOFTWARE = 64, 8192
MANY_LANES = 4096  # keep a device busy even so
# Of a CPU: as many lanes side by side need no parts; parts that are worth their places, and how many there are at most.
WIDE, LEAST_OF_A_PART, MOST_PARTS = 64, 32_768, 16
# Updates of a place, on average, from which on a CPU adds them up in f64, a seventh slower where places are many.
REPEATED = 1 << 16
# Elsewhere: from which on they are added up by lanes with places of their own, which take so many at least.
OFTEN, LEAST_OF_A_LANE = 4096, 256


def inside_of(position: Value, extent: Value) -> tuple[Value, Value]:
    """Whether a position, counted from the end where negative, lies in [0, extent); and one that does."""
    if position.dtype.bits < 32:  # too narrow to be counted from the end
        position = position.to(dtypes.i32)
    own = position.dtype.unsigned  # in which what is below 0 still is beyond any size
    if position.dtype.is_signed:
        wrapped = position + extent.to(position.dtype)
        position = select(position < 0, wrapped, position).bitcast(own)
    inside = position < extent.to(own)
    return inside, select(inside, position, 0).to(index)


def plan(
    inputs: Inputs, outputs: Layouts, dim: int, combine: Combine, folding: Opcode, target: Target
) -> Plan:
    """out = x, into which source was combined at the positions in index along `dim`: inputs are (x, index, source).

    `folding` is the reduction that `combine` is a step of.
    """
    x, index_layout, source = inputs
    assert isinstance(x, Layout)
    assert isinstance(index_layout, Layout)
    assert isinstance(source, Layout)

    in_turn = takes_turns(index_layout, dim, target.limits) if index_layout.size else True
    parts = _parts(index_layout, x.size, dim, target.limits) if index_layout.size else 1
    computed = x.dtype.computed
    if computed is dtypes.f32 and folding in ROUNDING and _repeated(index_layout, x, target.limits):
        computed = dtypes.f64

    def combined(steps: Steps, result: Place) -> None:
        if apart(inputs, folding, target.limits):
            _apart(steps, inputs, result, dim, combine, target)
        elif parts > 1:
            shape = (parts, *result.layout.shape)
            own = steps.place(result.layout.dtype, shape)
            neutral = arithmetic.identity(folding, own.layout.dtype) or -0.0  # 0 would take a zero's sign
            steps.extend(fill.plan((), (own.layout,), {"value": neutral}, target), (own.position,))
            step = ordered_step(index_layout, source, own.layout, dim, target.limits, combine, parts)
            steps.add(step, (1, 2, own.position))
            _join(steps, own, result, combine)
        elif in_turn:
            whole = result.layout.unsqueeze(0)
            step = ordered_step(index_layout, source, whole, dim, target.limits, combine)
            steps.add(step, (1, 2, result.position))
        else:
            axis = normalize_axis(dim, index_layout.ndim, "scatter")
            _spread(steps, Place(1, index_layout), Place(2, source), result, axis, combine, target)

    return plan_with(combined, inputs, outputs, computed, anywhere=in_turn)


def plan_with(
    combined: Callable[[Steps, Place], None],
    inputs: Inputs,
    outputs: Layouts,
    computed: DType,
    *,
    anywhere: bool = True,
) -> Plan:
    """The plan that copies x, lets `combined` change the copy, in the dtype that is `computed` in, and converts it.

    `anywhere`: the copy need not lie without gaps.
    """
    x, updates, _ = inputs
    assert isinstance(x, Layout)
    assert isinstance(updates, Layout)
    steps = Steps(4)
    if not x.size:
        return steps.plan()
    given = Place(3, outputs[0])
    whole = given.layout.dtype == computed and (anywhere or _whole(given.layout))
    result = given if whole else steps.place(computed, x.shape)
    steps.copy(Place(0, x), result)
    if updates.size:
        combined(steps, result)
    if result is not given:
        steps.copy(result, given)
    return steps.plan()


def _whole(layout: Layout) -> bool:
    return layout.is_contiguous and not layout.offset


def takes_turns(updates: Layout, dim: int, limits: Limits) -> bool:
    """Whether a lane may as well take all updates along the axis, one after the other."""
    n = updates.shape[dim]
    if limits.serial_workgroups or n <= IN_TURN:
        return True
    return n <= IN_TURN_SOFTWARE and (limits.software or updates.size // n >= MANY_LANES)


def _repeated(updates: Layout, x: Layout, limits: Limits) -> bool:
    """Whether a CPU meets places so often that sums in f32 would lose most of their digits."""
    many = updates.size >= REPEATED * max(x.size, 1)
    return many and limits.serial_workgroups and not limits.reproducible


# Lanes with places of their own.


def apart(inputs: Inputs, folding: Opcode, limits: Limits) -> bool:
    """Whether sums are of so many that one after the other they would be lost, which no order of atomics avoids."""
    x, updates, _ = inputs
    assert isinstance(x, Layout)
    assert isinstance(updates, Layout)
    many = updates.size >= OFTEN * max(x.size, 1) and 4 * x.size <= IN_TURN_SOFTWARE
    return many and x.dtype.is_float and folding is Opcode.REDUCE_ADD and not limits.serial_workgroups


def _apart(steps: Steps, inputs: Inputs, result: Place, dim: int, combine: Combine, target: Target) -> None:
    """Appends result = itself and the sum of what lanes add up, each to places of its own."""
    _, positions, source = inputs
    assert isinstance(positions, Layout)
    assert isinstance(source, Layout)
    n = positions.shape[dim]
    length = max(LEAST_OF_A_LANE, 4 * result.layout.size)
    parts = -(-n // length)
    own = steps.place(result.layout.dtype, (parts, *result.layout.shape))
    steps.extend(fill.plan((), (own.layout,), {"value": -0.0}, target), (own.position,))
    step = ordered_step(positions, source, own.layout, dim, target.limits, combine, parts)
    steps.add(step, (1, 2, own.position))
    sums = steps.place(result.layout.dtype, (1, *result.layout.shape))
    attributes = {"axis": 0, "keepdims": True, "dtype": None}
    steps.extend(sum_.plan((own.layout,), (sums.layout,), attributes, target), (own.position, sums.position))
    _join(steps, sums, result, _sum_of_some)


def _sum_of_some(total: Value, own: Value) -> Value:
    """Places that none was added to keep the sign of their zero."""
    return total + select(own == 0.0, -0.0, own)


# One after the other.


def _parts(updates: Layout, places: int, dim: int, limits: Limits) -> int:
    """In how many parts, each with places of its own, a CPU's threads take updates that would be one lane's.

    It follows from the shapes alone: the result does not depend on how many threads there are.
    """
    n = updates.shape[dim]
    if not limits.serial_workgroups or updates.size // n >= WIDE:
        return 1
    most = min(MOST_PARTS, updates.size // LEAST_OF_A_PART, updates.size // (2 * places))
    return 1 << max(most, 1).bit_length() - 1


def _join(steps: Steps, parts: Place, result: Place, combine: Combine) -> None:
    """Appends result = itself and every part of it combined, one after the other."""
    count = parts.layout.shape[0]
    first, out = collapse([parts.layout.narrow(0, 0, 1).squeeze(0), result.layout])
    program = _join_program(Address.of(first), Address.of(out), combine, count)
    numbers = numbers_of(("parts", "out"), (first, out), {"apart": parts.layout.strides[0]})
    steps.add(step_of(program, (0, 1), numbers, out.shape), (parts.position, result.position))


@lru_cache(maxsize=256)
def _join_program(parts: Address, out: Address, combine: Combine, count: int) -> Program:
    b = Builder(f"atlas_join{combine.__name__}_{out.dtype}", rank=len(out.steps))
    at = [b.coordinate(k) for k in range(b.rank)]
    own = Operand(b, "parts", parts, Access.READ, parts.dtype)
    result = Operand(b, "out", out, Access.READ_WRITE, out.dtype)
    apart, place, total = b.scalar("apart", index), own.position(at), result.at(*at)
    for k in range(count):
        total = combine(total, b.load(own.parameter, place + apart * k))
    result.put(total, *at)
    return b.build()


def ordered_step(
    positions: Layout, source: Layout, out: Layout, dim: int, limits: Limits, combine: Combine, parts: int = 1
) -> Step:
    """out += source, or what else combines two, by a lane for each run of places beside one another, in order.

    The first axis of `out` is of `parts`, which take as many updates each.
    """
    axis = normalize_axis(dim, positions.ndim, "scatter")
    for k, n in enumerate(positions.shape):
        out = out if k == axis else out.narrow(k + 1, 0, n)
    apart = out.strides[0] if parts > 1 else 0
    layouts = along((positions, source, out.narrow(0, 0, 1).squeeze(0)), axis, "scatter")
    own = layouts[2]
    whole = Layout(own.dtype, (parts, *own.shape), (apart, *own.strides), own.offset)
    layouts = (*layouts[:2], whole)
    *outer, beside, n = layouts[0].shape
    run = 1
    if abs(layouts[1].strides[-2]) < abs(layouts[1].strides[-1]) and limits.serial_workgroups:
        run = min(beside, max(SHORTEST_RUN, -(-beside // (limits.parallelism or 1))))
    program = _ordered_program(tuple(map(Address.of, layouts)), combine, run > 1)
    scalars = {"n": n, "length": -(-n // parts), "size": whole.shape[-1]}
    scalars |= {"beside": beside, "run": run} if run > 1 else {}
    numbers = numbers_of(("positions", "source", "out"), layouts, scalars)
    return step_of(program, (0, 1, 2), numbers, (parts, *outer, -(-beside // run)))


@lru_cache(maxsize=1024)
def _ordered_program(addresses: tuple[Address, ...], combine: Combine, runs: bool) -> Program:
    b = Builder(f"atlas_scatter{combine.__name__}_{addresses[2].dtype}", rank=len(addresses[0].steps))
    computed = addresses[2].dtype
    kinds = (addresses[0].dtype.computed, computed, computed)
    accesses = (Access.READ, Access.READ, Access.READ_WRITE)
    positions, source, out = (
        Operand(b, name, address, access, kind)
        for name, address, access, kind in zip(
            ("positions", "source", "out"), addresses, accesses, kinds, strict=True
        )
    )
    n, length, size = (b.scalar(name, index) for name in ("n", "length", "size"))
    part, *outer, piece = (b.coordinate(axis) for axis in range(b.rank))
    first, last = piece, piece + 1
    if runs:
        beside, run = (b.scalar(name, index) for name in ("beside", "run"))
        first = piece * run
        last = select(first + run < beside, first + run, beside)

    def add(i: Value, j: Value, place: Value) -> None:
        at = (part, *outer, j, place)
        out.put(combine(out.at(*at), source.at(*outer, j, i)), *at)

    def one(i: Value, j: Value) -> None:
        inside, place = inside_of(positions.at(*outer, j, i), size)
        b.if_(inside, lambda: add(i, j, place), lambda: None)

    def turn(i: Value) -> None:
        if not runs:
            one(i, first)
        elif addresses[0].steps[-2] != 0:
            b.loop(first, last, lambda j: one(i, j))
        else:  # one position for the whole run
            inside, place = inside_of(positions.at(*outer, first, i), size)
            b.if_(inside, lambda: b.loop(first, last, lambda j: add(i, j, place)), lambda: None)

    start = part * length
    b.loop(start, select(start + length < n, start + length, n), turn)
    return b.build()


# Shared out.


def _spread(
    steps: Steps, positions: Place, source: Place, out: Place, axis: int, combine: Combine, target: Target
) -> None:
    """Appends out = source combined into out, which is contiguous, at the positions along the axis."""
    n = positions.layout.size
    none = out.layout.size  # the place of updates that miss
    keys, sorted_ = steps.place(u32, (1, n)), steps.place(u32, (1, n))
    program = _places_program(Address.of(positions.layout), axis)
    numbers = numbers_of(("positions",), (positions.layout,), {"none": none})
    numbers |= {f"place_stride_{k}": s for k, s in enumerate(out.layout.strides)}
    numbers["size"] = out.layout.shape[axis]
    step = step_of(program, (0, 1, 2), numbers, positions.layout.shape)
    steps.add(step, (positions.position, keys.position, sorted_.position))
    values = source
    if source.layout.dtype != out.layout.dtype or not _whole(source.layout):
        values = steps.converted(source, out.layout.dtype)
    order: Place | None = order_of_keys(steps, sorted_, u32, target, bits=none.bit_length())
    while True:
        length = chunk_length(1, n, target.limits)
        chunks = -(-n // length)
        places = [keys, values, out, *([] if order is None else [order])]
        following = [steps.place(d, (2 * chunks,)) for d in (u32, out.layout.dtype)] if chunks > 1 else []
        program = _runs_program(out.layout.dtype, combine, order is not None, chunks == 1)
        operands = [p.position for p in (*places, *following)]
        scalars = {"n": n, "length": length, "none": none}
        steps.add(step_of(program, range(len(operands)), scalars, (chunks,)), operands)
        if chunks == 1:
            return
        (keys, values), order, n = following, None, 2 * chunks


@lru_cache(maxsize=256)
def _places_program(address: Address, axis: int) -> Program:
    """The number of each update's place among the elements of out, twice; `none` where it has no place."""
    b = Builder("atlas_update_places", rank=len(address.steps))
    positions = Operand(b, "positions", address, Access.READ, address.dtype.computed)
    at = [b.coordinate(k) for k in range(b.rank)]
    inside, at[axis] = inside_of(positions.at(*at), b.scalar("size", index))
    place = b.constant(0, index)
    for k, coordinate in enumerate(at):
        place = place + coordinate * b.scalar(f"place_stride_{k}", index)
    key = select(inside, place.to(u32), b.scalar("none", u32))
    for name in ("keys", "copies"):
        b.store(b.buffer(name, u32, Access.WRITE), b.position(Opcode.LANE), key)
    return b.build()


@lru_cache(maxsize=256)
def _runs_program(dtype: DType, combine: Combine, ordered: bool, last: bool) -> Program:
    """Folds the runs of equal keys in a chunk; what may go on beside it is the next round's, if there is one."""
    b = Builder(f"atlas_update{combine.__name__}_{dtype}")
    keys, values = b.buffer("keys", u32, Access.READ), b.buffer("values", dtype, Access.READ)
    out = b.buffer("out", dtype, Access.READ_WRITE)
    order = b.buffer("order", u32, Access.READ) if ordered else None
    following = [] if last else [b.buffer(f"next_{p.name}", p.dtype, Access.WRITE) for p in (keys, values)]
    chunk, n, length = b.coordinate(0), b.scalar("n", index), b.scalar("length", index)
    none = b.scalar("none", u32)
    start = chunk * length
    stop = select(start + length < n, start + length, n)

    def put(key: Value, total: Value) -> None:
        place = key.to(index)
        b.store(out, place, combine(b.load(out, place), total))

    def hand_on(slot: int | Value, key: Value, total: Value) -> None:
        for buffer, value in zip(following, (key, total), strict=True):
            b.store(buffer, chunk * 2 + slot, value)

    def ended(first: Value, key: Value, total: Value) -> None:
        if last:
            put(key, total)
        else:
            b.if_(first, lambda: hand_on(0, key, total), lambda: put(key, total))

    def turn(i: Value, first: Value, key: Value, total: Value) -> tuple[Value, ...]:
        at = i if order is None else b.load(order, i).to(index)
        here, value = b.load(keys, at), b.load(values, at)
        goes_on = (here == key) | (here == none)
        ends = ~goes_on & (key != none)
        b.if_(ends, lambda: ended(first, key, total), lambda: None)
        folded = select(here == key, combine(total, value), value)
        missed = here == none
        return select(ends, False, first), select(missed, key, here), select(missed, total, folded)

    begun = (b.constant(True, dtypes.bool_), none, b.constant(0, dtype))
    first, key, total = b.loop(start, stop, turn, first=begun)
    if last:
        b.if_(key != none, lambda: put(key, total), lambda: None)
        return b.build()
    hand_on(select(first, b.constant(0, index), 1), key, total)
    b.if_(first, lambda: b.store(following[0], chunk * 2 + 1, none), lambda: None)
    return b.build()
