"""The kernels whose tiles are tuned, each with the calls to measure."""

from __future__ import annotations

import math
from collections.abc import Callable

from hologram.compiler.scheduling import ways
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.machine.choices import Candidate, Problem
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target
from hologram.opset.neural.norm import softmax
from hologram.opset.reduce import sum_
from hologram.opset.tiles import convolution, product_tile
from hologram.opset.tiles.attention import plan as attention
from hologram.opset.tiles.attention.attended import MASK, RESULT, Attended, Look
from hologram.opset.tiles.product import product_plan


@frozen
class Trial:
    """A call to measure: its operands, and its plan on a device."""

    inputs: tuple[Layout, ...]
    output: Layout
    plan: Callable[[Target], Plan]
    operations: int  # of arithmetic, in floating point


@frozen
class Tunable:
    """A kernel: its way to run by default, all of them, the call that stands for a problem, the usual problems, and how
    one reads.
    """

    default: Callable[[Problem, Limits], Candidate]
    candidates: Callable[[Problem, Limits], tuple[Candidate, ...]]
    trial: Callable[[Problem], Trial]
    usual: tuple[Problem, ...]
    text: Callable[[Problem], str]


def _product_trial(problem: Problem) -> Trial:
    batch, m, k, n = problem.sizes
    a_along, b_along = problem.lines
    a = Layout.contiguous(problem.dtype, (batch, m, k) if a_along else (batch, k, m))
    b = Layout.contiguous(problem.dtype, (batch, n, k) if b_along else (batch, k, n))
    a = a if a_along else a.permute((0, 2, 1))
    b = b.permute((0, 2, 1)) if b_along else b
    out = Layout.contiguous(problem.dtype, (batch, m, n))
    return Trial(
        (a, b),
        out,
        lambda target: product_plan(a, b, out, problem.dtype, target),
        2 * math.prod(problem.sizes),
    )


def _products(
    sizes: tuple[int, int, int, int], *lines: tuple[bool, bool], dtype: DType = dtypes.f32
) -> tuple[Problem, ...]:
    return tuple(Problem(product_tile.KERNEL, dtype, sizes, each) for each in lines)


def _halves(*sizes: tuple[int, int, int, int]) -> tuple[Problem, ...]:
    """Layers of models in 16 bits, where matrix units take them as they are."""
    kinds = (dtypes.f16, dtypes.bf16)
    return tuple(p for s in sizes for d in kinds for p in _products(s, PLAIN, LINEAR, dtype=d))


def _sizes(problem: Problem) -> tuple[int, int, int, int]:
    batch, m, k, n = problem.sizes
    return batch, m, k, n


PLAIN, LINEAR, CROSSED = (True, False), (True, True), (False, False)  # a @ b, a @ b.T, a.T @ b


def _product_text(problem: Problem) -> str:
    batch, m, k, n = problem.sizes
    a, b = (f"{k} x {m}.T", f"{m} x {k}")[problem.lines[0]], (f"{k} x {n}", f"{n} x {k}.T")[problem.lines[1]]
    return f"{f'{batch} of ' if batch > 1 else ''}{a} @ {b} {problem.dtype}"


def _attention_trial(problem: Problem) -> Trial:
    batch, rows, keys, head = problem.sizes
    causal, masked = problem.lines
    q, k, v = (Layout.contiguous(problem.dtype, (batch, n, head)) for n in (rows, keys, keys))
    mask = Layout.contiguous(dtypes.f32, (batch, rows, keys) if masked else (1,))
    attended = Attended(q, k, v, mask if masked else None, Look(causal, head**-0.5))
    return Trial(
        (q, k, v, mask, *(Layout.contiguous(dtypes.f32, (1,)) for _ in range(RESULT - MASK - 1))),
        q,
        lambda target: attention.attention_plan(attended, q, target),
        4 * math.prod(problem.sizes) // (2 if causal else 1),
    )


def _attention_text(problem: Problem) -> str:
    batch, rows, keys, head = problem.sizes
    also = "".join(f", {name}" for name, on in zip(("causal", "masked"), problem.lines, strict=True) if on)
    return f"{batch} heads of {rows} queries, {keys} keys, {head} elements{also} {problem.dtype}"


