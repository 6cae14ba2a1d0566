"""Packed weights by kernels of the backend's own (Limits.own_packed): what they take, and their launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hologram.atlas.program import Access, BufferParameter
from hologram.foundation.dtypes import f32, i64, u32
from hologram.machine.layout import Layout
from hologram.machine.plan import (
    PACKED_EXPERTS,
    PACKED_PRODUCT,
    PACKED_WEIGHTS,
    Step,
    Target,
    Tile,
    reading,
    told,
    writing,
)
from hologram.opset.forms.steps import Place
from hologram.opset.packed.formats import UNIT, Format

Planes = Mapping[str, Place]


def own(format: Format, planes: Sequence[Layout], columns: int, target: Target) -> bool:
    """Whether the backend has kernels for a matrix: of integers, in whole units, whose groups are halves or units."""
    along = all(p.strides[1] == 1 or p.shape[1] == 1 for p in planes)
    grouped = format.group == UNIT // 2 or not format.group % UNIT
    integers = format.code is None or format.code.is_integer
    return target.limits.own_packed and integers and not columns % UNIT and grouped and along


def own_product(format: Format, x: Place, planes: Planes, out: Place) -> tuple[Step, list[int]]:
    """The launch of out = x @ weights.T, all rows of which lie one behind the other, and its positions."""
    (m, k), n = x.layout.shape, out.layout.shape[-1]
    names, numbers = _lying(planes)
    tile = Tile(
        stem=PACKED_PRODUCT,
        buffers=(*reading(x.layout.dtype, "x"), *_buffers(planes), *writing(f32, "out")),
        scalars=told(u32, "m", "n", "k", *names),
        constants=format.constants,
    )
    return _launch(tile, (m, n, k, *numbers), [x, *planes.values(), out])


def own_experts(
    format: Format, x: Place, chosen: Place, planes: Planes, out: Place, experts: int, parts: int
) -> tuple[Step, list[int]]:
    """The launch of out (pairs, n): a pair's row of x times the weights of the expert that `chosen` (pairs), i64, says.

    Weights have so many parts, in each of which an expert has n / parts rows.
    """
    (m, k), n, pairs = x.layout.shape, out.layout.shape[-1], chosen.layout.size
    names, numbers = _lying(planes)
    tile = Tile(
        stem=PACKED_EXPERTS,
        buffers=(
            *(*reading(x.layout.dtype, "x"), *reading(i64, "chosen")),
            *(*_buffers(planes), *writing(f32, "out")),
        ),
        scalars=told(u32, "pairs", "each", "n", "k", "experts", "height", *names),
        constants=format.constants,
    )
    scalars = (pairs, pairs // m, n, k, experts, n // parts, *numbers)
    return _launch(tile, scalars, [x, chosen, *planes.values(), out])


def own_weights(format: Format, planes: Planes, out: Place) -> tuple[Step, list[int]]:
    """The launch of out (n, k) = the weights, and its positions."""
    n, k = out.layout.shape
    names, numbers = _lying({**planes, "out": out})
    tile = Tile(
        stem=PACKED_WEIGHTS,
        buffers=(*_buffers(planes), *writing(f32, "out")),
        scalars=told(u32, "n", "k", *names),
        constants=format.constants,
    )
    return _launch(tile, (n, k, *numbers), [*planes.values(), out])


def _lying(places: Planes) -> tuple[list[str], list[int]]:
    """Where matrices begin, and how far their rows are apart, in elements: names and numbers."""
    names = [f"{name}_{what}" for name in places for what in ("offset", "row")]
    return names, [x for p in places.values() for x in (p.layout.offset, p.layout.strides[0])]


def _buffers(planes: Planes) -> list[BufferParameter]:
    return [BufferParameter(name, p.layout.dtype, Access.READ) for name, p in planes.items()]


def _launch(tile: Tile, scalars: tuple[int, ...], places: Sequence[Place]) -> tuple[Step, list[int]]:
    return Step(tile, tuple(range(len(places))), scalars, (1,)), [p.position for p in places]
