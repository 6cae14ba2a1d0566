"""Products of few rows with packed weights by code of a backend's own, where it has it (Limits.own_packed)."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.foundation.dtypes import DType, f16, f32, u32
from hologram.machine.plan import PACKED, Step, Target, Tile, reading, told, writing
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.packed.formats import PLANES, Format

UNIT = 32  # columns that such code takes at a time
MOST_ROWS = 16  # of x, that read the planes themselves
SCALARS = told(u32, "m", "n", "k")
_FACTS = ("bits", "group", "zero", "has_minimum", "block")  # of a format, as constants of a tile


def add_tile(
    steps: Steps,
    x: Place,
    format: Format,
    planes: Sequence[Place | None],
    out: Place,
    sizes: tuple[int, int, int],
    target: Target,
) -> bool:
    """Appends a product of `sizes` (rows of x, rows and columns of the weights); False where there is no such code."""
    whole = format.element is None and not sizes[2] % UNIT and x.layout.dtype.bits <= 32
    even = not format.group % UNIT or (format.group == UNIT // 2 and format.low_bits < 8)
    if not (target.limits.own_packed and whole and even):
        return False
    m, n, k = sizes
    given = steps.gathered(x if x.layout.dtype is f32 else steps.converted(x, f32))
    direct = out.layout.dtype is f32 and out.layout.is_contiguous and not out.layout.offset
    result = out if direct else steps.place(f32, out.layout.shape)
    places = {name: steps.gathered(p) for name, p in zip(PLANES, planes, strict=True) if p is not None}
    tile = Tile(
        stem=PACKED,
        buffers=(
            *reading(f32, "x"),
            *(b for name, p in places.items() for b in reading(p.layout.dtype, name)),
            *writing(f32, "out"),
        ),
        scalars=SCALARS,
        constants=(
            *((fact.upper(), getattr(format, fact)) for fact in _FACTS),
            ("HALF", format.scales is f16),
            *((f"TABLE_{at}", number) for at, number in enumerate(format.table)),
        ),
    )
    positions = (given.position, *(p.position for p in places.values()), result.position)
    steps.add(Step(tile, tuple(range(len(positions))), (m, n, k), (n, 1, 1)), positions)
    if result is not out:
        steps.copy(result, out)
    return True


def format_of(tile: Tile) -> Format:
    """The format of a tile's planes, told by its constants."""
    constants = dict(tile.constants)
    facts = {fact: constants[fact.upper()] for fact in _FACTS}
    table = tuple(int(x) for name, x in tile.constants if name.startswith("TABLE_"))
    scales: DType = f16 if constants["HALF"] else f32
    return Format(PACKED, **facts, table=table, scales=scales)  # type: ignore[arg-type]
