"""Scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hologram.atlas.functions import reduce_add
from hologram.foundation.dtypes import FLOATS, DType, bool_
from hologram.foundation.errors import GradientError
from hologram.foundation.frozen import frozen
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
from hologram.opset.neural.attending import apart, attended, scale_of
from hologram.opset.reduce import sum_
from hologram.opset.tiles.attention.plan import attention_plan
from hologram.opset.tiles.attention.weights import masked, softmax_or_zero


@frozen(eq=False, repr=False)
class Attention(Operation):
    """softmax(q kᵀ scale + mask) v."""

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        found = attended(self.name, inputs, attributes)
        return (Layout.contiguous(found.dtype, found.shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        if not outputs[0].size:
            return Plan(())
        found = attended(self.name, inputs, attributes)
        return attention_plan(found, apart(outputs[0], found.own) if found.own else outputs[0], target)


def _attention_reference(
    q, k, v, mask=None, lengths=None, slopes=None, sinks=None, table=None, scales=None, causal=False, scale=None,
    enable_gqa=False, window=None, softcap=None,
):  # fmt: skip
    k, v = (np.asarray(x, q.dtype) if x.dtype != q.dtype else x for x in (k, v))
    if scales is not None:
        k, v = (x * s[..., None] for x, s in zip((k, v), scales, strict=True))
    if table is not None:
        k, v = (np.moveaxis(x[table], 2, 1).reshape(len(table), x.shape[1], -1, x.shape[-1]) for x in (k, v))
    if enable_gqa:
        k, v = (np.repeat(x, q.shape[-3] // k.shape[-3], axis=-3) for x in (k, v))
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
    lengths, slopes, sinks = (
        None if x is None else np.asarray(x)[..., None, None] for x in (lengths, slopes, sinks)
    )
    row, column = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])
    if lengths is not None:
        row = row + lengths - q.shape[-2]
    if slopes is not None:
        scores = scores + slopes * (column - row)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    seen = np.ones((), bool) if lengths is None else column < lengths
    if causal:
        seen = seen & (column <= row)
    if window is not None:
        seen = seen & (column > row - window) & (causal | (column < row + window))
    scores = np.where(seen, scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    top = top if sinks is None else np.maximum(top, sinks)
    top = np.where(np.isneginf(top), 0, top)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True) + (0 if sinks is None else np.exp(sinks - top))
    return np.matmul(weights / np.where(total == 0, 1, total), v)


def _attention_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    def operands(batch, rows, columns, e, ev) -> tuple[Any, Any, Any]:
        shapes = ((*batch, rows, e), (*batch, columns, e), (*batch, columns, ev))
        q, k, v = (array(rng, dtype, s, -1, 1) for s in shapes)
        return q, k, v

    def sample(
        q, k, v, mask=None, lengths=None, slopes=None, sinks=None, table=None, scales=None, **settings
    ):
        return Sample((q, k, v, mask, lengths, slopes, sinks, table, scales), settings)

    yield sample(*operands((2, 3), 5, 7, 4, 6))
    yield sample(*operands((), 67, 67, 32, 32), causal=True)
    keep = rng.random((2, 1, 9, 70)) < 0.5
    keep[0, 0, 3] = False  # a row without anything to look at
    yield sample(*operands((2, 2), 9, 70, 16, 8), keep, scale=0.3)
    bias = array(rng, dtype, (5, 9), -1, 1)
    bias[2] = -np.inf
    if dtype.itemsize > 2:
        bias[4] = np.finfo(np.float32).min  # hides nothing: all are alike
    yield sample(*operands((3,), 5, 9, 8, 8), bias, causal=True)
    yield sample(*operands((1,), 1, 130, 64, 64))
    yield sample(*operands((2,), 3, 0, 4, 4))
    yield sample(*operands((2,), 20, 70, 16, 8))
    for rows, causal, of_mask in ((1, False, (2, 6, 1, 9)), (5, True, (1, 5, 9)), (7, False, (7, 9))):
        q, (_, k, v) = array(rng, dtype, (2, 6, rows, 8), -1, 1), operands((2, 3), rows, 9, 8, 5)
        keep = rng.random(of_mask) < 0.7
        yield sample(q, k, v, keep, causal=causal, enable_gqa=True)
    lengths = np.array([[9], [4]], np.int32)
    slopes, sinks = (array(rng, dtype, (6,), -1, 1) for _ in range(2))
    for rows, settings in (
        (1, {"window": 3}),
        (4, {"causal": True, "softcap": 0.5}),
        (9, {"causal": True, "window": 4}),
    ):
        q, (_, k, v) = array(rng, dtype, (2, 6, rows, 8), -1, 1), operands((2, 3), rows, 9, 8, 8)
        for given in (
            {"sinks": sinks},
            {"lengths": lengths},
            {"lengths": lengths.astype(np.int64), "slopes": slopes, "sinks": sinks},
            {"mask": rng.random((rows, 9)) < 0.7, "slopes": slopes},
        ):
            yield sample(q, k, v, **given, **settings, enable_gqa=True)
    table = np.array([[4, 1, 0], [2, 2, 3]], np.int32)
    for rows, own, given in (
        (1, 2, {"sinks": sinks[:4]}),
        (3, 1, {"slopes": slopes[:4], "window": 5}),
        (17, 2, {}),
    ):
        settings = {"lengths": np.array([[20], [9]], np.int32), "table": table, "causal": True, **given}
        q = array(rng, dtype, (2, 4, rows, 8), -1, 1)
        k, v = (array(rng, dtype, (5, own, 8, e), -1, 1) for e in (8, 16))
        yield sample(q, k, v, **settings, enable_gqa=True)
        codes = (rng.integers(-128, 128, x.shape).astype(np.int8) for x in (k, v))
        yield sample(
            q, *codes, **settings, scales=array(rng, dtype, (2, 5, own, 8), 0, 0.01), enable_gqa=True
        )


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


def _gradient(
    cotangent,
    q,
    k,
    v,
    mask,
    lengths,
    slopes,
    sinks,
    table,
    scales,
    causal,
    scale,
    enable_gqa,
    window,
    softcap,
    wanted,
):
    """By the weights, computed once more (Dao et al. 2022, appendix B.4); floats of 16 bits as f32."""
    if table is not None or scales is not None or k.dtype is not q.dtype:
        raise GradientError(
            "scaled_dot_product_attention: with a table, scales, or keys and values in a dtype of their own there is "
            f"no derivative, wanted: {', '.join(wanted)}"
        )
    numbers, look = (lengths, slopes, sinks), {"causal": bool(causal), "window": window, "softcap": softcap}
    if enable_gqa:
        split, numbers = _heads_apart(cotangent, q, k, v, mask), _numbers_apart(k.shape[-3], *numbers)
        found = _gradient(*split, *numbers, None, None, causal, scale, False, window, softcap, wanted)
        axes = (-4, -4, -4, -4, -2)  # where heads are two
        return tuple(g if g is None else _joined(g, axis) for g, axis in zip(found, axes, strict=True))
    of_sinks = (
        _gradient_of_sinks(cotangent, q, k, v, mask, numbers, scale, look) if "sinks" in wanted else None
    )
    plain = window is None and softcap is None and all(x is None for x in numbers)
    if attention_gradient.taken(cotangent, q, k, v, wanted, plain):
        by_parts, given = attention_gradient.attention_gradient, scale_of(scale, q.shape[-1])
        return (*by_parts(q, k, v, mask, *numbers, cotangent, scale=given, **look), None, of_sinks)
    if not plain:
        raise GradientError(
            "scaled_dot_product_attention: with lengths, slopes, sinks, window or softcap there is no derivative with "
            "respect to the mask, nor of the derivative, and k and v must have the batch of q, or one entry along its "
            f"last axis; wanted: {', '.join(wanted)}; got {q.shape}, {k.shape} and {v.shape}"
        )
    mask, batch = _counted(q, k, mask, causal), cotangent.shape[:-2]
    scale = scale_of(scale, q.shape[-1])
    shapes = [x.shape[:-2] for x in (k, v)]
    computed = q.dtype.computed
    cotangent, q, k, v = (x.astype(computed, copy=False) for x in (cotangent, q, k, v))
    probabilities = weights(matmul(q.expand((*batch, *q.shape[-2:])), k.mT), mask, scale=scale)
    grown = {"v": transposed_product(probabilities, cotangent, shapes[1])} if "v" in wanted else {}
    if wanted == ("v",):
        return None, None, grown["v"], None, None
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
    return tuple(map(grown.get, ("q", "k", "v", "mask", "sinks")))


def _heads_apart(cotangent, q, k, v, mask) -> tuple[Any, Any, Any, Any, Any]:
    """Operands whose heads are two axes, the second of which keys and values have not."""
    own = k.shape[-3]

    def split(x):
        heads = x.shape[-3]
        each = 1 if heads == 1 else heads // own
        return x.reshape((*x.shape[:-3], heads // each, each, *x.shape[-2:]))

    k, v = (x.reshape((*x.shape[:-2], 1, *x.shape[-2:])) for x in (k, v))
    return split(cotangent), split(q), k, v, mask if mask is None or mask.ndim < 3 else split(mask)


def _joined(x, axis):
    """Two axes as one."""
    shape, axis = x.shape, axis + x.ndim
    return x.reshape((*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _numbers_apart(own, *numbers) -> tuple[Any, Any, Any]:
    """Numbers of heads, likewise."""

    def split(x):
        each = 1 if x.shape[-1] == 1 else x.shape[-1] // own
        return x.reshape((*x.shape[:-1], x.shape[-1] // each, each))

    lengths, slopes, sinks = (x if x is None or not x.ndim else split(x) for x in numbers)
    return lengths, slopes, sinks


def _gradient_of_sinks(cotangent, q, k, v, mask, numbers, scale, look):
    """What a sink takes from each row's sum of weights, 1 less it, times what that row would have given."""
    attend = scaled_dot_product_attention
    value = attend(q, k, v, mask, *numbers, scale=scale, **look)
    ones = k.executor.full((*k.shape[:-1], 1), 1.0, k.dtype)
    rest = 1.0 - attend(q, k, ones, mask, *numbers, scale=scale, **look).astype(q.dtype.computed)
    of_rows = sum_(cotangent.astype(q.dtype.computed) * value.astype(q.dtype.computed), axis=-1)
    of_heads = sum_(of_rows * rest.reshape(rest.shape[:-1]), axis=-1)
    return -of_heads


