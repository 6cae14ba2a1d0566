"""Filling memory with a number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hologram import dtypes
from hologram.dtypes import ALL, DType
from hologram.layout import Layout, integers
from hologram.opset.forms.map import Indexed
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Sample, register
from hologram.plan import Plan, Target


@dataclass(frozen=True, eq=False)
class Fill(Indexed):
    """Takes the shape and dtype of a given output from it."""

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        given = {**attributes, "shape": outputs[0].shape, "dtype": outputs[0].dtype}
        return super().plan(inputs, outputs, given, target)


def _fill(at, *, value: Any, shape=(), dtype="f32"):
    """`value` everywhere: in a given output, or in a new tensor of that shape and dtype."""
    return value


def _filled(value, shape, dtype):
    return Layout.contiguous(dtypes.dtype(dtype), integers(shape, "fill: a size"))


def _fill_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((), (0,), 1031, (3, 5)):
        yield Sample((), {"value": 1, "shape": shape, "dtype": dtype.name})


fill = register(
    Fill(
        name="fill", function=_fill, dtypes=ALL, scalars={"value": None}, samples=_fill_samples, methods=False,
        reference=lambda value, shape=(), dtype="f32": np.full(shape, value),
        shape_of=_filled,
    )
)  # fmt: skip
