"""Convolutions by the tile `conv2d`: matrix products of weights and windows that are never laid out in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hologram.atlas.program import Program
from hologram.foundation.dtypes import DType, u32
from hologram.foundation.sizes import fixed_range
from hologram.machine.choices import Candidate, Problem
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Step, Target, Tile, reading, told, writing
from hologram.opset.forms.epilogue import epilogue_reads, reads_rows
from hologram.opset.forms.operation import Attributes
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.reduce import sum_

SCALARS = told(
    u32, "m", "k", "n", "channels", "height", "width", "window_height", "window_width", "area", "out_width",
    "stride_y", "stride_x", "padding_y", "padding_x", "dilation_y", "dilation_x",
    "x_offset", "x_image", "x_channel", "x_row", "x_column",
    "weight_offset", "weight_row", "weight_column",
    "out_offset", "out_image", "out_channel", "out_place",
)  # fmt: skip
WEIGHT_SCALARS = SCALARS[:21] + told(
    u32, "y_offset", "y_image", "y_channel", "y_place",
    "out_offset", "out_part", "out_row", "out_column", "parts",
)  # fmt: skip
# And what they are along no axis.
MOVES = (("stride", 1), ("padding", 0), ("dilation", 1))
KERNEL = "conv2d"  # of a Problem, and the stem
WEIGHT_KERNEL = (
    "conv2d_weight"  # the stem of the weight's product, which a library of the backend's own may have
)
SHARES = 4  # of a core: parts of the images that are summed apart
# Threads of a workgroup along either axis, and taps that it has in workgroup memory at a time.
SIZES = ((8, 16), (16, 16), (8, 8), (8, 32), (16, 8), (16, 32))
LARGE = 1 << 20  # results from which on workgroups of 16 x 16 threads leave no compute unit idle


def _pair(value: int | Sequence[int], axes: int, outer: int) -> tuple[int, int]:
    """A number for rows and one for columns; an image of one axis is a row, with `outer` for its rows."""
    found = (value,) * axes if isinstance(value, int) else tuple(value)
    return (outer, found[0]) if axes == 1 else (found[0], found[1])


def problem(x: Layout, weight: Layout, out: Layout, groups: int) -> Problem:
    """What calls share that are tuned together: the product's sizes, of one group, and whether windows have one tap."""
    m, k = weight.shape[0] // groups, weight.size // weight.shape[0]
    places = out.size // out.shape[1]
    return Problem(KERNEL, x.dtype.computed, (groups, m, k, places), (k == weight.shape[1],))


def ways(asked: Problem, limits: Limits) -> tuple[Candidate, ...]:
    """The kernel's tiles that a device has room for, the default first: 16 x 16 threads where there is much to do.

    A library of the backend's own cuts its work itself.
    """
    if limits.own_products:
        return (Candidate(KERNEL, (), (1, 1)),)
    groups, channels, _, places = asked.sizes
    much = groups * channels * places >= LARGE and channels > 64
    found = [
        Candidate(KERNEL, (("TILE_K", depth),), (threads, threads))
        for threads, depth in SIZES
        if threads**2 <= limits.max_workgroup_threads
        and 2 * depth * (8 * threads + 4) * asked.dtype.itemsize + 3 * depth * u32.itemsize
        <= limits.shared_bytes
    ]
    return tuple(sorted(found, key=lambda c: (c.threads[0] == 16) != much))


def _tile(dtype: DType, epilogue: Program | None, way: Candidate) -> Tile:
    return Tile(
        stem=KERNEL,
        buffers=(*reading(dtype, "x", "weight"), *writing(dtype, "out"), *epilogue_reads(epilogue)),
        scalars=SCALARS,
        types=(("T", dtype), ("ACC", dtype)),
        constants=way.constants,
        workgroup=(*way.threads, 1),
        epilogue=epilogue,
    )


def _bytes(layout: Layout, dtype: DType) -> int:
    """What a kernel must see of a layout, as it lies or copied in a dtype."""
    first, last = layout.span
    return max((last - first) * layout.dtype.itemsize, layout.size * dtype.itemsize)


