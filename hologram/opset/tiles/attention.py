"""How attention runs: one tile kernel where it applies, else two products with a softmax between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from hologram.atlas import builder as atlas
from hologram.atlas.builder import Builder, Value, reduce_add, reduce_max, select
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import fixed_range
from hologram.machine.choices import Candidate, Problem, chosen
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention_tile import tile_steps, tile_ways
from hologram.opset.tiles.attention_units import unit_steps, unit_ways
from hologram.opset.tiles.product import product_plan


@frozen
class Attended:
    """The operands of an attention, checked and broadcast."""

    q: Layout  # (batch..., l, e)
    k: Layout  # (batch..., s, e)
    v: Layout  # (batch..., s, ev)
    mask: Layout | None  # (batch..., l, s)
    own: int = 0  # heads with keys of their own, where the last batch axis is of heads that share them

    @property
    def shape(self) -> tuple[int, ...]:
        """The result's, of which heads are one axis."""
        *batch, rows, _ = self.q.shape
        if self.own:
            batch[-2:] = (batch[-2] * batch[-1],)
        return (*batch, rows, self.v.shape[-1])

    @property
    def dtype(self) -> DType:
        return self.q.dtype


KERNEL = "attention"  # of a Problem
COMPOSED = Candidate("composed", (), (0, 0))
BLOCK_BYTES = 2 << 20  # of scores on a CPU: near a core's second cache, and enough for its products
BLOCK_BYTES_OF_GPUS = 64 << 20  # enough work for one launch
MOST_BLOCKS = 4  # of scores that are kept whole
LEAST_ROWS = 32  # of a block, that products are worth it


def problem(found: Attended, causal: bool) -> Problem:
    """What calls share that are tuned together."""
    (rows, e), (keys, ev) = found.q.shape[-2:], found.v.shape[-2:]
    sizes = (math.prod(found.q.shape[:-2]), rows, keys, max(e, ev))
    return Problem(KERNEL, found.dtype, sizes, (causal, found.mask is not None))


def ways(asked: Problem, limits: Limits) -> tuple[Candidate, ...]:
    """Every way a device can go, the default first: matrix units, the tile on GPUs, composed where a CPU is one."""
    units, tiles = (
        unit_ways(asked.dtype, asked.sizes[-1], limits),
        tile_ways(asked.dtype, asked.sizes[-1], limits),
    )
    return (*units, *tiles, COMPOSED) if limits.workgroup_memory else (*units, COMPOSED, *tiles)


def attention_plan(found: Attended, out: Layout, causal: bool, scale: float, target: Target) -> Plan:
    """By matrix units where they take it; else in the computing dtype, by the tile where it applies, or composed."""
    steps = Steps(5)
    asked = problem(found, causal)
    possible = ways(asked, target.limits)
    units = unit_ways(asked.dtype, asked.sizes[-1], target.limits)
    way = chosen(asked, possible, target.choices)
    if way in units:
        if unit_steps(steps, (found.q, found.k, found.v), found.mask, out, causal, scale, target.limits, way):
            return steps.plan()
        way = next(c for c in possible if c not in units)
    computed = found.dtype.computed
    q, k, v = (
        Place(p, i) if i.dtype == computed else steps.converted(Place(p, i), computed)
        for p, i in enumerate((found.q, found.k, found.v))
    )
    result = Place(4, out) if out.dtype == computed else steps.place(computed, out.shape)
    tiled = way != COMPOSED and tile_steps(
        steps, (q, k, v), found.mask, result, causal, scale, target.limits, way
    )
    if not tiled:
        _composed(steps, (q, k, v), found.mask, result, causal, scale, target)
    if result.position != 4:
        steps.copy(result, Place(4, out))
    return steps.plan()


@lru_cache(maxsize=256)
def weights_program(scores: Address, mask: Address | None, out: Address, causal: bool) -> Program:
    """out = softmax(scores * scale, masked) along the last axis; rows of -infinity give zeros, as in torch."""
    rank = len(scores.steps)
    b = Builder(f"atlas_attention_weights_{scores.dtype}", rank=rank, reduced=1)
    at = [b.coordinate(axis) for axis in range(rank)]
    value = Operand(b, "scores", scores, Access.READ, scores.dtype).at(*at)
    value = value * b.scalar("scale", scores.dtype)
    if mask is not None:
        given = Operand(
            b, "mask", mask, Access.READ, mask.dtype if mask.dtype.kind == "bool" else scores.dtype
        )
        found = given.at(*at)
        value = masked(value, found)
    if causal:
        value = kept(at[-1] <= at[-2] + b.scalar("first", at[-2].dtype), value)
    result = Operand(b, "out", out, Access.WRITE, scores.dtype)
    result.put(softmax_or_zero(value), *at)
    return b.build()


def kept(condition: Value, value: Value) -> Value:
    """A score that counts where the condition holds."""
    # Not -infinity, with which LLVM makes the row's maximum one that it does not vectorise.
    return select(condition, value, float(np.finfo(value.dtype.numpy).min))


def masked(value: Value, mask: Value) -> Value:
    """A score under a mask: kept where a bool one is true; a float one is added, and hides it by -infinity alone."""
    if mask.dtype.kind == "bool":
        return kept(mask, value)
    least = (
        float(np.finfo(value.dtype.numpy).min) / 4
    )  # above what hidden scores are, whatever it is added to
    return kept(mask != -math.inf, value + select(mask < least, least, mask))


