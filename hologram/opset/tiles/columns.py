"""Convolutions as matrix products with windows laid out in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hologram.atlas.program import Program
from hologram.foundation.dtypes import DType
from hologram.foundation.sizes import fixed_range
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.creation import fill
from hologram.opset.forms.epilogue import epilogue_reads, reads_rows
from hologram.opset.forms.operation import Attributes
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.forms.windows import per_axis, window_view
from hologram.opset.reduce import sum_
from hologram.opset.tiles.product import product_plan

MOST_COLUMNS = 1 << 24  # elements of windows laid out at once; images beyond them come in turn
CACHED_COLUMNS = 1 << 19  # where turns cost nothing: what the product finds in a cache


@dataclass
class Memory:
    """Scratch memory that one part after another uses, made when the first needs it."""

    steps: Steps
    dtype: DType
    size: int
    place: Place | None = None

    def shaped(self, source: Place, shape: Sequence[int]) -> Place:
        """Elements in another shape and this memory's dtype: where they lie, or copied to here."""
        view = source.layout.reshape(shape) if source.layout.dtype == self.dtype else None
        if view is not None:
            return Place(source.position, view)
        self.place = self.place or self.steps.place(self.dtype, (self.size,))
        copied = Place(self.place.position, Layout.contiguous(self.dtype, source.layout.shape))
        self.steps.copy(source, copied)
        return Place(self.place.position, Layout.contiguous(self.dtype, shape))


def surrounded(steps: Steps, x: Place, first: Sequence[int], lengths: Sequence[int], target: Target) -> Place:
    """Parts of the spatial axes of x (n, c, ...): `first` and lengths may lie outside, where zeros are."""
    layout, before = x.layout, []
    for axis, (start, length) in enumerate(zip(first, lengths, strict=True), 2):
        low, high = (min(max(p, 0), x.layout.shape[axis]) for p in (start, start + length))
        layout = layout.narrow(axis, low, high - low)
        before.append(low - start if high > low else 0)
    if layout.shape[2:] == tuple(lengths):
        return Place(x.position, layout)
    around = steps.place(layout.dtype, (*layout.shape[:2], *lengths))
    steps.extend(fill.plan((), (around.layout,), {"value": 0}, target), (around.position,))
    part = around.layout
    for axis, start in enumerate(before, 2):
        part = part.narrow(axis, start, layout.shape[axis])
    steps.copy(Place(x.position, layout), Place(around.position, part))
    return around


def windowed(
    steps: Steps,
    x: Place,
    window: Sequence[int],
    places: Sequence[int],
    attributes: Attributes,
    target: Target,
) -> Place:
    """Windows over x (n, c, ...) with zeros around it, as they lie: (n, c, window..., places...)."""
    axes = len(window)
    stride, padding, dilation = (
        per_axis(attributes[name], axes, "convolution") for name in ("stride", "padding", "dilation")
    )
    sizes = zip(places, stride, window, dilation, strict=True)
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in sizes]
    source = surrounded(steps, x, [-p for p in padding], reach, target)
    return Place(source.position, window_view(source.layout, window, places, stride, dilation))


def convolved(
    x: Layout, weight: Layout, out: Layout, attributes: Attributes, target: Target, epilogue: Program | None
) -> Plan | None:
    """Steps for x, weight, what the epilogue reads, and out; None where this does not apply."""
    images, channels, *places = out.shape
    groups, taps, area = attributes["groups"], math.prod(weight.shape[1:]), math.prod(places)
    matrix = weight.reshape((channels, taps))
    flat = out.reshape((images, channels, area))
    if matrix is None or flat is None or area * taps > MOST_COLUMNS or (epilogue and groups > 1):
        return None
    counted = epilogue is not None and reads_rows(epilogue)
    most = CACHED_COLUMNS if target.limits.cheap_launches and not counted else MOST_COLUMNS
    together = max(1, min(images, most // (area * taps), target.limits.max_workgroups))
    reads = range(2, 2 + len(epilogue_reads(epilogue)))
    if counted and together < images:
        return None  # it counts the rows of all images, a product those of its own
    steps = Steps(3 + len(reads))
    view = windowed(steps, Place(0, x), weight.shape[2:], places, attributes, target)
    memory = Memory(steps, x.dtype.computed, together * taps * area)
    share = channels // groups
    for group in range(groups):
        rows = matrix.narrow(0, group * share, share).permute((1, 0))
        windows = view.layout.narrow(1, group * weight.shape[1], weight.shape[1])
        for first in fixed_range(0, images, together):
            count = min(together, images - first)
            columns = memory.shaped(
                Place(view.position, windows.narrow(0, first, count)), (count, taps, area)
            )
            result = flat.narrow(0, first, count).narrow(1, group * share, share).permute((0, 2, 1))
            left = columns.layout.permute((0, 2, 1))
            plan = product_plan(left, rows, result, x.dtype, target, epilogue)
            steps.extend(plan, (columns.position, 1, *reads, 2 + len(reads)))
    return steps.plan()


def weighed(x: Layout, y: Layout, out: Layout, attributes: Attributes, target: Target) -> Plan:
    """Steps for out (o, c / groups, window...), the sums of the products of y (n, o, ...) with the windows of x."""
    images, channels, *places = y.shape
    groups, taps, area = attributes["groups"], math.prod(out.shape[1:]), math.prod(places)
    dtype, steps = x.dtype.computed, Steps(3)
    if not y.size:
        steps.extend(fill.plan((), (out,), {"value": 0}, target), (2,))
        return steps.plan()
    together = max(1, min(images, MOST_COLUMNS // (groups * taps * area)))
    shape = (-(-images // together), groups, channels // groups, taps)
    view = windowed(steps, Place(0, x), out.shape[2:], places, attributes, target)
    columns, rows = (Memory(steps, dtype, together * n * area) for n in (groups * taps, channels))
    matrix = out.reshape(shape[1:])
    result = Place(2, matrix) if matrix is not None else steps.place(out.dtype, shape[1:])
    sums = result if shape[0] == 1 else steps.place(dtype, shape)
    axes = len(places)
    for part, first in enumerate(fixed_range(0, images, together)):
        count = min(together, images - first)
        windows = view.layout.narrow(0, first, count)
        windows = windows.permute((*range(1, axes + 2), 0, *range(axes + 2, windows.ndim)))
        right = columns.shaped(Place(view.position, windows), (groups, taps, count * area))
        some = y.narrow(0, first, count).permute((1, 0, *range(2, y.ndim)))
        left = rows.shaped(Place(1, some), (*shape[1:3], count * area))
        into = result.layout if sums is result else sums.layout.select(0, part)
        turned = right.layout.permute((0, 2, 1))
        plan = product_plan(left.layout, turned, into, dtype, target)
        steps.extend(plan, (left.position, right.position, sums.position))
    if sums is not result:
        settings = {"axis": 0, "keepdims": False, "dtype": out.dtype}
        plan = sum_.plan((sums.layout,), (result.layout,), settings, target)
        steps.extend(plan, (sums.position, result.position))
    if matrix is None:
        steps.copy(Place(result.position, Layout.contiguous(out.dtype, out.shape)), Place(2, out))
    return steps.plan()
