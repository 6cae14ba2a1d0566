"""Attention by matrix units, where a device has them for the operands' dtype."""

from __future__ import annotations

from hologram.foundation.dtypes import DType, f32, u32
from hologram.machine.choices import Candidate
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.merging import collapse
from hologram.machine.plan import Step, Tile, reading, told, writing
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention.attended import MASK, Attended, K, Q, V
from hologram.opset.tiles.attention.operands import additive, batch_of

UNITS = "attention_units"  # the kernel's stem
HEADS = (16, 32, 64, 128)  # elements of a row in workgroup memory
# Subgroups of a workgroup, of 16 rows each, and keys in workgroup memory at a time; the first that fits is the default.
# On an H200 the first takes 0.70 to 0.90 of the time of the best of the others (docs/design/native.md).
SIZES = ((8, 128), (4, 64), (4, 32), (8, 64), (8, 32), (2, 64), (2, 32), (4, 128), (4, 16))
MOST_SHARED = 48 << 10  # bytes that a kernel gets without asking
SLACK_BYTES = 1024  # what is asked for begins at a multiple of as many
ROWS = 16  # of a subgroup
PIECE = 8  # elements that are loaded at once where they lie so
PIECE_BYTES = 16
AXES = ("offset", "batch", "head", "group", "row", "column")
SCALARS = (
    *told(u32, "l", "s", "e", "ev", "groups"),
    *told(f32, "scale"),
    *told(u32, *(f"{name}_{axis}" for name in ("q", "k", "v", "mask", "out") for axis in AXES)),
)


def unit_ways(dtype: DType, head: int, limits: Limits) -> tuple[Candidate, ...]:
    """The kernel's tiles that a device has room for; none where it has no matrix units for them."""
    padded = _padded(head)
    if dtype not in exact_dtypes(limits) or not padded:
        return ()
    room = max(min(limits.shared_bytes, MOST_SHARED), limits.bulk_bytes)
    return tuple(
        Candidate(UNITS, (("KEYS", keys), ("SUBGROUPS", subgroups)), (subgroups * limits.subgroup, 1))
        for subgroups, keys in SIZES
        if subgroups * limits.subgroup <= limits.max_workgroup_threads
        and _shared_bytes(dtype, padded, subgroups, keys, limits) <= room
    )


def _shared_bytes(dtype: DType, head: int, subgroups: int, keys: int, limits: Limits) -> int:
    """Workgroup memory of the kernel."""
    if limits.copies_ahead:
        return _asked_bytes(dtype, head, keys)
    # Keys or values, in padded lines; each row's scores, in f32, weights and a number.
    rows = ROWS * subgroups
    lines = keys * (head * dtype.itemsize + PIECE_BYTES)
    return lines + rows * (keys * (f32.itemsize + dtype.itemsize) + f32.itemsize)


def _asked_bytes(dtype: DType, head: int, keys: int) -> int:
    """What a launch asks for: keys and values, two turns of each; the rest is in registers."""
    return 4 * keys * head * dtype.itemsize + SLACK_BYTES


def exact_dtypes(limits: Limits) -> frozenset[DType]:
    """What kernels of attention take without rounding it."""
    return limits.matrix_dtypes - limits.rounded_dtypes if limits.matrix_attention else frozenset()


def _padded(head: int) -> int:
    """A head's length in the kernel; 0 where it is too long."""
    return next((n for n in HEADS if head <= n), 0)


def unit_steps(steps: Steps, found: Attended, result: Place, limits: Limits, way: Candidate) -> bool:
    """Appends the kernel; False, and nothing appended, where it does not apply.

    Large heads, other dtypes, batches of more than three strides (grouped queries have three), strides backward.
    """
    q, k, v, mask, look, out = found.q, found.k, found.v, found.mask, found.look, result.layout
    (rows, e), (keys, ev) = q.shape[-2:], v.shape[-2:]
    head = _padded(max(e, ev))
    if {i.dtype for i in (q, k, v, out)} - exact_dtypes(limits) or not head or min(e, keys) == 0:
        return False
    given = [q, k, v, q if mask is None else mask, out]
    # A mask that is made additive keeps the axes along which it is the same.
    if (
        len(collapse([batch_of(i) for i in given])[0].shape) > 3
        or min(s for i in given for s in i.strides) < 0
    ):
        return False
    places = [Place(p, i) for p, i in zip((Q, K, V, MASK, result.position), given, strict=True)]
    if mask is None:
        places[3] = places[0]
    elif mask.dtype is not f32:
        places[3] = additive(steps, mask)
    batches = collapse([batch_of(p.layout) for p in places])
    outer, heads, groups = (*(1,) * (3 - batches[0].ndim), *batches[0].shape)
    if max(outer, heads * groups) > limits.max_workgroups:
        return False
    scalars: list[int | float] = [rows, keys, e, ev, groups, look.scale]
    for place, batch in zip(places, batches, strict=True):
        lead = (*(0,) * (3 - batch.ndim), *batch.strides)
        scalars += [place.layout.offset, *lead, *place.layout.strides[-2:]]
    asked = _asked_bytes(k.dtype, head, way.constant("KEYS")) if limits.copies_ahead else 0
    tile = _tile(way, k, v, head, asked, causal=look.causal, masked=mask is not None)
    grid = (-(-rows // (ROWS * way.constant("SUBGROUPS"))), heads * groups, outer)
    steps.add(Step(tile, tuple(range(5)), tuple(scalars), grid), [p.position for p in places])
    return True


def _tile(way: Candidate, k: Layout, v: Layout, head: int, asked: int, *, causal: bool, masked: bool) -> Tile:
    constants = (*way.constants, ("HEAD", head), ("CAUSAL", causal), ("MASKED", masked))
    dtype = k.dtype
    return Tile(
        stem=UNITS,
        buffers=(
            *reading(dtype, "q", "k", "v"),
            *reading(f32 if masked else dtype, "mask"),
            *writing(dtype, "out"),
        ),
        scalars=SCALARS,
        types=(("T", dtype),),
        constants=(*constants, ("K_WHOLE", whole(k)), ("V_WHOLE", whole(v))),
        workgroup=(*way.threads, 1),
        shared_bytes=asked,
    )


def whole(layout: Layout) -> bool:
    """Whether rows lie in pieces of 16 bytes."""
    across = (s for s, n in zip(layout.strides[:-1], layout.shape[:-1], strict=True) if n > 1)
    return layout.strides[-1] == 1 and not any(s % PIECE for s in (layout.offset, *across))
