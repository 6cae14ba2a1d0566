"""Attention by the tile `attention`: an online softmax, keys and values in workgroup memory, a thread a row."""

from __future__ import annotations

from hologram.foundation.dtypes import DType, f32, u32
from hologram.machine.choices import Candidate
from hologram.machine.limits import Limits
from hologram.machine.merging import collapse
from hologram.machine.plan import Step, Tile, reading, told, writing
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention.attended import MASK, Attended
from hologram.opset.tiles.attention.operands import additive, batch_of

LARGEST_HEAD = 64  # elements of a row that the tile keeps in registers
TILE = "attention"  # the kernel's stem
# Rows of a workgroup, and keys that it has in workgroup memory; the default first.
SIZES = ((64, 32), (32, 32), (128, 32), (64, 16), (64, 64), (128, 64))
TILE_AXES = ("offset", "batch", "head", "row", "column")
TILE_SCALARS = (
    *told(u32, "l", "s", "e", "ev"),
    *told(f32, "scale"),
    *told(u32, *(f"{name}_{axis}" for name in ("q", "k", "v", "mask", "out") for axis in TILE_AXES)),
)


def tile_ways(dtype: DType, head: int, limits: Limits) -> tuple[Candidate, ...]:
    """The kernel's tiles that a device has room for; none where it does not apply."""
    computed = dtype.computed
    if (
        computed is not f32
        or computed not in limits.tile_dtypes
        or head > LARGEST_HEAD
        or limits.own_products
    ):
        return ()
    room = 2 * LARGEST_HEAD * f32.itemsize  # of a key and its value
    return tuple(
        Candidate(TILE, (("KEYS", keys),), (rows, 1))
        for rows, keys in SIZES
        if rows <= limits.max_workgroup_threads and keys * room <= limits.shared_bytes
    )


def tile_steps(
    steps: Steps,
    operands: tuple[Place, Place, Place],
    found: Attended,
    result: Place,
    limits: Limits,
    way: Candidate,
) -> bool:
    """Appends the tile kernel; False where it does not apply.

    Large heads, other dtypes, batches of many strides, and strides backward, which it counts in unsigned words.
    """
    q, k, v = operands
    mask, look = found.mask, found.look
    e, ev, keys = q.layout.shape[-1], v.layout.shape[-1], k.layout.shape[-2]
    dtype = q.layout.dtype
    if min(e, keys) == 0:
        return False
    masking = Place(MASK, mask) if mask is not None else Place(q.position, q.layout)
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
    rows = q.layout.shape[-2]
    grid = (-(-rows // way.threads[0]), heads, outer)
    if max(grid) > limits.max_workgroups:
        return False
    scalars: list[int | float] = [rows, keys, e, ev, look.scale]
    for place, batch in zip(places, batches, strict=True):
        lead = batch.strides if batch.ndim == 2 else (0, *batch.strides)
        scalars += [place.layout.offset, *lead, *place.layout.strides[-2:]]
    tile = Tile(
        stem=TILE,
        buffers=(*reading(dtype, "q", "k", "v", "mask"), *writing(dtype, "out")),
        scalars=TILE_SCALARS,
        types=(("T", dtype),),
        constants=(*way.constants, ("CAUSAL", look.causal), ("MASKED", mask is not None)),
        workgroup=(*way.threads, 1),
    )
    step = Step(tile, tuple(range(5)), tuple(scalars), grid)
    steps.add(step, [p.position for p in places])
    return True
