"""The gradient of scaled dot-product attention in linear memory: by matrix units where there are, or by blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram.foundation.dtypes import FLOATS, DType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation, Sample
from hologram.opset.forms.samples import array
from hologram.opset.neural.attending import attended
from hologram.opset.tiles.attention import gradient_blocks, gradient_units
from hologram.opset.tiles.attention.blocks import is_large
from hologram.opset.tiles.attention.units import exact_dtypes


@frozen(eq=False, repr=False)
class AttentionGradient(Operation):
    """Three results, in the computing dtype: the cotangents of q, k and v.

    k and v have q's batch, or one entry along its last axis.
    """

    @property
    def results(self) -> int:
        return 3

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        return tuple(
            Layout.contiguous(i.dtype.computed, i.shape) for i in inputs[:3] if isinstance(i, Layout)
        )

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        q, k, v, *_, cotangent = inputs
        assert isinstance(q, Layout)
        assert isinstance(k, Layout)
        assert isinstance(v, Layout)
        assert isinstance(cotangent, Layout)
        batch, own = q.shape[:-2], k.shape[:-2]
        shared = batch[-1] // own[-1] if batch else 1
        found = attended(self.name, inputs[:-1], {**attributes, "enable_gqa": False})
        if found.is_plain and _has_units(q, v, {q.dtype, k.dtype, v.dtype}, target.limits):
            return gradient_units.gradient_plan(found, cotangent, shared, target.limits)
        return gradient_blocks.gradient_plan(found, cotangent, shared, target)


def _reference(
    q, k, v, mask=None, lengths=None, slopes=None, sinks=None, cotangent=None, causal=False, scale=1.0, window=None,
    softcap=None,
):  # fmt: skip
    raw = q @ np.swapaxes(k, -1, -2) * scale
    scores = raw if softcap is None else softcap * np.tanh(raw / softcap)
    lengths, slopes, sinks = (
        None if x is None else np.asarray(x)[..., None, None] for x in (lengths, slopes, sinks)
    )
    row, column = (
        np.arange(q.shape[-2])[:, None] + (0 if lengths is None else lengths - q.shape[-2]),
        np.arange(k.shape[-2]),
    )
    scores = scores if slopes is None else scores + slopes * (column - row)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    seen = np.ones((), bool) if lengths is None else column < lengths
    seen = seen & (column <= row) if causal else seen
    if window is not None:
        seen = seen & (column > row - window) & (causal | (column < row + window))
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    top = top if sinks is None else np.maximum(top, sinks)
    top = np.where(np.isneginf(top), 0, top)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True) + (0 if sinks is None else np.exp(sinks - top))
    weights /= np.where(total == 0, 1, total)
    of_weights = cotangent @ np.swapaxes(v, -1, -2)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True)) * scale
    of_scores = of_scores if softcap is None else of_scores * (1 - np.tanh(raw / softcap) ** 2)
    gradients = (of_scores @ k, np.swapaxes(of_scores, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ cotangent)
    grouped = k.shape[:-2] != q.shape[:-2]
    return tuple(x.sum(-3, keepdims=True) if grouped and n else x for n, x in enumerate(gradients))


def _samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    shapes = ((2, 3, 37, 24), (2, 1, 41, 24), (2, 1, 41, 16))
    q, k, v = (array(rng, dtype, shape, -1, 1) for shape in shapes)
    cotangent = array(rng, dtype, (2, 3, 37, 16), -1, 1)
    yield Sample((q, k, v, None, None, None, None, cotangent), {"causal": True, "scale": 0.3})
    slopes, sinks = (array(rng, dtype, (3,), -1, 1) for _ in range(2))
    lengths = np.array([[41], [12]], np.int32)
    settings = {"causal": True, "scale": 0.3, "window": 7, "softcap": 0.5}
    yield Sample((q, k, v, None, None, None, sinks, cotangent), settings)
    yield Sample((q, k, v, None, lengths, slopes, None, cotangent), {**settings, "causal": False})


def _attention_gradient(
    q, k, v, mask=None, lengths=None, slopes=None, sinks=None, cotangent=None, *, causal=False, scale=1.0, window=None,
    softcap=None,
):  # fmt: skip
    """The cotangents of q, k and v; see scaled_dot_product_attention.

    Dao (2023), FlashAttention-2, algorithm 2: weights are computed anew, and never all of them are kept.
    """


# Not an operation of its own: what a rule of attention's asks for.
attention_gradient = AttentionGradient(
    name="attention_gradient", function=_attention_gradient, reference=_reference, samples=_samples, dtypes=FLOATS,
    gradient={},
)  # fmt: skip


def _has_units(q: Any, v: Any, kinds: set[DType], limits: Limits) -> bool:
    """Whether the device's matrix units take operands of such dtypes, of which q and v are the first and the last."""
    batch = math.prod(q.shape[:-2])  # along one axis of the grid, where they collapse
    fits = gradient_units.head_of(q.shape[-1], v.shape[-1]) and batch <= limits.max_workgroups
    return bool(limits.copies_ahead and kinds <= exact_dtypes(limits) and fits)


def taken(cotangent: Any, q: Any, k: Any, v: Any, wanted: tuple[str, ...], plain: bool) -> bool:
    """Whether the operation serves tensors and is worth it, and nobody follows the derivative of what it gives."""
    batch, own = cotangent.shape[:-2], k.shape[:-2]
    alike = q.shape[:-2] == batch and own == v.shape[:-2] and len(own) == len(batch)
    grouped = alike and own[:-1] == batch[:-1] and own[-1:] in (batch[-1:], (1,) * len(batch[-1:]))
    limits = q.executor.target.limits
    units = _has_units(q, v, {x.dtype for x in (cotangent, q, k, v)}, limits)
    large = is_large((*batch, q.shape[-2], k.shape[-2]), q.dtype.computed, limits)
    some = math.prod((*cotangent.shape, *k.shape)) > 0
    return bool(
        grouped
        and (units or large or not plain)
        and some
        and "mask" not in wanted
        and not q.executor.differentiated
    )
