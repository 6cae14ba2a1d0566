"""The kernels whose tiles are tuned, each with the calls to measure."""

from __future__ import annotations

import math
from collections.abc import Callable

from hologram import dtypes
from hologram.choices import Candidate, Problem
from hologram.dtypes import DType
from hologram.layout import Layout
from hologram.limits import Limits
from hologram.opset.tiles import product_tile
from hologram.opset.tiles.product import product_plan
from hologram.plan import Plan, Target
from hologram.records import frozen


@frozen
class Trial:
    """A call to measure: its operands, and its plan on a device."""

    inputs: tuple[Layout, ...]
    output: Layout
    plan: Callable[[Target], Plan]
    operations: int  # of arithmetic, in floating point


@frozen
class Tunable:
    """A kernel: its ways to run, by default the first that is given, the calls that stand for a problem, and those
    that are usual.
    """

    default: Callable[[Problem, Limits], Candidate]
    candidates: Callable[[Problem, Limits], tuple[Candidate, ...]]
    trial: Callable[[Problem], Trial]
    usual: tuple[Problem, ...]


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
    return tuple(Problem.of(product_tile.KERNEL, dtype, sizes, found) for found in lines)


def _halves(*sizes: tuple[int, int, int, int]) -> tuple[Problem, ...]:
    """Layers of models in 16 bits, where matrix units take them as they are."""
    kinds = (dtypes.f16, dtypes.bf16)
    return tuple(p for s in sizes for d in kinds for p in _products(s, PLAIN, LINEAR, dtype=d))


def _sizes(problem: Problem) -> tuple[int, int, int, int]:
    batch, m, k, n = problem.sizes
    return batch, m, k, n


PLAIN, LINEAR, CROSSED = (True, False), (True, True), (False, False)  # a @ b, a @ b.T, a.T @ b

TUNABLES = {
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
    )
}
