"""Attention of few queries to many keys, by the tile `attention_few`: what is decoded, from caches."""

from __future__ import annotations

from hologram.foundation.dtypes import DType, bf16, f16, f32, u32
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.merging import collapse
from hologram.machine.plan import ATTENTION_FEW, Step, Tile, reading, told, writing
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attended import BEHIND, LENGTHS, MASK, SINKS, SLOPES, Attended, K, Q, V

MOST_ROWS = 16  # queries that share keys
MOST_HEAD = 256  # elements of a query, and of a value
PIECE = 8  # elements that are read at a time
DTYPES = (f32, f16, bf16)
OF_ROWS = ("q", "k", "v", "mask", "out")
OF_HEADS = ("lengths", "slopes", "sinks")
SCALARS = (
    *told(u32, "rows", "keys", "e", "ev", "groups", "heads", "window"),
    *told(f32, "scale", "softcap"),
    *told(
        u32, *(f"{name}_{axis}" for name in OF_ROWS for axis in ("offset", "batch", "head", "group", "row"))
    ),
    *told(u32, *(f"{name}_{axis}" for name in OF_HEADS for axis in ("offset", "batch", "head", "group"))),
)


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
    if not limits.own_attention or rows > MOST_ROWS or not 0 < keys < 1 << 31 or out.dtype != q.dtype:
        return False
    if q.dtype not in DTYPES or e % PIECE or ev % PIECE or not e or max(e, ev) > MOST_HEAD:
        return False
    places = {
        "q": Place(Q, q),
        "k": Place(K, k),
        "v": Place(V, v),
        "mask": Place(Q, q) if found.mask is None else Place(MASK, found.mask),
        "out": result,
    }
    along = [p.layout for name, p in places.items() if name != "mask" or found.mask is not None]
    if (
        any(i.strides[-1] != 1 and i.shape[-1] > 1 for i in along)
        or min(s for i in along for s in i.strides) < 0
    ):
        return False
    numbers = {"lengths": found.lengths, "slopes": found.slopes, "sinks": found.sinks}
    positions = {"lengths": LENGTHS, "slopes": SLOPES, "sinks": SINKS}
    batch = q.shape[:-2]
    absent = Layout(q.dtype, batch, (0,) * len(batch))
    of_heads = {n: Place(Q, absent) if i is None else Place(positions[n], i) for n, i in numbers.items()}
    axes = arranged(found, [p.layout for p in (*places.values(), *of_heads.values())])
    if axes is None or rows * axes.groups > MOST_ROWS:
        return False
    look = found.look
    scalars: list[int | float] = [rows, keys, e, ev, axes.groups, axes.heads, look.window or 0]
    scalars += [look.scale, look.softcap or 1.0]
    lead = iter(axes.strides)
    for place in places.values():
        scalars += [place.layout.offset, *next(lead), place.layout.strides[-2]]
    for place in of_heads.values():
        scalars += [place.layout.offset, *next(lead)]
    given = {"MASKED": found.mask, "LENGTHS": found.lengths, "SLOPES": found.slopes, "SINKS": found.sinks}
    tile = _tile(found, {name: p.layout.dtype for name, p in (places | of_heads).items()}, given)
    read = [*(places[n] for n in ("q", "k", "v", "mask")), *of_heads.values(), result]
    grid = (axes.heads, axes.outer, 1)
    steps.add(Step(tile, tuple(range(BEHIND + 1)), tuple(scalars), grid), [p.position for p in read])
    return True


def _tile(found: Attended, dtypes: dict[str, DType], given: dict[str, Layout | None]) -> Tile:
    look = found.look
    read = (b for name in ("q", "k", "v", "mask", *OF_HEADS) for b in reading(dtypes[name], name))
    return Tile(
        stem=ATTENTION_FEW,
        buffers=(*read, *writing(found.dtype, "out")),
        scalars=SCALARS,
        types=(("T", found.dtype),),
        constants=(
            *((name, layout is not None) for name, layout in given.items()),
            *(("CAUSAL", look.causal), ("WINDOW", look.window is not None), ("SOFTCAP", look.softcap > 0)),
        ),
    )
