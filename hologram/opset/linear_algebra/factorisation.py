"""The form of what takes matrices apart: by LAPACK where memory is the host's, or by programs, block by block.

Operands are matrices, or stacks of some, of one dtype of DTYPES. Where an operation can fail, its last result, `info`
(i32, one for each matrix), is 0 where it did not. Nothing is raised here: a launch is not waited for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from hologram.foundation.dtypes import DType, c64, c128, f32, f64, i32, index
from hologram.foundation.errors import LinAlgError, ShapeError, UnsupportedDType, UnsupportedOperation
from hologram.foundation.frozen import frozen
from hologram.machine.axes import broadcast
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Step, Target, Tile, reading, told, writing
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.linear_algebra.small.matrix import MANY, Made, fits

DTYPES = (f32, f64, c64, c128)
# Results, and parts of some, that are real where operands are complex.
REAL = frozenset(("values", "s", "logarithm", "real", "imaginary", "real_vectors", "imaginary_vectors"))
POSITIONS = ("pivots", "order")  # of rows, i32, a list for each matrix
Shapes = Mapping[str, tuple[int, ...]]  # of the results, by their names; `info` holds codes
Blocks = Callable[[Steps, Sequence[Place], Sequence[Place], Attributes, Target], None]


@frozen(eq=False, repr=False)
class Factorisation(Operation):
    """An operation on matrices: `stem` is the name of its tile, `shapes(*shapes, **attributes)` gives the results'.

    `blocks` appends it as steps of programs; a device that has neither refuses it by name. `small(dtype, *sizes,
    **attributes)` is one program for a stack of matrices of few rows and columns, a lane for each (small/); of many
    it is taken before LAPACK, and code of the CPU's own, up to `sooner` rows and columns, where it takes less time.
    """

    stem: str = ""
    shapes: Callable[..., Shapes] = field(default=lambda *shapes, **attributes: {})
    blocks: Blocks | None = None
    small: Callable[..., Made] | None = None
    sooner: int = 0

    @property
    def results(self) -> int:
        return len(self.shapes(*((2, 2) for _ in self.operands), **self.attributes))

    def here(self, limits: Limits, operands: Sequence[Any] = ()) -> bool:
        return self.stem in limits.factors or self.blocks is not None

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        matrices = self._matrices(inputs)
        named = self.shapes(*(m.shape for m in matrices), **attributes)
        dtype = matrices[0].dtype
        return tuple(Layout.contiguous(_dtype(name, dtype), shape) for name, shape in named.items())

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        if not any(o.size for o in outputs):
            return Plan(())
        steps = Steps(len(inputs) + len(outputs))
        matrices = self._matrices(inputs)
        axes = [_axes(name) for name in self.operands]
        batch = broadcast([m.shape[:-n] for m, n in zip(matrices, axes, strict=True)], self.name)
        sources = [
            Place(k, m.expand((*batch, *m.shape[-n:])))
            for k, (m, n) in enumerate(zip(matrices, axes, strict=True))
        ]
        ends = [Place(len(inputs) + k, o) for k, o in enumerate(outputs)]
        whole = [e if _in_order(e.layout) else steps.place(e.layout.dtype, e.layout.shape) for e in ends]
        library = self.stem in target.limits.factors
        lanes = None
        most = max(sources[0].layout.shape[-2:])
        if not library or (most <= self.sooner and math.prod(batch) >= MANY):
            lanes = self._by_lanes(sources, attributes, target.limits)
        if library and lanes is None:
            self._by_library(steps, [steps.gathered(s) for s in sources], whole, attributes)
        elif lanes is not None:
            count = math.prod(batch)
            own = [steps.place(dtype, (count * size,)) for dtype, size in lanes.scratch]
            places = [*(steps.gathered(s) for s in sources), *whole, *own]
            steps.run(lanes.program, places, lanes.numbers, (count,))
        elif self.blocks is not None:
            self.blocks(steps, sources, whole, attributes, target)
        else:
            raise UnsupportedOperation(f"{self.name}: the device has no kernels for it")
        for made, end in zip(whole, ends, strict=True):
            if made is not end:
                steps.copy(made, end)
        return steps.plan()

    def _by_lanes(self, sources: Sequence[Place], attributes: Attributes, limits: Limits) -> Made | None:
        """The program of a lane for each matrix, where matrices are small."""
        if self.small is None or not all(_few(s.layout) for s in sources):
            return None
        made = self.small(sources[0].layout.dtype, *(s.layout.shape[-2:] for s in sources), **attributes)
        return None if limits.loop_turns and made.turns > limits.loop_turns else made

    def _by_library(
        self, steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes
    ) -> None:
        """One launch, which is told the sizes of all it sees, a stack each."""
        read = dict(zip(self.operands, sources, strict=True))
        named = self.shapes(*(p.layout.shape for p in sources), **attributes)
        written = dict(zip(named, results, strict=True))
        lead = sources[0].layout.ndim - _axes(self.operands[0])
        count = math.prod(sources[0].layout.shape[:lead])
        sizes = {
            f"{name}_{axis}": n
            for name, place in (read | written).items()
            for axis, n in enumerate((count, *place.layout.shape[lead:]))
        }
        tile = Tile(
            stem=self.stem,
            buffers=(
                *(b for name, p in read.items() for b in reading(p.layout.dtype, name)),
                *(b for name, p in written.items() for b in writing(p.layout.dtype, name)),
            ),
            scalars=told(index, *sizes),
            constants=tuple((name.upper(), bool(value)) for name, value in attributes.items()),
        )
        positions = [p.position for p in (*sources, *results)]
        steps.add(Step(tile, tuple(range(len(positions))), tuple(sizes.values()), (1, 1, 1)), positions)

    def _matrices(self, inputs: Inputs) -> list[Layout]:
        """The operands, after the checks that all have in common."""
        matrices: list[Layout] = []
        for name, given in zip(self.operands, inputs, strict=True):
            if not isinstance(given, Layout) or given.ndim < _axes(name):
                shape = getattr(given, "shape", given)
                raise ShapeError(f"{self.name}: {name} must be a matrix or a stack of some, got {shape}")
            if name in POSITIONS and given.dtype is not i32:
                raise UnsupportedDType(f"{self.name}: {name} must be i32, got {given.dtype}")
            matrices.append(given)
        kinds = {m.dtype for name, m in zip(self.operands, matrices, strict=True) if name not in POSITIONS}
        if len(kinds) > 1 or not kinds <= set(DTYPES):
            got = ", ".join(str(m.dtype) for m in matrices)
            raise UnsupportedDType(
                f"{self.name}: operands of one dtype, f32, f64, c64 or c128, are needed, got {got}"
            )
        return matrices


def _in_order(layout: Layout) -> bool:
    return layout.is_contiguous and not layout.offset


def _few(matrices: Layout) -> bool:
    *batch, rows, columns = matrices.shape
    return fits(math.prod(batch), (rows, columns))


def _axes(name: str) -> int:
    """How many axes an operand has at least."""
    return 1 if name in POSITIONS else 2


def _dtype(name: str, dtype: DType) -> DType:
    if name in ("info", *POSITIONS):
        return i32
    return dtype.part if name in REAL else dtype


FACTORISATIONS: dict[str, Factorisation] = {}  # what `hg.linalg` is made of


def factored(stem: str, **facts: Any) -> Callable[[Callable[..., Any]], Factorisation]:
    """Declares an operation on matrices that `hg.linalg` is made of; it is no function of `hg` itself."""

    def declare(function: Callable[..., Any]) -> Factorisation:
        made = Factorisation(
            name=f"linalg.{function.__name__}",
            function=function,
            reference=_no_reference,
            samples=lambda rng, dtype: (),
            dtypes=DTYPES,
            methods=False,
            stem=stem,
            **facts,
        )
        return FACTORISATIONS.setdefault(function.__name__, made)

    return declare


def _no_reference(*operands: Any, **attributes: Any) -> Any:
    """Factors are not unique: tests multiply them."""
    raise NotImplementedError


def square(who: str, shape: Sequence[int]) -> int:
    """The size of square matrices; LinAlgError for others, as NumPy."""
    rows, columns = shape[-2:]
    if rows != columns:
        raise LinAlgError(f"{who}: square matrices are needed, got shape {tuple(shape)}")
    return rows
