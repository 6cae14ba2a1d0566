"""Recurrent layers: all steps of a layer in one direction as one plan, there and back.

What comes of the inputs is one product for all times, and so are the cotangents of the weights; both are left to the
caller. A step is one product with the hidden state and one kernel of the cell, the same two for every time.
"""

from __future__ import annotations

from dataclasses import field

from hologram.foundation.dtypes import f32, f64, i32
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.math import add
from hologram.opset.matmul import matmul
from hologram.opset.neural import recurrence_meaning as meaning
from hologram.opset.neural import recurrent_cells as cells
from hologram.opset.neural.recurrent_cells import GRU, LSTM, RELU, TANH, Kernel, Kind, kernel, repeated
from hologram.opset.neural.recurrent_whole import taken, whole


@frozen(eq=False, repr=False)
class Layer(Operation):
    """What both ways have in common: named operands, some of which may be missing."""

    kind: Kind = field(default=LSTM)

    def named(self, inputs: Inputs) -> dict[str, Layout]:
        """The operands that are there; refuses those of other dtypes, or whose shapes do not fit."""
        operands = {n: i for n, i in zip(self.operands, inputs, strict=True) if isinstance(i, Layout)}
        for name in self.operands:
            if name not in operands and name not in self.optional:
                raise ShapeError(f"{self.name}: {name} must be a Tensor")
        if ("cell" in operands or "by_cell" in operands) != self.kind.has_cell:
            raise ShapeError(
                f"{self.name}: a cell is needed where the kind of network has one, and nowhere else"
            )
        kinds = {i.dtype for n, i in operands.items() if n != "lengths"}
        if len(kinds) > 1 or not kinds <= {f32, f64}:
            names = ", ".join(sorted(str(d) for d in kinds))
            raise UnsupportedDType(f"{self.name}: operands must be all f32 or all f64, got {names}")
        if "lengths" in operands and operands["lengths"].dtype is not i32:
            raise UnsupportedDType(f"{self.name}: lengths must be i32, got {operands['lengths'].dtype}")
        return operands

    def check(self, operands: dict[str, Layout], wanted: dict[str, tuple[int, ...]]) -> None:
        for name, shape in wanted.items():
            if name in operands and operands[name].shape != shape:
                raise ShapeError(f"{self.name}: {name} must have shape {shape}, got {operands[name].shape}")

    def places(self, inputs: Inputs) -> dict[str, Place]:
        return {
            n: Place(k, i)
            for k, (n, i) in enumerate(zip(self.operands, inputs, strict=True))
            if isinstance(i, Layout)
        }


def _product(steps: Steps, a: Place, b: Place, out: Place, target: Target) -> None:
    plan = matmul.plan((a.layout, b.layout), (out.layout,), {}, target)
    steps.extend(plan, (a.position, b.position, out.position))


def _add(steps: Steps, out: Place, more: Place, target: Target) -> None:
    plan = add.plan((out.layout, more.layout), (out.layout,), {}, target)
    steps.extend(plan, (out.position, more.position, out.position))


def _turned(place: Place) -> Place:
    return Place(place.position, place.layout.permute((1, 0)))


