"""Convolutions as matrix products of weights and windows: by one tile on GPUs, else with the windows laid out as rows.

Small ones stay reductions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hologram.atlas.program import Program
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import fixed_range
from hologram.machine.choices import Candidate, Problem, chosen
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target
from hologram.opset.creation import fill
from hologram.opset.forms.epilogue import add_epilogue, epilogue_reads
from hologram.opset.forms.map import Indexed
from hologram.opset.forms.operation import Attributes, Input, Inputs, Layouts, Operation
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.forms.windows import per_axis
from hologram.opset.matmul import epilogue_program
from hologram.opset.tiles import convolution_tile
from hologram.opset.tiles.columns import convolved, surrounded, weighed
from hologram.opset.tiles.convolution_tile import convolution_plan, weight_plan

KERNEL = convolution_tile.KERNEL
COLUMNS = Candidate("columns", (), (0, 0))  # windows laid out as the rows of a product
LEAST_CHANNELS, LEAST_TAPS = 2, 8  # below these the reduction reads less than the product would write


def ways(asked: Problem, limits: Limits) -> tuple[Candidate, ...]:
    """Every way a device can go, the default first: the tile on GPUs, windows laid out where there is none to gain."""
    tiles = convolution_tile.ways(asked, limits)
    return (*tiles, COLUMNS) if limits.workgroup_memory or limits.own_products else (COLUMNS, *tiles)


def _without_bias(operation: Operation, x: Any, weight: Any, bias: Any, **attributes: Any) -> Any:
    """A convolution with a bias as one without, and an addition; 16-bit floats are rounded once, after it."""
    if bias is None or x.dtype.computed != x.dtype:
        return None
    return operation(x, weight, **attributes) + bias.reshape(-1, *(1 for _ in x.shape[2:]))


def product_plan(
    x: Layout,
    weight: Layout,
    out: Layout,
    attributes: Attributes,
    target: Target,
    epilogue: Program | None = None,
) -> Plan | None:
    """The plan by the tile kernel, else by a matrix product; None where neither applies."""
    dtype = x.dtype.computed
    channels, taps = weight.shape[0] // attributes["groups"], math.prod(weight.shape[1:])
    small = channels < LEAST_CHANNELS or taps < LEAST_TAPS or not (x.size and out.size)
    limits = target.limits
    if small or not (dtype in limits.tile_dtypes or limits.reproducible):
        return None
    asked = convolution_tile.problem(x, weight, out, attributes["groups"])
    way = COLUMNS if limits.reproducible else chosen(asked, ways(asked, limits), target.choices)
    if way != COLUMNS:
        plan = convolution_plan(x, weight, out, attributes, limits, way, epilogue)
        if plan is not None:
            return plan
    plan = convolved(x, weight, out, attributes, target, epilogue)
    if plan is None and epilogue is not None:
        return _in_two(x, weight, out, attributes, target, epilogue)
    return plan


def _in_two(
    x: Layout, weight: Layout, out: Layout, attributes: Attributes, target: Target, epilogue: Program
) -> Plan | None:
    """As `product_plan` for what a matrix product does not end with, as that of several groups: a program behind it."""
    reads = tuple(range(2, 2 + len(epilogue_reads(epilogue))))
    steps = Steps(3 + len(reads))
    last, first = _orders(out.ndim)
    value = steps.place(x.dtype.computed, out.permute(last).shape)
    plan = convolved(x, weight, value.layout.permute(first), attributes, target, None)
    if plan is None:
        return None
    steps.extend(plan, (0, 1, value.position))
    add_epilogue(steps, epilogue, value, reads, Place(2 + len(reads), out.permute(last)), out.shape[1])
    return steps.plan()


def _orders(rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of (images, channels, places...) with channels last, and of that as they were."""
    return (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))


def biased_plan(inputs: Inputs, out: Layout, attributes: Attributes, target: Target) -> Plan | None:
    """As `product_plan`, for x, weight, bias (or None) and out; places of the window outside of x count as zeros."""
    x, weight, bias = inputs
    assert isinstance(x, Layout)
    assert isinstance(weight, Layout)
    steps = Steps(4)
    positions = [0, 1, 3]
    epilogue = None
    if isinstance(bias, Layout):
        positions.insert(2, steps.gathered(Place(2, bias)).position)
        epilogue = epilogue_program(out.dtype.computed, bias.dtype, "none")
    plan = product_plan(x, weight, out, attributes, target, epilogue)
    if plan is None:
        return None
    steps.extend(plan, positions)
    return steps.plan()


@frozen(eq=False, repr=False)
class Convolution(Indexed):
    """A reduction over windows which, where tiles apply, is a matrix product."""

    parts: Callable[..., Any] | None = _without_bias

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        plan = biased_plan(inputs, outputs[0], attributes, target)
        return super().plan(inputs, outputs, attributes, target) if plan is None else plan

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
        plan = product_plan(x, weight, out, attributes, target, epilogue)
        if plan is not None or not out.size:
            return plan or Plan(())
        reads = tuple(range(2, 2 + len(epilogue_reads(epilogue))))
        steps = Steps(3 + len(reads))
        dtype = self.infer((x, weight, None), attributes)[0].dtype
        last, first = _orders(out.ndim)
        value = steps.place(dtype, out.permute(last).shape)
        plain = product_plan(x, weight, value.layout.permute(first), attributes, target, None)
        if plain is not None:
            steps.extend(plain, (0, 1, value.position))
        else:
            plain = super().plan((x, weight, None), (value.layout.permute(first),), attributes, target)
            steps.extend(plain, (0, 1, 2, value.position))
        final = Place(2 + len(reads), out.permute(last))
        add_epilogue(steps, epilogue, value, reads, final, out.shape[1])
        return steps.plan()


