"""Sorting along an axis: sort and argsort, both stable; NaN counts as larger than everything, as in NumPy.

Complex numbers stand in NumPy's order: by the real part, then by the imaginary one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram.atlas.functions import select
from hologram.foundation.dtypes import COMPLEX, COMPUTED, INEXACT, DType, i64
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.axes import normalize_axis, whole
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms import types
from hologram.opset.forms.default import Default
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.operation import (
    ARRAYS,
    Attributes,
    Input,
    Inputs,
    Layouts,
    Operation,
    Sample,
    declared,
)
from hologram.opset.forms.samples import array
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.indexing import scatter
from hologram.opset.scan import axis_samples
from hologram.opset.tiles.scan import along
from hologram.opset.tiles.sort import order_steps, pick_steps, value_steps

KINDS = ("quicksort", "q", "mergesort", "m", "heapsort", "h", "stable", "s")  # as NumPy calls them


@frozen(eq=False, repr=False)
class Ordering(Operation):
    """What puts the elements along an axis in order; outputs are `values` and `positions` of the first `k`."""

    values: bool = True
    positions: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Without an axis, of the elements counted flat."""
        if len(args) > 1:
            args, kwargs = self.by_name(args, kwargs)
        if args and kwargs.get("axis", 0) is None:
            x = Default.executor(None).tensor(args[0]) if isinstance(args[0], ARRAYS) else args[0]
            return super().__call__(x.reshape(x.size), *args[1:], **{**kwargs, "axis": -1})
        return super().__call__(*args, **kwargs)

    @property
    def results(self) -> int:
        return self.values + self.positions

    def _checked(self, x: Input | None, attributes: Attributes) -> tuple[Layout, int]:
        """The operand, and how many elements of each row are wanted."""
        if not isinstance(x, Layout):
            raise ShapeError(f"{self.name}: a tensor is needed, got {x}")
        if x.ndim or attributes["axis"] not in (0, -1):
            normalize_axis(attributes["axis"], x.ndim, self.name)
        n = x.shape[attributes["axis"]] if x.ndim else 1
        k = whole(attributes.get("k", n), f"{self.name}: k")
        if not (0 if x.ndim else 1) <= k <= n:
            raise ShapeError(f"{self.name}: k must lie in [0, {n}], the size of the axis, got {k}")
        return x, k

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, k = self._checked(inputs[0], attributes)
        shape = list(x.shape)
        if shape:
            shape[attributes["axis"]] = k
        kinds = [x.dtype] * self.values + [i64] * self.positions
        return tuple(Layout.contiguous(dtype, shape) for dtype in kinds)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, k = self._checked(inputs[0], attributes)
        if not outputs[0].size:
            return Plan(())
        view, *targets = along((x, *outputs), attributes["axis"], self.name)
        steps = Steps(1 + self.results)
        source = Place(0, view)
        places = [Place(position, layout) for position, layout in enumerate(targets, 1)]
        if not self.positions and value_steps(steps, source, places[0], attributes["descending"], target):
            return steps.plan()
        first = self.first_steps(steps, source, k, attributes, target)
        if self.values:
            pick_steps(steps, source, first, places[0])
        if self.positions:
            steps.copy(first, places[-1])
        return steps.plan()

    def first_steps(self, steps: Steps, x: Place, k: int, attributes: Attributes, target: Target) -> Place:
        """Appends the positions of the first k in each row of x (outer..., n): u32 of (outer..., k)."""
        return order_steps(steps, x, attributes["descending"], target)


def orders(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The stable order; descending is that of the ranks, negated."""
    if not descending or not np.size(x):
        return np.argsort(x, axis=axis, kind="stable")
    ranks = _ranks(np.ravel(x)).reshape(np.shape(x))
    return np.argsort(-ranks, axis=axis, kind="stable")


def _ranks(x: np.ndarray) -> np.ndarray:
    """Of each element among the distinct ones in order."""
    if not np.iscomplexobj(x):
        return np.unique(x, return_inverse=True)[1]
    across, up = np.real(x), np.imag(x)
    parts = (np.where(np.isnan(part), 0, part) for part in (across, up))
    rows = np.stack([2 * np.isnan(across) + np.isnan(up), *parts], axis=1)
    return np.unique(rows, axis=0, return_inverse=True)[1]


def argsort_reference(x, axis=-1, descending=False, stable=True):
    return orders(x, axis, descending) if np.ndim(x) else np.zeros((), np.int64)


def _sort_reference(x, axis=-1, descending=False, stable=True):
    return np.take_along_axis(x, orders(x, axis, descending), axis) if np.ndim(x) else x


def _of_any_kind(operation: Ordering, operands: Any, attributes: Attributes, kind: Any) -> Any:
    """NumPy's `kind` says how to sort; there is one way here, which is stable."""
    if kind not in KINDS:
        raise TypeError(
            f"{operation.name}: kind must be one of {', '.join(KINDS[::2])}, got {kind!r}; to sort downward write "
            "descending=True"
        )
    return operation(*operands, **attributes)


def _samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for x, axis in axis_samples(rng, dtype):
        yield Sample((x,), {"axis": axis})
        yield Sample((x,), {"axis": axis, "descending": True})
    yield Sample((array(rng, dtype, (3, 1031), -1e4, 1e4, special=True),), {"axis": 1})
    yield Sample((array(rng, dtype, (60, 2), special=True),), {"axis": 0, "descending": True})


def returned(cotangent, positions, shape, axis):
    """Each element's cotangent back where it came from."""
    if not shape:
        return cotangent
    zeros = cotangent.executor.full((), 0, cotangent.dtype).expand(shape)
    return scatter(zeros, positions, cotangent, dim=axis)


def _sort_gradient(cotangent, x, axis, descending):
    return returned(cotangent, argsort(x, axis=axis, descending=descending), x.shape, axis)


@declared(Ordering, reference=_sort_reference, samples=_samples, dtypes=COMPUTED + COMPLEX,
          gradient={"x": _sort_gradient}, further=_of_any_kind)  # fmt: skip
def sort(x, *, axis=-1, descending=False, stable=True):
    """The elements in order along an axis; NaN is larger than everything. Every order is stable.

    Complex numbers are ordered by the real part, then by the imaginary one.
    """


@declared(Ordering, reference=argsort_reference, samples=_samples, dtypes=COMPUTED + COMPLEX, values=False,
          positions=True, aten=("argsort",), further=_of_any_kind)  # fmt: skip
def argsort(x, *, axis=-1, descending=False, stable=True):
    """The positions (i64) of the elements in order along an axis; equal ones stay as they were."""


# Not an operation of its own: what lies between two elements in order. Of equals each keeps its share of a cotangent.
mixed = Elementwise(
    name="mixed", types=types.floating, dtypes=INEXACT, reference=lambda a, b, weight: a + (b - a) * weight,
    function=lambda a, b, weight: select(a == b, a, a * (1.0 - weight) + b * weight),
    samples=lambda rng, dtype: (),
    gradient={"a": lambda cotangent, weight: cotangent * (1.0 - weight),
              "b": lambda cotangent, weight: cotangent * weight, "weight": None},
)  # fmt: skip