def _convolution_trial(problem: Problem) -> Trial:
    """Images of 16 x 16 places and fewer, with windows of 3 x 3 where the problem's are larger than 1 x 1."""
    groups, channels, taps, places = problem.sizes
    window = 1 if problem.lines[0] or taps < 9 else 3
    side = min(16, math.isqrt(places))
    depth = max(taps // window**2, 1)
    x = Layout.contiguous(problem.dtype, (max(places // side**2, 1), groups * depth, side, side))
    weight = Layout.contiguous(problem.dtype, (groups * channels, depth, window, window))
    out = Layout.contiguous(problem.dtype, (x.shape[0], groups * channels, side, side))
    attributes = {"stride": 1, "padding": window // 2, "dilation": 1, "groups": groups}

    def plan(target: Target) -> Plan:
        product = convolution.product_plan(x, weight, out, attributes, target)
        assert product is not None  # the columns' way is always there
        return product

    return Trial((x, weight), out, plan, 2 * out.size * depth * window**2)


def _convolution_text(problem: Problem) -> str:
    groups, channels, taps, places = problem.sizes
    grouped = f"{groups} groups of " if groups > 1 else ""
    return f"{grouped}{channels} channels of {taps} taps at {places} places {problem.dtype}"


def _rows_trial(problem: Problem) -> Trial:
    """A sum, or a softmax where rows are swept more than once."""
    rows, length, sweeps = problem.sizes
    (along,) = problem.lines
    x = Layout.contiguous(problem.dtype, (rows, length) if along else (length, rows))
    x = x if along else x.permute((1, 0))
    operation, attributes = (sum_, {"axis": (1,)}) if sweeps == 1 else (softmax, {"dim": -1})
    bound, given = operation.bind((x,), attributes)
    (out,) = operation.infer(bound, given)

    def plan(target: Target) -> Plan:
        return ways.measured(operation.plan(bound, (out,), given, target), target.limits, target.choices)

    return Trial((x,), out, plan, rows * length * sweeps)


def _rows_text(problem: Problem) -> str:
    rows, length, sweeps = problem.sizes
    (along,) = problem.lines
    often = f", swept {sweeps} times" if sweeps > 1 else ""
    return f"{rows} rows of {length}{'' if along else ' across memory'}{often} {problem.dtype}"


def _rows(*sizes: tuple[int, int, int], along: bool = True) -> tuple[Problem, ...]:
    return tuple(Problem(ways.KERNEL, dtypes.f32, s, (along,)) for s in sizes)


def _attentions(*sizes: tuple[int, int, int, int], dtype: DType, causal: bool) -> tuple[Problem, ...]:
    return tuple(Problem(attention.KERNEL, dtype, s, (causal, False)) for s in sizes)


TUNABLES = {
    attention.KERNEL: Tunable(
        lambda problem, limits: attention.ways(problem, limits)[0],
        attention.ways,
        _attention_trial,
        (
            *_attentions((8, 256, 256, 64), (16, 1024, 1024, 64), dtype=dtypes.f32, causal=True),
            *_attentions((8, 256, 256, 64), dtype=dtypes.f32, causal=False),
            *_attentions((16, 4096, 4096, 128), (16, 1024, 1024, 64), dtype=dtypes.bf16, causal=True),
        ),
        _attention_text,
    ),
    convolution.KERNEL: Tunable(
        lambda problem, limits: convolution.ways(problem, limits)[0],
        convolution.ways,
        _convolution_trial,
        (
            Problem(convolution.KERNEL, dtypes.f32, (1, 32, 288, 4096), (False,)),
            Problem(convolution.KERNEL, dtypes.f32, (1, 128, 1152, 4096), (False,)),
            Problem(convolution.KERNEL, dtypes.f32, (1, 256, 256, 4096), (True,)),
        ),
        _convolution_text,
    ),
    ways.KERNEL: Tunable(
        lambda problem, limits: ways.BY_LENGTH,
        ways.ways,
        _rows_trial,
        (
            *_rows((1 << 20, 64, 1), (1 << 16, 1024, 1), (4096, 1 << 14, 1)),
            *_rows((1 << 20, 64, 4), (1 << 16, 1024, 4), (4096, 1 << 14, 4)),
            *_rows((1 << 14, 256, 1), (256, 1 << 14, 1), along=False),
        ),
        _rows_text,
    ),
    product_tile.KERNEL: Tunable(
        lambda problem, limits: product_tile.default(_sizes(problem), problem.dtype, limits),
        lambda problem, limits: tuple(product_tile.candidates(_sizes(problem), problem.dtype, limits)),
        _product_trial,
        (
            *_products((1, 128, 128, 128), PLAIN),
            *_products((1, 512, 512, 512), PLAIN, LINEAR, CROSSED),
            *_products((1, 1024, 1024, 1024), PLAIN, LINEAR),
            *_products((8, 256, 64, 256), LINEAR),
            *_products((8, 256, 256, 64), PLAIN),
            *_products((1, 256, 256, 1024), LINEAR),
            *_products((1, 256, 1024, 256), LINEAR),
            *_products((1, 16, 1024, 1024), LINEAR),
            *_products((1, 1, 1024, 1024), PLAIN),
            *_products((1, 64, 16384, 64), PLAIN),
            *_halves((1, 512, 512, 512), (1, 4096, 4096, 4096), (1, 16, 4096, 4096), (1, 64, 16384, 64)),
        ),
        _product_text,
    ),
}
