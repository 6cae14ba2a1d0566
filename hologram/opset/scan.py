"""Running sums along an axis, and their inverse, differences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hologram import dtypes
from hologram.dtypes import ALL, NUMBERS, DType
from hologram.errors import ShapeError
from hologram.layout import Layout, count, normalize_axis
from hologram.opset import math as arithmetic
from hologram.opset.forms import types
from hologram.opset.forms.composite import composite
from hologram.opset.forms.operation import Attributes, Input, Inputs, Layouts, Operation, Sample, register
from hologram.opset.forms.samples import array, cases
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.scan import along, scan_steps
from hologram.plan import Plan, Target


@dataclass(frozen=True, eq=False)
class Cumsum(Operation):
    """Running sums along an axis, and their inverse, differences."""

    def _typed(self, x: Input | None, attributes: Attributes) -> tuple[Layout, DType]:
        if not isinstance(x, Layout):
            raise ShapeError(f"{self.name}: a tensor is needed, got {x}")
        if x.ndim or attributes["axis"] not in (0, -1):
            normalize_axis(attributes["axis"], x.ndim, self.name)
        wanted = attributes["dtype"]
        return x, types.total(self.name, (x.dtype,))[1] if wanted is None else dtypes.dtype(wanted)

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, dtype = self._typed(inputs[0], attributes)
        return (Layout.contiguous(dtype, x.shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, dtype = self._typed(inputs[0], attributes)
        if not x.size:
            return Plan(())
        x, out = along((x, outputs[0]), attributes["axis"], self.name)
        steps = Steps(2)
        scan_steps(steps, Place(0, x), Place(1, out), types.computing(dtype), target)
        return steps.plan()


def axis_samples(rng: np.random.Generator, dtype: DType) -> Iterable[tuple[np.ndarray, int]]:
    """Arrays with every kind of axis; few elements for exact sums in f16."""
    for shape, axis in (
        ((7,), 0),
        ((1,), -1),
        ((), -1),
        ((0, 3), 0),
        ((3, 0), 0),
        ((5, 300), 1),
        ((300, 5), 0),
        ((2, 67, 3), -2),
    ):
        yield array(rng, dtype, shape, -3, 3), axis


def _cumsum_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for x, axis in axis_samples(rng, dtype):
        yield Sample((x,), {"axis": axis})
    yield Sample((array(rng, dtype, (9_001,), -3, 3),), {"axis": 0})


def _cumsum_reference(x, axis, dtype=None):
    kind = np.asarray(x).dtype.kind
    wide = {"f": np.float64, "u": np.uint64}.get(kind, np.int64)
    return np.cumsum(x, axis=axis, dtype=wide) if np.ndim(x) else np.asarray(x).astype(wide)


def _cumsum(x, *, axis=-1, dtype=None):
    """Running sums along an axis; integers and bools are summed in 64 bits unless `dtype` says otherwise."""


cumsum = register(
    Cumsum(
        name="cumsum", function=_cumsum, reference=_cumsum_reference, samples=_cumsum_samples, dtypes=ALL, ulp=4,
        absolute=1024.0, aten=("cumsum",),
    )
)  # fmt: skip


@composite(dtypes=NUMBERS, aten=("diff",), reference=lambda x, axis=-1, n=1: np.diff(x, n, axis), ulp=0.5, absolute=1.0,
           samples=cases(((9,), {}), ((4, 5), {"axis": 0, "n": 2}), ((4, 1), {"n": 1})))  # fmt: skip
def diff(x, *, axis=-1, n=1):
    """Each element less the one before it along an axis, `n` times over."""
    k = normalize_axis(axis, x.ndim, "diff")
    for _ in range(min(count(n, "diff: n"), x.shape[k])):
        x = arithmetic.subtract(x.slice(k, 1), x.slice(k, None, -1))
    return x


@composite(dtypes=ALL, ulp=4, absolute=1024.0, samples=cases(((9,), {"axis": 0}), ((3, 70), {"axis": -1})),
           reference=lambda x, axis=-1, dtype=None: np.cumsum(x, axis, dtype))  # fmt: skip
def cumulative_sum(x, *, axis=-1, dtype=None):
    """Running sums along an axis; see cumsum."""
    return cumsum(x, axis=axis, dtype=dtype)
