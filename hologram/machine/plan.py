"""What an operation asks a device to run: kernels, the operands of each, and scratch memory in between."""

from __future__ import annotations

from hologram.atlas.program import Program
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.machine.choices import Choices, untuned
from hologram.machine.limits import Limits


@frozen
class Target:
    """What a plan is made for: a device's limits, and the ways that were measured to be the fastest on it."""

    limits: Limits
    choices: Choices = untuned


class Given(float):
    """A number that a launch is told at the call: argument number `argument`, now this value.

    A plan may only hand it on to a step's scalars; what computes with it gets a plain number, and the launch is then
    for that number alone.
    """

    argument: int

    @staticmethod
    def of(value: float, argument: int) -> Given:
        given = Given(value)
        given.argument = argument
        return given


@frozen
class TensorMap:
    """How a kernel sees a buffer of which the device itself copies boxes: a tensor with axes, the innermost first.

    `sizes`, `strides` (of all axes but the innermost, whose elements are neighbours) and `offset` name scalars of the
    launch, in elements; `box` is what one copy takes along each axis. What is outside of the tensor is copied as zeros.
    """

    buffer: str
    offset: str
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    box: tuple[int, ...]


@frozen
class Tile:
    """A hand-written kernel: the stem of its shader files and the names its prelude declares.

    `types` gives names like `T` their dtype, `constants` names like `TILE_M` their value. `buffers` and `scalars` are
    the bindings in order. `workgroup` and the grid of a launch are in threads and workgroups. Buffers that `maps` names
    are bound as such; `shared_bytes` of workgroup memory are asked for, beside what the file declares.
    """

    stem: str
    entry: str
    buffers: tuple[tuple[str, DType, str], ...]  # name, dtype, access: "read", "write" or "read_write"
    scalars: tuple[tuple[str, DType], ...]
    types: tuple[tuple[str, DType], ...] = ()
    constants: tuple[tuple[str, int | float | bool], ...] = ()
    workgroup: tuple[int, int, int] = (64, 1, 1)
    # An element-wise Atlas program the shader applies to each result before storing it: the prelude declares it as
    # `epilogue(value, row, column)`. None: the identity.
    epilogue: Program | None = None
    maps: tuple[TensorMap, ...] = ()
    shared_bytes: int = 0


ORDER = "order_rows"  # a backend's own code, where Limits.own_orders: (rows, n) keys to their stable order


@frozen
class Step:
    """One launch. `operands` are positions in the operation's inputs, then outputs, then the plan's scratch."""

    kernel: Program | Tile
    operands: tuple[int, ...]
    scalars: tuple[int | float | bool, ...]
    grid: tuple[int, ...]


@frozen
class Scratch:
    """Memory that lives while a plan runs."""

    dtype: DType
    size: int  # elements


@frozen
class Plan:
    """Steps in order; an empty plan computes nothing (an empty output)."""

    steps: tuple[Step, ...]
    scratch: tuple[Scratch, ...] = ()
