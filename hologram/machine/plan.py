"""What an operation asks a device to run: kernels, the operands of each, and scratch memory in between."""

from __future__ import annotations

from hologram.atlas.program import Access, BufferParameter, Launchable, Program, ScalarParameter
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


ACCUMULATOR = "ACC"  # the name of a tile's type of accumulation: what `epilogue` takes and gives


def reading(dtype: DType, *names: str) -> tuple[BufferParameter, ...]:
    """Buffers that a tile reads."""
    return tuple(BufferParameter(name, dtype, Access.READ) for name in names)


def writing(dtype: DType, *names: str) -> tuple[BufferParameter, ...]:
    """Buffers that a tile writes."""
    return tuple(BufferParameter(name, dtype, Access.WRITE) for name in names)


def told(dtype: DType, *names: str) -> tuple[ScalarParameter, ...]:
    """Scalars of a tile."""
    return tuple(ScalarParameter(name, dtype) for name in names)


@frozen
class Tile(Launchable):
    """A hand-written kernel: the stem of its shader files and the names its prelude declares.

    `types` gives names like `T` their dtype, `constants` names like `TILE_M` their value. `buffers` and `scalars` are
    the bindings in order. `workgroup` and the grid of a launch are in threads and workgroups. Buffers that `maps` names
    are bound as such; `shared_bytes` of workgroup memory are asked for, beside what the file declares.
    """

    reduced = 0

    stem: str
    buffers: tuple[BufferParameter, ...]
    scalars: tuple[ScalarParameter, ...]
    types: tuple[tuple[str, DType], ...] = ()
    constants: tuple[tuple[str, int | float | bool], ...] = ()
    workgroup: tuple[int, int, int] = (64, 1, 1)
    # An element-wise Atlas program the shader applies to each result before storing it: the prelude declares it as
    # `epilogue(value, row, column)`. None: the identity.
    epilogue: Program | None = None
    maps: tuple[TensorMap, ...] = ()
    shared_bytes: int = 0

    __hash__ = Launchable.__hash__

    @property
    def name(self) -> str:  # type: ignore[override]
        """The entry point in each of its files."""
        return f"atlas_{self.stem}"

    @property
    def accumulates(self) -> bool:
        """Whether its files call `epilogue`."""
        return ACCUMULATOR in dict(self.types)

    def __str__(self) -> str:
        """What the prelude declares, and the epilogue."""
        lines = [
            f"buffers {', '.join(f'{b.name}: {b.dtype} ({b.access.value})' for b in self.buffers)}",
            f"scalars {', '.join(f'{s.name}: {s.dtype}' for s in self.scalars) or 'none'}",
            f"types {', '.join(f'{name} = {dtype}' for name, dtype in self.types) or 'none'}",
            f"constants {', '.join(f'{name} = {value}' for name, value in self.constants) or 'none'}",
            f"workgroup {' x '.join(map(str, self.workgroup))}",
        ]
        if self.epilogue is not None:
            lines += ["epilogue", f"{self.epilogue}"]
        return "\n".join(lines)


ORDER = "order_rows"  # a backend's own code, where Limits.own_orders: (rows, n) keys to their stable order
# Likewise, where Limits.own_transforms: transforms along an axis, and spectra of real numbers from those of pairs.
FOURIER, FOURIER_HALVES = "fourier", "fourier_halves"
ATTENTION_FEW = "attention_few"  # few queries that attend to many keys
# And where Limits.own_packed: few rows times packed weights, rows times those of their experts, and weights as floats.
PACKED_PRODUCT, PACKED_EXPERTS, PACKED_WEIGHTS = "packed_product", "packed_experts", "packed_weights"
# A library of the host's, on stacks of matrices: what Limits.factors names of these.
BY_LU = ("lu", "lu_solve")
FACTORS = (
    "cholesky", "triangular", *BY_LU, "solve", "inverse", "det", "slogdet",
    "qr", "eigh", "eigvalsh", "svd", "svdvals", "eig",
)  # fmt: skip


@frozen
class Step:
    """One launch. `operands` are positions in the operation's inputs, then outputs, then the plan's scratch."""

    kernel: Launchable
    operands: tuple[int, ...]
    scalars: tuple[int | float | bool, ...]
    grid: tuple[int, ...]

    @property
    def program(self) -> Program:
        """The kernel of a step that is no tile's."""
        assert isinstance(self.kernel, Program), f"{self.kernel.name} is written by hand"
        return self.kernel


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