def _images_at_once(
    layouts: tuple[Layout, Layout, Layout], dtype: DType, side: int, groups: int, limits: Limits
) -> int:
    """How many images a launch of tiles of side x side results can take; 0 where it can take none, or see them."""
    images, channels, *places = layouts[2].shape
    seen = all(_bytes(i, dtype) <= min(limits.max_binding_bytes, 1 << 32) for i in layouts)
    few = max(groups, -(-(channels // groups) // side)) <= limits.max_workgroups
    return min(images, limits.max_workgroups * side // math.prod(places)) if seen and few else 0


def convolution_plan(
    x: Layout,
    weight: Layout,
    out: Layout,
    attributes: Attributes,
    limits: Limits,
    way: Candidate,
    epilogue: Program | None = None,
) -> Plan | None:
    """Steps for x, weight, what the epilogue reads, and out, whose images may have to be launched in parts.

    None where one image outnumbers a launch's workgroups, or an operand is larger than a kernel can see.

    x is (N, C, places...), weight (O, C / groups, taps...), out (N, O, places...), with one or two axes of places; none
    is empty. Other dtypes than the computing one, and layouts the kernel cannot describe, go through scratch.
    """
    axes, groups = x.ndim - 2, attributes["groups"]
    dtype = x.dtype.computed
    images, channels, *places = out.shape
    area = math.prod(places)
    m, k = channels // groups, weight.size // channels
    side = 8 * way.threads[0]
    together = _images_at_once((x, weight, out), dtype, side, groups, limits)
    reads = tuple(range(2, 2 + len(epilogue_reads(epilogue))))
    if not together or 3 + len(reads) > limits.max_bindings:
        return None
    if epilogue and together < images and reads_rows(epilogue):
        return None  # the epilogue counts the rows of all images, a launch those of its own
    steps = Steps(3 + len(reads))
    final = Place(2 + len(reads), out)
    source, taps = Place(0, x), Place(1, weight)
    source = source if _reads(x, dtype) else steps.converted(source, dtype)
    rows = weight.reshape((channels, k))
    if rows is None or not _reads(rows, dtype):
        taps, rows = steps.converted(taps, dtype), Layout.contiguous(dtype, (channels, k))
    flat = out.reshape((images, channels, area))
    flat = flat if flat is not None and _reads(flat, dtype) else None
    if flat is not None and limits.own_products and epilogue and not flat.is_contiguous:
        flat = None  # it works on results as they lie
    target = steps.place(dtype, (images, channels, area)) if flat is None else Place(final.position, flat)
    tile = _tile(dtype, epilogue, way)
    view = source.layout if axes == 2 else source.layout.unsqueeze(2)
    sizes = (*_pair(weight.shape[2:], axes, 1), area, places[-1])
    moves = [n for name, absent in MOVES for n in _pair(attributes[name], axes, absent)]
    for first in fixed_range(0, images, together):
        count = min(together, images - first)
        part, result = view.narrow(0, first, count), target.layout.narrow(0, first, count)
        scalars = (m, k, count * area, weight.shape[1], *view.shape[2:], *sizes, *moves)
        lines = [number for i in (part, rows, result) for number in (i.offset, *i.strides)]
        grid = (-(-count * area // side), -(-m // side), groups)
        step = Step(tile, tuple(range(3 + len(reads))), (*scalars, *lines), grid)
        steps.add(step, (source.position, taps.position, target.position, *reads))
    if target.position != final.position:
        steps.copy(Place(target.position, Layout.contiguous(dtype, out.shape)), final)
    return steps.plan()


def _reads(layout: Layout, dtype: DType) -> bool:
    """Whether the kernel can take elements as they lie: of one dtype, and no stride is negative."""
    return layout.dtype == dtype and min(layout.strides) >= 0


def weight_plan(x: Layout, y: Layout, out: Layout, attributes: Attributes, limits: Limits) -> Plan | None:
    """Steps for out (o, c / groups, taps...), sums of products of y (n, o, places...) with windows of x; none is empty.

    None where the device has no kernel for that.
    """
    axes, groups, dtype = x.ndim - 2, attributes["groups"], x.dtype.computed
    if not limits.own_products or dtype not in limits.tile_dtypes:
        return None
    images, channels, *places = y.shape
    area, m, k = math.prod(places), channels // groups, out.size // channels
    steps = Steps(3)
    source = Place(0, x) if _reads(x, dtype) else steps.converted(Place(0, x), dtype)
    flat = y.reshape((images, channels, area))
    cotangent = Place(1, flat) if flat is not None and _reads(flat, dtype) else None
    if cotangent is None:
        made = steps.converted(Place(1, y), dtype)
        cotangent = Place(made.position, Layout.contiguous(dtype, (images, channels, area)))
    units = groups * -(-m // 128) * -(-k // 192)
    parts = min(images, -(-SHARES * limits.parallelism // units))
    parts = -(-images // -(-images // parts))
    matrix = out.reshape((channels, k))
    direct = parts == 1 and matrix is not None and _reads(matrix, dtype)
    sums = Place(2, matrix.unsqueeze(0)) if direct and matrix else steps.place(dtype, (parts, channels, k))
    view = source.layout if axes == 2 else source.layout.unsqueeze(2)
    sizes = (*_pair(out.shape[2:], axes, 1), area, places[-1])
    moves = [n for name, absent in MOVES for n in _pair(attributes[name], axes, absent)]
    lines = [n for i in (view, cotangent.layout, sums.layout) for n in (i.offset, *i.strides)]
    scalars = (m, k, images * area, out.shape[1], *view.shape[2:], *sizes, *moves, *lines, parts)
    tile = Tile(
        stem=WEIGHT_KERNEL,
        buffers=(*reading(dtype, "x", "y"), *writing(dtype, "out")),
        scalars=WEIGHT_SCALARS,
    )
    step = Step(tile, (0, 1, 2), scalars, (1, 1, groups))
    steps.add(step, (source.position, cotangent.position, sums.position))
    if not direct:
        settings = {"axis": 0, "keepdims": False, "dtype": out.dtype}
        whole = Layout.contiguous(dtype, (parts, *out.shape))
        steps.extend(sum_.plan((whole,), (out,), settings, Target(limits)), (sums.position, 2))
    return steps.plan()
