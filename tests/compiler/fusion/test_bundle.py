"""Launches that share out their lanes compute what each computes alone."""

from __future__ import annotations

import numpy as np

from hologram.atlas.builder import Builder
from hologram.atlas.evaluate import evaluate
from hologram.atlas.program import Access, Program
from hologram.compiler.fusion.bundle import bundled
from hologram.foundation import dtypes
from hologram.machine.plan import Step


def _writes() -> Program:
    """out[lane] = size + 10 start, two scalars that a bundle might name so itself."""
    b = Builder("writes", rank=1)
    out = b.buffer("out", dtypes.i64, Access.WRITE)
    value = b.scalar("size", dtypes.index) + b.scalar("start", dtypes.index) * 10
    b.store(out, b.coordinate(0), value.to(dtypes.i64))
    return b.build()


def test_numbers_of_the_programs_are_not_the_bundle_s() -> None:
    program = _writes()
    lanes, numbers = (4, 2, 3), ((7, 1), (8, 2), (9, 3))
    step = bundled([Step(program, (k,), numbers[k], (lanes[k],)) for k in range(3)])
    assert isinstance(step.kernel, Program)
    assert step.grid == (9,)
    outs = {b.name: np.full(n, -1, np.int64) for b, n in zip(step.kernel.buffers, lanes, strict=True)}
    names = [s.name for s in step.kernel.scalars]
    evaluate(step.kernel, outs, dict(zip(names, step.scalars, strict=True)), step.grid)
    assert [set(out.tolist()) for out in outs.values()] == [{17}, {28}, {39}]
