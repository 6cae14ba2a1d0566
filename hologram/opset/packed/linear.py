"""The product with packed weights as an operation; `hg.linear` is it where its weight is `hg.Packed`."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.foundation.dtypes import ALL, DType, bf16, f16, f32
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.epilogue import epilogue_reads
from hologram.opset.forms.gradient import rule_of
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.math import add
from hologram.opset.matmul import ACTIVATIONS, epilogue_program, matmul
from hologram.opset.movement import concat
from hologram.opset.packed.formats import format_of
from hologram.opset.packed.product import packed_product
from hologram.opset.packed.weights import PLANES, packed_numbers, weights_reference
from hologram.opset.reduce import sum_

ACTIVATING = (f32, f16, bf16)  # dtypes that products take
ADDED = "added"  # what a further epilogue calls the bias


@frozen(eq=False, repr=False)
class PackedLinear(Operation):
    """A product with packed weights, whose results pass through bias and activation before they are stored."""

    def _checked(self, inputs: Inputs, attributes: Attributes) -> Layout:
        x, codes, *_, bias = inputs
        assert isinstance(codes, Layout)
        columns = attributes["columns"]
        if attributes["activation"] not in ACTIVATIONS:
            raise ValueError(
                f"linear: activation must be one of {', '.join(ACTIVATIONS)}, got {attributes['activation']!r}"
            )
        if attributes["gated"] and (bias is not None or codes.shape[0] % 2):
            raise ShapeError(
                f"linear: weights whose rows are gates, then what they open, must be even and go without a bias, "
                f"got {codes.shape[0]} rows" + ("" if bias is None else " and a bias")
            )
        if not isinstance(x, Layout) or not x.ndim or x.shape[-1] != columns:
            raise ShapeError(
                f"linear: x (..., {columns}) is needed beside packed weights ({codes.shape[0]}, {columns}), "
                f"got {getattr(x, 'shape', x)}"
            )
        if bias is not None and (not isinstance(bias, Layout) or bias.shape != codes.shape[:1]):
            raise ShapeError(
                f"linear: bias must have shape {codes.shape[:1]}, got {getattr(bias, 'shape', bias)}"
            )
        if x.dtype not in ACTIVATING or (isinstance(bias, Layout) and bias.dtype != x.dtype):
            raise UnsupportedDType(
                f"linear: x must be f32, f16 or bf16 beside packed weights, and bias of its dtype, got {x.dtype}"
                + (f" and {bias.dtype}" if isinstance(bias, Layout) else "")
            )
        return x

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, codes = self._checked(inputs, attributes), inputs[1]
        assert isinstance(codes, Layout)
        rows = codes.shape[0] // 2 if attributes["gated"] else codes.shape[0]
        return (Layout.contiguous(x.dtype, (*x.shape[:-1], rows)),)

    def matrix(self, inputs: Inputs, result: Layout) -> Layout | None:
        columns = result.shape[-1]
        return Layout.contiguous(result.dtype, (math.prod(result.shape[:-1]), columns))

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        steps = Steps(len(inputs) + 1)
        final = Place(len(inputs), outputs[0])
        bias, reads = inputs[-1], []
        if isinstance(bias, Layout):
            reads = [steps.gathered(Place(len(inputs) - 1, bias)).position]
        epilogue = None
        if not attributes["gated"]:
            stored = bias.dtype if isinstance(bias, Layout) else None
            epilogue = epilogue_program(final.layout.dtype, stored, attributes["activation"])
        places = [Place(k, i) if isinstance(i, Layout) else None for k, i in enumerate(inputs[:-1])]
        return self._planned(steps, places, final, attributes, target, epilogue, reads)

    def finished(
        self, inputs: Inputs, out: Layout, attributes: Attributes, target: Target, epilogue: Program
    ) -> Plan:
        tensors = sum(isinstance(i, Layout) for i in inputs)
        further = len(epilogue_reads(epilogue))
        numbers = iter(range(tensors))
        places = [Place(next(numbers), i) if isinstance(i, Layout) else None for i in inputs[:-1]]
        steps = Steps(tensors + further + 1)
        reads, bias = iter(range(tensors, tensors + further)), inputs[-1]
        added = steps.gathered(Place(tensors - 1, bias)) if isinstance(bias, Layout) else None
        activation = "none" if attributes["gated"] else attributes["activation"]
        epilogue = behind(epilogue, added and added.layout.dtype, activation)
        reads = [
            added.position if added and b.name == ADDED else next(reads) for b in epilogue_reads(epilogue)
        ]
        return self._planned(
            steps, places, Place(tensors + further, out), attributes, target, epilogue, reads
        )

    def _planned(
        self,
        steps: Steps,
        places: list[Place | None],
        final: Place,
        attributes: Attributes,
        target: Target,
        epilogue: Program | None,
        reads: list[int],
    ) -> Plan:
        if not final.layout.size:
            return Plan(())
        x, *planes = places
        assert x is not None
        weights = {n: p for n, p in zip(PLANES, planes, strict=True) if p is not None}
        format = format_of(attributes["format"])
        gate = attributes["activation"] if attributes["gated"] else None
        packed_product(steps, format, x, weights, final, target, epilogue, reads, gate)
        return steps.plan()


@lru_cache(maxsize=64)
def behind(epilogue: Program, bias: DType | None, activation: str) -> Program:
    """The epilogue of activation(value + bias), which reads a bias of a dtype as ADDED."""
    if bias is None and activation == "none":
        return epilogue

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode is not Opcode.LOAD or i.attribute != "value":
            return None
        value = b.load(epilogue.buffer("value"), operands[0])
        if bias is not None:
            value = value + b.load(b.buffer(ADDED, bias, Access.READ), b.coordinate(1)).to(value.dtype)
        return ACTIVATIONS[activation](value)

    return replace(rewrite(epilogue, rule), name=f"{epilogue.name}_behind_{activation}")


def _linear_reference(x, codes, scales, high, factors, bias, format, columns, activation, gated):
    y = np.matmul(
        x, weights_reference(codes, scales, high, factors, format, columns, "f32").T.astype(x.dtype)
    )
    if gated:
        gates, y = np.split(y, 2, axis=-1)
        return (gates if activation == "none" else ACTIVATIONS[activation].reference(gates)) * y
    y = y if bias is None else y + bias
    return y if activation == "none" else ACTIVATIONS[activation].reference(y)


def _linear(
    x, codes, scales, high=None, factors=None, bias=None, *, format, columns, activation="none", gated=False
) -> Any:
    """activation(x @ weights.T + bias), for x (..., columns) and packed weights (rows, columns).

    Where they are `gated`, the first half of the rows are gates: activation(x @ gates.T) * (x @ others.T).
    """


def _parts(operation, x, codes, scales, high, factors, bias, *, format, columns, activation, gated):
    """In a graph bias and activation are what follows, which fuses."""
    if x.dtype.computed != x.dtype or gated or (bias is None and activation == "none"):
        return None  # 16-bit floats are rounded once, at the end
    product = operation(x, codes, scales, high, factors, None, format=format, columns=columns)
    return ACTIVATIONS[activation](product if bias is None else add(product, bias))


def _gradient(
    cotangent, result, x, codes, scales, high, factors, bias, format, columns, activation, gated, wanted
):
    settings = {"format": format, "columns": columns}
    planes = (codes, scales, high, factors)
    if gated:
        function, half = ACTIVATIONS[activation], codes.shape[0] // 2
        y = packed_linear(x, *planes, **settings)
        gates, opened = y[..., :half], y[..., half:]
        gate = function(gates)
        of_gates = cotangent * opened
        if activation != "none":
            rule = rule_of(function, (gates.layout,), gate.layout, "x")
            (of_gates,) = rule.apply({"cotangent": of_gates, "result": gate, "x": gates})
        cotangent, activation = concat([of_gates, cotangent * gate], axis=-1), "none"
    if activation != "none":
        rule = rule_of(ACTIVATIONS[activation], (result.layout,), result.layout, "x")
        before = packed_linear(x, *planes, bias, **settings) if "x" in rule.reads else None
        (cotangent,) = rule.apply({"cotangent": cotangent, "result": result, "x": before})
    weights = packed_numbers(*planes, **settings, dtype=cotangent.dtype.name) if "x" in wanted else None
    rows = cotangent.reshape(math.prod(cotangent.shape[:-1]), cotangent.shape[-1])
    return (
        None if weights is None else matmul(cotangent, weights),
        sum_(rows, axis=0) if "bias" in wanted else None,
    )


packed_linear = PackedLinear(
    name="packed_linear",
    function=_linear,
    reference=_linear_reference,
    samples=lambda rng, dtype: (),
    dtypes=ALL,  # of planes too
    ulp=8,
    absolute=64.0,
    parts=_parts,
    gradient={("x", "bias"): _gradient},
)
