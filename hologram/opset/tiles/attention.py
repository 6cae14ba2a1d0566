"""How attention runs: one tile kernel where it applies, else two products with a softmax between them."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from hologram.atlas import builder as atlas
from hologram.atlas.builder import Builder, Value, reduce_add, reduce_max, select
from hologram.atlas.program import Access, Program
from hologram.dtypes import DType, f32, u32
from hologram.layout import Layout, collapse
from hologram.limits import Limits
from hologram.opset.forms import types
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention_operands import additive, batch_of
from hologram.opset.tiles.attention_units import unit_steps
from hologram.opset.tiles.product import product_plan
from hologram.plan import Plan, Step, Target, Tile
from hologram.records import frozen


@frozen
class Attended:
    """The operands of an attention, checked and broadcast."""

    q: Layout  # (batch..., l, e)
    k: Layout  # (batch..., s, e)
    v: Layout  # (batch..., s, ev)
    mask: Layout | None  # (batch..., l, s)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.q.shape[:-1], self.v.shape[-1])

    @property
    def dtype(self) -> DType:
        return self.q.dtype


def attention_plan(found: Attended, out: Layout, causal: bool, scale: float, target: Target) -> Plan:
    """By matrix units where they take it; else in the computing dtype, by the tile where it applies, or composed."""
    steps = Steps(5)
    if unit_steps(steps, (found.q, found.k, found.v), found.mask, out, causal, scale, target.limits):
        return steps.plan()
    computed = types.computing(found.dtype)
    q, k, v = (
        Place(p, i) if i.dtype == computed else steps.converted(Place(p, i), computed)
        for p, i in enumerate((found.q, found.k, found.v))
    )
    result = Place(4, out) if out.dtype == computed else steps.place(computed, out.shape)
    if not _tile_steps(steps, (q, k, v), found.mask, result, causal, scale, target.limits):
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
        value = kept(found, value) if mask.dtype.kind == "bool" else value + found
    if causal:
        value = kept(at[-1] <= at[-2], value)
    result = Operand(b, "out", out, Access.WRITE, scores.dtype)
    result.put(softmax_or_zero(value), *at)
    return b.build()


def kept(condition: Value, value: Value) -> Value:
    """A score that counts where the condition holds."""
    # Not -infinity, with which LLVM makes the row's maximum one that it does not vectorise.
    return select(condition, value, float(np.finfo(value.dtype.numpy).min))


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
    """Scores, their softmax in place, and the second product."""
    q, k, v = operands
    computed = q.layout.dtype
    keys = k.layout.permute((*range(k.layout.ndim - 2), k.layout.ndim - 1, k.layout.ndim - 2))
    scores = steps.place(computed, (*q.layout.shape[:-1], keys.shape[-1]))
    if scores.layout.size:
        plan = product_plan(q.layout, keys, scores.layout, computed, target)
        steps.extend(plan, (q.position, k.position, scores.position))
        masks = () if mask is None else (mask,)
        layouts = (scores.layout, *masks, scores.layout)
        numbers = numbers_of(("scores", *("mask" for _ in masks), "out"), layouts, {"scale": scale})
        address = Address.of(scores.layout)
        program = weights_program(address, None if mask is None else Address.of(mask), address, causal)
        positions = (scores.position, *(3 for _ in masks), scores.position)
        steps.add(step_of(program, range(len(layouts)), numbers, scores.layout.shape), positions)
    plan = product_plan(scores.layout, v.layout, result.layout, computed, target)
    steps.extend(plan, (scores.position, v.position, result.position))


LARGEST_HEAD = 64  # elements of a row that the tile keeps in registers
ROWS, KEYS = 64, 32  # of a workgroup, and of what it has in workgroup memory
TILE_AXES = ("offset", "batch", "head", "row", "column")
TILE_SCALARS = (
    *((name, u32) for name in ("l", "s", "e", "ev")),
    ("scale", f32),
    *((f"{name}_{axis}", u32) for name in ("q", "k", "v", "mask", "out") for axis in TILE_AXES),
)


def _tile_steps(
    steps: Steps,
    operands: tuple[Place, Place, Place],
    mask: Layout | None,
    result: Place,
    causal: bool,
    scale: float,
    limits: Limits,
) -> bool:
    """Appends the tile kernel; False where it does not apply.

    Large heads, other dtypes, batches of many strides, and strides backward, which it counts in unsigned words.
    """
    q, k, v = operands
    e, ev, keys = q.layout.shape[-1], v.layout.shape[-1], k.layout.shape[-2]
    dtype = q.layout.dtype
    fits = dtype is f32 and dtype in limits.tile_dtypes and max(e, ev) <= LARGEST_HEAD and min(e, keys) > 0
    if not fits or not limits.workgroup_memory:
        return False
    masking = Place(3, mask) if mask is not None else Place(q.position, q.layout)
    places = [q, k, v, masking, result]
    batches = collapse([batch_of(p.layout) for p in places])
    if batches[0].ndim > 2 or min(step for p in places for step in p.layout.strides) < 0:
        return False
    if mask is not None and mask.dtype is not f32:
        masking = places[3] = additive(steps, mask)
        batches = collapse([batch_of(p.layout) for p in places])
        if batches[0].ndim > 2:
            return False
    outer, heads = batches[0].shape if batches[0].ndim == 2 else (1, *batches[0].shape)
    if max(outer, heads) > limits.max_workgroups:
        return False
    rows = q.layout.shape[-2]
    scalars: list[int | float] = [rows, keys, e, ev, scale]
    for place, batch in zip(places, batches, strict=True):
        lead = batch.strides if batch.ndim == 2 else (0, *batch.strides)
        scalars += [place.layout.offset, *lead, *place.layout.strides[-2:]]
    tile = Tile(
        stem="attention",
        entry="atlas_attention",
        buffers=(*((n, dtype, "read") for n in ("q", "k", "v", "mask")), ("out", dtype, "write")),
        scalars=TILE_SCALARS,
        types=(("T", dtype),),
        constants=(("KEYS", KEYS), ("CAUSAL", causal), ("MASKED", mask is not None)),
        workgroup=(ROWS, 1, 1),
    )
    step = Step(tile, tuple(range(5)), tuple(scalars), (-(-rows // ROWS), heads, outer))
    steps.add(step, [p.position for p in places])
    return True
