"""The definition of Atlas: runs a program on NumPy arrays, all lanes of the grid at once.

A value is an array with one axis per grid axis, of size 1 where the value does not depend on it. Lanes advance in
lockstep, so a barrier has nothing to do; `if` runs both its sides, loops as often as their longest lane, under a mask
that says which lanes take part in stores, atomics and loops. Shared memory begins as zeros in each workgroup, and the
last workgroup has only the lanes of the grid: nobody stores for those that are missing. A local array begins as zeros
in each lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hologram.atlas.arithmetic import COMPUTE, identity, narrow, number, wide
from hologram.atlas.opcodes import ATOMICS, MEETINGS, REDUCTIONS, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.foundation.errors import ProgramError
from hologram.foundation.frozen import frozen

Array = np.ndarray
Arrays = tuple[Array, ...]
Mask = Array | None  # the lanes that take part; None: all
# Sees every instruction with its operands, results and mask, and gives the results to go on with.
Watch = Callable[[Instruction, Arrays, Arrays, Mask], Arrays]

CHUNK = 2**20  # lanes evaluated at a time where lanes do not meet
_MEETING = ATOMICS | {Opcode.SHARED_LOAD, Opcode.SHARED_AGREED, Opcode.SHARED_STORE} | MEETINGS


def evaluate(
    program: Program,
    buffers: Mapping[str, Array],
    scalars: Mapping[str, complex | bool],
    grid: Sequence[int],
    watch: Watch | None = None,
) -> None:
    """Runs the program over the grid; `buffers` are 1-D arrays of the parameters' dtypes, changed in place.

    Reading outside a buffer gives 0. Atomics happen in the row-major order of lanes. Raises ProgramError when buffers,
    scalars or grid do not fit the program's parameters, or a loop's step is not positive.
    """
    grid = tuple(int(n) for n in grid)
    _check(program, buffers, scalars, grid)
    lanes = grid[: program.rank - program.reduced]
    if 0 in lanes or (0 in grid and not program.reduced):
        return
    origin, shape = [0] * program.rank, list(grid)
    axis = max(range(len(lanes)), key=lanes.__getitem__, default=None)
    length = 1 if axis is None else grid[axis]
    step = length
    if axis is not None and not program.opcodes & _MEETING:
        step = max(1, CHUNK // max(1, math.prod(grid) // length))
    with np.errstate(all="ignore"):
        for start in range(0, length, step):
            if axis is not None:
                origin[axis], shape[axis] = start, min(step, length - start)
            lanes_now = _Lanes(program, buffers, scalars, grid, tuple(origin), tuple(shape), {}, {}, watch)
            lanes_now.run(program.body, None)


def _check(
    program: Program,
    buffers: Mapping[str, Array],
    scalars: Mapping[str, complex | bool],
    grid: tuple[int, ...],
) -> None:
    if len(grid) != program.rank or any(n < 0 for n in grid):
        raise ProgramError(f"{program.name}: the grid must have {program.rank} sizes, got {grid}")
    for b in program.buffers:
        array = buffers.get(b.name)
        if array is None or array.ndim != 1 or array.dtype != b.dtype.numpy:
            got = "nothing" if array is None else f"{array.ndim}-D {array.dtype}"
            raise ProgramError(f"{program.name}: buffer {b.name} must be a 1-D array of {b.dtype}, got {got}")
    for s in program.scalars:
        if s.name not in scalars:
            raise ProgramError(f"{program.name}: scalar {s.name} must be given, got {sorted(scalars)}")


@frozen
class _Lanes:
    """A part of the grid under evaluation: what the lanes see and the values they hold."""

    program: Program
    buffers: Mapping[str, Array]
    scalars: Mapping[str, complex | bool]
    grid: tuple[int, ...]
    origin: tuple[int, ...]
    shape: tuple[int, ...]
    values: dict[int, Array]
    shared: dict[str, Array]
    watch: Watch | None

    def run(self, block: Block, mask: Mask) -> None:
        """Evaluates a block for the lanes of the mask; None is all."""
        for instruction in block.instructions:
            compute = COMPUTE.get(instruction.opcode)
            operands = tuple(self.values[o] for o in instruction.operands)
            if compute is not None:
                results = (compute(instruction.type, *operands),)
            else:
                results = _STEPS[instruction.opcode](self, instruction, operands, mask)
            if self.watch is not None:
                results = self.watch(instruction, operands, results, mask)
            self.values.update(zip(instruction.results, results, strict=True))

    def along(self, axis: int, values: Array) -> Array:
        """A 1-D array laid along a grid axis."""
        shape = [1] * len(self.shape)
        shape[axis] = -1
        return values.reshape(shape)

    def uniform(self, x: Array) -> Array:
        return x.reshape((1,) * len(self.shape))

    def coordinate(self, axis: int) -> Array:
        start = self.origin[axis]
        return self.along(axis, np.arange(start, start + self.shape[axis], dtype=np.int64))

    def lane(self) -> Array:
        """Numbers of the lanes, over the axes that are not reduced."""
        lane = self.uniform(np.zeros((), np.int64))
        for axis in range(self.program.rank - self.program.reduced):
            lane = lane * self.grid[axis] + self.coordinate(axis)
        return lane

    def together(self, mask: Mask, *arrays: Array) -> tuple[Array, ...]:
        """Arrays and mask, flat, with one entry for each lane that acts: once per row if nothing varies along it."""
        present = arrays if mask is None else (*arrays, mask)
        first_reduced = self.program.rank - self.program.reduced
        varies = any(n != 1 for x in present for n in x.shape[first_reduced:])
        shape = self.shape if varies else self.shape[:first_reduced] + (1,) * self.program.reduced
        flat = tuple(np.broadcast_to(x, shape).reshape(-1) for x in arrays)
        if mask is None:
            return flat
        chosen = np.broadcast_to(mask, shape).reshape(-1)
        return tuple(x[chosen] for x in flat)


Step = Callable[[_Lanes, Instruction, Arrays, Mask], Arrays]


# Positions and values from outside.


def _position(find: Callable[[_Lanes, int], Array]) -> Step:
    return lambda lanes, i, operands, mask: (find(lanes, int(i.attribute or 0)),)


def _constant(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    assert isinstance(i.attribute, (bool, int, float, complex))
    return (lanes.uniform(number(i.attribute, i.type)),)


def _scalar(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    return (lanes.uniform(number(lanes.scalars[str(i.attribute)], i.type)),)


# Memory.


def _gather(memory: Array, position: Array) -> Array:
    inside = (position >= 0) & (position < memory.size)
    if inside.all():
        return memory[position]
    if not memory.size:
        return np.zeros(position.shape, memory.dtype)
    return np.where(inside, memory[np.where(inside, position, 0)], memory.dtype.type(0))


def _scatter(lanes: _Lanes, memory: Array, position: Array, value: Array, mask: Mask) -> None:
    position, value = lanes.together(mask, position, value)
    inside = (position >= 0) & (position < memory.size)
    memory[position[inside]] = value[inside]


def _load(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    return (_gather(lanes.buffers[str(i.attribute)], operands[0]),)


def _store(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    _scatter(lanes, lanes.buffers[str(i.attribute)], operands[0], operands[1], mask)
    return ()


def _in_shared(lanes: _Lanes, name: str, position: Array) -> tuple[Array, Array]:
    """All workgroups' copies of a shared array, end to end, and a position in them (-1: outside)."""
    declared = next(s for s in lanes.program.shared if s.name == name)
    if name not in lanes.shared:
        groups = -(-math.prod(lanes.grid) // (lanes.program.workgroup or 1))
        lanes.shared[name] = np.zeros(groups * declared.size, declared.dtype.numpy)
    group = lanes.lane() // (lanes.program.workgroup or 1)
    inside = (position >= 0) & (position < declared.size)
    return lanes.shared[name], np.where(inside, group * declared.size + position, -1)


def _shared_load(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    return (_gather(*_in_shared(lanes, str(i.attribute), operands[0])),)


def _shared_store(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    memory, position = _in_shared(lanes, str(i.attribute), operands[0])
    _scatter(lanes, memory, position, operands[1], mask)
    return ()


def _in_local(lanes: _Lanes, name: str, position: Array) -> tuple[Array, Array]:
    """All lanes' copies of a local array, end to end, and a position in them (-1: outside)."""
    declared = next(s for s in lanes.program.local if s.name == name)
    count = math.prod(lanes.shape)
    if name not in lanes.shared:
        lanes.shared[name] = np.zeros(count * declared.size, declared.dtype.numpy)
    number = np.arange(count, dtype=np.int64).reshape(lanes.shape)
    inside = (position >= 0) & (position < declared.size)
    return lanes.shared[name], np.where(inside, number * declared.size + position, -1)


def _local_load(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    return (_gather(*_in_local(lanes, str(i.attribute), operands[0])),)


def _local_store(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    memory, position = _in_local(lanes, str(i.attribute), operands[0])
    _scatter(lanes, memory, position, operands[1], mask)
    return ()


_ACCUMULATE = {
    Opcode.ATOMIC_ADD: np.add,
    Opcode.ATOMIC_MIN: np.minimum,
    Opcode.ATOMIC_MAX: np.maximum,
    Opcode.ATOMIC_AND: np.bitwise_and,
    Opcode.ATOMIC_OR: np.bitwise_or,
    Opcode.ATOMIC_XOR: np.bitwise_xor,
}


def _atomic(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    """One lane after another, in row-major order; the result is what each lane found."""
    name, place = str(i.attribute), operands[0]
    if name in lanes.buffers:
        memory = lanes.buffers[name]
    else:
        memory, place = _in_shared(lanes, name, place)
    numbers = np.arange(math.prod(lanes.shape), dtype=np.int64).reshape(lanes.shape)
    number_, position, *values = lanes.together(mask, numbers, place, *operands[1:])
    inside = (position >= 0) & (position < memory.size)
    order = np.argsort(position[inside], kind="stable")
    number_, position, *values = (x[inside][order] for x in (number_, position, *values))
    if i.opcode is Opcode.ATOMIC_COMPARE_EXCHANGE:
        return (_compared(memory, number_, position, *values, lanes.shape),)
    (value,) = values
    old = np.zeros(math.prod(lanes.shape), memory.dtype)
    ufunc = _ACCUMULATE.get(i.opcode)
    starts = np.flatnonzero(np.diff(position, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], position.size], strict=True):
        chain = np.concatenate([memory[position[start], None], value[start:stop]])
        if ufunc is not None:
            chain = ufunc.accumulate(chain, dtype=memory.dtype)
        old[number_[start:stop]] = chain[:-1]
        memory[position[start]] = chain[-1]
    return (old.reshape(lanes.shape),)


def _compared(
    memory: Array, lane: Array, position: Array, expected: Array, value: Array, shape: tuple[int, ...]
) -> Array:
    """What each lane found; where that is what it expected, it stored its value."""
    old = np.zeros(math.prod(shape), memory.dtype)
    for k in range(position.size):
        found = old[lane[k]] = memory[position[k]]
        if found == expected[k]:
            memory[position[k]] = value[k]
    return old.reshape(shape)


# Structure.


def _if(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    condition = operands[0]
    sides = []
    for block, side in zip(i.blocks, (condition, ~condition), strict=True):
        active = side if mask is None else mask & side
        if active.any() or not condition.size:
            lanes.run(block, None if active.all() else active)
            sides.append(tuple(lanes.values[y] for y in block.yields))
        else:
            sides.append(None)
    then, other = sides
    if then is None or other is None:
        chosen = then or other or ()
        if not chosen and i.results:  # no lane is here: any values will do
            return tuple(lanes.uniform(np.zeros((), t.numpy)) for t in i.types)
        return chosen
    return tuple(np.where(condition, x, y) for x, y in zip(then, other, strict=True))


def _loop(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    counter, stop, step, *carried = operands
    (block,) = i.blocks
    active = counter < stop if mask is None else mask & (counter < stop)
    if (active & (step <= 0)).any():
        raise ProgramError(f"{lanes.program.name}: a loop's step must be positive, got {step.min()}")
    while active.any():
        lanes.values.update(zip(block.arguments, (counter, *carried), strict=True))
        everyone = bool(active.all())
        lanes.run(block, None if everyone else active)
        following = [lanes.values[y] for y in block.yields]
        if not everyone:
            following = [np.where(active, new, old) for new, old in zip(following, carried, strict=True)]
        carried = following
        # The distance left, modulo 2^64, is right even where counter + step would wrap.
        left = stop.astype(np.uint64) - counter.astype(np.uint64)
        active = active & (left > step.astype(np.uint64))
        counter = counter + step
    return tuple(carried)


def _while(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    condition, *carried = operands
    (block,) = i.blocks
    active = condition if mask is None else mask & condition
    while active.any():
        lanes.values.update(zip(block.arguments, carried, strict=True))
        everyone = bool(active.all())
        lanes.run(block, None if everyone else active)
        again, *following = (lanes.values[y] for y in block.yields)
        if not everyone:
            following = [np.where(active, new, old) for new, old in zip(following, carried, strict=True)]
        carried = following
        active = active & again
    return tuple(carried)


def _barrier(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    return ()


def _shuffle(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    """What another lane of the subgroup has; 0 of one that is not there."""
    value, number_ = operands
    width, lane = int(i.attribute or 1), lanes.lane()
    source = lane - lane % (lanes.program.workgroup or 1) % width + number_.astype(np.int64) % width
    return (_gather(np.broadcast_to(value, lanes.shape).reshape(-1), source),)


# Reductions.


def _reduce(lanes: _Lanes, i: Instruction, operands: Arrays, mask: Mask) -> Arrays:
    """Folds the reduced axes; floats add and multiply in float64 and are rounded once."""
    first_reduced = lanes.program.rank - lanes.program.reduced
    axes = tuple(range(first_reduced, lanes.program.rank))
    x = operands[0]
    x = np.broadcast_to(x, x.shape[:first_reduced] + lanes.shape[first_reduced:])
    ufunc, start = _FOLDS[i.opcode], number(identity(i.opcode, i.type), i.type)
    if i.opcode in (Opcode.REDUCE_MIN, Opcode.REDUCE_MAX):
        folded = ufunc.reduce(wide(x), axis=axes, keepdims=True, initial=wide(start)[()])
    else:
        accumulator = np.complex128 if i.type.is_complex else np.float64 if i.type.is_float else i.type.numpy
        folded = ufunc.reduce(x.astype(accumulator), axis=axes, keepdims=True, dtype=accumulator)
    return (narrow(folded, i.type) if i.type.is_inexact else folded,)


_FOLDS: dict[Opcode, np.ufunc] = {
    Opcode.REDUCE_ADD: np.add,
    Opcode.REDUCE_MUL: np.multiply,
    Opcode.REDUCE_MIN: np.minimum,
    Opcode.REDUCE_MAX: np.maximum,
}

_STEPS: dict[Opcode, Step] = {
    Opcode.COORDINATE: _position(_Lanes.coordinate),
    Opcode.EXTENT: _position(lambda lanes, axis: lanes.uniform(np.array(lanes.grid[axis], np.int64))),
    Opcode.LANE: _position(lambda lanes, _: lanes.lane()),
    Opcode.WORKGROUP: _position(lambda lanes, _: lanes.lane() // (lanes.program.workgroup or 1)),
    Opcode.THREAD: _position(lambda lanes, _: lanes.lane() % (lanes.program.workgroup or 1)),
    Opcode.CONSTANT: _constant,
    Opcode.SCALAR: _scalar,
    Opcode.LOAD: _load,
    Opcode.STORE: _store,
    Opcode.SHARED_LOAD: _shared_load,
    Opcode.SHARED_AGREED: _shared_load,
    Opcode.SHARED_STORE: _shared_store,
    Opcode.IF: _if,
    Opcode.LOOP: _loop,
    Opcode.WHILE: _while,
    Opcode.LOCAL_LOAD: _local_load,
    Opcode.LOCAL_STORE: _local_store,
    Opcode.BARRIER: _barrier,
    Opcode.SHUFFLE: _shuffle,
    **dict.fromkeys(ATOMICS, _atomic),
    **dict.fromkeys(REDUCTIONS, _reduce),
}
