"""Kernels that differ in numbers alone are one, which is told them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.functions import power
from hologram.atlas.program import Access, Program
from hologram.compiler.fusion.repeated import LEAST, shared
from hologram.foundation.dtypes import DType, f32, i32
from hologram.machine.plan import Step


def _steps(make: Callable[[Builder, float], Program], numbers: list[float]) -> list[Step]:
    return [Step(make(Builder(f"atlas_step_{k}"), x), (0, 1), (), (8,)) for k, x in enumerate(numbers)]


def _scaled(b: Builder, number: float, dtype: DType = f32) -> Program:
    i = b.coordinate(0)
    x, out = b.buffer("number0", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    b.store(out, i, b.load(x, i) * number + (3 if dtype is i32 else 3.0))
    return b.build()


def _raised(b: Builder, number: float) -> Program:
    i = b.coordinate(0)
    x, out = b.buffer("x", f32, Access.READ), b.buffer("out", f32, Access.WRITE)
    b.store(out, i, power(b.load(x, i), b.constant(number, f32)))
    return b.build()


def test_numbers_that_differ_become_scalars() -> None:
    numbers = [0.5, -0.0, 0.0, 7.0, 0.5]
    found = shared(_steps(_scaled, numbers))
    assert len({step.kernel for step in found}) == 1
    assert [repr(step.scalars) for step in found] == [repr((x,)) for x in numbers]


@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (_scaled, [0.5, 1.5, 2.5]),
        (_raised, [1.25, 2.25, 3.25, 4.25]),
        (_scaled, [np.inf, -np.inf, np.nan, 2.0]),
        (lambda b, x: _scaled(b, x, i32), [2, 3, 4, 5]),
    ],
    ids=["few", "exponents", "no numbers", "integers"],
)
def test_what_stays(make: Callable[[Builder, float], Program], numbers: list[float]) -> None:
    assert len(numbers) == LEAST or make is _scaled
    steps = _steps(make, numbers)
    assert shared(steps) == tuple(steps)


def test_an_unrolled_loop_has_few_kernels(executor: hg.Executor) -> None:
    def turned(x, steps=40):
        for k in range(steps):
            x = hg.concat([x[1:], x[:1]]) * 0.5 + k / 8
        return x

    values = np.random.default_rng(1).random((6, 5)).astype(np.float32)
    want = values
    for k in range(40):
        want = np.concatenate([want[1:], want[:1]]) * np.float32(0.5) + np.float32(k / 8)
    compiled = hg.jit(turned)
    x = executor.tensor(values)
    np.testing.assert_allclose(compiled(x).to_numpy(), want, rtol=1e-6)
    with executor.profile() as profile:
        np.testing.assert_allclose(compiled(x).to_numpy(), want, rtol=1e-6)
    assert len({kernel.name for kernel in profile.kernels}) < 20
