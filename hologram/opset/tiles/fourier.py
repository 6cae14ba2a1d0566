"""Discrete Fourier transforms by code of a device's own: which transforms along an axis it is told to make."""

from __future__ import annotations

from hologram.atlas.program import Access, BufferParameter
from hologram.foundation.dtypes import f64, index
from hologram.machine.layout import Layout
from hologram.machine.plan import FOURIER, FOURIER_HALVES, Step, Tile, reading, told, writing
from hologram.opset.forms.steps import Place, Steps

LONG = 8192  # elements of a row that is worth several threads
MOST_ACROSS = 2048  # elements that lie across memory; more are laid out as rows first
Axes = list[tuple[int, int, int]]  # sizes, and strides of both


def own_steps(steps: Steps, x: Place, out: Place, axis: int, inverse: bool, scale: float) -> None:
    """Appends out = scale times the transforms of x along an axis."""
    n = x.layout.shape[axis]
    axes = _merged(x.layout, out.layout, axis)
    along = x.layout.strides[axis] == out.layout.strides[axis] == 1 and len(axes) < 2
    if len(axes) > 2 or (n > MOST_ACROSS and not along):
        rows = Place(x.position, x.layout.transpose(axis, -1))
        given, made = steps.gathered(rows), steps.place(x.layout.dtype, rows.layout.shape)
        own_steps(steps, given, made, rows.layout.ndim - 1, inverse, scale)
        steps.copy(made, Place(out.position, out.layout.transpose(axis, -1)))
        return
    axes.sort(key=lambda a: (a[2], -a[0]))  # neighbours in memory are side by side
    (count, *lane), (outer, *far) = [*axes, (1, 0, 0), (1, 0, 0)][:2]
    numbers = {"n": n, "inverse": int(inverse), "outer": outer, "count": count}
    for k, (name, layout) in enumerate((("x", x.layout), ("out", out.layout))):
        numbers |= {
            f"{name}_offset": layout.offset, f"{name}_outer": far[k],
            f"{name}_element": layout.strides[axis], f"{name}_lane": lane[k],
        }  # fmt: skip
    dtype = x.layout.dtype
    positions = [x.position, out.position]
    buffers = (*reading(dtype, "x"), *writing(dtype, "out"))
    if n >= LONG and outer == 1:
        # A long row lies between its transforms as so many vectors, of which the last may be another's part.
        positions.append(steps.place(dtype, (2 * n * count,)).position)
        buffers += (BufferParameter("temporary", dtype, Access.READ_WRITE),)
    tile = Tile(FOURIER, buffers, (*told(index, *numbers), *told(f64, "scale")))
    operands = tuple(range(len(positions)))
    steps.add(Step(tile, operands, (*numbers.values(), scale), (outer * count, 1, 1)), positions)


def _merged(x: Layout, out: Layout, axis: int) -> Axes:
    """The other axes, neighbours as one where both lie so."""
    found: Axes = []
    for k, (size, one, other) in enumerate(zip(x.shape, x.strides, out.strides, strict=True)):
        if k == axis or size == 1:
            continue
        if found and found[-1][1] == one * size and found[-1][2] == other * size:
            found[-1] = (found[-1][0] * size, one, other)
        else:
            found.append((size, one, other))
    return found


def half_steps(steps: Steps, x: Place, roots: Place, out: Place, together: bool) -> None:
    """Appends spectra of pairs of real numbers taken apart, or put together; elements of rows are neighbours.

    Where they are taken apart, x may lie in the place of out.
    """
    half = (out if together else x).layout.shape[-1]
    rows = x.layout.size // x.layout.shape[-1]
    sizes = [_from_row_to_row(p.layout) for p in (x, out)]
    numbers = {"rows": rows, "half": half, "x_row": sizes[0], "out_row": sizes[1]}
    dtype = out.layout.dtype
    tile = Tile(
        stem=FOURIER_HALVES,
        buffers=(*reading(dtype, "x"), *writing(dtype, "out"), *reading(dtype, "roots")),
        scalars=told(index, *numbers),
        constants=(("TOGETHER", together),),
    )
    step = Step(tile, (0, 1, 2), tuple(numbers.values()), (rows, 1, 1))
    steps.add(step, (x.position, out.position, roots.position))


def _from_row_to_row(layout: Layout) -> int:
    """The stride of the innermost axis of rows; that of an axis of one element says nothing."""
    axes = zip(layout.shape[-2::-1], layout.strides[-2::-1], strict=True)
    return next((stride for n, stride in axes if n > 1), 0)
