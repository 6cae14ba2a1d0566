"""Scratch memory in arenas, and kernels that are compiled once wherever operands lie."""

from __future__ import annotations

from typing import Any

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
        replay = Replay(executor, steps.plan(), (layout,), (layout,))
        (out,) = replay([executor.tensor(np.arange(n, dtype=np.float32))])
        np.testing.assert_array_equal(out.to_numpy(), np.arange(n) * 512)
        kernels: list[Any] = [
            executor.device.compile(placed.step.kernel) for placed in replay._structure.steps
        ]
        assert all(sum(bool(form._compiled) for form in kernel._forms.values()) == 1 for kernel in kernels)
