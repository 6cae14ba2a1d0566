"""Packed weights as floats: all of them, or the rows that an index names."""

from __future__ import annotations

from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import f32
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.map import Indexed
from hologram.opset.forms.operation import Attributes, Inputs, Layouts
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.indexing import checked_positions
from hologram.opset.packed.formats import format_of
from hologram.opset.packed.own import own, own_weights
from hologram.opset.packed.reading import Weights
from hologram.opset.packed.repacking import weights_of
from hologram.opset.tiles.updates import inside_of

PLANES = (
    "codes",
    "scales",
    "high",
    "factors",
)  # in the order of operands; those that a format lacks are None


def weights_reference(codes, scales, high, factors, format, columns, dtype):
    planes = zip(PLANES, (codes, scales, high, factors), strict=True)
    present = {n: x for n, x in planes if x is not None}
    return weights_of(format_of(format), present, columns)


def _numbers_shape(codes, scales, high, factors, *, format, columns, dtype):
    return Layout.contiguous(dtypes.dtype(dtype), (codes.shape[0], columns))


def _numbers(at, codes, scales, high=None, factors=None, *, format, columns, dtype):
    """All weights (rows, columns)."""
    return Weights(format_of(format), codes, scales, high, factors).at(*at)


@frozen(eq=False, repr=False)
class PackedNumbers(Indexed):
    """All weights of a matrix, by a kernel of the backend's own where it has one."""

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        format, out = format_of(attributes["format"]), outputs[0]
        layouts = [i for i in inputs if isinstance(i, Layout)]
        fits = out.dtype == f32 and out.ndim == 2 and (out.strides[1] == 1 or out.shape[1] == 1) and out.size
        if not fits or not own(format, layouts, attributes["columns"], target):
            return super().plan(inputs, outputs, attributes, target)
        self.check_outputs(self.infer(inputs, attributes), outputs)
        steps = Steps(len(inputs) + 1)
        planes = {
            n: Place(k, i)
            for k, (n, i) in enumerate(zip(PLANES, inputs, strict=True))
            if isinstance(i, Layout)
        }
        steps.add(*own_weights(format, planes, Place(len(inputs), out)))
        return steps.plan()


packed_numbers = PackedNumbers(
    name="packed_numbers",
    function=_numbers,
    reference=weights_reference,
    samples=lambda rng, dtype: (),
    shape_of=_numbers_shape,
    dtypes=dtypes.ALL,
)


def _rows_shape(index, codes, scales, high, factors, *, format, columns, dtype):
    checked_positions("embedding", index, codes.shape[0])
    return Layout.contiguous(dtypes.dtype(dtype), (*index.shape, columns))


def _rows(at, index, codes, scales, high=None, factors=None, *, format, columns, dtype):
    """The weights of rows that index names (negative: from the end; out of range: zeros)."""
    row = index.at(*(at[:-1] or (index.builder.constant(0, dtypes.index),)))
    inside, safe = inside_of(row, codes.extent(0))
    return select(inside, Weights(format_of(format), codes, scales, high, factors).at(safe, at[-1]), 0.0)


packed_rows = Indexed(
    name="packed_rows",
    function=_rows,
    reference=lambda index, *planes, **settings: weights_reference(*planes, **settings)[index],
    samples=lambda rng, dtype: (),
    shape_of=_rows_shape,
    dtypes=dtypes.ALL,
)