@frozen(eq=False, repr=False)
class Windowed(Operation):
    """What is made of products with windows; `shape_of` is as of Indexed."""

    shape_of: Callable[..., Layout] = lambda *inputs, **attributes: inputs[0]

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        for name, given in zip(self.operands, inputs, strict=True):
            if not isinstance(given, Layout) and not (given is None and name in self.optional):
                raise TypeError(f"{self.name}: {name} must be a Tensor, got {given!r}")
        return (self.shape_of(*inputs, **attributes),)


@frozen(eq=False, repr=False)
class TransposedConvolution(Windowed):
    """A convolution of stride 1 for the places of each remainder by the stride: with the taps that reach them."""

    forward: Operation | None = None

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, weight, bias = inputs
        (out,) = outputs
        assert isinstance(x, Layout)
        assert isinstance(weight, Layout)
        assert self.forward is not None
        steps = Steps(4)
        if not out.size:
            return steps.plan()
        axes, groups = x.ndim - 2, attributes["groups"]
        numbers = (per_axis(attributes[n], axes, self.name) for n in ("stride", "padding", "dilation"))
        grouped = weight.reshape((groups, weight.shape[0] // groups, *weight.shape[1:]))
        assert grouped is not None  # splitting an axis needs no copy
        turned = grouped.permute((0, 2, 1, *range(3, grouped.ndim)))
        sizes = zip(out.shape[2:], weight.shape[2:], *numbers, strict=True)
        for parts in itertools.product(*(_phases(*size) for size in sizes)):
            places, taps = out, turned
            for axis, part in enumerate(parts):
                places = places.narrow(axis + 2, part.start, part.places, part.step)
                taps = taps.narrow(axis + 3, part.last_tap, part.taps, -part.tap_step)
            if not taps.size or not x.size:
                _without_taps(steps, bias, Place(3, places), target)
                continue
            own = steps.place(weight.dtype, (out.shape[1], *taps.shape[2:]))
            steps.copy(Place(1, taps), Place(own.position, Layout.contiguous(weight.dtype, taps.shape)))
            flat = places.reshape((*places.shape[:2], -1))
            value = Place(3, places) if flat is not None else steps.place(out.dtype, places.shape)
            settings = {"stride": 1, "dilation": tuple(p.dilation for p in parts), "groups": groups}
            self._phase(
                steps,
                (Place(0, x), own, Place(2, bias) if isinstance(bias, Layout) else None),
                value,
                parts,
                settings,
                target,
            )
            if flat is None:
                steps.copy(value, Place(3, places))
        return steps.plan()

    def _phase(
        self,
        steps: Steps,
        operands: tuple[Place, Place, Place | None],
        value: Place,
        parts: Sequence[Phase],
        settings: Mapping[str, Any],
        target: Target,
    ) -> None:
        """Appends the convolution of stride 1 with the taps of a phase."""
        x, own, bias = operands
        assert self.forward is not None
        rest, view = (own.layout, bias.layout if bias else None), x.layout
        for axis, part in enumerate(parts, 2):
            start = min(max(part.first, 0), view.shape[axis])
            view = view.narrow(axis, start, view.shape[axis] - start)
        moves = {**settings, "padding": tuple(max(-part.first, 0) for part in parts)}
        plan = biased_plan((view, *rest), value.layout, moves, target) if view.size else None
        if plan is None:
            reach = [p.places + (p.taps - 1) * p.dilation for p in parts]
            x = surrounded(steps, x, [p.first for p in parts], reach, target)
            plan = self.forward.plan((x.layout, *rest), (value.layout,), {**settings, "padding": 0}, target)
        steps.extend(plan, (x.position, own.position, 2, value.position))


@frozen
class Phase:
    """Places of a result that the same taps reach, along one axis: start, start + step, ..."""

    start: int
    step: int
    places: int
    taps: int
    last_tap: int  # which reaches the first place furthest to the left, from the place `first` of the operand
    tap_step: int
    first: int
    dilation: int  # of the operand's places


def _phases(n: int, kernel: int, stride: int, padding: int, dilation: int) -> Iterator[Phase]:
    for start in fixed_range(min(stride, n)):
        places = -(-(n - start) // stride)
        taps = [t for t in fixed_range(kernel) if (start + padding - t * dilation) % stride == 0]
        last, by = taps[-1] if taps else 0, taps[1] - taps[0] if len(taps) > 1 else 1
        first = (start + padding - last * dilation) // stride
        yield Phase(start, stride, places, len(taps), last, by, first, max(by * dilation // stride, 1))


def _without_taps(steps: Steps, bias: Input | None, out: Place, target: Target) -> None:
    """The bias alone."""
    if isinstance(bias, Layout):
        for _ in out.layout.shape[2:]:
            bias = bias.unsqueeze(bias.ndim)
        steps.copy(Place(2, bias), out)
    else:
        steps.extend(fill.plan((), (out.layout,), {"value": 0}, target), (out.position,))


@frozen(eq=False, repr=False)
class WeightProduct(Windowed):
    """Products of windows with what they led to, summed over all places."""

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, y = inputs
        assert isinstance(x, Layout)
        assert isinstance(y, Layout)
        if not outputs[0].size:
            return Plan(())
        plan = None
        if y.size and x.size and min(y.shape[1], x.shape[1]) >= LEAST_CHANNELS * attributes["groups"]:
            plan = weight_plan(x, y, outputs[0], attributes, target.limits)
        return plan or weighed(x, y, outputs[0], attributes, target)
