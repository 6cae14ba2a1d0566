"""The tensors that most tests of derivatives are about."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg

RNG = np.random.default_rng(5)


@pytest.fixture
def x(executor: hg.Executor) -> hg.Tensor:
    return executor.tensor(RNG.standard_normal((4, 6)).astype(np.float32))


@pytest.fixture
def w(executor: hg.Executor) -> hg.Tensor:
    return executor.tensor(RNG.standard_normal((6, 3)).astype(np.float32))