@declared(Attention, reference=_attention_reference, samples=_attention_samples, dtypes=FLOATS, ulp=4, absolute=8.0,
          aten=("scaled_dot_product_attention",), gradient={("q", "k", "v", "mask", "sinks"): _gradient})  # fmt: skip
def scaled_dot_product_attention(
    q, k, v, mask=None, lengths=None, slopes=None, sinks=None, table=None, scales=None, *, causal=False, scale=None,
    enable_gqa=False, window=None, softcap=None,
):  # fmt: skip
    """softmax(q kᵀ scale + mask) v, for q (..., l, e), k (..., s, e), v (..., s, ev); scale 1 / sqrt(e) unless given.

    A bool mask says which scores count, a float one is added; it broadcasts to (..., l, s). `causal` keeps
    column <= row. Rows where nothing counts give zeros, as in torch. With `enable_gqa` neighbouring heads of q
    (..., heads, l, e) share one of k (..., own, s, e) and of v, which are not repeated for them.

    Numbers of heads broadcast to the batch axes, (batch, heads): of `lengths` keys alone count, and queries are the
    last of so many; `slopes` times how far a key is behind its query is added (ALiBi); `sinks` are scores that take
    part of a row's sum and have no value. `window` keeps the nearest keys, the own one among them: as many behind,
    and where it is not causal ahead. `softcap` bounds scores: softcap * tanh(score / softcap).

    Caches: k and v may be f16 or bf16, or i8 with `scales` (2, ...), of k's rows and of v's. With a `table` (batch,
    blocks of each) of integers k (blocks, own, block, e) and v (blocks, own, block, ev) are pools of blocks, of which
    a sequence has those that its row of the table names; what is behind its length is not looked at.
    Online softmax: Milakov and Gimelshein (2018), Dao et al. (2022).
    """
