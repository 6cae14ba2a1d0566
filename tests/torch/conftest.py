"""What tests of PyTorch's device ask of how a call went."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("torch") and "PYTEST_XDIST_WORKER" in os.environ:
    import torch

    torch.set_num_threads(1)  # two workers on two cores: its threads would wait for each other


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that went the long way, as they do."""
    pytest.importorskip("torch")
    from hologram_torch.kernels.kernel import Kernel

    found: list[str] = []
    run = Kernel.run

    def noted(self: Any, *given: Any) -> Any:
        found.append(self.name)
        return run(self, *given)

    monkeypatch.setattr(Kernel, "run", noted)
    return found
