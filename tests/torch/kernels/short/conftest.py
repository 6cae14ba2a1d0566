"""The short way of one operator, apart from all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(params=["compiled", "python"])
def quick(request: Any, monkeypatch: Any) -> Callable[..., Callable[..., Any]]:
    """Gives an operator's kernel a short way of its own."""
    pytest.importorskip("torch")
    import hologram_torch.computing  # noqa: F401
    from hologram_torch.kernels.registry import KERNELS
    from hologram_torch.kernels.short import entries
    from hologram_torch.kernels.short import quick as module

    if request.param == "compiled" and not entries.compiled:
        pytest.skip("there is no compiled code here")
    monkeypatch.setattr(module, "compiled", request.param == "compiled")
    return lambda name, operands=2: module.quick(KERNELS[name], operands)
