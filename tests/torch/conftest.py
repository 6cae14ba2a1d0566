"""What tests of PyTorch's device ask of how a call went."""

from __future__ import annotations

from typing import Any

import pytest


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
