"""Operands of an attention as its tiles take them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from hologram.atlas.builder import Builder
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import f32
from hologram.machine.layout import Layout
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention.attended import MASK


def batch_of(layout: Layout) -> Layout:
    """The batch axes alone."""
    return Layout(layout.dtype, layout.shape[:-2] or (1,), layout.strides[:-2] or (0,), 0)


def additive(steps: Steps, mask: Layout) -> Place:
    """The mask as f32 to add: 0 where a bool one is true, else -infinity; as small as before broadcasting."""
    own = replace(mask, shape=tuple(n if s else 1 for n, s in zip(mask.shape, mask.strides, strict=True)))
    target = steps.place(f32, own.shape)
    address = Address.of(own)
    step = step_of(additive_program(address), (0, 1), numbers_of(("mask",), (own,), {}), own.shape)
    steps.add(step, (MASK, target.position))
    return Place(target.position, target.layout.expand(mask.shape))


@lru_cache(maxsize=64)
def additive_program(mask: Address) -> Program:
    b = Builder(f"atlas_attention_mask_{mask.dtype}", rank=len(mask.steps))
    at = [b.coordinate(axis) for axis in range(b.rank)]
    is_bool = mask.dtype.kind == "bool"
    value = Operand(b, "mask", mask, Access.READ, mask.dtype if is_bool else f32).at(*at)
    result = b.buffer("out", f32, Access.WRITE)
    chosen = select(value, b.constant(0.0, f32), -math.inf) if is_bool else value
    b.store(result, b.position(Opcode.LANE), chosen)
    return b.build()
