"""The kernel that measures the peak computes what it says."""

from __future__ import annotations

import numpy as np

import hologram as hg
from bench.suites import roofline
from hologram.benchmark.suites import Goal
from hologram.benchmark.timing import QUICK


def test_the_peak_kernel_ends_where_its_chains_meet(executor: hg.Executor) -> None:
    x, y = executor.allocate(1000), executor.allocate(1000)
    x.from_numpy(np.random.default_rng(0).standard_normal(1000, dtype=np.float32))
    y.fill(float("nan"))
    executor.launch(roofline.peak(), (x, y), (0.5, 1.0), (1000,))
    # The fixed point of x / 2 + 1 is 2, in every chain.
    np.testing.assert_allclose(y.to_numpy(), 2.0 * roofline.CHAINS, rtol=1e-6)
    executor.launch(roofline.peak(), (x, y), (1.0, 0.25), (1000,))
    started = np.sum([x.to_numpy() + np.float32(k) for k in range(roofline.CHAINS)], axis=0)
    np.testing.assert_allclose(y.to_numpy(), started + roofline.CHAINS * roofline.STEPS * 0.25, rtol=1e-4)


def test_operations_beside_a_copy_are_right_and_timed(executor: hg.Executor) -> None:
    found = list(roofline.bandwidth(executor, 1 << 17, Goal(), QUICK))
    assert [r.row for r in found] == [f"{name} beside a copy" for name in roofline.BOUND]
    assert all(r.ours_us and r.peers_us["copy"] and not r.missing for r in found), found
