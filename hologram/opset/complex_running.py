"""Products of many complex numbers by products of neighbours: their parts cannot be folded one by one."""

from __future__ import annotations

from typing import Any

from hologram.foundation.dtypes import DType
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset import math as arithmetic
from hologram.opset import movement
from hologram.opset.creation import fill
from hologram.opset.forms.steps import Place, Steps


def _multiply(steps: Steps, x: Place, y: Place, out: Place, target: Target) -> None:
    plan = arithmetic.multiply.plan((x.layout, y.layout), (out.layout,), {}, target)
    steps.extend(plan, (x.position, y.position, out.position))


def _part(place: Place, start: int, length: int) -> Place:
    """Along the last axis."""
    return Place(place.position, place.layout.narrow(place.layout.ndim - 1, start, length))


def product_plan(x: Layout, out: Layout, dtype: DType, target: Target) -> Plan:
    """The products of rows (..., n) into out (...), by a tree: halves times halves."""
    steps = Steps(2)
    if not x.shape[-1]:
        settings = {"value": 1, "shape": out.shape, "dtype": dtype.name}
        steps.extend(fill.plan((), (out,), settings, target), (1,))
        return steps.plan()
    rows = Place(0, x)
    while (n := rows.layout.shape[-1]) > 1:
        half, odd = divmod(n, 2)
        folded = steps.place(dtype, (*x.shape[:-1], half + odd))
        _multiply(steps, _part(rows, 0, half), _part(rows, half, half), _part(folded, 0, half), target)
        if odd:
            steps.copy(_part(rows, n - 1, 1), _part(folded, half, 1))
        rows = folded
    steps.copy(Place(rows.position, rows.layout.select(-1, 0)), Place(1, out))
    return steps.plan()


def product_of(x: Any) -> Any:
    """The same by operations on tensors, for graphs: the products of rows (..., n)."""
    if not x.shape[-1]:
        return x.executor.full(x.shape[:-1], 1, x.dtype)
    while (n := x.shape[-1]) > 1:
        half, odd = divmod(n, 2)
        folded = arithmetic.multiply(x.narrow(-1, 0, half), x.narrow(-1, half, half))
        x = movement.concat([folded, x.narrow(-1, n - 1, 1)], axis=-1) if odd else folded
    return x.select(-1, 0)


def running_plan(x: Layout, out: Layout, dtype: DType, target: Target) -> Plan:
    """The running products along the last axis, in log2(n) rounds (Hillis and Steele, 1986)."""
    steps = Steps(2)
    now, n, distance = Place(0, x), x.shape[-1], 1
    while distance < n:
        after = steps.place(dtype, x.shape)
        steps.copy(_part(now, 0, distance), _part(after, 0, distance))
        ahead, behind = _part(now, 0, n - distance), _part(now, distance, n - distance)
        _multiply(steps, ahead, behind, _part(after, distance, n - distance), target)
        now, distance = after, 2 * distance
    steps.copy(now, Place(1, out))
    return steps.plan()
