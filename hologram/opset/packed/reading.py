"""What reads packed weights as they are: a product with them, rows of them, all of them."""

# Declarations are annotated for those who call them; their bodies get Values.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram.atlas.builder import Value, reduce_add, select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import FLOATS, STORED, DType, f32, i32, index, u32
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.map import Indexed, IndexedOperand, indexed
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Sample, declared
from hologram.opset.forms.samples import array
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.matmul import matmul
from hologram.opset.packed.few_rows import MOST_ROWS, add_tile
from hologram.opset.packed.formats import FORMATS, PLANES, WORD, Format, floats8, integers
from hologram.opset.tiles.product import product_plan

PANEL_BYTES = 16 << 20  # of weights that a product of many rows reads as floats at a time


def _code(operand: IndexedOperand, bits: int, row: Value, column: Value) -> Value:
    """A code of so many bits, as u32."""
    each = WORD // bits
    word = operand.at(row, column // each)
    return word if each == 1 else word >> (column % each).to(u32) * bits & (1 << bits) - 1


def _number(format: Format, planes: dict[str, IndexedOperand], row: Value, column: Value) -> Value:
    """What a code stands for, in f32."""
    if format.element is not None:
        return planes["codes"].at(row, column).to(f32)
    code = _code(planes["codes"], format.low_bits, row, column)
    if format.high_bits:
        code = code | _code(planes["high"], format.high_bits, row, column) << format.low_bits
    exact = _looked_up(format.table, code) if format.table else code.to(i32) - format.zero
    return exact.to(f32)


def _looked_up(table: tuple[int, ...], code: Value) -> Value:
    """table[code], as i32: halves of the table, chosen bit by bit."""
    values: list[Any] = [code.builder.constant(x, i32) for x in table]
    bit = 1
    while len(values) > 1:
        odd = (code & bit) != 0
        values = [select(odd, b, a) for a, b in zip(values[::2], values[1::2], strict=True)]
        bit <<= 1
    return values[0]


def _level(format: Format, planes: dict[str, IndexedOperand], level: str, row: Value, column: Value) -> Value:
    found = planes[level].at(row, column // (format.block or format.group)).to(f32)
    if format.block:
        found = found * planes[f"{level}_codes"].at(row, column // format.group).to(f32)
    return found


def weight_at(format: Format, given: Iterable[Any], row: Value, column: Value) -> Value:
    """A weight in f32, of the operands in the order of PLANES."""
    planes = {name: x for name, x in zip(PLANES, given, strict=True) if x is not None}
    weight = _level(format, planes, "scale", row, column) * _number(format, planes, row, column)
    return weight + _level(format, planes, "minimum", row, column) if format.has_minimum else weight


def matrix_of(who: str, format: Format, planes: Iterable[Any]) -> tuple[int, int]:
    """Rows and columns; raises ShapeError or UnsupportedDType for planes that are not the format's."""
    given = {name: x for name, x in zip(PLANES, planes, strict=True) if x is not None}
    codes = given.get("codes")
    if codes is None or codes.ndim != 2:
        raise ShapeError(f"{who}: codes must have two axes, got {None if codes is None else codes.shape}")
    each = 1 if format.element is not None else WORD // format.low_bits
    rows, columns = codes.shape[0], codes.shape[1] * each
    wanted = format.planes(rows, columns)
    if set(given) != set(wanted):
        raise ShapeError(f"{who}: {format.name} has planes {', '.join(wanted)}, got {', '.join(given)}")
    for name, (dtype, shape) in wanted.items():
        if given[name].dtype is not dtype:
            raise UnsupportedDType(f"{who}: {name} of {format.name} must be {dtype}, got {given[name].dtype}")
        if given[name].shape != shape:
            raise ShapeError(f"{who}: {name} of {format.name} must be {shape}, got {given[name].shape}")
    return rows, columns


def _example(rng: np.random.Generator, format: Format, rows: int, columns: int) -> tuple[Any, ...]:
    """Random planes, in the order of operands."""
    found: dict[str, np.ndarray] = {}
    for name, (dtype, shape) in format.planes(rows, columns).items():
        if dtype is u32:
            found[name] = rng.integers(0, 2**32, shape, dtype=np.uint32)
        elif dtype is dtypes.i8:
            found[name] = rng.integers(-31, 32, shape).astype(np.int8)
        else:
            found[name] = rng.normal(0, 1 / 16, shape).astype(dtype.numpy)
    return tuple(found.get(name) for name in PLANES)


EXAMPLES = (*FORMATS.values(), integers(8, 64), integers(4, 128, symmetric=False, scales=dtypes.f16))
DTYPES = (*FLOATS, *STORED)  # of x or the result, and of codes that are numbers


def _examples(dtype: DType) -> tuple[tuple[Format, ...], DType]:
    """The formats that a dtype is tried with, and the dtype of what is computed."""
    return (EXAMPLES, dtype) if dtype.computes else ((floats8(dtype, 32), floats8(dtype, 64)), f32)


def _weights(format: Format, planes: Iterable[Any]) -> np.ndarray:
    return format.weights({n: np.asarray(x) for n, x in zip(PLANES, planes, strict=True) if x is not None})


def _dequantized_shape(*planes, format, dtype):
    rows, columns = matrix_of("packed_weights", format, planes)
    element = dtypes.dtype(dtype)
    if element not in FLOATS:
        raise UnsupportedDType(f"packed_weights: weights are floats, got {element}")
    return Layout.contiguous(element, (rows, columns))


def _dequantized_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    formats, result = _examples(dtype)
    for format in formats:
        yield Sample(_example(rng, format, 3, 2 * format.unit), {"format": format, "dtype": result.name})


@indexed(shape_of=_dequantized_shape, dtypes=DTYPES, samples=_dequantized_samples, methods=False, ulp=1,
         reference=lambda *planes, format, dtype: _weights(format, planes).astype(np.float64),
         gradient={})  # fmt: skip
def packed_weights(
    at, codes, high=None, scale=None, scale_codes=None, minimum=None, minimum_codes=None, *,
    format: Any, dtype: Any = "f32"
):  # fmt: skip
    """The matrix that planes of a format hold, computed in f32."""
    return weight_at(format, (codes, high, scale, scale_codes, minimum, minimum_codes), *at)


def _rows_shape(row, *planes, format, dtype):
    _, columns = matrix_of("packed_rows", format, planes)
    element = dtypes.dtype(dtype)
    if not row.dtype.is_integer or element not in FLOATS:
        raise UnsupportedDType(
            f"packed_rows: rows are integers and results floats, got {row.dtype} and {element}"
        )
    return Layout.contiguous(element, (*row.shape, columns))


def _rows_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    formats, result = _examples(dtype)
    for format in formats[::3]:
        for shape in ((), (5,), (2, 3)):
            attributes = {"format": format, "dtype": result.name}
            planes = _example(rng, format, 7, format.unit)
            yield Sample((rng.integers(0, 7, shape).astype(np.int32), *planes), attributes)


@indexed(shape_of=_rows_shape, dtypes=DTYPES, samples=_rows_samples, methods=False, ulp=1, gradient={},
         reference=lambda row, *planes, format, dtype: _weights(format, planes)[row].astype(np.float64))  # fmt: skip
def packed_rows(
    at, row, codes, high=None, scale=None, scale_codes=None, minimum=None, minimum_codes=None, *,
    format: Any, dtype: Any = "f32"
):  # fmt: skip
    """Rows of a packed matrix (V, D) that `row` (...) names, as (..., D); out of range: zeros."""
    position = row.at(*(at[:-1] or (row.builder.constant(0, index),))).to(index)
    inside = (position >= 0) & (position < codes.extent(0))
    kept = select(inside, position, 0)
    weight = weight_at(format, (codes, high, scale, scale_codes, minimum, minimum_codes), kept, at[-1])
    return select(inside, weight, 0.0)


@frozen(eq=False, repr=False)
class PackedProduct(Indexed):
    """Few rows: dot products that read the planes. Many: the weights as floats, some of them at a time."""

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, *planes = inputs
        (out,), format = outputs, attributes["format"]
        if not out.size:
            return Plan(())
        assert isinstance(x, Layout)
        rows, columns = matrix_of(self.name, format, planes)
        count = math.prod(x.shape[:-1])
        steps = Steps(len(inputs) + 1)
        final = Place(len(inputs), out)
        given = [
            None if p is None else Place(k + 1, p)
            for k, p in enumerate(planes)
            if isinstance(p, Layout | None)
        ]
        if count <= MOST_ROWS:
            if add_tile(steps, Place(0, x), format, given, final, (count, rows, columns), target):
                return steps.plan()
            return super().plan(inputs, outputs, attributes, target)
        computed = x.dtype.computed
        height = max(1, min(rows, PANEL_BYTES // (columns * computed.itemsize)))
        panel = steps.place(computed, (height, columns))
        for first in range(0, rows, height):
            part = min(height, rows - first)
            held = Layout.contiguous(computed, (part, columns))
            cut = [None if p is None else p.layout.narrow(0, first, part) for p in given]
            plan = packed_weights.plan(cut, (held,), {"format": format, "dtype": computed.name}, target)
            steps.extend(plan, (*range(1, len(inputs)), panel.position))
            product = product_plan(
                *_as_matrices(x, held.permute((1, 0)), out.narrow(out.ndim - 1, first, part)),
                computed,
                target,
            )
            steps.extend(product, (0, panel.position, final.position))
        return steps.plan()


def _as_matrices(x: Layout, panel: Layout, out: Layout) -> tuple[Layout, Layout, Layout]:
    """All rows of x as one matrix where its layout allows it."""
    rows, flat = x.reshape((-1, x.shape[-1])), out.reshape((-1, out.shape[-1]))
    return (x, panel, out) if rows is None or flat is None else (rows, panel, flat)


def _product_shape(x, *planes, format):
    rows, columns = matrix_of("packed_linear", format, planes)
    if x.ndim < 1 or x.shape[-1] != columns:
        raise ShapeError(f"packed_linear: x (..., {columns}) is needed, got {x.shape}")
    if x.dtype not in FLOATS:
        raise UnsupportedDType(f"packed_linear: x must be of floats, got {x.dtype}")
    return Layout.contiguous(x.dtype, (*x.shape[:-1], rows))


def _product_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    formats, computed = _examples(dtype)
    for k, format in enumerate(formats):
        lead = ((1,), (3,), (2, 2), (), (40,))[k % 5]
        x = array(rng, computed, (*lead, 2 * format.unit), -1, 1)
        yield Sample((x, *_example(rng, format, 5, 2 * format.unit)), {"format": format})


def _product_reference(x, *planes, format):
    return np.asarray(x, np.float64) @ _weights(format, planes).astype(np.float64).T


def _product_window(x, *planes, format):
    return (x.shape[-1],)


def _of_x(cotangent, codes, high, scale, scale_codes, minimum, minimum_codes, format):
    planes = (codes, high, scale, scale_codes, minimum, minimum_codes)
    return matmul(cotangent, packed_weights(*planes, format=format, dtype=cotangent.dtype))


@declared(PackedProduct, shape_of=_product_shape, window=_product_window, dtypes=DTYPES, samples=_product_samples,
          reference=_product_reference, methods=False, ulp=8, absolute=512.0, gradient={"x": _of_x})  # fmt: skip
def packed_linear(
    at, window, x, codes, high=None, scale=None, scale_codes=None, minimum=None, minimum_codes=None, *, format: Any
):  # fmt: skip
    """x (..., k) times the transpose of a packed matrix (n, k), as (..., n), added up in f32."""
    planes = (codes, high, scale, scale_codes, minimum, minimum_codes)
    weight = weight_at(format, planes, at[-1], window[0])
    factor = x.at(*at[:-1], *window)
    return reduce_add(factor * weight.to(factor.dtype))
