"""Every way that attention and convolutions can go computes the same."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.machine.choices import Candidate, Problem
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target, Tile
from hologram.opset.tiles import convolution
from hologram.opset.tiles.attention import plan as attention
from hologram.opset.tiles.attention.attended import LENGTHS, RESULT, Attended, Look
from hologram.tuning.tunable import TUNABLES
from tests.backends import emulated
from tests.devices import limits

RNG = np.random.default_rng(11)
STRANGE = 123.0


def only(way: Candidate, _: Problem) -> Candidate:
    return way


def run(executor: hg.Executor, plan: Plan, arrays: list[np.ndarray], out: Layout) -> np.ndarray:
    result = executor.full(out.shape, STRANGE, dtype=out.dtype)
    operands = [*(executor.tensor(a) for a in arrays), result]
    executor.bound.call(plan, [t.buffer for t in operands])()
    return result.to_numpy().astype(np.float64)


def attended(
    executor: hg.Executor, dtype: DType, rows: int, keys: int, head: int, causal: bool
) -> list[Candidate]:
    """The ways there are; each must give what float64 gives, within the operation's own bound for the dtype."""
    q, k, v = (
        RNG.standard_normal((3, n, head)).astype(np.float32).astype(dtype.numpy) for n in (rows, keys, keys)
    )
    q_layout, k_layout, v_layout = (Layout.contiguous(dtype, a.shape) for a in (q, k, v))
    mask = Layout.contiguous(dtypes.f32, (rows, keys)).expand((3, rows, keys))
    more = RNG.standard_normal((rows, keys)).astype(np.float32)
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / math.sqrt(head) + more
    scores = np.where(np.tril(np.ones((rows, keys), bool)) | (not causal), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    found = Attended(q_layout, k_layout, v_layout, mask, Look(causal, head**-0.5))
    asked = attention.problem(found)
    ways = attention.ways(asked, executor.target.limits)
    for way in ways:
        target = Target(executor.target.limits, partial(only, way))
        plan = attention.attention_plan(found, q_layout, target)
        stems = [s.kernel.stem for s in plan.steps if isinstance(s.kernel, Tile)]
        assert (way.stem in stems) or way == attention.COMPOSED
        got = run(executor, plan, [q, k, v, more, *[np.zeros(1, np.float32)] * (RESULT - LENGTHS)], q_layout)
        np.testing.assert_allclose(got, wanted, atol=4e-6 if dtype is dtypes.f32 else 3e-2, err_msg=str(way))
    return list(ways)


def test_attention(adapter: hg.Executor) -> None:
    assert len(attended(adapter, dtypes.f32, 70, 70, 33, True)) > 1 or adapter.target.limits.own_products
    attended(adapter, dtypes.f16, 17, 130, 64, False)


def test_attention_by_matrix_units() -> None:
    cuda = pytest.importorskip("tests.backends.emulated.cuda", exc_type=ImportError)
    emulated.install()
    with hg.Executor(backend=cuda.NAME) as executor:
        stems = [way.stem for way in attended(executor, dtypes.f16, 70, 150, 64, False)]
        assert stems.count("attention_units") > 3
        assert {"attention", "composed"} < set(stems)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions(adapter: hg.Executor, groups: int) -> None:
    x = RNG.integers(-3, 4, (2, 6, 9, 8)).astype(np.float32)
    weight = RNG.integers(-3, 4, (10, 6 // groups, 3, 3)).astype(np.float32)
    attributes: dict[str, Any] = {"stride": 2, "padding": 1, "dilation": 1, "groups": groups}
    wanted = hg.conv2d(hg.asarray(x), hg.asarray(weight), **attributes).to_numpy()
    images, taps = (Layout.contiguous(dtypes.f32, a.shape) for a in (x, weight))
    out = Layout.contiguous(dtypes.f32, wanted.shape)
    asked = convolution.convolution_tile.problem(images, taps, out, groups)
    ways = convolution.ways(asked, adapter.target.limits)
    assert len(ways) > 1 or adapter.target.limits.own_products
    for way in ways:
        plan = convolution.product_plan(
            images, taps, out, attributes, Target(adapter.target.limits, partial(only, way))
        )
        assert plan is not None
        stems = [s.kernel.stem for s in plan.steps if isinstance(s.kernel, Tile)]
        assert (way.stem in stems) != (way == convolution.COLUMNS)
        np.testing.assert_array_equal(run(adapter, plan, [x, weight], out), wanted, err_msg=str(way))


def test_the_first_way_is_the_default_and_fits() -> None:
    gpu, weak, software = (
        limits(software=False),
        limits(software=False, shared_bytes=16 << 10, max_workgroup_threads=64),
        limits(software=True),
    )
    units = limits(
        software=False,
        matrix_dtypes=frozenset({dtypes.bf16}),
        matrix_attention=True,
        copies_ahead=True,
        subgroup=32,
        shared_bytes=48 << 10,
    )
    asked = Problem("attention", dtypes.f32, (8, 512, 512, 64), (True, False))
    assert attention.ways(asked, gpu)[0] == Candidate("attention", (("KEYS", 32),), (64, 1))
    assert all(w.threads[0] <= 64 and w.constant("KEYS") <= 32 for w in attention.ways(asked, weak)[:-1])
    assert attention.ways(asked, software)[0] == attention.COMPOSED
    halves = Problem("attention", dtypes.bf16, (8, 512, 512, 128), (True, False))
    tile = Candidate("attention_units", (("KEYS", 32), ("SUBGROUPS", 4)), (128, 1))
    assert attention.ways(halves, units)[0] == tile
    assert attention.ways(halves, replace(units, copies_ahead=False, shared_bytes=32 << 10))[0] == tile
    small, large = (Problem("conv2d", dtypes.f32, (1, m, 64, 1 << 14), (False,)) for m in (64, 128))
    assert [convolution.ways(p, gpu)[0].threads for p in (small, large)] == [(8, 8), (16, 16)]
    assert convolution.ways(small, software)[0] == convolution.COLUMNS


@pytest.mark.parametrize("kernel", TUNABLES)
def test_problems_read_well_and_have_trials(kernel: str) -> None:
    found = TUNABLES[kernel]
    for problem in found.usual:
        trial = found.trial(problem)
        assert trial.operations > 0
        assert str(problem.sizes[-1]) in found.text(problem)
        trial.plan(Target(limits(software=False), lambda _: None))
