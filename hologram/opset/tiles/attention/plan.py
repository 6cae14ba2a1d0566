"""How attention runs: one tile kernel where it applies, else two products with a softmax between them."""

from __future__ import annotations

import math

from hologram.machine.choices import Candidate, Problem, chosen
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention.attended import (
    LENGTHS,
    MASK,
    RESULT,
    SCALES,
    SINKS,
    SLOPES,
    TABLE,
    Attended,
    K,
    Q,
    V,
)
from hologram.opset.tiles.attention.blocks import Block, blocks, is_large
from hologram.opset.tiles.attention.cached import gathered
from hologram.opset.tiles.attention.few import few_steps
from hologram.opset.tiles.attention.tile import tile_steps, tile_ways
from hologram.opset.tiles.attention.units import unit_steps, unit_ways
from hologram.opset.tiles.attention.weights import weigh
from hologram.opset.tiles.product import product_plan

KERNEL = "attention"  # of a Problem
COMPOSED = Candidate("composed", (), (0, 0))


def problem(found: Attended) -> Problem:
    """What calls share that are tuned together."""
    (rows, e), (keys, ev) = found.q.shape[-2:], found.v.shape[-2:]
    sizes = (math.prod(found.q.shape[:-2]), rows, keys, max(e, ev))
    return Problem(KERNEL, found.dtype, sizes, (found.look.causal, found.mask is not None))


def ways(asked: Problem, limits: Limits) -> tuple[Candidate, ...]:
    """Every way a device can go, the default first: matrix units, the tile on GPUs, composed where a CPU is one."""
    units, tiles = (
        unit_ways(asked.dtype, asked.sizes[-1], limits),
        tile_ways(asked.dtype, asked.sizes[-1], limits),
    )
    return (*units, *tiles, COMPOSED) if limits.workgroup_memory else (*units, COMPOSED, *tiles)


def attention_plan(found: Attended, out: Layout, target: Target) -> Plan:
    """By a kernel for few queries, or matrix units, where they apply; else by the tile, or composed.

    The last two are in the computing dtype.
    """
    steps = Steps(RESULT + 1)
    final = Place(RESULT, out)
    if few_steps(steps, found, final, target.limits):
        return steps.plan()
    if found.is_cached:
        plain, k, v = gathered(steps, found)
        told = (MASK, LENGTHS, SLOPES, SINKS, TABLE, SCALES, RESULT)
        steps.extend(attention_plan(plain, out, target), (Q, k, v, *told))
        return steps.plan()
    asked = problem(found)
    possible = ways(asked, target.limits) if found.is_plain else (COMPOSED,)
    units = unit_ways(asked.dtype, asked.sizes[-1], target.limits)
    way = chosen(asked, possible, target.choices) if found.is_plain else COMPOSED
    if way in units:
        if unit_steps(steps, found, final, target.limits, way):
            return steps.plan()
        way = next(c for c in possible if c not in units)
    computed = found.dtype.computed
    q, k, v = (
        Place(p, i) if i.dtype == computed else steps.converted(Place(p, i), computed)
        for p, i in ((Q, found.q), (K, found.k), (V, found.v))
    )
    result = final if out.dtype == computed else steps.place(computed, out.shape)
    tiled = way != COMPOSED and tile_steps(steps, (q, k, v), found, result, target.limits, way)
    if not tiled:
        _composed(steps, (q, k, v), found, result, target)
    if result is not final:
        steps.copy(result, final)
    return steps.plan()


def _composed(
    steps: Steps, operands: tuple[Place, Place, Place], found: Attended, result: Place, target: Target
) -> None:
    """Scores, their softmax in place, and the second product: of all, or block by block in a core's cache."""
    q, k, v = operands
    computed, ndim = q.layout.dtype, k.layout.ndim
    keys = Place(k.position, k.layout.permute((*range(ndim - 2), ndim - 1, ndim - 2)))
    parts = [Block.whole(found.scores)]
    if is_large(found.scores, computed, target.limits):
        parts = list(blocks(found, computed, target.limits))
    scores = steps.place(computed, (max(math.prod(block.shape) for block in parts),))
    for block in parts:
        # Of q, scores, keys, v, the mask and the result: queries are the last axis but one, keys the last or that of v.
        of_q, of_keys = block.of(q, rows=-2), block.of(keys, columns=-1)
        of_v, of_result = block.of(v, columns=-2), block.of(result, rows=-2)
        part = Place(scores.position, Layout.contiguous(computed, block.shape))
        if part.layout.size:
            multiply(steps, of_q, of_keys, part, target)
            weigh(steps, part, found, block)
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
