"""Convolutions as matrix products of weights and windows: by one tile on GPUs, else with the windows laid out as rows.

Small ones stay reductions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hologram.atlas.program import Program
from hologram.layout import Layout
from hologram.opset.forms import types
from hologram.opset.forms.epilogue import add_epilogue, epilogue_reads, reads_rows
from hologram.opset.forms.map import Indexed
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation, register
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.matmul import epilogue_program
from hologram.opset.tiles.convolution_tile import convolution_plan
from hologram.opset.tiles.product import product_plan
from hologram.plan import Plan, Target

MOST_COLUMNS = 1 << 24  # elements of windows laid out at once; images beyond them come in turn
LEAST_CHANNELS, LEAST_TAPS = 4, 8  # below these the reduction reads less than the product would write


def _without_bias(operation: Operation, x: Any, weight: Any, bias: Any, **attributes: Any) -> Any:
    """A convolution with a bias as one without, and an addition; 16-bit floats are rounded once, after it."""
    if bias is None or types.computing(x.dtype) != x.dtype:
        return None
    return operation(x, weight, **attributes) + bias.reshape(-1, *(1 for _ in x.shape[2:]))


@dataclass(frozen=True, eq=False)
class Convolution(Indexed):
    """A reduction over windows which, where tiles apply, is `columns` and a matrix product.

    `columns` lays out x (n, c, places...) as (n, places..., c, taps...), 0 where a tap lies outside.
    """

    columns: Indexed | None = None
    parts: Callable[..., Any] | None = _without_bias

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, weight, bias = inputs
        assert isinstance(x, Layout)
        assert isinstance(weight, Layout)
        steps = Steps(4)
        positions = [0, 1, 3]
        epilogue = None
        if isinstance(bias, Layout):
            positions.insert(2, steps.gathered(Place(2, bias)).position)
            epilogue = epilogue_program(types.computing(outputs[0].dtype), bias.dtype, "none")
        plan = self._as_product(x, weight, outputs[0], attributes, target, epilogue)
        if plan is None:
            return super().plan(inputs, outputs, attributes, target)
        steps.extend(plan, positions)
        return steps.plan()

    def matrix(self, inputs: Inputs, result: Layout) -> Layout | None:
        """A row for every place of every image, a column for every channel."""
        return result.permute((0, *range(2, result.ndim), 1)) if inputs[2] is None else None

    def finished(
        self, inputs: Inputs, out: Layout, attributes: Attributes, target: Target, epilogue: Program
    ) -> Plan:
        """Steps for out = epilogue(x convolved with weight), for x, weight, what the epilogue reads, and out."""
        x, weight, _ = inputs
        assert isinstance(x, Layout)
        assert isinstance(weight, Layout)
        plan = self._as_product(x, weight, out, attributes, target, epilogue)
        if plan is not None or not out.size:
            return plan or Plan(())
        reads = tuple(range(2, 2 + len(epilogue_reads(epilogue))))
        steps = Steps(3 + len(reads))
        dtype = self.infer((x, weight, None), attributes)[0].dtype
        value = steps.place(dtype, (out.shape[0], *out.shape[2:], out.shape[1]))
        rank = out.ndim
        last = (0, *range(2, rank), 1)  # channels last, and back
        first = (0, rank - 1, *range(1, rank - 1))
        plain = self._as_product(x, weight, value.layout.permute(first), attributes, target, None)
        if plain is not None:
            steps.extend(plain, (0, 1, value.position))
        else:
            plain = super().plan((x, weight, None), (value.layout.permute(first),), attributes, target)
            steps.extend(plain, (0, 1, 2, value.position))
        final = Place(2 + len(reads), out.permute(last))
        add_epilogue(steps, epilogue, value, reads, final, out.shape[1])
        return steps.plan()

    def _as_product(
        self,
        x: Layout,
        weight: Layout,
        out: Layout,
        attributes: Attributes,
        target: Target,
        epilogue: Program | None,
    ) -> Plan | None:
        """The plan by the tile kernel, else by a matrix product; None where neither applies."""
        dtype = types.computing(x.dtype)
        channels, taps = weight.shape[0] // attributes["groups"], math.prod(weight.shape[1:])
        small = channels < LEAST_CHANNELS or taps < LEAST_TAPS or not (x.size and out.size)
        if small or dtype not in target.limits.tile_dtypes:
            return None
        if target.limits.workgroup_memory:
            plan = convolution_plan(x, weight, out, attributes, target.limits, epilogue)
            if plan is not None:
                return plan
        return self._laid_out(x, weight, out, attributes, target, epilogue)

    def _laid_out(
        self,
        x: Layout,
        weight: Layout,
        out: Layout,
        attributes: Attributes,
        target: Target,
        epilogue: Program | None,
    ) -> Plan | None:
        """The plan as a product of the weights and of windows laid out as rows; None where that does not apply."""
        images, channels, *places = out.shape
        taps, area = math.prod(weight.shape[1:]), math.prod(places)
        matrix = weight.reshape((channels, taps))
        flat = out.reshape((images, channels, area))
        plain = attributes["groups"] == 1 and area * taps <= MOST_COLUMNS
        if self.columns is None or matrix is None or flat is None or not plain:
            return None
        together = min(images, MOST_COLUMNS // (area * taps), target.limits.max_workgroups)
        reads = range(2, 2 + len(epilogue_reads(epilogue)))
        if epilogue is not None and together < images and reads_rows(epilogue):
            return None  # it counts the rows of all images, a product those of its own
        steps = Steps(3 + len(reads))
        columns = steps.place(types.computing(x.dtype), (together, *places, *weight.shape[1:]))
        shaping = {n: attributes[n] for n in ("stride", "padding", "dilation")} | {"window": weight.shape[2:]}
        for first in range(0, images, together):
            count = min(together, images - first)
            part = columns.layout.narrow(0, 0, count)
            source = x.narrow(0, first, count)
            steps.extend(self.columns.plan((source,), (part,), shaping, target), (0, columns.position))
            rows = part.reshape((count, area, taps))
            product = flat.narrow(0, first, count).permute((0, 2, 1))
            assert rows is not None
            plan = product_plan(rows, matrix.permute((1, 0)), product, x.dtype, target, epilogue)
            steps.extend(plan, (columns.position, 1, *reads, 2 + len(reads)))
        return steps.plan()


def convolution(**facts: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Declares a convolution by the reduction it is."""

    def declare(function: Callable[..., Any]) -> Operation:
        return register(Convolution(name=function.__name__, function=function, **facts))

    return declare
