"""The operands and settings of an attention, checked, broadcast, and with heads that share keys apart."""

from __future__ import annotations

import math
from typing import Any

from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.machine.axes import broadcast
from hologram.machine.layout import Layout
from hologram.opset.forms.operation import Attributes, Inputs
from hologram.opset.tiles.attention.attended import Attended, Look

FARTHEST = (1 << 31) - 1  # positions are i32


def attended(who: str, inputs: Inputs, attributes: Attributes) -> Attended:
    """What the operands q, k, v, mask, lengths, slopes and sinks mean together.

    Raises:
        ShapeError, UnsupportedDType, TypeError, ValueError: they mean nothing.
    """
    q, k, v, mask, *of_heads = inputs
    if not all(isinstance(i, Layout) and i.ndim >= 2 for i in (q, k, v)):
        raise ShapeError(f"{who}: q, k and v must have at least two axes")
    assert isinstance(q, Layout)
    assert isinstance(k, Layout)
    assert isinstance(v, Layout)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"{who}: q (..., l, e), k (..., s, e) and v (..., s, ev) are needed, "
            f"got {q.shape}, {k.shape} and {v.shape}"
        )
    if len({q.dtype, k.dtype, v.dtype}) > 1 or not q.dtype.is_float:
        raise UnsupportedDType(
            f"{who}: q, k and v must have one float dtype, got {q.dtype}, {k.dtype}, {v.dtype}"
        )
    mask = _tensor(who, "mask", mask, ("bool", "float"))
    kinds = (("lengths", ("int", "uint")), ("slopes", ("float",)), ("sinks", ("float",)))
    more = [_tensor(who, name, i, kind) for (name, kind), i in zip(kinds, of_heads, strict=True)]
    own = _own_heads(who, q, k, v) if attributes["enable_gqa"] else 0
    if own:
        heads = [("mask", () if mask is None else mask.shape[-3:-2])]
        heads += [(name, () if i is None else i.shape[-1:]) for (name, _), i in zip(kinds, more, strict=True)]
        for name, of in heads:
            if of and of[0] not in (1, q.shape[-3]):
                raise ShapeError(f"{who}: the {name} must be of one head or of {q.shape[-3]}, got {of[0]}")
        q, mask = apart(q, own), None if mask is None else apart(mask, own)
        k, v = (i.unsqueeze(i.ndim - 2) for i in (k, v))
        more = [None if i is None else _numbers_apart(i, own) for i in more]
    batches = [i.shape[:-2] for i in (q, k, v, mask) if i is not None]
    batch = broadcast([*batches, *(i.shape for i in more if i is not None)], who)
    q, k, v = (i.expand((*batch, *i.shape[-2:])) for i in (q, k, v))
    mask = None if mask is None else mask.expand((*batch, q.shape[-2], k.shape[-2]))
    lengths, slopes, sinks = (None if i is None else i.expand(batch) for i in more)
    return Attended(q, k, v, mask, _look(who, attributes, q.shape[-1]), lengths, slopes, sinks, own)


def scale_of(scale: float | None, width: int) -> float:
    """The factor of scores of queries that have so many elements."""
    return 1.0 / math.sqrt(max(width, 1)) if scale is None else float(scale)


def _look(who: str, attributes: Attributes, width: int) -> Look:
    for name in ("scale", "softcap"):
        if not isinstance(attributes[name], (int, float, type(None))):
            raise TypeError(f"{who}: {name} must be a number, got {attributes[name]!r}")
    window, softcap = attributes["window"], attributes["softcap"]
    if window is not None and (not isinstance(window, int) or window < 1):
        raise ValueError(f"{who}: window must be a positive integer, got {window!r}")
    if softcap is not None and not softcap > 0:
        raise ValueError(f"{who}: softcap must be positive, got {softcap!r}")
    scale: Any = attributes["scale"]
    softcap = 0.0 if softcap is None or math.isinf(softcap) else float(softcap)
    window = None if window is None else min(window, FARTHEST)
    return Look(bool(attributes["causal"]), scale_of(scale, width), window, softcap)


def _tensor(who: str, name: str, given: Any, kinds: tuple[str, ...]) -> Layout | None:
    if given is None:
        return None
    if not isinstance(given, Layout):
        raise ShapeError(f"{who}: {name} must be a tensor, got {given}")
    if given.dtype.kind not in kinds:
        wanted = {"bool": "bool", "float": "a float", "int": "integers", "uint": ""}
        words = " or ".join(filter(None, (wanted[k] for k in kinds)))
        raise UnsupportedDType(f"{who}: the {name} must be {words}, got {given.dtype}")
    return given


def _own_heads(who: str, q: Layout, k: Layout, v: Layout) -> int:
    """How many heads have keys of their own, where several share them; 0 where that is broadcasting alone."""
    of_q, own, of_v = (i.shape[-3] if i.ndim > 2 else 0 for i in (q, k, v))
    if own != of_v or not own or of_q % own:
        raise ShapeError(
            f"{who}: enable_gqa needs q (..., heads, l, e), k (..., own, s, e) and v (..., own, s, ev) "
            f"of which `own` divides `heads`, got {q.shape}, {k.shape} and {v.shape}"
        )
    return own if 1 < own < of_q else 0


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


def _numbers_apart(layout: Layout, own: int) -> Layout:
    """The same of numbers, one a head."""
    if not layout.ndim:
        return layout
    split = apart(layout.unsqueeze(layout.ndim).unsqueeze(layout.ndim + 1), own)
    return Layout(layout.dtype, split.shape[:-2], split.strides[:-2], layout.offset)
