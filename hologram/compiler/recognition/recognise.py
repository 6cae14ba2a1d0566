"""Recognition: a launch of a program that computes what a tuned kernel does runs as that kernel.

What is compared is the whole program and its launch: the program with its scalars and sizes as numbers, in canonical
form, must have the identity of one of the known spellings (naive.py) written for the sizes that its buffers hold. One
store more, another stride or another lane count gives another identity, and the program runs as it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import permutations
from typing import Any

from hologram.atlas.opcodes import REDUCTIONS, Opcode
from hologram.atlas.program import Program
from hologram.compiler.pipeline import canonical
from hologram.compiler.recognition.specialise import Specialised, specialised
from hologram.compiler.recognition.templates import (
    MARKS,
    PREFIX_SUMS,
    PRODUCTS,
    SOFTMAXES,
    Grid,
    Sizes,
    Spelling,
)
from hologram.foundation.dtypes import FLOATS, DType, f32, f64, i32, i64, u32, u64
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.operation import Operation
from hologram.opset.forms.steps import Steps
from hologram.opset.matmul import matmul
from hologram.opset.neural.norm import softmax
from hologram.opset.scan import cumsum

LONGEST = 96  # instructions; no spelling has as many
MAX_TEMPLATES = 512
MANY_ROWS = 4096  # keep a GPU busy with a lane each

# What spellings are made of; a program with anything else is none of them.
_VOCABULARY = MARKS | {
    Opcode.COORDINATE, Opcode.EXTENT, Opcode.LANE, Opcode.CONSTANT, Opcode.SCALAR, Opcode.LOAD, Opcode.STORE,
    Opcode.CONVERT, Opcode.ADD, Opcode.SUB, Opcode.MUL, Opcode.DIV, Opcode.MAX, Opcode.NEG,
    Opcode.IF, Opcode.LT, Opcode.LE, Opcode.AND,  # a guard that all lanes pass is none
}  # fmt: skip

Solve = Callable[[Sequence[int], Grid], Iterable[Sizes]]


@frozen
class Pattern:
    """A computation, the ways to write it, and the operation that does it well.

    `sizes` finds the problem's sizes from those of the buffers (reads, then the result) and the grid; `shapes` gives
    the buffers' shapes, and `attributes` the operation's attributes for a dtype.
    """

    name: str
    operation: Operation
    spellings: tuple[Spelling, ...]
    dtypes: tuple[DType, ...]
    reads: int
    sizes: Solve
    shapes: Callable[[Sizes], tuple[tuple[int, ...], ...]]
    attributes: Callable[[DType], Mapping[str, Any]] = field(default=lambda _: {})
    # Whether the operation is the faster on a device; where it is not, a program runs as it is written.
    pays: Callable[[Sizes, Limits], bool] = field(default=lambda sizes, limits: True)


@frozen
class Recognition:
    """What a launch was recognised as; `positions` are the program's buffers in the operation's order."""

    pattern: Pattern
    spelling: Spelling
    dtype: DType
    sizes: Sizes
    positions: tuple[int, ...]
    buffers: int  # how many the program has

    @property
    def name(self) -> str:
        return self.pattern.name

    def pays(self, limits: Limits) -> bool:
        """Whether the operation is the faster on a device."""
        return self.pattern.pays(self.sizes, limits)

    def plan(self, target: Target) -> Plan:
        """The operation's plan, on the program's buffers."""
        *inputs, out = self._layouts()
        attributes = self.pattern.attributes(self.dtype)
        steps = Steps(self.buffers)
        steps.extend(self.pattern.operation.plan(inputs, (out,), attributes, target), self.positions)
        return steps.plan()

    def _layouts(self) -> list[Layout]:
        shapes = self.pattern.shapes(self.sizes)
        transposed = (*self.spelling.transposed, *(False,) * len(shapes))
        return [
            Layout.contiguous(self.dtype, shape[::-1]).permute((1, 0))
            if flipped
            else Layout.contiguous(self.dtype, shape)
            for shape, flipped in zip(shapes, transposed, strict=False)
        ]

    def __str__(self) -> str:
        sizes = " x ".join(map(str, self.sizes))
        return f"{self.name} {sizes} of {self.dtype} ({self.spelling.name}) runs as {self.pattern.operation.name}"


# The computations.


def _product_sizes(buffers: Sequence[int], grid: Grid) -> Iterable[Sizes]:
    """a holds m k elements, b k n and out m n: k² = a b / out."""
    a, b, out = buffers
    k = math.isqrt(int(a * b // out)) if out else 0
    if k and not a % k and not b % k and (a // k) * (b // k) == out:
        yield a // k, k, b // k


def _row_sizes(buffers: Sequence[int], grid: Grid) -> Iterable[Sizes]:
    """Rows as many as lanes, or all one row."""
    x, out = buffers
    if x == out and x:
        yield from ((rows, x // rows) for rows in dict.fromkeys((grid[0], 1)) if not x % rows)


_COMPUTED = (*FLOATS, i32, u32, i64, u64)

PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        name="matrix product",
        operation=matmul,
        spellings=PRODUCTS,
        dtypes=_COMPUTED,
        reads=2,
        sizes=_product_sizes,
        shapes=lambda sizes: (sizes[:2], sizes[1:], (sizes[0], sizes[2])),
    ),
    Pattern(
        name="softmax of rows",
        operation=softmax,
        spellings=SOFTMAXES,
        dtypes=(f32, f64),  # a naive one in 16 bits rounds what it keeps
        reads=1,
        sizes=_row_sizes,
        shapes=lambda sizes: (sizes, sizes),
        attributes=lambda dtype: {"dim": -1},
    ),
    Pattern(
        name="prefix sum",
        operation=cumsum,
        spellings=PREFIX_SUMS,
        dtypes=_COMPUTED,
        reads=1,
        sizes=_row_sizes,
        shapes=lambda sizes: (sizes, sizes),
        attributes=lambda dtype: {"axis": -1, "dtype": dtype},
        pays=lambda sizes, limits: sizes[0] < (limits.parallelism or MANY_ROWS),
    ),
)


# Finding them.


def recognise(
    program: Program, grid: Sequence[int], scalars: Sequence[int | float | bool], sizes: Sequence[int]
) -> Recognition | None:
    """What a launch computes, if that is known; `sizes` are the buffers' elements.

    The caller must see to it that the buffers share no memory: a program that works in place computes something else.
    """
    if 0 in grid or 0 in sizes or not _might_be(program):
        return None
    special = specialised(program, grid, scalars)
    dtypes = {b.dtype for b in special.program.buffers}
    if len(dtypes) != 1 or len(special.writes) != 1:
        return None
    (dtype,) = dtypes
    places = {b.name: k for k, b in enumerate(program.buffers)}
    marks = special.program.opcodes & MARKS
    for pattern in PATTERNS:
        if dtype not in pattern.dtypes or len(special.reads) != pattern.reads:
            continue
        for reads in permutations(special.reads):
            buffers = (*reads, *special.writes)
            positions = tuple(places[b.name] for b in buffers)
            wanted = special.reordered(buffers)
            for problem in pattern.sizes([sizes[k] for k in positions], special.grid):
                for spelling in pattern.spellings:
                    if _same(wanted, marks, spelling, dtype, problem):
                        return Recognition(pattern, spelling, dtype, problem, positions, len(program.buffers))
    return None


def _might_be(program: Program) -> bool:
    """A cheap look, at what is cached, before anything is rewritten."""
    if program.workgroup is not None or not program.opcodes & (REDUCTIONS | {Opcode.LOOP}):
        return False
    body = canonical(program).body
    walk = tuple(body.walk())
    if len(walk) > LONGEST or not {i.opcode for i in walk} <= _VOCABULARY:
        return False
    # No spelling has numbers from outside but sizes, more than one result, or more than two operands.
    stored = {i.attribute for i in walk if i.opcode is Opcode.STORE}
    loaded = {i.attribute for i in walk if i.opcode is Opcode.LOAD}
    sizes = all(i.type.kind != "float" for i in walk if i.opcode is Opcode.SCALAR)
    return sizes and len(stored) == 1 and 1 <= len(loaded - stored) <= 2


def _same(
    wanted: Specialised, marks: frozenset[Opcode], spelling: Spelling, dtype: DType, problem: Sizes
) -> bool:
    """Whether the launch is that of a spelling; what is cheap to compare comes first."""
    if _long(spelling.grid(problem)) != _long(wanted.grid) or spelling.marks - {Opcode.REM} != marks - {
        Opcode.REM
    }:
        return False
    template = _template(spelling, dtype, problem)
    return template.grid == wanted.grid and template.identity == wanted.identity


def _long(grid: Grid) -> list[int]:
    return [n for n in grid if n != 1]


@lru_cache(maxsize=MAX_TEMPLATES)
def _template(spelling: Spelling, dtype: DType, problem: Sizes) -> Specialised:
    """A spelling for given sizes."""
    return specialised(spelling.write(dtype, problem), spelling.grid(problem), ())
