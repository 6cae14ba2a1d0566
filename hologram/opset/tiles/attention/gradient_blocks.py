"""The gradient of attention block by block, on every device: no memory holds all scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from hologram.atlas.builder import Builder
from hologram.atlas.functions import reduce_add, tanh
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import Number
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention.attended import BEHIND, Attended, K, Q, V
from hologram.opset.tiles.attention.blocks import blocks
from hologram.opset.tiles.attention.plan import multiply
from hologram.opset.tiles.attention.weights import weigh

COTANGENT, DQ, DK, DV = range(BEHIND, BEHIND + 4)  # the operands behind those of an attention


def gradient_plan(found: Attended, cotangent_layout: Layout, shared: int, target: Target) -> Plan:
    """dq, dk and dv, contiguous, in the computing dtype; of heads that share a key, dk and dv are sums.

    Weights are computed anew, for whole rows at a time; a block's parts of dk and dv are added to what was found.
    """
    steps = Steps(DV + 1)
    computed, look = found.dtype.computed, found.look
    given = ((Q, found.q), (K, found.k), (V, found.v), (COTANGENT, cotangent_layout))
    q, k, v, cotangent = (
        place if place.layout.dtype is computed else steps.converted(place, computed)
        for place in (Place(*pair) for pair in given)
    )
    if shared > 1:  # rows of heads that share keys are rows of one product
        q, cotangent = (steps.gathered(place) for place in (q, cotangent))
    parts = list(blocks(found, computed, target.limits))
    scores = max(math.prod(part.shape) for part in parts)
    rows = max(math.prod(part.shape[:-2]) * part.columns[1] for part in parts)
    weights, slopes = steps.place(computed, (scores,)), steps.place(computed, (scores,))
    raw = steps.place(computed, (scores,)) if look.softcap else weights
    grown = steps.place(computed, (rows * max(k.layout.shape[-1], v.layout.shape[-1]),))
    dq = Place(DQ, Layout.contiguous(computed, q.layout.shape))
    dk, dv = _sums(steps, DK, k.layout, shared), _sums(steps, DV, v.layout, shared)

    def product(a: Place, b: Place, out: Place) -> None:
        multiply(steps, a, b, out, target)

    def add(a: Place, b: Place, out: Place) -> None:
        """Adds aᵀ b; where heads share what is added to, the sum over their rows is one product's."""
        if shared > 1 and a.layout.ndim > 2:
            a, b, out = _joined(a), _joined(b), Place(out.position, out.layout.select(-3, 0))
        part = Place(grown.position, Layout.contiguous(computed, out.layout.shape))
        product(_turned(a), b, part)
        _run(steps, added_program, (out, part, out), out.layout.shape)

    for part in parts:
        w, s, r = (
            Place(place.position, Layout.contiguous(computed, part.shape)) for place in (weights, slopes, raw)
        )
        of_q, of_cotangent = part.of(q, rows=-2), part.of(cotangent, rows=-2)
        of_k, of_v = part.of(k, columns=-2), part.of(v, columns=-2)
        if not w.layout.size:  # rows that look at nothing
            part_of_dq = part.of(dq, rows=-2)
            _run(steps, zeros_program, (part_of_dq,), part_of_dq.layout.shape)
            continue
        product(of_q, _turned(of_k), w)
        if look.softcap:
            steps.copy(w, r)
        weigh(steps, w, found, part)
        add(w, of_cotangent, part.of(dv, columns=-2))
        product(of_cotangent, _turned(of_v), s)
        _run(steps, slopes_program, (w, s, s), part.shape, {"scale": look.scale})
        if look.softcap:
            _run(steps, flattened_program, (s, r, s), part.shape, {"scale": look.scale / look.softcap})
        product(s, of_k, part.of(dq, rows=-2))
        add(s, of_q, part.of(dk, columns=-2))
    return steps.plan()


