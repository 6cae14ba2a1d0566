"""Attention of few queries to many keys, by the tile `attention_few`: what is decoded, from caches."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from hologram.atlas.builder import Builder
from hologram.atlas.functions import exp, maximum, reduce_add, reduce_max, select
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, bf16, bool_, f16, f32, i8, i32, u32
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.merging import collapse
from hologram.machine.plan import ATTENTION_FEW, Step, Tile, reading, told, writing
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention.attended import (
    LENGTHS,
    MASK,
    SCALES,
    SINKS,
    SLOPES,
    TABLE,
    Attended,
    K,
    Pages,
    Q,
    V,
)
from hologram.opset.tiles.attention.units import exact_dtypes

MOST_ROWS = 16  # queries that share keys
MOST_HEAD = 256  # elements of a query, and of a value
PIECE = 8  # elements that are read at a time
DTYPES = (f32, f16, bf16)
NARROW = (f16, i8)  # that every kernel can read from words
READ = ("q", "k", "v", "mask", "lengths", "slopes", "scales")  # the table of blocks in the place of a mask
BOUND = len(READ) + 1  # buffers, those that are not there included
AXES = ("offset", "batch", "head", "group")
SCALARS = (
    *told(u32, "rows", "keys", "e", "ev", "groups", "parts", "chunk", "window", "block", "blocks"),
    *told(f32, "scale", "softcap"),
    *told(u32, *(f"{name}_{axis}" for name in ("q", "k", "v", "mask") for axis in (*AXES, "row"))),
    *told(u32, *(f"{name}_{axis}" for name in ("lengths", "slopes") for axis in AXES)),
    *told(u32, *(f"scales_{axis}" for axis in ("offset", "batch", "head", "row", "block", "of_values"))),
    *told(u32, "k_block", "v_block", *(f"out_{axis}" for axis in (*AXES, "row", "part"))),
)
SINKS_SCALARS = told(u32, *(f"sinks_{axis}" for axis in AXES))  # which the backend's own code reads too
ROWS = 4  # of a workgroup
THREADS = 64  # of a workgroup, which has a key each
FEW_KEYS = 512  # up to which it is worth its barriers where software emulates the device
GROUPS_EACH = 4  # workgroups that a compute unit should have
LEAST_KEYS = 256  # of a part: a further launch costs more than to go through as many
MOST_PARTS = 64


@frozen
class Arranged:
    """Entries of the batch as heads with keys of their own, in two axes, and those that share them in a third."""

    outer: int
    heads: int
    groups: int
    strides: tuple[tuple[int, int, int], ...]  # of each operand


def arranged(found: Attended, layouts: list[Layout]) -> Arranged | None:
    """The batch axes of layouts, which follow one another in two axes at most beside that of sharing; or None."""
    batch = found.q.shape[:-2]
    shares = bool(batch) and batch[-1] > 1 and found.k.strides[-3] == 0 and found.v.strides[-3] == 0
    cut = len(batch) - shares
    lead = [Layout(i.dtype, batch[:cut] or (1,), i.strides[:cut] or (0,)) for i in layouts]
    joined = collapse(lead)
    if joined[0].ndim > 2:
        return None
    outer, heads = (1,) * (2 - joined[0].ndim) + joined[0].shape
    strides = []
    for i, own in zip(layouts, joined, strict=True):
        first, second = (0,) * (2 - own.ndim) + own.strides
        strides.append((first, second, i.strides[cut] if shares else 0))
    return Arranged(outer, heads, batch[-1] if shares else 1, tuple(strides))


def few_steps(steps: Steps, found: Attended, result: Place, limits: Limits) -> bool:
    """Appends the kernel; False, and nothing appended, where it does not apply."""
    q, k, v, out = found.q, found.k, found.v, result.layout
    (rows, e), (keys, ev) = q.shape[-2:], v.shape[-2:]
    own = limits.own_attention
    if rows > MOST_ROWS or not 0 < keys < 1 << 31 or out.dtype != q.dtype or f32 not in limits.tile_dtypes:
        return False
    if (
        q.dtype not in DTYPES
        or BOUND > limits.max_bindings
        or not 0 < e <= MOST_HEAD
        or ev > MOST_HEAD
        or (own and (e % PIECE or ev % PIECE))
        or not _reads_cache(found, limits)
    ):
        return False
    places = {"q": Place(Q, q), "k": Place(K, k), "v": Place(V, v)}
    if found.mask is not None:
        places["mask"] = Place(MASK, found.mask)
    if found.pages is not None:
        places["mask"] = Place(TABLE, found.pages.table.unsqueeze(len(q.shape) - 1))
    along = [p.layout for p in (*places.values(), result)]
    if (
        any(i.strides[-1] != 1 and i.shape[-1] > 1 for i in along)
        or min(s for i in along for s in i.strides) < 0
    ):
        return False
    batch = q.shape[:-2]
    absent = Layout(q.dtype, batch, (0,) * len(batch))
    numbers = {
        "lengths": (LENGTHS, found.lengths),
        "slopes": (SLOPES, found.slopes),
        "sinks": (SINKS, found.sinks),
        "scales": (SCALES, None if found.scales is None else found.scales.select(0, 0)),
    }
    for name, (position, layout) in numbers.items():
        places[name] = Place(Q, absent) if layout is None else Place(position, layout)
    places.setdefault("mask", places["q"])
    axes = arranged(found, [p.layout for p in (*places.values(), result)])
    if axes is None or rows * axes.groups > MOST_ROWS or max(axes.heads, axes.outer) > limits.max_workgroups:
        return False
    if (
        limits.software
        and q.dtype is f32
        and not found.is_cached
        and not (ROWS // 2 < rows * axes.groups <= ROWS and keys <= FEW_KEYS)
    ):
        return False  # where turns of barriers cost more than the launches of the composition
    (_own if own else _shared)(steps, found, places, result, axes, limits)
    return True


def _reads_cache(found: Attended, limits: Limits) -> bool:
    """Whether a kernel reads keys and values as they are cached."""
    k, pages, scales = found.k.dtype, found.pages, found.scales
    if pages is not None and (found.mask is not None or (limits.own_attention and pages.block % PIECE)):
        return False
    if not found.is_cached or limits.own_attention:
        return True
    return (k in NARROW or k in _taken(limits)) and (scales is None or scales.dtype is f32)


def _taken(limits: Limits) -> frozenset[DType]:
    """Dtypes that the kernel in workgroups takes as they lie."""
    return limits.tile_dtypes | exact_dtypes(limits)


def _own(
    steps: Steps, found: Attended, places: dict[str, Place], result: Place, axes: Arranged, limits: Limits
) -> None:
    """By code of the backend's own, which reads operands as they lie, and makes parts of its own."""
    strides = dict(zip((*places, "out"), axes.strides, strict=True))
    scalars = _numbers(found, axes, {**places, "out": result}, strides, 1, found.k.shape[-2], 0)
    scalars += [places["sinks"].layout.offset, *strides["sinks"]]
    read = [places[n] for n in (*READ, "sinks")]
    tile = Tile(
        stem=ATTENTION_FEW,
        buffers=(
            *(b for n in (*READ, "sinks") for b in reading(places[n].layout.dtype, n)),
            *writing(found.dtype, "out"),
        ),
        scalars=(*SCALARS, *SINKS_SCALARS),
        types=(("T", found.dtype),),
        constants=(*_flags(found), ("SINKS", found.sinks is not None)),
    )
    positions = [p.position for p in (*read, result)]
    steps.add(
        Step(tile, tuple(range(len(positions))), tuple(scalars), (axes.heads, axes.outer, 1)), positions
    )


