"""Scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hologram.atlas.builder import reduce_add
from hologram.foundation.dtypes import FLOATS, DType, bool_
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.axes import broadcast
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.arrange import tril
from hologram.opset.forms import types
from hologram.opset.forms.gradient import rule_of
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation, Sample, declared
from hologram.opset.forms.row import Row
from hologram.opset.forms.samples import array
from hologram.opset.logic import logical_and, where
from hologram.opset.matmul import matmul, transposed_product
from hologram.opset.neural import attention_gradient
from hologram.opset.tiles.attention import Attended, attention_plan, masked, softmax_or_zero


@frozen(eq=False, repr=False)
class Attention(Operation):
    """softmax(q kᵀ scale + mask) v."""

    def _checked(self, inputs: Inputs, attributes: Attributes) -> Attended:
        q, k, v, mask = inputs
        if not all(isinstance(i, Layout) and i.ndim >= 2 for i in (q, k, v)):
            raise ShapeError(f"{self.name}: q, k and v must have at least two axes")
        assert isinstance(q, Layout)
        assert isinstance(k, Layout)
        assert isinstance(v, Layout)
        if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
            raise ShapeError(
                f"{self.name}: q (..., l, e), k (..., s, e) and v (..., s, ev) are needed, "
                f"got {q.shape}, {k.shape} and {v.shape}"
            )
        if len({q.dtype, k.dtype, v.dtype}) > 1 or not q.dtype.is_float:
            raise UnsupportedDType(
                f"{self.name}: q, k and v must have one float dtype, got {q.dtype}, {k.dtype}, {v.dtype}"
            )
        if isinstance(mask, Layout):
            if mask.dtype.kind != "bool" and not mask.dtype.is_float:
                raise UnsupportedDType(f"{self.name}: the mask must be bool or a float, got {mask.dtype}")
        elif mask is not None:
            raise ShapeError(f"{self.name}: the mask must be a tensor, got {mask}")
        own = self._shared(q, k, v) if attributes["enable_gqa"] else 0
        if own:
            q, mask = apart(q, own), None if mask is None else apart(mask, own)
            k, v = (i.unsqueeze(i.ndim - 2) for i in (k, v))
        batch = broadcast([i.shape[:-2] for i in (q, k, v, mask) if i is not None], self.name)
        q, k, v = (i.expand((*batch, *i.shape[-2:])) for i in (q, k, v))
        scores = (*batch, q.shape[-2], k.shape[-2])
        return Attended(q, k, v, None if mask is None else mask.expand(scores), own)

    def _shared(self, q: Layout, k: Layout, v: Layout) -> int:
        """How many heads have keys of their own, where several share them; 0 where that is broadcasting alone."""
        heads = [i.shape[-3] if i.ndim > 2 else 0 for i in (q, k, v)]
        of_q, own, of_v = heads
        if own != of_v or not own or of_q % own:
            raise ShapeError(
                f"{self.name}: enable_gqa needs q (..., heads, l, e), k (..., own, s, e) and v (..., own, s, ev) "
                f"of which `own` divides `heads`, got {q.shape}, {k.shape} and {v.shape}"
            )
        return own if 1 < own < of_q else 0

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        attended = self._checked(inputs, attributes)
        return (Layout.contiguous(attended.dtype, attended.shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        if not outputs[0].size:
            return Plan(())
        attended = self._checked(inputs, attributes)
        given = attributes["scale"]
        if not isinstance(given, (int, float, type(None))):
            raise TypeError(f"{self.name}: scale must be a number, got {given!r}")
        scale = 1.0 / math.sqrt(max(attended.q.shape[-1], 1)) if given is None else float(given)
        out = apart(outputs[0], attended.own) if attended.own else outputs[0]
        return attention_plan(attended, out, bool(attributes["causal"]), scale, target)


def apart(layout: Layout, own: int) -> Layout:
    """Heads along the last axis but two as two axes: those with keys of their own, and those that share them."""
    if layout.ndim < 3:
        return layout
    *batch, heads, rows, columns = layout.shape
    *lead, step, of_rows, of_columns = layout.strides
    if heads == 1:
        return layout.unsqueeze(layout.ndim - 2)
    each = heads // own
    shape, strides = (*batch, own, each, rows, columns), (*lead, each * step, step, of_rows, of_columns)
    return Layout(layout.dtype, shape, strides, layout.offset)


def _attention_reference(q, k, v, mask=None, causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        k, v = (np.repeat(x, q.shape[-3] // k.shape[-3], axis=-3) for x in (k, v))
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return np.matmul(weights / np.where(total == 0, 1, total), v)


def _attention_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    def operands(batch, rows, columns, e, ev):
        shapes = ((*batch, rows, e), (*batch, columns, e), (*batch, columns, ev))
        return tuple(array(rng, dtype, s, -1, 1) for s in shapes)

    yield Sample((*operands((2, 3), 5, 7, 4, 6), None))
    yield Sample((*operands((), 67, 67, 32, 32), None), {"causal": True})
    keep = rng.random((2, 1, 9, 70)) < 0.5
    keep[0, 0, 3] = False  # a row without anything to look at
    yield Sample((*operands((2, 2), 9, 70, 16, 8), keep), {"scale": 0.3})
    bias = array(rng, dtype, (5, 9), -1, 1)
    bias[2] = -np.inf
    if dtype.itemsize > 2:
        bias[4] = np.finfo(np.float32).min  # hides nothing: all are alike
    yield Sample((*operands((3,), 5, 9, 8, 8), bias), {"causal": True})
    yield Sample((*operands((1,), 1, 130, 64, 64), None))
    yield Sample((*operands((2,), 3, 0, 4, 4), None))
    for rows, causal, of_mask in ((1, False, (2, 6, 1, 9)), (5, True, (1, 5, 9)), (7, False, (7, 9))):
        q, (_, k, v) = array(rng, dtype, (2, 6, rows, 8), -1, 1), operands((2, 3), rows, 9, 8, 5)
        keep = rng.random(of_mask) < 0.7
        yield Sample((q, k, v, keep), {"causal": causal, "enable_gqa": True})


def _weights_types(who: str, operands: Sequence[types.OperandType]) -> types.Types:
    scores = operands[0]
    assert isinstance(scores, DType)
    return tuple(bool_ if d is bool_ else scores for d in operands), scores


def _weights(scores, mask=None, *, axis=-1, scale: float = 1.0):
    """softmax(scores * scale + mask) of rows; 0 where nothing counts."""
    value = scores * scale
    if mask is not None:
        value = masked(value, mask)
    return softmax_or_zero(value)


# Not an operation of its own: what the scores of an attention become.
weights = Row(
    name="attention_weights", function=_weights, reference=_attention_reference, samples=lambda rng, dtype: (),
    types=_weights_types, keeps_shape=True, gradient={
        "scores": lambda cotangent, result, scale: scale * result * (cotangent - reduce_add(cotangent * result)),
        "mask": lambda cotangent, result: result * (cotangent - reduce_add(cotangent * result)),
    },
)  # fmt: skip


def _counted(q, k, mask, causal):
    """The mask with the causal one, as small as it can be."""
    if not causal:
        return mask
    ones = q.executor.full((q.shape[-2], k.shape[-2]), True, bool_)
    if mask is None or mask.dtype is bool_:
        return tril(ones) if mask is None else logical_and(mask, tril(ones))
    return where(tril(ones), mask, -math.inf)


def _gradient(cotangent, q, k, v, mask, causal, scale, enable_gqa, wanted):
    """By the weights, computed once more (Dao et al. 2022, appendix B.4); floats of 16 bits as f32."""
    if enable_gqa:
        found = _gradient(*_heads_apart(cotangent, q, k, v, mask), causal, scale, False, wanted)
        return tuple(
            g if g is None else g.reshape(x.shape) for g, x in zip(found, (q, k, v, mask), strict=True)
        )
    if attention_gradient.taken(cotangent, q, k, v, wanted):
        given = 1.0 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)
        by_parts = attention_gradient.attention_gradient
        return (*by_parts(q, k, v, mask, cotangent, causal=bool(causal), scale=given), None)
    mask, batch = _counted(q, k, mask, causal), cotangent.shape[:-2]
    scale = 1.0 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)
    shapes = [x.shape[:-2] for x in (k, v)]
    computed = q.dtype.computed
    cotangent, q, k, v = (x.astype(computed, copy=False) for x in (cotangent, q, k, v))
    probabilities = weights(matmul(q.expand((*batch, *q.shape[-2:])), k.mT), mask, scale=scale)
    grown = {"v": transposed_product(probabilities, cotangent, shapes[1])} if "v" in wanted else {}
    if wanted == ("v",):
        return None, None, grown["v"], None
    inputs = (probabilities.layout, None if mask is None else mask.layout)
    known = {"cotangent": matmul(cotangent, v.mT), "result": probabilities}
    if "mask" in wanted:
        (grown["mask"],) = rule_of(weights, inputs, probabilities.layout, "mask", scale=scale).apply(known)
    if "q" in wanted or "k" in wanted:
        (scores,) = rule_of(weights, inputs, probabilities.layout, "scores", scale=scale).apply(known)
        if "q" in wanted:
            grown["q"] = matmul(scores, k)
        if "k" in wanted:
            grown["k"] = transposed_product(scores, q.expand((*batch, *q.shape[-2:])), shapes[0])
    return tuple(map(grown.get, ("q", "k", "v", "mask")))


def _heads_apart(cotangent, q, k, v, mask) -> tuple[Any, Any, Any, Any, Any]:
    """Operands whose heads are two axes, the second of which keys and values have not."""
    own = k.shape[-3]

    def split(x):
        heads = x.shape[-3]
        each = 1 if heads == 1 else heads // own
        return x.reshape((*x.shape[:-3], heads // each, each, *x.shape[-2:]))

    k, v = (x.reshape((*x.shape[:-2], 1, *x.shape[-2:])) for x in (k, v))
    return split(cotangent), split(q), k, v, mask if mask is None or mask.ndim < 3 else split(mask)


@declared(Attention, reference=_attention_reference, samples=_attention_samples, dtypes=FLOATS, ulp=4, absolute=8.0,
          aten=("scaled_dot_product_attention",), gradient={("q", "k", "v", "mask"): _gradient})  # fmt: skip
def scaled_dot_product_attention(q, k, v, mask=None, *, causal=False, scale=None, enable_gqa=False):
    """softmax(q kᵀ scale + mask) v, for q (..., l, e), k (..., s, e), v (..., s, ev); scale 1 / sqrt(e) unless given.

    A bool mask says which scores count, a float one is added; it broadcasts to (..., l, s). `causal` keeps
    column <= row. Rows where nothing counts give zeros, as in torch. With `enable_gqa` neighbouring heads of q
    (..., heads, l, e) share one of k (..., own, s, e) and of v, which are not repeated for them.
    Online softmax: Milakov and Gimelshein (2018), Dao et al. (2022).
    """
