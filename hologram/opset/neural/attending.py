"""The operands and settings of an attention, checked, broadcast, and with heads that share keys apart."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.machine.axes import broadcast
from hologram.machine.layout import Layout
from hologram.opset.forms.operation import Attributes, Inputs
from hologram.opset.tiles.attention.attended import BEHIND, Attended, Look, Pages

FARTHEST = (1 << 31) - 1  # positions are i32


def attended(who: str, inputs: Inputs, attributes: Attributes) -> Attended:
    """What the operands q, k, v, mask, lengths, slopes and sinks mean together, and of caches table and scales.

    Raises:
        ShapeError, UnsupportedDType, TypeError, ValueError: they mean nothing.
    """
    q, k, v, mask, *of_heads = inputs[:BEHIND]
    if not all(isinstance(i, Layout) and i.ndim >= 2 for i in (q, k, v)):
        raise ShapeError(f"{who}: q, k and v must have at least two axes")
    assert isinstance(q, Layout)
    assert isinstance(k, Layout)
    assert isinstance(v, Layout)
    table, scales = (None, None) if len(inputs) == BEHIND else inputs[BEHIND:]
    k, v, scales, pages = _cached(who, q, k, v, table, scales)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"{who}: q (..., l, e), k (..., s, e) and v (..., s, ev) are needed, "
            f"got {q.shape}, {k.shape} and {v.shape}"
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
        scales = None if scales is None else scales.unsqueeze(scales.ndim - 1)
        pages = None if pages is None else replace(pages, table=pages.table.unsqueeze(2))
    batches = [i.shape[:-2] for i in (q, k, v, mask) if i is not None]
    batch = broadcast([*batches, *(i.shape for i in more if i is not None)], who)
    q, k, v = (i.expand((*batch, *i.shape[-2:])) for i in (q, k, v))
    mask = None if mask is None else mask.expand((*batch, q.shape[-2], k.shape[-2]))
    lengths, slopes, sinks = (None if i is None else i.expand(batch) for i in more)
    if pages is not None:
        pages = replace(pages, table=pages.table.expand((*batch, pages.table.shape[-1])))
    if scales is not None:
        for _ in range(len(batch) + 2 - scales.ndim):
            scales = scales.unsqueeze(1)
        scales = scales.expand((2, *batch, k.shape[-2]))
    look = _look(who, attributes, q.shape[-1])
    return Attended(q, k, v, mask, look, lengths, slopes, sinks, own, pages, scales)


def _cached(
    who: str, q: Layout, k: Layout, v: Layout, table: Any, scales: Any
) -> tuple[Layout, Layout, Layout | None, Pages | None]:
    """Keys, values and their scales by batch, head and position, and where the blocks of these lie."""
    table, scales = _tensor(who, "table", table, ("int", "uint")), _tensor(who, "scales", scales, ("float",))
    kinds = {"int"} if scales is not None else {"float"}
    taken = k.dtype.itemsize == 1 if scales is not None else q.dtype == k.dtype or k.dtype.itemsize == 2
    if k.dtype != v.dtype or not q.dtype.is_float or k.dtype.kind not in kinds or not taken:
        raise UnsupportedDType(
            f"{who}: q, k and v must have one float dtype, or k and v be f16, bf16, or i8 with scales, got "
            f"{q.dtype}, {k.dtype}, {v.dtype}{' and scales' if scales is not None else ''}"
        )
    if scales is not None and scales.shape != (2, *k.shape[:-1]):
        raise ShapeError(f"{who}: scales (2, *{k.shape[:-1]}) are needed, got {scales.shape}")
    if table is None:
        return k, v, scales, None
    if table.ndim != 2 or q.ndim != 4 or k.ndim != 4 or k.shape[:-1] != v.shape[:-1] or not k.shape[2]:
        raise ShapeError(
            f"{who}: with a table (batch, blocks of each), q (batch, heads, l, e), k (blocks, own, block, e) and "
            f"v (blocks, own, block, ev) are needed, got {table.shape}, {q.shape}, {k.shape} and {v.shape}"
        )
    batch, count = table.shape
    block, positions = k.shape[2], count * k.shape[2]

    def by_position(layout: Layout, blocks: int) -> Layout:
        shape, strides = list(layout.shape), list(layout.strides)
        shape[blocks], shape[blocks + 2], strides[blocks] = batch, positions, 0
        return replace(layout, shape=tuple(shape), strides=tuple(strides))

    between = [i.strides[0] for i in (k, v)] + ([] if scales is None else [scales.strides[1]])
    scales = None if scales is None else by_position(scales, 1)
    return (
        by_position(k, 0),
        by_position(v, 0),
        scales,
        Pages(table.unsqueeze(1), block, k.shape[0], *between),
    )


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