def softmax_or_zero(value: Value) -> Value:
    """The softmax of a row; 0 where nothing counts."""
    info = np.finfo(value.dtype.numpy)
    top = reduce_max(value)
    shifted = value - select(top <= float(info.min), 0.0, top)
    # Powers that are 0 are slow to compute, as all whose results are denormal on the way.
    nothing = shifted < math.log(info.smallest_subnormal) - 1.0
    weight = select(nothing, 0.0, atlas.exp(select(nothing, 0.0, shifted)))
    total = reduce_add(weight)
    return weight / select(total == 0.0, 1.0, total)


def _composed(
    steps: Steps,
    operands: tuple[Place, Place, Place],
    mask: Layout | None,
    result: Place,
    causal: bool,
    scale: float,
    target: Target,
) -> None:
    """Scores, their softmax in place, and the second product: of all, or block by block in a core's cache."""
    q, k, v = operands
    computed, ndim = q.layout.dtype, k.layout.ndim
    keys = Place(k.position, k.layout.permute((*range(ndim - 2), ndim - 1, ndim - 2)))
    shape = (*q.layout.shape[:-1], keys.layout.shape[-1])
    parts = [Block.whole(shape)]
    if is_large(shape, computed, target.limits):
        parts = list(blocks(shape, computed, causal, target.limits))
    scores = steps.place(computed, (max(math.prod(block.shape) for block in parts),))
    for block in parts:
        # Of q, scores, keys, v, the mask and the result: queries are the last axis but one, keys the last or that of v.
        of_q, of_keys = block.of(q, rows=-2), block.of(keys, columns=-1)
        of_v, of_result = block.of(v, columns=-2), block.of(result, rows=-2)
        masked_by = None if mask is None else block.of(Place(3, mask), rows=-2, columns=-1).layout
        part = Place(scores.position, Layout.contiguous(computed, block.shape))
        if part.layout.size:
            multiply(steps, of_q, of_keys, part, target)
            weigh(steps, part, masked_by, block.rows[0] if causal else None, scale)
        multiply(steps, part, of_v, of_result, target)


def multiply(steps: Steps, a: Place, b: Place, out: Place, target: Target) -> None:
    """out = a @ b; entries along the last batch axis that share b give rows of one product, where they lie so."""
    left, right, result = a.layout, b.layout, out.layout
    if left.ndim > 2 and left.shape[-3] > 1 and right.strides[-3] == 0:
        *batch, entries, rows, inner = left.shape
        joined = left.reshape((*batch, entries * rows, inner))
        written = result.reshape((*batch, entries * rows, result.shape[-1])) if result.size else None
        if joined is not None and written is not None:
            left, right, result = joined, right.select(-3, 0), written
    plan = product_plan(left, right, result, result.dtype, target)
    steps.extend(plan, (a.position, b.position, out.position))


def weigh(steps: Steps, scores: Place, mask: Layout | None, first: int | None, scale: float) -> None:
    """The softmax of scores in place; of causal ones `first` is the number of the first row."""
    masks = () if mask is None else (mask,)
    layouts = (scores.layout, *masks, scores.layout)
    named = {"scale": scale} | ({} if first is None else {"first": first})
    numbers = numbers_of(("scores", *("mask" for _ in masks), "out"), layouts, named)
    address = Address.of(scores.layout)
    program = weights_program(address, None if mask is None else Address.of(mask), address, first is not None)
    positions = (scores.position, *(3 for _ in masks), scores.position)
    steps.add(step_of(program, range(len(layouts)), numbers, scores.layout.shape), positions)


@frozen
class Block:
    """A part of the scores (batch..., l, s): one entry of the outer batch axes, and ranges of the other three."""

    outer: tuple[int, ...]
    heads: tuple[int, int] | None  # from, and how many; None: there is no batch, or the block is all of it
    rows: tuple[int, int]
    columns: int  # from the first on
    shape: tuple[int, ...]

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> Block:
        return cls((), None, (0, shape[-2]), shape[-1], shape)

    def of(self, place: Place, rows: int | None = None, columns: int | None = None) -> Place:
        """What of an operand it is about; `rows` and `columns` say which axes are those of the scores."""
        layout = place.layout
        for position in self.outer:
            layout = layout.select(0, position)
        if self.heads is not None:
            layout = layout.narrow(0, *self.heads)
        if rows is not None:
            layout = layout.narrow(rows, *self.rows)
        if columns is not None:
            layout = layout.narrow(columns, 0, self.columns)
        return Place(place.position, layout)


def _block_bytes(limits: Limits) -> int:
    return BLOCK_BYTES if limits.serial_workgroups else BLOCK_BYTES_OF_GPUS


def is_large(shape: tuple[int, ...], dtype: DType, limits: Limits) -> bool:
    """Whether scores are computed block by block, as they are more than a few blocks."""
    return math.prod(shape) * dtype.itemsize > MOST_BLOCKS * _block_bytes(limits)


def blocks(shape: tuple[int, ...], dtype: DType, causal: bool, limits: Limits) -> Iterator[Block]:
    """Blocks of scores; causal ones leave out the keys that none of their rows looks at."""
    elements = _block_bytes(limits) // dtype.itemsize
    *batch, rows, columns = shape
    heads = max(1, elements // (rows * columns))
    step = rows if heads > 1 else min(rows, max(LEAST_ROWS, elements // columns))
    for outer in np.ndindex(*batch[:-1]):
        for head in fixed_range(0, batch[-1], heads) if batch else (0,):
            of_heads = (head, min(heads, batch[-1] - head)) if batch else None
            for first in fixed_range(0, rows, step):
                count = min(step, rows - first)
                seen = min(columns, first + count) if causal else columns
                part = (of_heads[1], count, seen) if of_heads else (count, seen)
                yield Block(outer, of_heads, (first, count), seen, part)
