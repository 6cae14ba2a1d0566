"""Products with the packed weights of experts: each row of x with those of the experts that it is sent to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hologram.atlas.program import Program
from hologram.foundation.dtypes import ALL
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.epilogue import epilogue_reads
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.indexing import checked_positions
from hologram.opset.matmul import ACTIVATIONS, epilogue_program
from hologram.opset.packed.formats import format_of
from hologram.opset.packed.linear import ACTIVATING, behind
from hologram.opset.packed.product import Sent, packed_product
from hologram.opset.packed.weights import PLANES, weights_reference


@frozen(eq=False, repr=False)
class PackedExperts(Operation):
    """A product each of whose rows reads the rows of weights of its own expert."""

    def _checked(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, Layout, Layout]:
        x, chosen, codes, *_ = inputs
        assert isinstance(codes, Layout)
        columns, experts = attributes["columns"], attributes["experts"]
        parts = experts * (1 + attributes["gated"])
        if attributes["activation"] not in ACTIVATIONS:
            raise ValueError(
                f"experts: activation must be one of {', '.join(ACTIVATIONS)}, got {attributes['activation']!r}"
            )
        if experts < 1 or codes.shape[0] % parts:
            what = "gates and as many rows that they open" if attributes["gated"] else "rows"
            raise ShapeError(
                f"experts: each of at least one must have as many {what} as the others, got {experts} experts and "
                f"{codes.shape[0]} rows"
            )
        if not isinstance(x, Layout) or not isinstance(chosen, Layout):
            raise UnsupportedDType(f"experts: x and chosen must be tensors, got {x!r} and {chosen!r}")
        checked_positions("experts", chosen, experts)
        alike = x.ndim == chosen.ndim + 1 and x.shape[-1] == columns
        if not alike or any(a not in (1, b) for a, b in zip(x.shape, chosen.shape, strict=False)):
            raise ShapeError(
                f"experts: x must have the axes of chosen {chosen.shape}, or 1 for some, and {columns} columns behind "
                f"them, got shape {x.shape}"
            )
        if x.dtype not in ACTIVATING:
            raise UnsupportedDType(
                f"experts: x must be f32, f16 or bf16 beside packed weights, got {x.dtype}"
            )
        return x, chosen, codes

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, chosen, codes = self._checked(inputs, attributes)
        rows = codes.shape[0] // attributes["experts"] // (1 + attributes["gated"])
        return (Layout.contiguous(x.dtype, (*chosen.shape, rows)),)

    def matrix(self, inputs: Inputs, result: Layout) -> Layout | None:
        columns = result.shape[-1]
        return Layout.contiguous(result.dtype, (math.prod(result.shape[:-1]), columns))

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        out = outputs[0]
        epilogue = None
        if not attributes["gated"]:
            epilogue = epilogue_program(out.dtype, None, attributes["activation"])
        return self._planned(inputs, out, attributes, target, epilogue)

    def finished(
        self, inputs: Inputs, out: Layout, attributes: Attributes, target: Target, epilogue: Program
    ) -> Plan:
        activation = "none" if attributes["gated"] else attributes["activation"]
        return self._planned(
            inputs, out, attributes, target, behind(epilogue, None, activation), compact=True
        )

    def _planned(
        self,
        inputs: Inputs,
        out: Layout,
        attributes: Attributes,
        target: Target,
        epilogue: Program | None,
        compact: bool = False,
    ) -> Plan:
        """`compact` operands are numbered without those that are absent, and what an epilogue reads follows."""
        if not out.size:
            return Plan(())
        present = [k for k, i in enumerate(inputs) if isinstance(i, Layout)]
        numbers = {k: n if compact else k for n, k in enumerate(present)}
        count, further = len(present) if compact else len(inputs), len(epilogue_reads(epilogue))
        steps = Steps(count + further + 1)
        places = {k: Place(numbers[k], i) for k, i in enumerate(inputs) if isinstance(i, Layout)}
        x, chosen = places[0], steps.gathered(places[1])
        weights = {n: places[k] for k, n in enumerate(PLANES, 2) if k in places}
        shape, each = chosen.layout.shape, 1
        if x.layout.shape[:-1] == (*shape[:-1], 1):
            each = shape[-1]  # a row for all pairs of a last axis
        else:
            x = Place(x.position, x.layout.expand((*shape, x.layout.shape[-1])))
        packed_product(
            steps,
            format_of(attributes["format"]),
            x,
            weights,
            Place(count + further, out),
            target,
            epilogue,
            range(count, count + further),
            attributes["activation"] if attributes["gated"] else None,
            Sent(chosen, attributes["experts"], each),
        )
        return steps.plan()


def _experts_reference(x, chosen, codes, scales, high, factors, format, columns, experts, activation, gated):
    weights = weights_reference(codes, scales, high, factors, format, columns, "f32").astype(x.dtype)
    rows = weights.reshape(1 + gated, experts, -1, columns)
    named = np.where(chosen < 0, chosen + experts, chosen)
    inside = (named >= 0) & (named < experts)
    own = rows[:, np.where(inside, named, 0)]  # (parts, *chosen, rows, columns)
    values = np.matmul(own, np.broadcast_to(x, (*chosen.shape, columns))[..., None])[..., 0]
    first = values[0] if activation == "none" else ACTIVATIONS[activation].reference(values[0])
    return np.where(inside[..., None], first * values[1] if gated else first, 0)


def _experts(
    x,
    chosen,
    codes,
    scales,
    high=None,
    factors=None,
    *,
    format,
    columns,
    experts,
    activation="none",
    gated=False,
) -> Any:
    """activation(x @ the weights of expert `chosen`.T), for x (..., columns) and integers `chosen` (...)."""


def _parts(operation, x, chosen, codes, scales, high, factors, *, activation, gated, **settings):
    """In a graph the activation is what follows, which fuses."""
    if x.dtype.computed != x.dtype or gated or activation == "none":
        return None  # 16-bit floats are rounded once, at the end
    return ACTIVATIONS[activation](operation(x, chosen, codes, scales, high, factors, **settings))


packed_experts = PackedExperts(
    name="packed_experts",
    function=_experts,
    reference=_experts_reference,
    samples=lambda rng, dtype: (),
    dtypes=ALL,  # of planes too
    ulp=8,
    absolute=64.0,
    parts=_parts,
)
