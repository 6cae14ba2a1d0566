"""Products of matrices and vectors: matmul, gemm, matvec, vecdot, linear; how they are computed is in product.py."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from hologram.atlas.builder import Builder
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import COMPLEX, INEXACT, NUMBERS, DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.axes import broadcast, whole
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target
from hologram.opset.complex_numbers import conjugated
from hologram.opset.complex_product import complex_product
from hologram.opset.forms import types
from hologram.opset.forms.composite import composite
from hologram.opset.forms.gradient import rule_of
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation, Sample, declared
from hologram.opset.forms.samples import array, cases
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.math import add, multiply
from hologram.opset.neural.activation import gelu, relu, sigmoid, silu, tanh
from hologram.opset.reduce import dot_along, sum_
from hologram.opset.tiles.product import product_plan

MOST_DOTS = 1 << 16  # products of a single row or column that a library is not worth a launch for
ACTIVATIONS: dict[str, Any] = {
    "none": lambda x: x,
    "relu": relu,
    "gelu": gelu,
    "silu": silu,
    "sigmoid": sigmoid,
    "tanh": tanh,
}


@frozen(eq=False, repr=False)
class MatMul(Operation):
    """a (..., m, k) times b (..., k, n), batch axes broadcast; a 1-d operand is a row or a column that disappears."""

    def _checked(self, inputs: Inputs) -> tuple[Layout, Layout, DType]:
        a, b = inputs[:2]
        if not isinstance(a, Layout) or not isinstance(b, Layout) or not a.ndim or not b.ndim:
            raise ShapeError(f"{self.name}: both operands must have at least one axis")
        if a.shape[-1] != b.shape[0 if b.ndim == 1 else -2]:
            raise ShapeError(f"{self.name}: inner sizes must agree, got {a.shape} and {b.shape}")
        _, dtype = types.number(self.name, (a.dtype, b.dtype))
        return a, b, dtype

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        a, b, dtype = self._checked(inputs)
        batch = broadcast([a.shape[:-2], b.shape[:-2]], self.name)
        return (Layout.contiguous(dtype, (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        return self._product(inputs, outputs[0], target, None) if outputs[0].size else Plan(())

    def as_rows(
        self, inputs: Inputs, result: Layout, limits: Limits
    ) -> tuple[Operation, Inputs, Attributes] | None:
        """Dot products, if there is one row or column, and both operands lie along k."""
        if not result.size or self.matrix(inputs, result) is None:
            return None
        a, b = (i for i in inputs if isinstance(i, Layout))
        k, along_k = a.shape[-1], a.strides[-1] == 1 and b.strides[-2] == 1 and a.dtype == b.dtype
        few = k > 1 and along_k and min(result.shape[-2:]) == 1
        if not few or (limits.own_products and result.size * k > MOST_DOTS):
            return None
        columns = b.permute((*range(b.ndim - 2), b.ndim - 1, b.ndim - 2))
        operands = a.unsqueeze(a.ndim - 1), columns.unsqueeze(b.ndim - 2)
        return dot_along, operands, {"axis": -1, "keepdims": False}

    def matrix(self, inputs: Inputs, result: Layout) -> Layout | None:
        """The rows of all products of the batch; none for a vector's product, whose axes are not rows and columns."""
        vectors = any(isinstance(i, Layout) and (i.ndim < 2 or i.dtype.is_complex) for i in inputs)
        shape = (result.size // result.shape[-1], result.shape[-1]) if not vectors else ()
        return Layout.contiguous(result.dtype, shape) if shape else None

    def finished(
        self, inputs: Inputs, out: Layout, attributes: Attributes, target: Target, epilogue: Program
    ) -> Plan:
        return self._product(inputs, out, target, epilogue)

    def _product(self, inputs: Inputs, out: Layout, target: Target, epilogue: Program | None) -> Plan:
        a, b, dtype = self._checked(inputs)
        if a.ndim == 1:
            a, out = a.unsqueeze(0), out.unsqueeze(out.ndim - (b.ndim > 1))
        if b.ndim == 1:
            b, out = b.unsqueeze(1), out.unsqueeze(out.ndim)
        if dtype.is_complex:
            return complex_product(a, b, out, dtype, target, self._product)
        if b.ndim == 2 and a.ndim > 2 and a.size:
            # All rows of a are one matrix where its layout allows it.
            rows, flat = a.reshape((-1, a.shape[-1])), out.reshape((-1, out.shape[-1]))
            a, out = (a, out) if rows is None or flat is None else (rows, flat)
        return product_plan(a, b, out, dtype, target, epilogue)


_PRODUCTS = (
    ((3, 4), (4, 5)), ((1, 1), (1, 1)), ((65, 33), (33, 70)), ((128, 64), (64, 128)), ((7,), (7,)), ((7,), (7, 3)),
    ((5, 7), (7,)), ((2, 3, 4), (4, 5)), ((3, 2, 4), (3, 4, 5)), ((2, 1, 3, 4), (5, 4, 6)), ((0, 4), (4, 3)),
    ((3, 0), (0, 2)), ((1, 300), (300, 1)),
)  # fmt: skip


def _left(cotangent, inputs, b):
    """cotangent @ b.mT, where vectors are rows and columns that disappeared; of a vector an outer product, a map."""
    a, vector = inputs[0], b.ndim == 1
    rows, b = cotangent.unsqueeze(-1) if vector else cotangent, conjugated(b)
    if a.ndim == 1:
        rows = rows.unsqueeze(-2)
    product = rows * b.unsqueeze(0) if vector else matmul(rows, b.mT)
    return product.squeeze(-2) if a.ndim == 1 else product


def _right(cotangent, inputs, a):
    """a.mT @ cotangent, where vectors are rows and columns that disappeared; of a vector an outer product, a map."""
    b, vector, a = inputs[1], a.ndim == 1, conjugated(a)
    columns = cotangent.unsqueeze(-1) if b.ndim == 1 else cotangent
    if vector:
        product = a.unsqueeze(-1) * columns.unsqueeze(-2)
    else:
        product = transposed_product(a, columns, b.shape[:-2])
    return product.squeeze(-1) if b.ndim == 1 else product


def transposed_product(a, b, batch):
    """a.mT @ b for operands with a common batch, as far as needed to be summed to the shape `batch`."""
    lead = (1,) * (b.ndim - 2 - len(batch)) + batch
    merged = next((k for k, n in enumerate(reversed(lead)) if n != 1), len(lead))
    if not merged or a.ndim < b.ndim:
        return matmul(a.mT, b)
    # Batch axes that disappear are rows of one product, instead of products to sum.
    kept = b.ndim - 2 - merged
    a, b = (x.reshape(*x.shape[:kept], math.prod(x.shape[kept:-1]), x.shape[-1]) for x in (a, b))
    product = matmul(a.mT, b)
    for _ in range(min(merged, len(batch))):
        product = product.unsqueeze(-3)
    return product


@declared(MatMul, reference=np.matmul, samples=cases(*((a, b, {}) for a, b in _PRODUCTS), low=-3, high=3),
          dtypes=NUMBERS + COMPLEX, ulp=4, absolute=64.0, beyond=1024.0, aten=("mm", "bmm", "matmul"),
          gradient={"a": _left, "b": _right})  # fmt: skip
def matmul(a, b):
    """The matrix product, batch axes broadcast, as NumPy's matmul; integers wrap.

    Sums of f32 and of 16-bit floats are f32. Operands of f32 are exact, but on an executor whose `matmul_precision` is
    'high': it may round them to tf32, an error of 2^-10 of the sum of the products' magnitudes.
    """


@composite(reference=np.matmul, dtypes=NUMBERS + COMPLEX, ulp=4, absolute=64.0, beyond=1024.0, aten=("mv",),
           samples=cases(((3, 4), (4,), {}), ((65, 130), (130,), {}), ((1, 1), (1,), {}), low=-3, high=3))  # fmt: skip
def matvec(a, x):
    """A matrix (m, k) times a vector (k)."""
    if len(a.shape) != 2 or len(x.shape) != 1:
        raise ShapeError(f"matvec: a matrix and a vector are needed, got {a.shape} and {x.shape}")
    return matmul(a, x)


@frozen(eq=False, repr=False)
class Gemm(MatMul):
    """The product of two matrices whose sizes are given: operands and output may be flat."""

    def matrix(self, inputs: Inputs, result: Layout) -> Layout | None:
        return None  # its operands may be flat: traced, it is a matmul

    def _shaped(self, inputs: Inputs, attributes: Attributes) -> list[Layout]:
        m, k, n = (whole(attributes[name], f"gemm: {name}") for name in ("m", "k", "n"))
        views = []
        for layout, shape in zip(inputs, ((m, k), (k, n)), strict=True):
            view = (
                layout.reshape(shape)
                if isinstance(layout, Layout) and layout.size == shape[0] * shape[1]
                else None
            )
            if view is None:
                raise ShapeError(
                    f"gemm: operands must hold {m}x{k} and {k}x{n} elements, "
                    f"got {[i.shape for i in inputs if isinstance(i, Layout)]}"
                )
            views.append(view)
        return views

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        return super().infer(self._shaped(inputs, attributes), attributes)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        m, n = attributes["m"], attributes["n"]
        out = outputs[0].reshape((m, n)) if outputs[0].size == m * n else None
        if out is None:
            raise ShapeError(f"gemm: the output must hold {m}x{n} elements, got shape {outputs[0].shape}")
        return super().plan(self._shaped(inputs, attributes), (out,), attributes, target)


@declared(Gemm, reference=lambda a, b, m, k, n: np.matmul(a, b), dtypes=NUMBERS + COMPLEX, ulp=4, absolute=64.0,
          beyond=1024.0, methods=False,
          parts=lambda operation, a, b, *, m, k, n: matmul(a.reshape(m, k), b.reshape(k, n)),
          gradient={
              "a": lambda cotangent, inputs, b, m, k, n: matmul(
                  cotangent, conjugated(b).reshape(k, n).mT).reshape(inputs[0].shape),
              "b": lambda cotangent, inputs, a, m, k, n: matmul(
                  conjugated(a).reshape(m, k).mT, cotangent).reshape(inputs[1].shape),
          },
          samples=cases(((3, 4), (4, 5), {"m": 3, "k": 4, "n": 5}), ((65, 33), (33, 70), {"m": 65, "k": 33, "n": 70}),
                        low=-3, high=3))  # fmt: skip
def gemm(a, b, *, m, k, n):
    """The product of a (m x k) and b (k x n), each flat or shaped, row-major."""


# linear: a product with bias and activation in its epilogue.


@lru_cache(maxsize=256)
def epilogue_program(dtype: DType, bias: DType | None, activation: str) -> Program | None:
    """result = activation(value + bias[column]) on a grid of (rows, columns); None for the identity.

    A map program like any other: value and result are contiguous, so a backend without fused epilogues runs it as it
    is.
    """
    if bias is None and activation == "none":
        return None
    computed = dtype.computed
    b = Builder(f"atlas_epilogue_{activation}_{computed}", rank=2)
    place = b.position(Opcode.LANE)
    value = b.load(b.buffer("value", computed, Access.READ), place)
    if bias is not None:
        value = value + b.load(b.buffer("bias", bias, Access.READ), b.coordinate(1)).to(computed)
    b.store(b.buffer("result", computed, Access.WRITE), place, ACTIVATIONS[activation](value))
    return b.build()


@frozen(eq=False, repr=False)
class Linear(MatMul):
    """A matrix product whose results pass through bias and activation before they are stored."""

    def matrix(self, inputs: Inputs, result: Layout) -> Layout | None:
        return None  # it has an epilogue of its own; traced, it is a matmul and what follows

    def _operands(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, Layout, Layout | None]:
        x, weight, bias = inputs
        if attributes["activation"] not in tuple(ACTIVATIONS):
            raise ValueError(
                f"linear: activation must be one of {', '.join(ACTIVATIONS)}, got {attributes['activation']!r}"
            )
        if (
            not isinstance(x, Layout)
            or not isinstance(weight, Layout)
            or weight.ndim != 2
            or x.shape[-1:] != weight.shape[1:]
        ):
            shapes = [getattr(i, "shape", i) for i in (x, weight)]
            raise ShapeError(
                f"linear: x (..., k) and weight (n, k) are needed, got {shapes[0]} and {shapes[1]}"
            )
        if bias is not None and (not isinstance(bias, Layout) or bias.shape != weight.shape[:1]):
            raise ShapeError(
                f"linear: bias must have shape {weight.shape[:1]}, got {getattr(bias, 'shape', bias)}"
            )
        dtype = types.floating("linear", (x.dtype, weight.dtype))[1]
        if dtype.is_complex and attributes["activation"] != "none":
            raise UnsupportedDType(f"linear: {attributes['activation']} has no meaning for complex numbers")
        if {i.dtype for i in inputs if isinstance(i, Layout)} != {dtype}:
            raise UnsupportedDType(
                f"linear: x, weight and bias must have one float dtype, got {x.dtype}, {weight.dtype}"
            )
        return x, weight.permute((1, 0)), bias

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, weight, _ = self._operands(inputs, attributes)
        return super().infer((x, weight), attributes)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, weight, bias = self._operands(inputs, attributes)
        out = outputs[0]
        if not out.size:
            return Plan(())
        if out.dtype.is_complex:
            return self._complex(x, weight, bias, out, target)
        # All rows of x are one matrix where its layout allows it; else the leading axes are a batch.
        rows = x.reshape((out.size // out.shape[-1], x.shape[-1]))
        flat = out.reshape((-1, out.shape[-1]))
        if rows is not None and flat is not None:
            x, out = rows, flat
        steps = Steps(4)  # a missing bias still counts
        positions, read = [0, 1, 3], None
        if bias is not None:
            positions.insert(2, steps.gathered(Place(2, bias)).position)
            read = bias.dtype
        epilogue = epilogue_program(out.dtype, read, attributes["activation"])
        steps.extend(product_plan(x, weight, out, out.dtype, target, epilogue), positions)
        return steps.plan()

    def _complex(self, x: Layout, weight: Layout, bias: Layout | None, out: Layout, target: Target) -> Plan:
        """The product, and then the bias: the kernels of real numbers have no epilogue for pairs."""
        steps = Steps(4)
        product = Place(3, out) if bias is None else steps.place(out.dtype, out.shape)
        steps.extend(self._product((x, weight), product.layout, target, None), (0, 1, product.position))
        if bias is not None:
            sums = add.plan((product.layout, bias), (out,), {}, target)
            steps.extend(sums, (product.position, 2, 3))
        return steps.plan()


def _linear_reference(x, weight, bias=None, activation="none"):
    y = np.matmul(x, np.swapaxes(weight, -1, -2))
    y = y if bias is None else y + bias
    return y if activation == "none" else ACTIVATIONS[activation].reference(y)


def _linear_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, n in (((5, 7), 3), ((2, 3, 16), 33), ((70, 65), 66), ((9,), 4), ((2, 3, 0), 5)):
        x, w, b = (array(rng, dtype, s, -2, 2) for s in (shape, (n, shape[-1]), (n,)))
        for activation in ACTIVATIONS if not dtype.is_complex else ("none",):
            yield Sample((x, w, b), {"activation": activation})
        yield Sample((x, w, None))


def _linear_parts(operation, x, weight, bias, *, activation):
    if x.dtype.computed != x.dtype:
        return None  # 16-bit floats are rounded once, at the end
    product = matmul(x, weight.permute(1, 0))
    return ACTIVATIONS[activation](product if bias is None else add(product, bias))


def _linear_gradient(cotangent, result, x, weight, bias, activation, wanted):
    if activation != "none":
        function = ACTIVATIONS[activation]
        rule = rule_of(function, (result.layout,), result.layout, "x")
        before = linear(x, weight, bias) if "x" in rule.reads else None
        (cotangent,) = rule.apply({"cotangent": cotangent, "result": result, "x": before})
    rows = cotangent.reshape(math.prod(cotangent.shape[:-1]), cotangent.shape[-1])
    return (
        matmul(cotangent, conjugated(weight)) if "x" in wanted else None,
        matmul(rows.mT, conjugated(x).reshape(rows.shape[0], x.shape[-1])) if "weight" in wanted else None,
        sum_(rows, axis=0) if "bias" in wanted else None,
    )


@declared(Linear, reference=_linear_reference, samples=_linear_samples, dtypes=INEXACT, ulp=8, absolute=64.0,
          beyond=1024.0, aten=("linear",),
          parts=_linear_parts, gradient={("x", "weight", "bias"): _linear_gradient})  # fmt: skip
def linear(x, weight, bias=None, *, activation="none"):
    """activation(x @ weight.T + bias), for x (..., k), weight (n, k), bias (n)."""


def _vecdot_reference(x, y, axis=-1):
    return (np.conj(x) * y).sum(axis, dtype=x.dtype)


@composite(dtypes=NUMBERS + COMPLEX, ulp=4, absolute=64.0, beyond=1024.0, reference=_vecdot_reference,
           samples=cases(((4, 5), (4, 5), {"axis": -1}), ((4, 5), (4, 5), {"axis": 0})),
           aten=("linalg_vecdot",))  # fmt: skip
def vecdot(x, y, *, axis=-1):
    """The dot products of the vectors along an axis, of complex ones with the conjugates of x; integers wrap."""
    axis = whole(axis, "vecdot: axis")
    least = min(x.ndim, y.ndim)
    known = -least <= axis < 0 or (x.ndim == y.ndim and 0 <= axis < least)
    if known and x.shape[axis] != y.shape[axis]:  # other axes broadcast, this one does not
        raise ShapeError(f"vecdot: vectors of one length are needed, got shapes {x.shape} and {y.shape}")
    product = multiply(conjugated(x), y)
    return sum_(product, axis=axis, dtype=product.dtype)
