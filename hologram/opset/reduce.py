"""Reductions over any axes, named and parametrised as in the array API."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from hologram.atlas import complex_parts
from hologram.atlas import functions as atlas
from hologram.atlas.functions import reduce_add, reduce_max, reduce_min, reduce_mul, select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPLEX, COMPUTED, INEXACT, INTEGERS, NUMBERS, DType
from hologram.foundation.frozen import frozen
from hologram.machine.axes import normalize_axes
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset import factors, logic
from hologram.opset.chosen import averaging, folding
from hologram.opset.complex_numbers import conjugated
from hologram.opset.complex_running import product_of, product_plan
from hologram.opset.forms import types
from hologram.opset.forms.accumulator import accumulated
from hologram.opset.forms.composite import composite
from hologram.opset.forms.gradient import rule_of
from hologram.opset.forms.holomorphic import holomorphic
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Sample, declared
from hologram.opset.forms.row import Row, column, row, width
from hologram.opset.forms.samples import cases, reduction
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.math import add, maximum, minimum, multiply


@row(
    types=types.total,
    dtypes=COMPUTED + COMPLEX,
    reference=np.sum,
    samples=reduction(),
    ulp=2,
    absolute=1.0,
    beyond=16.0,
    aten=("sum", "sum.dim_IntList"),
    gradient={"x": lambda cotangent, inputs: cotangent.expand(inputs[0].shape)},  # a view
    out_names=("reduce_sum",),
    further=folding(add, 0),
)
def sum_(x, *, axis=None, keepdims=False, dtype=None):
    """The sum; integers and bools are summed in 64 bits unless `dtype` says otherwise."""
    return reduce_add(x)


_DOTS = cases(((3, 1, 33), (4, 33), {"axis": -1}), ((17,), (17,), {"axis": 0}), ((5, 1), (5, 7), {"axis": 0}),
              ((2, 0), (2, 0), {"axis": 1}), low=-3, high=3)  # fmt: skip


@row(types=types.same, dtypes=NUMBERS + COMPLEX, samples=_DOTS, ulp=4, absolute=64.0, beyond=64.0, methods=False,
     reference=lambda x, y, axis=None, keepdims=False: np.sum(
         x * y, axis=axis, keepdims=keepdims, dtype=np.result_type(x)))  # fmt: skip
def dot_along(x, y, *, axis=None, keepdims=False):
    """The sums of x times y, broadcast, along axes; integers wrap, floats of 16 bits are summed in f32."""
    return reduce_add(x * y)


@accumulated
def _prod_gradient(cotangent, result, x, inputs, axis):
    """By the product of all, divided; by a tree of products where the derivative is differentiated again."""
    if not (x.executor.differentiated or x.dtype.is_complex):
        rule = rule_of(_divided, inputs, result.layout, "x", axis=axis, keepdims=True, dtype=result.dtype)
        return rule.apply({"cotangent": cotangent, "result": result, "x": x})[0]
    axes = normalize_axes(axis if x.ndim else None, x.ndim, "prod")
    order = (*(k for k in range(x.ndim) if k not in axes), *axes)
    moved = conjugated(x.astype(result.dtype, copy=False)).permute(order)
    outer = moved.shape[: x.ndim - len(axes)]
    rows = moved.reshape((*outer, math.prod(moved.shape[len(outer) :])))
    gradient = factors.of_product(cotangent.permute(order).reshape((*outer, 1)), rows)
    return gradient.reshape(moved.shape).permute(tuple(order.index(k) for k in range(x.ndim)))


@frozen(eq=False, repr=False)
class Product(Row):
    """Of complex numbers by a tree of products: their parts cannot be folded one by one."""

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        dtype = outputs[0].dtype
        if not dtype.is_complex or not outputs[0].size:
            return super().plan(inputs, outputs, attributes, target)
        self.check_outputs(self.infer(inputs, attributes), outputs)
        steps, given = Steps(2), inputs[0]
        assert isinstance(given, Layout)
        x = Place(0, given) if given.dtype is dtype else steps.converted(Place(0, given), dtype)
        lying = self.arranged((x.layout,), outputs, attributes)
        rows, out = lying.inputs[0], lying.outputs[0]
        assert isinstance(rows, Layout)
        flat = rows.reshape((*out.shape, math.prod(rows.shape[out.ndim :])))
        if flat is None:
            x = steps.converted(Place(x.position, rows), dtype)
            flat = x.layout.reshape((*out.shape, math.prod(rows.shape[out.ndim :])))
        assert flat is not None
        steps.extend(product_plan(flat, out, dtype, target), (x.position, 1))
        return steps.plan()


def _prod_parts(operation, x, *, axis, keepdims, dtype):
    """Of complex numbers, in a graph."""
    wanted = x.dtype if dtype is None else dtypes.dtype(dtype)
    if not wanted.is_complex:
        return None
    axes = normalize_axes(axis if x.ndim else None, x.ndim, "prod")
    outer = tuple(k for k in range(x.ndim) if k not in axes)
    rows = x.astype(wanted, copy=False).permute((*outer, *axes))
    whole = product_of(rows.reshape((*rows.shape[: len(outer)], math.prod(rows.shape[len(outer) :]))))
    return whole.reshape([1 if k in axes else n for k, n in enumerate(x.shape)]) if keepdims else whole


@declared(Product, types=types.total, dtypes=COMPUTED + COMPLEX, reference=np.prod, samples=reduction(0.9, 1.1), ulp=2,
          each=0.5, absolute=1.0, parts_ulp=300, aten=("prod", "prod.dim_int"), gradient={"x": _prod_gradient},
          parts=_prod_parts, further=folding(multiply, 1))  # fmt: skip
def prod(x, *, axis=None, keepdims=False, dtype=None):
    """The product; integers and bools are multiplied in 64 bits unless `dtype` says otherwise."""
    return reduce_mul(x)


_divided = replace(prod, name="prod_by_division", gradient={})  # its rule follows from the expression


@row(types=types.same, dtypes=COMPUTED, reference=np.min, samples=reduction(special=True, empty=False), empty=False,
     aten=("amin",), out_names=("reduce_min",), further=folding(minimum))  # fmt: skip
def min_(x, *, axis=None, keepdims=False):
    """The smallest element; NaN if any is. A row without elements raises ShapeError."""
    return reduce_min(x.to(dtypes.u32)).to(dtypes.bool_) if x.dtype.kind == "bool" else reduce_min(x)


@row(types=types.same, dtypes=COMPUTED, reference=np.max, samples=reduction(special=True, empty=False), empty=False,
     aten=("amax",), out_names=("reduce_max",), further=folding(maximum))  # fmt: skip
def max_(x, *, axis=None, keepdims=False):
    """The largest element; NaN if any is. A row without elements raises ShapeError."""
    return reduce_max(x.to(dtypes.u32)).to(dtypes.bool_) if x.dtype.kind == "bool" else reduce_max(x)


@accumulated  # its transpose, which forward mode takes, is a mean
def _spread(cotangent, inputs):
    shape = inputs[0].shape
    return (cotangent * (cotangent.size / max(inputs[0].size, 1))).expand(shape)


@row(
    types=types.floating,
    dtypes=INEXACT,
    reference=np.mean,
    samples=reduction(),
    ulp=2,
    absolute=1.0,
    aten=("mean", "mean.dim"),
    gradient={"x": _spread},  # a view, where the derived rule would write every element
    further=averaging,
)
def mean(x, *, axis=None, keepdims=False):
    """The arithmetic mean; NaN for a row without elements."""
    return reduce_add(x) / width(x)


def _variance(x, correction):
    deviation = x - reduce_add(x) / width(x)
    if x.dtype.is_complex:
        across, up = complex_parts.real(deviation), complex_parts.imag(deviation)
        squared = across * across + up * up
    else:
        squared = deviation * deviation
    return reduce_add(squared) / atlas.maximum(width(squared) - correction, 0.0)


@row(types=types.angular, dtypes=INEXACT,
     reference=lambda x, correction=0.0, **axes: np.var(x, ddof=correction, **axes),
     samples=reduction(correction=0.5), ulp=4, absolute=4.0, aten=("var.correction",),
     aten_defaults={"correction": 1.0}, further=averaging)  # fmt: skip
def var(x, *, axis=None, correction: float = 0.0, keepdims=False):
    """The variance, in two passes: mean squared deviation from the mean, over width - correction."""
    return _variance(x, correction)


def _std_gradient(cotangent, x, result, correction):
    """Of a row whose elements are all equal 0, where the root has no derivative, as in PyTorch."""
    deviation = x - reduce_add(x) / width(x)
    none = result == 0.0
    share = select(none, 0.0, cotangent / (select(none, 1.0, result) * (width(cotangent) - correction)))
    return share.to(x.dtype) * deviation


@row(types=types.angular, dtypes=INEXACT,
     reference=lambda x, correction=0.0, **axes: np.std(x, ddof=correction, **axes),
     samples=reduction(correction=0.5), ulp=4, absolute=4.0, aten=("std.correction",),
     aten_defaults={"correction": 1.0}, gradient={"x": _std_gradient}, further=averaging)  # fmt: skip
def std(x, *, axis=None, correction: float = 0.0, keepdims=False):
    """The standard deviation: the square root of `var`."""
    return atlas.sqrt(_variance(x, correction))


# Positions are compared as u32, whose last number stands for none.
LONGEST = 2**32 - 1


def _position_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    """Those of a reduction, but for several axes at once, which NumPy does not have."""
    for sample in reduction(special=True, empty=False)(rng, dtype):
        if not isinstance(sample.attributes["axis"], tuple):
            yield sample


def _first_of(x, extreme):
    """The column of the first element that is the extreme, or NaN where the extreme is."""
    matches = (x == extreme) | (x != x) if x.dtype.is_float else x == extreme
    position = column(x).to(dtypes.u32)
    return reduce_min(select(matches, position, 0xFFFFFFFF)).to(dtypes.i64)


@row(types=types.position, dtypes=NUMBERS, samples=_position_samples, empty=False, aten=("argmin",),
     longest=LONGEST, reference=np.argmin)  # fmt: skip
def argmin(x, *, axis=None, keepdims=False):
    """The position of the first smallest element (of the first NaN, if there is one); over all axes, counted flat."""
    return _first_of(x, reduce_min(x))


@row(types=types.position, dtypes=NUMBERS, samples=_position_samples, empty=False, aten=("argmax",),
     longest=LONGEST, reference=np.argmax)  # fmt: skip
def argmax(x, *, axis=None, keepdims=False):
    """The position of the first largest element (of the first NaN, if there is one); over all axes, counted flat."""
    return _first_of(x, reduce_max(x))


@row(
    types=types.logical,
    dtypes=COMPUTED + COMPLEX,
    samples=reduction(-1, 1),
    reference=np.any,
    aten=("any", "any.dims"),
    further=folding(logic.logical_or, False),
)
def any_(x, *, axis=None, keepdims=False):
    """Whether any element is true (not 0)."""
    return reduce_max(x.to(dtypes.u32)).to(dtypes.bool_)


@row(
    types=types.logical,
    dtypes=COMPUTED + COMPLEX,
    samples=reduction(0.2, 5),
    reference=np.all,
    aten=("all", "all.dims"),
    further=folding(logic.logical_and, True),
)
def all_(x, *, axis=None, keepdims=False):
    """Whether all elements are true (not 0)."""
    return reduce_min(x.to(dtypes.u32)).to(dtypes.bool_)


def _logsumexp_reference(x, **axes):
    top = np.max(np.real(x), axis=axes.get("axis"), keepdims=True, initial=-np.inf)
    top = np.nan_to_num(top, nan=0.0, posinf=0.0, neginf=0.0)
    total = np.log(np.sum(np.exp(x - top), axis=axes.get("axis"), keepdims=True)) + top
    return total if axes.get("keepdims") else np.squeeze(total, axis=axes.get("axis"))


def _weighed(cotangent, x, result):
    """The softmax; 0 for rows of -infinity."""
    return cotangent * atlas.exp(x - select(complex_parts.real(result) == -math.inf, 0.0, result))


@row(types=types.floating, dtypes=INEXACT, samples=reduction(), ulp=4, absolute=4.0, parts_ulp=64,
     reference=_logsumexp_reference, aten=("logsumexp",), gradient={"x": holomorphic(_weighed)})  # fmt: skip
def logsumexp(x, *, axis=None, keepdims=False):
    """log(sum(exp(x))), without overflow; infinite where the largest element is, -infinity of nothing.

    Of complex numbers the largest is that with the largest real part, and the angle lies in [-pi, pi].
    """
    largest = reduce_max(complex_parts.real(x))
    top = select(atlas.absolute(largest) < math.inf, largest, 0.0).to(x.dtype)
    return atlas.log(reduce_add(atlas.exp(x - top))) + top


@composite(dtypes=COMPUTED + COMPLEX, aten=("count_nonzero", "count_nonzero.dim_IntList"),
           reference=lambda x, axis=None, keepdims=False: np.count_nonzero(x, axis=axis, keepdims=keepdims),
           samples=cases(((4, 5), {"axis": 1, "keepdims": True}), ((4, 5), {}), ((4, 5), {"axis": (0,)}),
                          ((0,), {})))  # fmt: skip
def count_nonzero(x, *, axis=None, keepdims=False):
    """How many elements are not 0, as i64."""
    return sum_(logic.not_equal(x, 0), axis=axis, keepdims=keepdims)


def _outside_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for sample in reduction(0, 9)(rng, dtype):
        yield Sample(sample.operands, {**sample.attributes, "low": 1, "high": 9})
        yield Sample(sample.operands, {**sample.attributes, "low": 0, "high": 10})


@row(types=types.comparison, dtypes=INTEGERS, samples=_outside_samples, scalars={"low": None, "high": None},
     reference=lambda x, low, high, **axes: np.any((x < low) | (x >= high), **axes))  # fmt: skip
def any_outside(x, *, low, high, axis=None, keepdims=False):
    """Whether any element lies outside [low, high)."""
    return reduce_max(((x < low) | (x >= high)).to(dtypes.u32)).to(dtypes.bool_)
