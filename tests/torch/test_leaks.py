"""Steps of training leave nothing behind: no memory of the device, no objects, no further launches kept."""

from __future__ import annotations

import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

STEPS = 40
ROUNDS = 8  # together fewer steps than a replay keeps sets of memory for


def _kept() -> tuple[int, int, int]:
    gc.collect()
    stats: Any = torch.hologram.memory_stats()
    return stats["allocated"], stats["cached_launches"], len(gc.get_objects())


@pytest.mark.parametrize("compiler", [None, "hologram"])
def test_steps_leave_nothing_behind(compiler: str | None) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4)
    )
    model.to("hologram")
    run = model if compiler is None else torch.compile(model, backend=compiler)
    optimiser = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(32, 8, device="hologram"), torch.randn(32, 4, device="hologram")

    def step() -> None:
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(run(x), y)
        loss.backward()
        optimiser.step()
        loss.item()

    # What is kept on purpose, once for each set of memory met, depends on the blocks that the pool has to hand out;
    # they come round after some steps. What each step left would never come to rest.
    kept = [_kept()]
    for _ in range(ROUNDS):
        for _ in range(STEPS):
            step()
        kept.append(_kept())
        (allocated, launches, objects), again = kept[-2:]
        if again[:2] == (allocated, launches) and again[2] <= objects + STEPS // 4:
            return
    pytest.fail(f"memory, launches and objects after each {STEPS} steps: {kept}")
