"""Products of complex matrices as one product of real ones, by the kernels that multiply those.

The rows of a, read as reals, are (real, imaginary, real, ...). Beside each element u + iv of b stands the block
(u, v; -v, u): the product of both is a row of the result, read as reals. So a and the result stay where they lie, and b
is copied once, at twice its size. Where a is real, so is b read: nothing is copied, and half is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hologram.atlas import complex_parts
from hologram.foundation.dtypes import COMPLEX, DType
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.map import Indexed
from hologram.opset.forms.steps import Place, Steps


def _doubled(b: Layout) -> Layout:
    rows, columns = b.shape[-2:]
    return Layout.contiguous(b.dtype.part, (*b.shape[:-2], 2 * rows, 2 * columns))


def _block(at: Any, out: Any, b: Any) -> None:
    z = b.at(*at)
    u, v = complex_parts.real(z), complex_parts.imag(z)
    row, column = at[-2] * 2, at[-1] * 2
    for k, pair in enumerate(((u, v), (-v, u))):
        for j, part in enumerate(pair):
            out.put(part, *at[:-2], row + k, column + j)


blocks = Indexed(
    name="complex_blocks", function=_block, shape_of=_doubled, over="b", dtypes=COMPLEX, complex_results=True,
    reference=lambda b: None, samples=lambda rng, dtype: (),
)  # fmt: skip


def complex_product(
    a: Layout, b: Layout, out: Layout, dtype: DType, target: Target, product: Callable[..., Plan]
) -> Plan:
    """The plan of a (..., m, k) times b (..., k, n); `product` gives that of two real operands."""
    steps = Steps(3)
    left, right = Place(0, a), Place(1, b)
    if a.dtype.is_complex:
        left = _in_rows(steps, left, dtype)
        whole = right if b.dtype is dtype else steps.converted(right, dtype)
        right = steps.place(dtype.part, _doubled(whole.layout).shape)
        steps.extend(
            blocks.plan((whole.layout,), (right.layout,), {}, target), (whole.position, right.position)
        )
    else:
        left = left if a.dtype is dtype.part else steps.converted(left, dtype.part)
        right = _in_rows(steps, right, dtype)
    flat = _flat(out)
    result = Place(2, flat) if flat else steps.place(dtype.part, (*out.shape[:-1], 2 * out.shape[-1]))
    made = product((left.layout, right.layout), result.layout, target, None)
    steps.extend(made, (left.position, right.position, result.position))
    if flat is None:
        split = result.layout.reshape((*out.shape, 2))
        assert split is not None
        steps.copy(Place(result.position, split), Place(2, out.parts()))
    return steps.plan()


def _in_rows(steps: Steps, place: Place, dtype: DType) -> Place:
    """Complex numbers as rows of reals; a copy where they lie otherwise."""
    flat = _flat(place.layout) if place.layout.dtype is dtype else None
    if flat is not None:
        return Place(place.position, flat)
    copied = steps.converted(place, dtype)
    flat = _flat(copied.layout)
    assert flat is not None
    return Place(copied.position, flat)


def _flat(layout: Layout) -> Layout | None:
    """The last axis and the parts as one."""
    return layout.parts().reshape((*layout.shape[:-1], 2 * layout.shape[-1]))
