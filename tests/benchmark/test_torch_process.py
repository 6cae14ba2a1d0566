"""PyTorch's part, in its own process, on the host and on an adapter."""

from __future__ import annotations

import pytest

from hologram.benchmark import torch_process
from hologram.benchmark.piece import TOO_LONG
from hologram.benchmark.pipelines import Pipeline

SMALL = (Pipeline("small_mlp", 8),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "adapter", "who"),
    [
        (torch_process.ON_HOST, "host", ("PyTorch",)),
        (torch_process.ON_ADAPTER, "cpu:0", ("hologram_torch eager", "hologram_torch compiled")),
    ],
)
def test_models_are_measured(
    module: str, adapter: str, who: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = list(torch_process.measure(module, (adapter,), who, SMALL, 60, share=0.05))
    assert [(m.key.who, m.why) for m in found] == [(name, "") for name in who for _ in torch_process.KINDS]
    assert all(m.seconds and m.key.adapter == adapter for m in found)


def test_what_takes_too_long_is_stopped() -> None:
    found = list(torch_process.measure(torch_process.ON_HOST, ("host",), ("PyTorch",), SMALL, 0.2))
    assert [m.why for m in found] == [TOO_LONG] * 2


def test_what_fails_says_why() -> None:
    found = list(torch_process.measure("hologram.no_such_module", ("host",), ("PyTorch",), SMALL, 60))
    assert len(found) == 2
    assert all("no_such_module" in m.why for m in found)
