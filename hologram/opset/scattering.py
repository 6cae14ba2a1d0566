"""Products and extremes at positions that another tensor holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.opcodes import Opcode
from hologram.foundation.dtypes import NUMBERS, DType
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset import logic
from hologram.opset.forms.accumulator import accumulated
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation, Sample, register
from hologram.opset.forms.samples import array
from hologram.opset.indexing import gather, scatter_add, scatter_shape
from hologram.opset.tiles import updates


def _prod(x: Value, y: Value) -> Value:
    return x * y


def _min(x: Value, y: Value) -> Value:
    return atlas.minimum(x, y)


def _max(x: Value, y: Value) -> Value:
    return atlas.maximum(x, y)


REDUCTIONS = {
    "prod": (_prod, Opcode.REDUCE_MUL),
    "min": (_min, Opcode.REDUCE_MIN),
    "max": (_max, Opcode.REDUCE_MAX),
}
FOLDS = {"prod": np.multiply, "min": np.minimum, "max": np.maximum}


@frozen(eq=False, repr=False)
class ScatterReduce(Operation):
    """The updates of each place are folded: there are no such atomics for most dtypes."""

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        if attributes["reduce"] not in REDUCTIONS:
            raise ValueError(
                f"{self.name}: reduce must be one of {', '.join(REDUCTIONS)}, got {attributes['reduce']!r}"
            )
        for given in inputs:
            if not isinstance(given, Layout):
                raise TypeError(f"{self.name}: operands must be Tensors, got {given!r}")
            if not given.ndim:
                raise ShapeError(f"{self.name}: tensors of at least one axis are needed, got one of none")
        return (scatter_shape(*inputs, dim=attributes["dim"]),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        return updates.plan(inputs, outputs, attributes["dim"], *REDUCTIONS[attributes["reduce"]], target)


def _samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, picked, dim in (((9,), (40,), 0), ((4, 5), (4, 9), 1), ((5, 3), (7, 2), 0)):
        index = rng.integers(0, shape[dim], picked).astype(np.int64)
        for reduce in REDUCTIONS:
            low, high = (1, 2) if reduce == "prod" else (-8, 8)
            operands = array(rng, dtype, shape, low, high), index, array(rng, dtype, picked, low, high)
            yield Sample(operands, {"dim": dim, "reduce": reduce})


def _reference(x, index, source, dim, reduce):
    out = np.array(x)
    places = list(np.indices(index.shape))
    places[dim] = index
    FOLDS[reduce].at(out, tuple(places), source)
    return out


def _scatter_reduce(x, index, source, *, dim, reduce):
    """x with source multiplied in ("prod"), or the smaller ("min") or larger ("max") kept, where scatter would write.

    Floats of 16 bits are multiplied in f32. A device that shares the elements of one place out over many threads
    multiplies them in groups, in the order that they have along `dim`.
    """


def _without_zeros(x: Any, index: Any, source: Any, dim: int) -> tuple[Any, Any]:
    """How many factors of each product are 0, and the product of the others."""
    gone, sent = logic.equal(x, 0), logic.equal(source, 0)
    zeros = scatter_add(gone.astype(x.dtype), index, sent.astype(x.dtype), dim=dim)
    whole, parts = logic.where(gone, 1, x), logic.where(sent, 1, source)
    return zeros, scatter_reduce(whole, index, parts, dim=dim, reduce="prod")


def _others(x: Any, result: Any, zeros: Any, rest: Any) -> Any:
    """The product of all factors but x."""
    alone = logic.where(logic.equal(zeros, 1), rest, 0)
    return logic.where(logic.equal(x, 0), alone, result / logic.where(logic.equal(x, 0), 1, x))


def _hits(x: Any, result: Any, index: Any, source: Any, dim: int) -> tuple[Any, Any, Any]:
    """Which of the elements that were there and of those that came are the extreme, and how many are."""
    own, sent = logic.equal(x, result), logic.equal(source, gather(result, index, dim=dim))
    return own, sent, scatter_add(own.astype(x.dtype), index, sent.astype(x.dtype), dim=dim)


@accumulated
def _kept(cotangent: Any, result: Any, x: Any, index: Any, source: Any, dim: int, reduce: str) -> Any:
    """Of the elements that were there: those that are the extreme share all; of a product the rest of it."""
    if reduce == "prod":
        return cotangent * _others(x, result, *_without_zeros(x, index, source, dim))
    own, _, count = _hits(x, result, index, source, dim)
    return logic.where(own, cotangent / count, 0)


@accumulated
def _sent(cotangent: Any, result: Any, x: Any, source: Any, index: Any, dim: int, reduce: str) -> Any:
    """Likewise of the elements that came."""
    if reduce == "prod":
        every = (cotangent, result, *_without_zeros(x, index, source, dim))
        cotangent, *gathered = (gather(t, index, dim=dim) for t in every)
        return cotangent * _others(source, *gathered)
    _, sent, count = _hits(x, result, index, source, dim)
    return logic.where(sent, gather(cotangent / count, index, dim=dim), 0)


scatter_reduce = register(
    ScatterReduce(
        name="scatter_reduce", function=_scatter_reduce, reference=_reference, samples=_samples, dtypes=NUMBERS, ulp=8,
        each=0.5, absolute=16.0, gradient={"x": _kept, "source": _sent},
    )
)  # fmt: skip