def _shared(
    steps: Steps, found: Attended, places: dict[str, Place], result: Place, axes: Arranged, limits: Limits
) -> None:
    """By the kernel in workgroups, which have a part of the keys each where there are enough, and the parts joined."""
    (rows, keys), ev = found.scores[-2:], found.v.shape[-1]
    takes, cache = _taken(limits), found.k.dtype
    changed = dict(places)
    for name in ("q",) if found.is_cached else ("q", "k", "v"):
        if found.dtype not in takes:
            changed[name] = _converted(steps, places[name], f32)
    numbers = {"lengths": i32, "slopes": f32, "mask": f32 if found.pages is None else i32}
    for name, wanted in numbers.items():
        if places[name].position != Q and places[name].layout.dtype not in (wanted, bool_):
            changed[name] = _converted(steps, places[name], wanted)
    narrow = cache.bits if found.is_cached and cache not in takes else 0
    stored = found.dtype if found.dtype in takes else f32
    quads = -(-rows * axes.groups // ROWS)
    enough = 1 if limits.software else GROUPS_EACH * (limits.parallelism or 64)
    parts = min(MOST_PARTS, -(-keys // LEAST_KEYS), -(-enough // (axes.outer * axes.heads * quads)))
    split = parts > 1 or found.sinks is not None
    chunk = -(-keys // (parts * THREADS)) * THREADS
    parts = -(-keys // chunk)
    target = result if stored == found.dtype else steps.place(stored, result.layout.shape)
    left = steps.place(f32, (*result.layout.shape[:-1], parts, ev + 2)) if split else target
    written = Place(left.position, left.layout.select(-2, 0)) if split else left
    axes_now = arranged(found, [p.layout for p in (*changed.values(), written)])
    assert axes_now is not None  # axes that were converted follow one another as before
    strides = dict(zip((*changed, "out"), axes_now.strides, strict=True))
    step_of_parts = left.layout.strides[-2] if split else 0
    scalars = _numbers(found, axes_now, {**changed, "out": written}, strides, parts, chunk, step_of_parts)
    mask = f32 if places["mask"].position == Q else changed["mask"].layout.dtype
    kinds = {"CACHE": u32 if narrow else changed["k"].layout.dtype, "MASK": u32 if mask is bool_ else mask}
    head = -(-max(found.q.shape[-1], ev) // THREADS) * THREADS
    tile = Tile(
        stem=ATTENTION_FEW,
        buffers=(
            *(b for n in READ for b in reading(changed[n].layout.dtype, n)),
            *writing(written.layout.dtype, "out"),
        ),
        scalars=SCALARS,
        types=(("T", stored), *kinds.items(), ("OUT", written.layout.dtype)),
        constants=(
            *_flags(found),
            ("NARROW", narrow),
            ("BYTES", mask is bool_),
            ("SPLIT", split),
            ("HEAD", head),
        ),
        workgroup=(THREADS, 1, 1),
    )
    positions = [changed[n].position for n in READ] + [written.position]
    grid = (parts * quads, axes_now.heads, axes_now.outer)
    steps.add(Step(tile, tuple(range(len(positions))), tuple(scalars), grid), positions)
    if split:
        _join(steps, left, places["sinks"] if found.sinks is not None else None, target)
    if target is not result:
        steps.copy(target, result)


def _converted(steps: Steps, place: Place, dtype: DType) -> Place:
    """A copy in a dtype, as small as before broadcasting."""
    layout = place.layout
    own = replace(
        layout, shape=tuple(n if s else 1 for n, s in zip(layout.shape, layout.strides, strict=True))
    )
    made = steps.converted(Place(place.position, own), dtype)
    return Place(made.position, made.layout.expand(layout.shape))


def _flags(found: Attended) -> tuple[tuple[str, bool], ...]:
    look = found.look
    given = {"MASKED": found.mask, "LENGTHS": found.lengths, "SLOPES": found.slopes}
    given |= {"PAGED": found.pages, "SCALED": found.scales}
    return (
        *((name, which is not None) for name, which in given.items()),
        *(("CAUSAL", look.causal), ("WINDOW", look.window is not None), ("SOFTCAP", look.softcap > 0)),
    )


def _numbers(
    found: Attended,
    axes: Arranged,
    places: dict[str, Place],
    strides: dict[str, tuple[int, int, int]],
    parts: int,
    chunk: int,
    step_of_parts: int,
) -> list[int | float]:
    look = found.look
    (rows, e), (keys, ev) = found.q.shape[-2:], found.v.shape[-2:]
    pages = found.pages or Pages(found.k, keys, 1, 0, 0)
    scalars: list[int | float] = [rows, keys, e, ev, axes.groups, parts, chunk, look.window or 0]
    scalars += [pages.block, pages.blocks, look.scale, look.softcap or 1.0]
    for name in ("q", "k", "v", "mask"):
        layout = places[name].layout
        scalars += [layout.offset, *strides[name], layout.strides[-2]]
    for name in ("lengths", "slopes"):
        scalars += [places[name].layout.offset, *strides[name]]
    batch, head, _ = strides["scales"]
    along = (0, 0) if found.scales is None else (found.scales.strides[-1], found.scales.strides[0])
    scalars += [
        places["scales"].layout.offset,
        batch,
        head,
        along[0],
        pages.scales,
        along[1],
        pages.k,
        pages.v,
    ]
    out = places["out"].layout
    return [*scalars, out.offset, *strides["out"], out.strides[-2], step_of_parts]


def _join(steps: Steps, left: Place, sinks: Place | None, out: Place) -> None:
    """Parts of each row as the result."""
    *lead, parts, width = left.layout.shape
    shape = (*lead, width - 2, parts)
    turned = left.layout.permute((*range(len(lead)), len(lead) + 1, len(lead)))
    sums = turned.narrow(-2, 0, width - 2)
    tops, totals = (turned.narrow(-2, width - 2 + k, 1).expand(shape) for k in (0, 1))
    read = [Place(left.position, i) for i in (sums, tops, totals)]
    names = ["sums", "tops", "totals"]
    if sinks is not None:
        own = sinks.layout
        for _ in range(3):
            own = own.unsqueeze(own.ndim)
        read.append(Place(sinks.position, own.expand(shape)))
        names.append("sinks")
    result = out.layout.unsqueeze(out.layout.ndim).expand(shape)
    layouts = [*(p.layout for p in read), result]
    program = joined_program(tuple(names), tuple(map(Address.of, layouts)))
    numbers = numbers_of((*names, "out"), layouts, {})
    steps.add(
        step_of(program, range(len(layouts)), numbers, shape), [*(p.position for p in read), out.position]
    )


@lru_cache(maxsize=64)
def joined_program(names: tuple[str, ...], addresses: tuple[Address, ...]) -> Program:
    """out = the sums of parts, each relative to its own largest score, over their totals and that of the sink."""
    *read, result = addresses
    rank = len(result.steps)
    b = Builder(f"atlas_attention_joined_{result.dtype}", rank=rank, reduced=1)
    at = [b.coordinate(axis) for axis in range(rank)]
    given = {n: Operand(b, n, a, Access.READ, f32).at(*at) for n, a in zip(names, read, strict=True)}
    top = reduce_max(given["tops"])
    sink = given.get("sinks")
    if sink is not None:
        top = maximum(top, sink)
    share = exp(given["tops"] - top)
    total = reduce_add(share * given["totals"])
    if sink is not None:
        total = total + exp(sink - top)
    value = reduce_add(share * given["sums"]) / select(total == 0.0, 1.0, total)
    Operand(b, "out", result, Access.WRITE, result.dtype).put(value, *at)
    return b.build()
