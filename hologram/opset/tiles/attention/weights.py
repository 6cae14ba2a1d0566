"""Scores of an attention as weights: masks, windows, lengths, biases and the softmax, as one program of rows."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import reduce_add, reduce_max, select
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import Number, i32
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention.attended import LENGTHS, MASK, SINKS, SLOPES, Attended
from hologram.opset.tiles.attention.blocks import Block

NAMES = {MASK: "mask", LENGTHS: "lengths", SLOPES: "slopes", SINKS: "sinks"}
_SETTINGS = {"scale", "softcap"}  # numbers of the scores' dtype; others are positions


def weigh(steps: Steps, scores: Place, found: Attended, block: Block) -> None:
    """The softmax of a block's scores in place."""
    shape, look = scores.layout.shape, found.look
    read = [] if found.mask is None else [block.of(Place(MASK, found.mask), rows=-2, columns=-1)]
    for position, layout in found.of_heads:
        own = block.of(Place(position, layout)).layout
        read.append(Place(position, own.unsqueeze(own.ndim).unsqueeze(own.ndim + 1).expand(shape)))
    told: dict[str, Number] = {"scale": look.scale}
    if look.softcap:
        told["softcap"] = look.softcap
    if look.causal or look.window is not None or found.slopes is not None:
        told["first"] = block.rows[0] - (found.scores[-2] if found.lengths is not None else 0)
    if look.window is not None:
        told["window"] = look.window
    if not found.is_plain:
        told["begin"] = block.columns[0]
    places = [scores, *read, scores]
    layouts = [p.layout for p in places]
    numbers = numbers_of(("scores", *(NAMES[p.position] for p in read), "out"), layouts, told)
    addresses = tuple((NAMES[p.position], Address.of(p.layout)) for p in read)
    program = weights_program(Address.of(scores.layout), addresses, look.causal, tuple(told))
    steps.add(step_of(program, range(len(places)), numbers, shape), [p.position for p in places])


@lru_cache(maxsize=256)
def weights_program(
    scores: Address, read: tuple[tuple[str, Address], ...], causal: bool, told: tuple[str, ...]
) -> Program:
    """Scores to weights, in place, along the last axis; rows of which nothing counts give zeros, as in torch."""
    rank, dtype = len(scores.steps), scores.dtype
    b = Builder(f"atlas_attention_weights_{dtype}", rank=rank, reduced=1)
    at = [b.coordinate(axis) for axis in range(rank)]
    value = Operand(b, "scores", scores, Access.READ, dtype).at(*at)
    number: dict[str, Any] = {n: b.scalar(n, dtype if n in _SETTINGS else i32) for n in told}
    given = {}
    for name, address in read:
        kept_as = address.dtype.kind == "bool" and address.dtype
        computed = kept_as or (i32 if name == "lengths" else dtype)
        given[name] = Operand(b, name, address, Access.READ, computed).at(*at)
    value = value * number["scale"]
    if "softcap" in number:
        value = capped(value, number["softcap"])
    row, column = at[-2].to(i32), at[-1].to(i32)
    if "begin" in number:
        column = column + number["begin"]
    if "first" in number:
        row = row + number["first"] + given.get("lengths", 0)
    if "slopes" in given:
        value = value + given["slopes"] * (column - row).to(dtype)
    if "mask" in given:
        value = masked(value, given["mask"])
    if "lengths" in given:
        value = kept(column < given["lengths"], value)
    if causal:
        value = kept(column <= row, value)
    if "window" in number:
        value = kept(column > row - number["window"], value)
        if not causal:
            value = kept(column < row + number["window"], value)
    Operand(b, "out", scores, Access.WRITE, dtype).put(softmax_or_zero(value, given.get("sinks")), *at)
    return b.build()


def capped(value: Value, most: Value) -> Value:
    """A score below a bound."""
    return atlas.tanh(value / most) * most


def kept(condition: Value, value: Value) -> Value:
    """A score that counts where the condition holds."""
    # Not -infinity, with which LLVM makes the row's maximum one that it does not vectorise.
    return select(condition, value, float(np.finfo(value.dtype.numpy).min))


def masked(value: Value, mask: Value) -> Value:
    """A score under a mask: kept where a bool one is true; a float one is added, and hides it by -infinity alone."""
    if mask.dtype.kind == "bool":
        return kept(mask, value)
    # Above what hidden scores are, whatever it is added to.
    least = float(np.finfo(value.dtype.numpy).min) / 4
    return kept(mask != -math.inf, value + select(mask < least, least, mask))


def softmax_or_zero(value: Value, sink: Value | None = None) -> Value:
    """The softmax of a row, of whose sum a sink is part; 0 where nothing counts."""
    info = np.finfo(value.dtype.numpy)
    top = reduce_max(value)
    if sink is not None:
        top = atlas.maximum(top, sink)
    shifted = value - select(top <= float(info.min), 0.0, top)
    # Powers that are 0 are slow to compute, as all whose results are denormal on the way.
    nothing = shifted < math.log(info.smallest_subnormal) - 1.0
    weight = select(nothing, 0.0, atlas.exp(select(nothing, 0.0, shifted)))
    total = reduce_add(weight)
    if sink is not None:
        total = total + atlas.exp(sink - select(top <= float(info.min), 0.0, top))
    return weight / select(total == 0.0, 1.0, total)