@frozen(eq=False, repr=False)
class Recurrence(Layer):
    """The hidden states of all times, the last hidden state, the last cell, and what the way back needs beside them."""

    @property
    def results(self) -> int:
        return 2 + self.kind.has_cell + bool(self.kind.kept)

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        operands = self.named(inputs)
        gates, hidden = operands["gates"], operands["hidden"]
        if gates.ndim != 3 or hidden.ndim != 2 or gates.shape[2] % self.kind.gates:
            raise ShapeError(
                f"{self.name}: gates (times, batch, {self.kind.gates} * width) and hidden (batch, width) are needed, "
                f"got {gates.shape} and {hidden.shape}"
            )
        times, batch, total = gates.shape
        width = total // self.kind.gates
        state = hidden.shape[1] if "projection" in operands else width
        self.check(operands, {
            "weight": (total, state), "hidden": (batch, state), "cell": (batch, width), "bias": (width,),
            "projection": (state, width), "lengths": (batch,),
        })  # fmt: skip
        kept = (self.kind.kept + ("projection" in operands)) * width
        shapes = [(times, batch, state), (batch, state)]
        shapes += [(batch, width)] if self.kind.has_cell else []
        shapes += [(times, batch, kept)] if self.kind.kept else []
        return tuple(Layout.contiguous(gates.dtype, shape) for shape in shapes)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        given = self.places(inputs)
        steps = Steps(len(inputs) + len(outputs))
        results = [Place(len(inputs) + k, layout) for k, layout in enumerate(outputs)]
        out, hidden = results[:2]
        cell = results[2] if self.kind.has_cell else None
        kept = results[-1] if self.kind.kept else None
        if hidden.layout.size:
            steps.copy(given["hidden"], hidden)
        if cell is not None and cell.layout.size:
            steps.copy(given["cell"], cell)
        gates, lengths = given["gates"], given.get("lengths")
        times, batch, total = gates.layout.shape
        grid = (batch, total // self.kind.gates)
        if not out.layout.size or not total:
            return steps.plan()
        weight, own = given["weight"], {"bias": given.get("bias"), "hidden": hidden, "out": out}
        known: dict[str, Place | None] = {"gates": gates, "lengths": lengths, "cell": cell, "kept": kept}
        if taken(self.kind, target.limits, weight.layout, "projection" in given):
            turned = steps.converted(_turned(weight), gates.layout.dtype)
            steps.steps.append(
                whole(self.kind, known | own, turned, times, attributes["reverse"], back=False, grid=grid)
            )
            return steps.plan()
        product = steps.place(gates.layout.dtype, (batch, total))
        to_gates = repeated(steps, lambda: _product(steps, hidden, _turned(weight), product, target))
        operands = known | {"product": product}
        if "projection" in given:
            inner = steps.place(gates.layout.dtype, grid)
            shorter = steps.place(gates.layout.dtype, hidden.layout.shape)
            projected = repeated(
                steps, lambda: _product(steps, inner, _turned(given["projection"]), shorter, target)
            )
            step = kernel(self.kind, cells.forward, operands | {"inner": inner}, grid)
            settle = {"product": shorter, "lengths": lengths, "hidden": hidden, "out": out}
            last = kernel(self.kind, cells.settled, settle, hidden.layout.shape)
        else:
            projected, last = (), None
            step = kernel(self.kind, cells.forward, operands | own, grid)
        for time in reversed(range(times)) if attributes["reverse"] else range(times):
            steps.steps += (*to_gates, step.at(time), *projected, *([last.at(time)] if last else ()))
        return steps.plan()


@frozen(eq=False, repr=False)
class RecurrenceGradient(Layer):
    """The cotangents of the gates of all times and of the states.

    Of a GRU's gates those of the parts that come of the hidden state differ and follow the first; with a projection the
    last result is the cotangent of each hidden state by itself, the projection's own.
    """

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        operands = self.named(inputs)
        kept, weight, by_hidden = operands["kept"], operands["weight"], operands["by_hidden"]
        if kept.ndim != 3 or weight.ndim != 2 or by_hidden.ndim != 2 or weight.shape[0] % self.kind.gates:
            raise ShapeError(f"{self.name}: kept has three axes, weight and by_hidden two, got {kept.shape}, "
                             f"{weight.shape} and {by_hidden.shape}")  # fmt: skip
        times, batch, _ = kept.shape
        total, state = weight.shape
        width = total // self.kind.gates
        self.check(operands, {
            "kept": (times, batch, (max(self.kind.kept, 1) + ("projection" in operands)) * width),
            "by_hidden": (batch, state), "by_cell": (batch, width), "projection": (state, width),
            "cotangent": (times, batch, state), "lengths": (batch,),
        })  # fmt: skip
        shapes = [(times, batch, total)] * (1 + self.kind.parted)
        shapes += [(batch, state)] + ([(batch, width)] if self.kind.has_cell else [])
        shapes += [(times, batch, state)] if "projection" in operands else []
        return tuple(Layout.contiguous(kept.dtype, shape) for shape in shapes)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        given = self.places(inputs)
        steps = Steps(len(inputs) + len(outputs))
        results = [Place(len(inputs) + k, layout) for k, layout in enumerate(outputs)]
        grown = results[: 1 + self.kind.parted]
        by_hidden = results[len(grown)]
        by_cell = results[len(grown) + 1] if self.kind.has_cell else None
        for name, place in (("by_hidden", by_hidden), ("by_cell", by_cell)):
            if place is not None and place.layout.size:
                steps.copy(given[name], place)
        weight, lengths = given["weight"], given.get("lengths")
        times, batch, total = grown[0].layout.shape
        dtype, grid = grown[0].layout.dtype, (batch, total // self.kind.gates)
        if not grown[0].layout.size or not by_hidden.layout.size:
            return steps.plan()
        operands: dict[str, Place | None] = {
            "kept": given["kept"], "lengths": lengths, "by_cell": by_cell, "grown": grown[0],
            "grown_hidden": grown[1] if self.kind.parted else None,
        }  # fmt: skip
        arriving: dict[str, Place | None] = {
            "cotangent": given.get("cotangent"), "by_hidden": by_hidden, "lengths": lengths,
        }  # fmt: skip
        if taken(self.kind, target.limits, weight.layout, "projection" in given):
            all_, reverse = operands | arriving, attributes["reverse"]
            steps.steps.append(whole(self.kind, all_, weight, times, reverse, back=True, grid=grid))
            return steps.plan()
        parts, product = steps.place(dtype, (batch, total)), steps.place(dtype, by_hidden.layout.shape)
        through = repeated(steps, lambda: _product(steps, parts, weight, product, target))
        operands["parts"] = parts
        projected = ()
        if "projection" in given:
            short, inner = steps.place(dtype, by_hidden.layout.shape), steps.place(dtype, grid)
            projected = repeated(steps, lambda: _product(steps, short, given["projection"], inner, target))
            arriving |= {"total": results[-1], "projected": short}
            operands |= {"inner": inner}
        ahead = None  # the cotangent, where the kernel of the cell would see one buffer too many
        bound = sum(place is not None for place in (operands | arriving).values()) + 1
        if "inner" not in operands and bound > target.limits.max_bindings:
            ahead = arriving.pop("cotangent")
        coming = arriving | {"product": product}
        # The first step has no gates behind it.
        first, rest = (
            _back(self.kind, operands, given, grid, by_hidden.layout.shape) for given in (arriving, coming)
        )
        order = range(times) if attributes["reverse"] else range(times - 1, -1, -1)
        for time in order:
            gather, step = first if time == order[0] else rest
            if ahead is not None:
                _add(steps, by_hidden, Place(ahead.position, ahead.layout.select(0, time)), target)
            steps.steps += (*(k.at(time) for k in gather), *projected, step.at(time), *through)
        _add(steps, by_hidden, product, target)
        return steps.plan()


def _back(
    kind: Kind, operands: dict[str, Place | None], arriving: dict[str, Place | None], grid: tuple[int, ...],
    state: tuple[int, ...],
) -> tuple[tuple[Kernel, ...], Kernel]:  # fmt: skip
    """A step's way back: what comes before the product with a projection, if there is one, and what comes after."""
    if "inner" not in operands:
        return (), kernel(kind, cells.backward, operands | arriving, grid, reads="kept")
    gather = kernel(kind, cells.gathered, arriving, state)
    return (gather,), kernel(kind, cells.backward, operands, grid, reads="kept inner")


def _recurrence(gates, weight, hidden, cell=None, bias=None, projection=None, lengths=None, *, reverse=False):
    """A layer of a recurrent network in one direction, from what comes of its inputs.

    gates (times, batch, gates * width) are of the inputs, with the biases; weight (gates * width, state), hidden
    (batch, state), cell (batch, width), bias (width) of what a GRU resets, projection (state, width). Sequences end at
    lengths (batch), of i32: after that the state stays as it is. In reverse it begins at the last time.
    """


def _recurrence_gradient(
    kept, weight, by_hidden, by_cell=None, cotangent=None, projection=None, lengths=None, *, reverse=False
):
    """The cotangents of a recurrence's gates and states, by those of its last states and of the hidden states.

    kept is what the recurrence gave for it, or the hidden states where it gave nothing. Werbos (1990).
    """


KINDS = {kind.name: kind for kind in (LSTM, GRU, TANH, RELU)}
# Not operations of their own: what layers of recurrent networks ask for.
recurrences = {
    name: Recurrence(
        name=name, function=_recurrence, reference=meaning.forward(kind.name), samples=meaning.samples(kind.name),
        dtypes=(f32, f64), gradient={}, kind=kind,
    )
    for name, kind in KINDS.items()
}  # fmt: skip
recurrence_gradients = {
    name: RecurrenceGradient(
        name=f"{name}_gradient", function=_recurrence_gradient, reference=meaning.backward(kind.name),
        samples=meaning.backward_samples(kind.name), dtypes=(f32, f64), gradient={}, kind=kind,
    )
    for name, kind in KINDS.items()
}  # fmt: skip
