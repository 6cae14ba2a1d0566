"""The kernel that measures the peak computes what it says."""

from __future__ import annotations

import numpy as np

import hologram as hg
from bench.suites import roofline


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
