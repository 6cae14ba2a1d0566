"""Scratch memory in arenas, and kernels that are compiled once wherever operands lie."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import f32
from hologram.machine.layout import Layout
from hologram.opset import OPERATIONS
from hologram.opset.forms.steps import Steps
from hologram.runtime.launches.replay import Replay


@pytest.mark.parametrize("n", [5000, 300])  # in buffers of their own, and in one that all lie in
def test_arenas_need_no_other_form_of_a_program(index: int, n: int) -> None:
    layout = Layout.contiguous(f32, (n,))
    with hg.Executor("webgpu", index) as executor:
        steps, source = Steps(2), 0
        for target in [*(steps.place(f32, (n,)).position for _ in range(8)), 1]:
            plan = OPERATIONS["add"].plan([layout, layout], [layout], {}, executor.target)
            steps.extend(plan, (source, source, target))
            source = target

        def generated() -> int:
            """Texts of kernels that were found on disk or written."""
            stats = executor.cache_stats()
            return stats.hits + stats.compiled

        before = generated()
        replay = Replay(executor, steps.plan(), (layout,), (layout,))
        (out,) = replay([executor.tensor(np.arange(n, dtype=np.float32))])
        np.testing.assert_array_equal(out.to_numpy(), np.arange(n) * 512)
        assert generated() - before == executor.preparation_stats()["compiled"] > 0  # one form of each kernel