def _joined(place: Place) -> Place:
    """Rows of the entries along the last batch axis, as rows of one."""
    *batch, entries, rows, columns = place.layout.shape
    layout = place.layout.reshape((*batch, entries * rows, columns))
    assert layout is not None  # a block is of whole heads, or of one
    return Place(place.position, layout)


def _sums(steps: Steps, position: int, operand: Layout, shared: int) -> Place:
    """A result that is added to, zeros at first, as every head sees it."""
    *batch, rows, columns = operand.shape
    own = (*batch[:-1], batch[-1] // shared) if batch else ()
    layout = Layout.contiguous(operand.dtype, (*own, rows, columns))
    _run(steps, zeros_program, (Place(position, layout),), layout.shape)
    return Place(position, layout.expand((*batch, rows, columns)))


def _turned(place: Place) -> Place:
    ndim = place.layout.ndim
    return Place(place.position, place.layout.permute((*range(ndim - 2), ndim - 1, ndim - 2)))


NAMES = {1: ("out",), 3: ("x", "y", "out")}


def _run(
    steps: Steps,
    write: object,
    places: Sequence[Place],
    shape: Sequence[int],
    named: Mapping[str, Number] | None = None,
) -> None:
    """A step of the program that `write` gives for the places' addresses."""
    layouts = [place.layout for place in places]
    program: Program = write(*map(Address.of, layouts))  # type: ignore[operator]
    numbers = numbers_of(NAMES[len(places)], layouts, named or {})
    steps.add(step_of(program, range(len(places)), numbers, shape), [place.position for place in places])


@lru_cache(maxsize=64)
def zeros_program(out: Address) -> Program:
    b = Builder(f"atlas_attention_zeros_{out.dtype}", rank=len(out.steps))
    at = [b.coordinate(axis) for axis in range(b.rank)]
    Operand(b, "out", out, Access.WRITE, out.dtype).put(b.constant(0.0, out.dtype), *at)
    return b.build()


@lru_cache(maxsize=64)
def added_program(x: Address, y: Address, out: Address) -> Program:
    """out = x + y; out may be x."""
    b = Builder(f"atlas_attention_added_{out.dtype}", rank=len(out.steps))
    at = [b.coordinate(axis) for axis in range(b.rank)]
    value = Operand(b, "x", x, Access.READ, x.dtype).at(*at) + Operand(b, "y", y, Access.READ, y.dtype).at(
        *at
    )
    Operand(b, "out", out, Access.WRITE, out.dtype).put(value, *at)
    return b.build()


@lru_cache(maxsize=64)
def slopes_program(weights: Address, slopes: Address, out: Address) -> Program:
    """out = scale * weights * (slopes - sum of weights * slopes); out may be slopes."""
    b = Builder(f"atlas_attention_slopes_{out.dtype}", rank=len(out.steps), reduced=1)
    at = [b.coordinate(axis) for axis in range(b.rank)]
    w = Operand(b, "x", weights, Access.READ, weights.dtype).at(*at)
    s = Operand(b, "y", slopes, Access.READ, slopes.dtype).at(*at)
    value = w * (s - reduce_add(w * s)) * b.scalar("scale", out.dtype)
    Operand(b, "out", out, Access.WRITE, out.dtype).put(value, *at)
    return b.build()


@lru_cache(maxsize=64)
def flattened_program(slopes: Address, raw: Address, out: Address) -> Program:
    """out = slopes * (1 - tanh(raw * scale)^2), the slope of a soft cap; out may be slopes."""
    b = Builder(f"atlas_attention_flattened_{out.dtype}", rank=len(out.steps))
    at = [b.coordinate(axis) for axis in range(b.rank)]
    s = Operand(b, "x", slopes, Access.READ, slopes.dtype).at(*at)
    t = tanh(Operand(b, "y", raw, Access.READ, raw.dtype).at(*at) * b.scalar("scale", out.dtype))
    Operand(b, "out", out, Access.WRITE, out.dtype).put(s * (1.0 - t * t), *at)
    return b.build()
