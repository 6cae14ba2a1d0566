"""Convolutions as matrix products of weights and windows: by one tile on GPUs, else with the windows laid out as rows.

Small ones stay reductions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hologram.limits import Limits
from hologram.opset import types
from hologram.opset.convolution_tile import convolution_plan
from hologram.opset.form_map import Indexed
from hologram.opset.layout import Layout
from hologram.opset.matmul import epilogue_program
from hologram.opset.operation import Input, Operation, register
from hologram.opset.plan import Plan
from hologram.opset.product import product_plan
from hologram.opset.steps import Place, Steps

MOST_COLUMNS = 1 << 24  # elements of windows laid out at once; images beyond them come in turn
LEAST_CHANNELS, LEAST_TAPS = 4, 8  # below these the reduction reads less than the product would write


@dataclass(frozen=True, eq=False)
class Convolution(Indexed):
    """A reduction over windows which, where tiles apply, is `columns` and a matrix product.

    `columns` lays out x (n, c, places...) as (n, places..., c, taps...), 0 where a tap lies outside.
    """

    columns: Indexed | None = None

    def plan(
        self,
        inputs: Sequence[Input | None],
        outputs: Sequence[Layout],
        attributes: Mapping[str, Any],
        limits: Limits,
    ) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        return (
            self._tiled(inputs, outputs[0], attributes, limits)
            or self._product(inputs, outputs[0], attributes, limits)
            or super().plan(inputs, outputs, attributes, limits)
        )

    def _tiled(
        self, inputs: Sequence[Input | None], out: Layout, attributes: Mapping[str, Any], limits: Limits
    ) -> Plan | None:
        """The plan by the tile kernel; None where that does not apply."""
        x, weight, bias = inputs
        assert isinstance(x, Layout)
        assert isinstance(weight, Layout)
        channels, taps = weight.shape[0] // attributes["groups"], math.prod(weight.shape[1:])
        small = channels < LEAST_CHANNELS or taps < LEAST_TAPS or not (x.size and out.size)
        if small or not limits.workgroup_memory or types.computing(out.dtype) not in limits.tile_dtypes:
            return None
        given = bias if isinstance(bias, Layout) else None
        return convolution_plan(x, weight, given, out, attributes, limits)

    def _product(
        self, inputs: Sequence[Input | None], out: Layout, attributes: Mapping[str, Any], limits: Limits
    ) -> Plan | None:
        """The plan as a product; None where that does not apply."""
        x, weight, bias = inputs
        assert isinstance(x, Layout)
        assert isinstance(weight, Layout)
        dtype = types.computing(out.dtype)
        images, channels, *places = out.shape
        taps, area = math.prod(weight.shape[1:]), math.prod(places)
        matrix = weight.reshape((channels, taps)) if weight.size else None
        flat = out.reshape((images, channels, area)) if out.size else None
        if (
            self.columns is None
            or attributes["groups"] != 1
            or dtype not in limits.tile_dtypes
            or matrix is None
            or flat is None
        ):
            return None
        if channels < LEAST_CHANNELS or taps < LEAST_TAPS or area * taps > MOST_COLUMNS:
            return None
        together = min(images, MOST_COLUMNS // (area * taps), limits.max_workgroups)
        steps = Steps(4)
        columns = steps.place(dtype, (together, *places, *weight.shape[1:]))
        reads: list[Place] = []
        if isinstance(bias, Layout):
            reads = [Place(2, bias)]
            if bias.offset or not bias.is_contiguous:
                reads = [steps.place(bias.dtype, bias.shape)]
                steps.copy(Place(2, bias), reads[0])
        epilogue = epilogue_program(dtype, reads[0].layout.dtype if reads else None, "none")
        for first in range(0, images, together):
            count = min(together, images - first)
            part = columns.layout.narrow(0, 0, count)
            shaping = {n: attributes[n] for n in ("stride", "padding", "dilation")}
            shaping["window"] = weight.shape[2:]
            source = x.narrow(0, first, count)
            steps.extend(self.columns.plan((source,), (part,), shaping, limits), (0, columns.position))
            rows = part.reshape((count, area, taps))
            target = flat.narrow(0, first, count).permute((0, 2, 1))
            assert rows is not None
            plan = product_plan(rows, matrix.permute((1, 0)), target, out.dtype, limits, epilogue)
            steps.extend(plan, (columns.position, 1, *(p.position for p in reads), 3))
        return steps.plan()


def convolution(**facts: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Declares a convolution by the reduction it is."""

    def declare(function: Callable[..., Any]) -> Operation:
        return register(Convolution(name=function.__name__, function=function, **facts))

    return declare
